//! Access review: who may make an artifact compliant in an environment.
//!
//! Called by the operation and the page of the same name. Lists names, roles and scopes of tokens, and no secrets.

use std::sync::Arc;

use serde::Serialize;

use super::policy::{InlinePolicy, Policy, Rule};
use model::access::{Operation, Role, Scope};
use model::{EnvironmentName, Timestamp};

/// Maximum number of tokens that are listed for one way.
pub const MAX_TOKENS: usize = 200;

/// An open token, without its secret, or a rule of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenGrant {
    /// Its name; of a rule, the name of the issuer.
    pub name: String,
    /// The claims that a token of the issuer needs; absent for a static token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<String>,
    /// Its role.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub role: Role,
    /// The environments and flows that the role applies to; empty for all.
    pub scope: Scope,
    /// When it expires; `null` for never.
    pub expires_at: Option<Timestamp>,
}

/// A way to fulfill a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Way {
    /// The requirement of the policy; `all` for a way around all requirements.
    pub requirement: String,
    /// The action that fulfills it.
    pub action: String,
    /// Whether the action is a change of the bootstrap file. Everybody who can change the file can do it.
    pub in_bootstrap_file: bool,
    /// The tokens that permit the action, at most 200.
    pub tokens: Vec<TokenGrant>,
    /// Number of tokens that permit the action.
    pub tokens_total: usize,
}

/// A review of the tokens that may make artifacts compliant in an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessReview {
    /// One way for each requirement of the policies.
    pub requirements: Vec<Way>,
    /// Ways around all requirements.
    pub alternatives: Vec<Way>,
}

impl AccessReview {
    /// Reviews an environment. `tokens` are those that are valid now.
    #[must_use]
    pub fn new(environment: &EnvironmentName, policies: &[Arc<Policy>], tokens: &[TokenGrant]) -> Self {
        let rules = policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
        let requirements = rules.map(|(policy, rule)| {
            let way = match rule {
                Rule::Attestation(required) => match &required.flow {
                    Some(flow) => Way::new(
                        format!("attestation \"{}\" of flow {flow}", required.name),
                        format!("attest in flow {flow}"),
                        tokens,
                        |token| token.permits(Operation::Attest(flow.as_str())),
                    ),
                    None => Way::in_any_flow(format!("attestation: {required}"), tokens),
                },
                Rule::Approval(_) => {
                    let action = format!("approve the artifact for {environment}");
                    let is_approver = |token: &TokenGrant| {
                        token.role.permits_approval_for(&token.scope, Some(environment.as_str())).is_ok()
                    };
                    Way::new("approval", action, tokens, is_approver).or_bootstrap_file()
                }
                rule => Way::in_any_flow(rule.kind(), tokens),
            };
            Way { requirement: format!("{}: {}", policy.name, way.requirement), ..way }
        });
        let around = |action, operation| Way::new("all", action, tokens, |token| token.permits(operation));
        // Without any policy, one that requires nothing makes all artifacts compliant.
        let own = InlinePolicy::name(environment);
        let has_others = policies.is_empty() || policies.iter().any(|policy| policy.name.name != own);
        let attach = format!("attach, change or detach policies of {environment}");
        let allow = format!("allow-list the artifact in {environment}");
        let change = format!("change the policy of {environment}");
        let report =
            format!("report {environment} without the artifact, or under an exempt name or namespace");
        Self {
            requirements: requirements.collect(),
            alternatives: [
                around(allow, Operation::Administer).or_bootstrap_file(),
                Way::new("all", change, &[], |_| false).or_bootstrap_file(),
                around(report, Operation::Report(environment.as_str())),
            ]
            .into_iter()
            .chain(has_others.then(|| around(attach, Operation::Administer)))
            .collect(),
        }
    }
}

impl TokenGrant {
    fn permits(&self, operation: Operation<'_>) -> bool {
        self.role.permits(&self.scope, operation).is_ok()
    }
}

impl Way {
    fn new(
        requirement: impl Into<String>,
        action: String,
        tokens: &[TokenGrant],
        permits: impl Fn(&TokenGrant) -> bool,
    ) -> Self {
        let permitted: Vec<_> = tokens.iter().filter(|token| permits(token)).collect();
        Self {
            requirement: requirement.into(),
            action,
            in_bootstrap_file: false,
            tokens_total: permitted.len(),
            tokens: permitted.into_iter().take(MAX_TOKENS).cloned().collect(),
        }
    }

    fn in_any_flow(requirement: impl Into<String>, tokens: &[TokenGrant]) -> Self {
        let attests = |token: &TokenGrant| matches!(token.role, Role::Attest | Role::Admin);
        Self::new(requirement, "attest in any flow".to_owned(), tokens, attests)
    }

    fn or_bootstrap_file(self) -> Self {
        Self { in_bootstrap_file: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{PolicyVersion, Requirement};

    fn token(name: &str, role: Role, scope: &[&str]) -> TokenGrant {
        let names: Vec<_> = scope.iter().map(|&name| name.to_owned()).collect();
        let scope = Scope { environments: names.clone(), flows: names };
        TokenGrant { name: name.to_owned(), claims: None, role, scope, expires_at: None }
    }

    fn required(flow: &str) -> Requirement {
        serde_json::from_value(serde_json::json!({"flow": flow, "name": "unit"})).unwrap()
    }

    /// Each way as `requirement: action: tokens`.
    fn lines(ways: &[Way]) -> Vec<String> {
        ways.iter()
            .map(|way| {
                let tokens: Vec<_> = way.tokens.iter().map(|token| token.name.as_str()).collect();
                assert_eq!(way.tokens_total, tokens.len());
                let file = way.in_bootstrap_file.then_some("bootstrap file");
                let by: Vec<_> = file.into_iter().chain(tokens).collect();
                format!("{}: {}: {}", way.requirement, way.action, by.join(", "))
            })
            .collect()
    }

    #[test]
    fn each_requirement_lists_the_tokens_that_are_permitted() {
        let tokens = [
            token("admin", Role::Admin, &[]),
            token("cart", Role::Attest, &["cart"]),
            token("any", Role::Attest, &["*"]),
            token("other", Role::Attest, &["web"]),
            token("auditor", Role::Read, &[]),
            token("kim", Role::Approve, &["prod"]),
            token("jo", Role::Approve, &["test"]),
            token("cluster", Role::Report, &["prod"]),
            token("test", Role::Report, &["test"]),
        ];
        let attestations = vec![required("cart"), required("secure")];
        let prod = "prod".parse().unwrap();
        let own = PolicyVersion { name: InlinePolicy::name(&prod), version: 1 };
        let file = InlinePolicy { attestations, approval: true }.file().unwrap();
        let inline = [Arc::new(Policy::parse(own, &file).unwrap())];
        let of_inline = AccessReview::new(&prod, &inline, &tokens);
        let expected = [
            "environment:prod v1: attestation \"unit\" of flow cart: attest in flow cart: admin, cart, any",
            "environment:prod v1: attestation \"unit\" of flow secure: attest in flow secure: admin, any",
            "environment:prod v1: approval: approve the artifact for prod: bootstrap file, admin, kim",
        ];
        assert_eq!(lines(&of_inline.requirements), expected);
        let alternatives = [
            "all: allow-list the artifact in prod: bootstrap file, admin",
            "all: change the policy of prod: bootstrap file",
            "all: report prod without the artifact, or under an exempt name or namespace: admin, cluster",
        ];
        assert_eq!(lines(&of_inline.alternatives), alternatives);

        let without_policy = AccessReview::new(&prod, &[], &tokens);
        let attach = "all: attach, change or detach policies of prod: admin";
        assert_eq!(lines(&without_policy.alternatives)[3], attach);
        assert_eq!(without_policy.requirements, vec![]);

        let version = PolicyVersion { name: "rules".to_owned(), version: 2 };
        let text =
            "{_schema: x/v1, artifacts: {provenance: {required: true}, attestations: [{type: junit}]}}";
        let rules = [Arc::new(Policy::parse(version, text).unwrap())];
        let of_named = AccessReview::new(&prod, &rules, &tokens);
        let expected = [
            "rules v2: provenance: attest in any flow: admin, cart, any, other",
            "rules v2: attestation: an attestation of type junit: attest in any flow: admin, cart, any, other",
        ];
        assert_eq!(lines(&of_named.requirements), expected);
        assert_eq!(lines(&of_named.alternatives)[3], attach);
    }

    #[test]
    fn tokens_of_a_way_are_limited() {
        let tokens: Vec<_> = (0..=MAX_TOKENS).map(|n| token(&n.to_string(), Role::Admin, &[])).collect();
        let review = AccessReview::new(&"prod".parse().unwrap(), &[], &tokens);
        let way = &review.alternatives[2];
        assert_eq!((way.tokens.len(), way.tokens_total), (MAX_TOKENS, MAX_TOKENS + 1));
    }
}
