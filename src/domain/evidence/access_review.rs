//! Access review: who may make an artifact compliant in an environment.
//!
//! Called by the operation and the page of the same name. Lists names, roles and scopes of tokens, and no secrets. Pure: time
//! is an argument.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::access::{Operation, Role, Scope};
use super::environment_status::Verdict;
use super::ownership::Ownership;
use super::policy::{Policy, Rule};
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};

/// Maximum number of tokens that are listed for one way.
pub const MAX_TOKENS: usize = 200;

/// An open token, without its secret, or a rule of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct TokenGrant {
    /// Its name; of a rule, the name of the issuer.
    pub name: String,
    /// The claims that a token of the issuer needs; absent for a static token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<String>,
    /// Its role.
    #[cfg_attr(feature = "service", schema(value_type = String))]
    pub role: Role,
    /// The environments and flows that the role applies to; empty for all.
    pub scope: Scope,
    /// When it expires; `null` for never.
    pub expires_at: Option<Timestamp>,
}

/// A way to fulfil a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct Way {
    /// The requirement of the policy.
    pub requirement: String,
    /// The action that fulfils it.
    pub action: String,
    /// Whether the action is a change of the bootstrap file. Everybody who can change the file can do it.
    pub in_bootstrap_file: bool,
    /// The tokens that permit the action, at most 200.
    pub tokens: Vec<TokenGrant>,
    /// Number of tokens that permit the action.
    pub tokens_total: usize,
    /// Why the service rejects the action whatever the token.
    pub obstacle: Option<String>,
}

/// A review of the tokens that may make artifacts compliant in an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct AccessReview {
    /// The environment.
    pub environment: String,
    /// Whether the environment has a policy.
    pub has_policy: bool,
    /// The artifact; `null` for any.
    pub artifact: Option<Fingerprint>,
    /// The compliance of the artifact in the environment.
    pub compliance: Option<&'static str>,
    /// Why the artifact is not compliant.
    pub reasons: Vec<String>,
    /// One way for each requirement of the policies.
    pub requirements: Vec<Way>,
    /// Ways around all requirements.
    pub alternatives: Vec<Way>,
}

/// The artifact under review.
#[derive(Debug, Clone, Copy)]
pub struct ReviewedArtifact<'a> {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// The names under which it ran, or other digests of its image.
    pub names: &'a [(Fingerprint, String)],
    /// Its verdict in the environment.
    pub verdict: &'a Verdict,
}

/// The permissions of an organization.
#[derive(Debug, Clone, Copy)]
pub struct Permissions<'a> {
    /// The open tokens, also expired ones.
    pub tokens: &'a [TokenGrant],
    /// The flows that own repositories or images.
    pub ownerships: &'a BTreeMap<String, Ownership>,
}

impl AccessReview {
    /// Reviews an environment, and optionally an artifact.
    #[must_use]
    pub fn new(
        environment: &EnvironmentName,
        policies: &[Arc<Policy>],
        artifact: Option<ReviewedArtifact<'_>>,
        permissions: Permissions<'_>,
        now: Timestamp,
    ) -> Self {
        let rules = policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
        let requirements = rules.map(|(policy, rule)| {
            let way = match rule {
                Rule::Attestation(required) => {
                    let requirement = match &required.flow {
                        Some(flow) => format!("attestation \"{}\" of flow {flow}", required.name),
                        None => format!("attestation: {required}"),
                    };
                    permissions.attest(requirement, required.flow.as_deref(), artifact, now)
                }
                Rule::Approval(_) => {
                    let action = format!("approve the artifact for {environment}");
                    Way::in_bootstrap_file("approval", action)
                        .with_tokens(permissions, now, |token| token.permits_approval_for(environment))
                }
                rule => permissions.attest(rule.kind().to_owned(), None, artifact, now),
            };
            match &policy.name {
                Some(version) => Way { requirement: format!("{version}: {}", way.requirement), ..way },
                None => way,
            }
        });
        let administer =
            |way: Way| way.with_tokens(permissions, now, |token| token.permits(Operation::Administer));
        // Without any policy, one that requires nothing makes all artifacts compliant.
        let named = policies.is_empty() || policies.iter().any(|policy| policy.name.is_some());
        let named = named.then(|| {
            let action = format!("attach, change or detach named policies of {environment}");
            administer(Way::new("all".to_owned(), action))
        });
        let report =
            format!("report {environment} without the artifact, or under an exempt name or namespace");
        let report = Way::new("all".to_owned(), report);
        Self {
            environment: environment.to_string(),
            has_policy: !policies.is_empty(),
            artifact: artifact.map(|artifact| artifact.fingerprint),
            compliance: artifact.map(|artifact| artifact.verdict.compliance.as_str()),
            reasons: artifact.map(|artifact| artifact.verdict.reasons.clone()).unwrap_or_default(),
            requirements: requirements.collect(),
            alternatives: [
                administer(Way::in_bootstrap_file(
                    "all",
                    format!("allow-list the artifact in {environment}"),
                )),
                Way::in_bootstrap_file("all", format!("change the policy of {environment}")),
                report.with_tokens(permissions, now, |token| {
                    token.permits(Operation::Report(environment.as_str()))
                }),
            ]
            .into_iter()
            .chain(named)
            .collect(),
        }
    }
}

impl TokenGrant {
    fn permits(&self, operation: Operation<'_>) -> bool {
        self.role.permits(&self.scope, operation).is_ok()
    }

    /// In the flows of its scope.
    fn permits_approval_for(&self, environment: &EnvironmentName) -> bool {
        self.role.permits_approval_for(&self.scope, Some(environment.as_str())).is_ok()
    }
}

impl Permissions<'_> {
    /// The way of attesting the artifact in a flow, or in any.
    fn attest(
        self,
        requirement: String,
        flow: Option<&str>,
        artifact: Option<ReviewedArtifact<'_>>,
        now: Timestamp,
    ) -> Way {
        let Some(flow) = flow else {
            let way = Way::new(requirement, "attest in any flow".to_owned());
            return way.with_tokens(self, now, |token| matches!(token.role, Role::Attest | Role::Admin));
        };
        let way = Way::new(requirement, format!("attest in flow {flow}"));
        match self.obstacle(flow, artifact) {
            None => way.with_tokens(self, now, |token| token.permits(Operation::Attest(flow))),
            obstacle => Way { obstacle, ..way },
        }
    }

    /// Why an attestation of the artifact in this flow is rejected.
    fn obstacle(&self, flow: &str, artifact: Option<ReviewedArtifact<'_>>) -> Option<String> {
        let (artifact, own) = artifact.zip(self.ownerships.get(flow))?;
        let names = artifact.names.iter().map(|(named, name)| (*named, name.as_str()));
        own.check_images(names).err().map(|violation| violation.to_string())
    }
}

impl Way {
    fn new(requirement: String, action: String) -> Self {
        let (tokens, tokens_total, obstacle) = (Vec::new(), 0, None);
        Self { requirement, action, in_bootstrap_file: false, tokens, tokens_total, obstacle }
    }

    fn in_bootstrap_file(requirement: &str, action: String) -> Self {
        Self { in_bootstrap_file: true, ..Self::new(requirement.to_owned(), action) }
    }

    fn with_tokens(
        self,
        permissions: Permissions<'_>,
        now: Timestamp,
        permits: impl Fn(&TokenGrant) -> bool,
    ) -> Self {
        let is_valid = |token: &&TokenGrant| token.expires_at.is_none_or(|end| now < end);
        let valid = permissions.tokens.iter().filter(is_valid);
        let permitted: Vec<_> = valid.filter(|token| permits(token)).collect();
        let tokens_total = permitted.len();
        Self { tokens: permitted.into_iter().take(MAX_TOKENS).cloned().collect(), tokens_total, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::compliance::Compliance;
    use crate::domain::evidence::policy::{InlinePolicy, PolicyVersion, Requirement};

    fn token(name: &str, role: Role, scope: &[&str], expires_at: Option<i64>) -> TokenGrant {
        let names: Vec<_> = scope.iter().map(|&name| name.to_owned()).collect();
        let scope = Scope { environments: names.clone(), flows: names };
        let expires_at = expires_at.map(Timestamp::from_micros);
        TokenGrant { name: name.to_owned(), claims: None, role, scope, expires_at }
    }

    fn required(flow: &str) -> Requirement {
        Requirement { flow: flow.to_owned(), name: "unit".to_owned(), min_tests: None, max_skipped: None }
    }

    /// Each way as `requirement: action: tokens or obstacle`.
    fn lines(ways: &[Way]) -> Vec<String> {
        ways.iter()
            .map(|way| {
                let tokens: Vec<_> = way.tokens.iter().map(|token| token.name.as_str()).collect();
                assert_eq!(way.tokens_total, tokens.len());
                let by = match &way.obstacle {
                    Some(obstacle) => obstacle.clone(),
                    None => way
                        .in_bootstrap_file
                        .then_some("bootstrap file")
                        .into_iter()
                        .chain(tokens)
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                format!("{}: {}: {by}", way.requirement, way.action)
            })
            .collect()
    }

    #[test]
    fn each_requirement_lists_the_tokens_that_are_permitted_and_valid() {
        let tokens = [
            token("admin", Role::Admin, &[], None),
            token("cart", Role::Attest, &["cart"], Some(11)),
            token("any", Role::Attest, &["*"], None),
            token("other", Role::Attest, &["web"], None),
            token("expired", Role::Attest, &["cart"], Some(10)),
            token("auditor", Role::Read, &[], None),
            token("kim", Role::Approve, &["prod"], None),
            token("jo", Role::Approve, &["test"], None),
            token("cluster", Role::Report, &["prod"], None),
            token("test", Role::Report, &["test"], None),
        ];
        let images = vec!["registry.example/secure*".parse().unwrap()];
        let ownerships = BTreeMap::from([("secure".to_owned(), Ownership { repositories: vec![], images })]);
        let permissions = Permissions { tokens: &tokens, ownerships: &ownerships };
        let attestations = vec![required("cart"), required("secure")];
        let inline = [Arc::new(Policy::from(InlinePolicy { attestations, approval: true }))];
        let (prod, now) = ("prod".parse().unwrap(), Timestamp::from_micros(10));
        let of_environment = AccessReview::new(&prod, &inline, None, permissions, now);
        let expected = [
            "attestation \"unit\" of flow cart: attest in flow cart: admin, cart, any",
            "attestation \"unit\" of flow secure: attest in flow secure: admin, any",
            "approval: approve the artifact for prod: bootstrap file, admin, kim",
        ];
        assert_eq!(lines(&of_environment.requirements), expected);
        let alternatives = [
            "all: allow-list the artifact in prod: bootstrap file, admin",
            "all: change the policy of prod: bootstrap file",
            "all: report prod without the artifact, or under an exempt name or namespace: admin, cluster",
        ];
        assert_eq!(lines(&of_environment.alternatives), alternatives);
        assert_eq!((of_environment.artifact, of_environment.compliance), (None, None));

        // A flow that owns other images cannot attest the artifact.
        let fingerprint = Fingerprint::from_content(b"1");
        let names = [(fingerprint, "registry.example/cart:1".to_owned())];
        let reasons = vec!["not approved".to_owned()];
        let verdict = Verdict { compliance: Compliance::NonCompliant, is_allowed: false, reasons };
        let artifact = ReviewedArtifact { fingerprint, names: &names, verdict: &verdict };
        let of_artifact = AccessReview::new(&prod, &inline, Some(artifact), permissions, now);
        assert_eq!(lines(&of_artifact.requirements)[0], expected[0]);
        let obstacle = "the flow does not declare the image \"registry.example/cart:1\"";
        assert!(lines(&of_artifact.requirements)[1].contains(obstacle), "{of_artifact:?}");
        assert_eq!((of_artifact.compliance, &of_artifact.reasons), (Some("NON-COMPLIANT"), &verdict.reasons));

        let without_policy = AccessReview::new(&prod, &[], None, permissions, now);
        let attach = "all: attach, change or detach named policies of prod: admin";
        assert_eq!(lines(&without_policy.alternatives)[3], attach);
        assert_eq!((without_policy.has_policy, without_policy.requirements), (false, vec![]));

        let version = PolicyVersion { name: "rules".to_owned(), version: 2 };
        let text =
            "{_schema: x/v1, artifacts: {provenance: {required: true}, attestations: [{type: junit}]}}";
        let rules = [Arc::new(Policy::parse(version, text).unwrap())];
        let of_named = AccessReview::new(&prod, &rules, None, permissions, now);
        let expected = [
            "rules v2: provenance: attest in any flow: admin, cart, any, other",
            "rules v2: attestation: an attestation of type junit: attest in any flow: admin, cart, any, other",
        ];
        assert_eq!(lines(&of_named.requirements), expected);
        assert_eq!(lines(&of_named.alternatives)[3], attach);
    }

    #[test]
    fn tokens_of_a_way_are_limited() {
        let tokens: Vec<_> =
            (0..=MAX_TOKENS).map(|n| token(&n.to_string(), Role::Admin, &[], None)).collect();
        let permissions = Permissions { tokens: &tokens, ownerships: &BTreeMap::new() };
        let prod = "prod".parse().unwrap();
        let review = AccessReview::new(&prod, &[], None, permissions, Timestamp::from_micros(0));
        let way = &review.alternatives[2];
        assert_eq!((way.tokens.len(), way.tokens_total), (MAX_TOKENS, MAX_TOKENS + 1));
    }
}
