//! Authorization: roles of tokens, and the operations that each role permits.
//!
//! Called by the service before it reads a request's body. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{EnvironmentName, FlowName, InvalidName, did_you_mean, words};

words! {
    /// The role of a token.
    #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema, utoipa::ToSchema))]
    Role {
        /// Report the listed environments.
        Report "report",
        /// Attest in the listed flows.
        Attest "attest",
        /// Read all data of the organization, and approve artifacts in the listed flows for the listed environments.
        Approve "approve",
        /// Read all data of the organization.
        Read "read",
        /// All permissions.
        Admin "admin",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Reporting an environment: operation 7.
    Report(&'a str),
    /// Attesting in a flow: operation 5.
    Attest(&'a str),
    /// Approving artifacts in a flow, and withdrawing approvals. [`Role::permits_approval_for`] authorizes the environment.
    Approve(&'a str),
    /// Creating environments. The name is authorized as for [`Report`](Self::Report).
    CreateEnvironment,
    /// Creating flows. The name is authorized as for [`Attest`](Self::Attest).
    CreateFlow,
    Read,
    /// Reading the settings and the status of an environment, which its reporter may.
    ReadEnvironment(&'a str),
    /// Reading the audit log, or who may do what.
    ReadAudit,
    /// Administration, such as closing a repository.
    Administer,
}

impl Operation<'_> {
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadEnvironment(_) | Self::ReadAudit)
    }
}

/// The environments and flows of a token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scope {
    /// Environments of the roles `report` and `approve`.
    pub environments: Vec<String>,
    /// Flows of the roles `attest` and `approve`.
    pub flows: Vec<String>,
}

/// A scope that does not fit its role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    #[error("a token of role {} needs {kind}: [NAME], or [\"*\"]", role.as_str())]
    Missing { role: Role, kind: &'static str },
    #[error("a token of role {} must not list {kind}", role.as_str())]
    Unexpected { role: Role, kind: &'static str },
    /// Only reports create environments.
    #[error("only a token of role report takes create: true")]
    Create,
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// Why a request is denied. Except for `Create`, the message does not depend on whether the resource exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The organization is not the token's.
    #[error("this token belongs to another organization")]
    Organization,
    /// The token's role does not permit the operation.
    #[error("this operation requires a token with role {}admin, got role {}", required.or(), actual.as_str())]
    Role {
        /// The role with the least permissions that permits the operation.
        required: Role,
        actual: Role,
    },
    /// The token's scope does not include the environment or flow.
    #[error("this token with role {} does not list {missing}{nearest}", role.as_str())]
    Scope {
        role: Role,
        /// The part that the scope does not include.
        missing: &'static str,
        /// The end of the message: the nearest names of the scope.
        nearest: String,
    },
    /// An environment to be created, by a token that may not.
    #[error(
        "this token may not create environments: declare the environment in the bootstrap file, under environments of the \
         organization, or set create: true for the token or its issuer's rule"
    )]
    Create,
}

impl Role {
    /// Authorizes an operation for a token with this role and scope.
    ///
    /// # Errors
    ///
    /// [`Denial`] if it is not permitted.
    pub fn permits(self, scope: &Scope, operation: Operation<'_>) -> Result<(), Denial> {
        match (self, operation) {
            (Self::Admin, _)
            | (Self::Read | Self::Approve, Operation::Read | Operation::ReadEnvironment(_))
            | (Self::Report, Operation::CreateEnvironment)
            | (Self::Attest, Operation::CreateFlow) => Ok(()),
            (Self::Report, Operation::Report(name) | Operation::ReadEnvironment(name)) => {
                self.check(&scope.environments, name, "this environment")
            }
            (Self::Attest, Operation::Attest(name)) | (Self::Approve, Operation::Approve(name)) => {
                self.check(&scope.flows, name, "this flow")
            }
            (actual, operation) => Err(Denial::Role { required: operation.required_role(), actual }),
        }
    }

    /// Authorizes the creation of an environment. `can_create` is the setting of the token.
    ///
    /// # Errors
    ///
    /// [`Denial::Create`] if it is not permitted.
    pub fn permits_creation(self, can_create: bool) -> Result<(), Denial> {
        if can_create || self == Self::Admin { Ok(()) } else { Err(Denial::Create) }
    }

    /// Authorizes an approval for this environment, or for all, in a flow that the role permits.
    ///
    /// # Errors
    ///
    /// [`Denial`] if it is not permitted.
    pub fn permits_approval_for(self, scope: &Scope, environment: Option<&str>) -> Result<(), Denial> {
        match (self, environment) {
            (Self::Admin, _) => Ok(()),
            (Self::Approve, Some(name)) => self.check(&scope.environments, name, "this environment"),
            (Self::Approve, None) => self.check(&scope.environments, Scope::ALL, "all environments"),
            (actual, _) => Err(Denial::Role { required: Self::Approve, actual }),
        }
    }

    fn check(self, listed: &[String], name: &str, missing: &'static str) -> Result<(), Denial> {
        let is_covered = listed.iter().any(|covered| covered == Scope::ALL || covered == name);
        if is_covered {
            return Ok(());
        }
        let nearest = did_you_mean(name, listed.iter().map(String::as_str));
        Err(Denial::Scope { role: self, missing, nearest })
    }

    fn or(self) -> String {
        if self == Self::Admin { String::new() } else { format!("{} or ", self.as_str()) }
    }
}

impl Operation<'_> {
    /// The role with the least permissions that permits the operation.
    fn required_role(self) -> Role {
        match self {
            Self::Report(_) | Self::CreateEnvironment => Role::Report,
            Self::Attest(_) | Self::CreateFlow => Role::Attest,
            Self::Approve(_) => Role::Approve,
            Self::Read | Self::ReadEnvironment(_) => Role::Read,
            Self::ReadAudit | Self::Administer => Role::Admin,
        }
    }
}

impl Scope {
    /// Matches every name.
    pub const ALL: &str = "*";

    /// Checks the lists of a token of this role, and whether its reports may create environments.
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] for a missing or an unexpected list, an invalid name, and `can_create` with another role than
    /// [`Role::Report`].
    pub fn check(&self, role: Role, can_create: bool) -> Result<(), InvalidScope> {
        if can_create && role != Role::Report {
            return Err(InvalidScope::Create);
        }
        let lists = [
            ("environments", &self.environments, matches!(role, Role::Report | Role::Approve)),
            ("flows", &self.flows, matches!(role, Role::Attest | Role::Approve)),
        ];
        if let Some(&(kind, ..)) = lists.iter().find(|(_, names, is_needed)| *is_needed && names.is_empty()) {
            return Err(InvalidScope::Missing { role, kind });
        }
        if let Some(&(kind, ..)) = lists.iter().find(|(_, names, is_needed)| !is_needed && !names.is_empty())
        {
            return Err(InvalidScope::Unexpected { role, kind });
        }
        for name in self.environments.iter().filter(|name| *name != Self::ALL) {
            name.parse::<EnvironmentName>()?;
        }
        for name in self.flows.iter().filter(|name| *name != Self::ALL) {
            name.parse::<FlowName>()?;
        }
        Ok(())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [&self.flows, &self.environments];
        let lists: Vec<_> =
            lists.into_iter().filter(|list| !list.is_empty()).map(|list| list.join(", ")).collect();
        f.write_str(&lists.join(" in "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_permits_only_its_own_operations() {
        let operations = [
            Operation::Report("prod"),
            Operation::Attest("cart"),
            Operation::Approve("cart"),
            Operation::Read,
            Operation::Administer,
            Operation::ReadEnvironment("prod"),
            Operation::CreateEnvironment,
            Operation::CreateFlow,
        ];
        for (role, environments, flows, permitted) in [
            (Role::Report, &["prod"][..], &[][..], [true, false, false, false, false, true, true, false]),
            (Role::Report, &["*"], &[], [true, false, false, false, false, true, true, false]),
            (
                Role::Report,
                &["test", "cart"],
                &["cart", "prod"],
                [false, false, false, false, false, false, true, false],
            ),
            (Role::Attest, &[], &["cart"], [false, true, false, false, false, false, false, true]),
            (Role::Attest, &[], &["prod", "*"], [false, true, false, false, false, false, false, true]),
            (Role::Attest, &["cart"], &["prod"], [false, false, false, false, false, false, false, true]),
            (Role::Approve, &["prod"], &["cart"], [false, false, true, true, false, true, false, false]),
            (Role::Approve, &["*"], &["web"], [false, false, false, true, false, true, false, false]),
            (Role::Read, &["*"], &["*"], [false, false, false, true, false, true, false, false]),
            (Role::Admin, &[], &[], [true; 8]),
        ] {
            let scope = scope(environments, flows);
            assert_eq!(operations.map(|o| role.permits(&scope, o).is_ok()), permitted, "{role:?} {scope:?}");
        }
    }

    fn scope(environments: &[&str], flows: &[&str]) -> Scope {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Scope { environments: list(environments), flows: list(flows) }
    }

    #[test]
    fn denial_suggests_the_nearest_name_that_the_token_lists() {
        let scope = scope(&["prod", "staging"], &["cart"]);
        let denial = |role: Role, operation| role.permits(&scope, operation).unwrap_err().to_string();
        assert_eq!(
            denial(Role::Report, Operation::Report("prdo")),
            "this token with role report does not list this environment; did you mean prod?"
        );
        assert_eq!(
            denial(Role::Attest, Operation::Attest("web")),
            "this token with role attest does not list this flow"
        );
    }

    #[test]
    fn approval_for_all_environments_needs_a_token_for_all() {
        for (role, environments, permitted) in [
            (Role::Approve, &["prod"][..], [true, false, false]),
            (Role::Approve, &["prod", "test"], [true, true, false]),
            (Role::Approve, &["*"], [true, true, true]),
            (Role::Approve, &[], [false; 3]),
            (Role::Report, &["*"], [false; 3]),
            (Role::Admin, &[], [true; 3]),
        ] {
            let scope = scope(environments, &["*"]);
            let permits = |environment| role.permits_approval_for(&scope, environment).is_ok();
            assert_eq!(
                [Some("prod"), Some("test"), None].map(permits),
                permitted,
                "{role:?} {environments:?}"
            );
        }
    }

    #[test]
    fn creation_needs_a_token_that_creates_environments() {
        for (role, can_create, is_permitted) in
            [(Role::Report, false, false), (Role::Report, true, true), (Role::Admin, false, true)]
        {
            assert_eq!(role.permits_creation(can_create).is_ok(), is_permitted, "{role:?} {can_create}");
        }
    }
}
