//! Authorization: roles of tokens, and the operations that each role permits.
//!
//! Called by the service before it reads a request's body. Pure.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Report the listed environments.
    Report,
    /// Attest in the listed flows.
    Attest,
    /// Read all data of the organization.
    Read,
    /// All permissions.
    Admin,
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Reporting an environment: operation 7.
    Report(&'a str),
    /// Attesting in a flow: operation 5.
    Attest(&'a str),
    /// Reading.
    Read,
    /// Reading the audit log, or who may do what.
    ReadAudit,
    /// Administration, such as closing a repository.
    Administer,
}

/// The environments or flows of a token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scope(pub Vec<String>);

/// Text that is not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown role: expected report, attest, read or admin")]
pub struct UnknownRole;

/// Why a request is denied. Except for `Create`, the message does not depend on whether the resource exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The organization is not the token's.
    #[error("this token belongs to another organization")]
    Organization,
    /// The token's role does not permit the operation.
    #[error("this operation requires a token with role {}admin, got role {}", required.or(), actual.as_str())]
    Role {
        /// The role with the least permissions that permits the operation.
        required: Role,
        /// The token's role.
        actual: Role,
    },
    /// The token's scope does not include the environment or flow.
    #[error("this token with role {} does not list this {}", .0.as_str(), .0.scope_kind())]
    Scope(Role),
    /// The first report of an environment, by a token that may not create environments.
    #[error(
        "the environment does not exist, and this token may not create environments: declare the environment in the \
         bootstrap file, or set create: true for the token there"
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
            (Self::Admin, _) | (Self::Read, Operation::Read) => Ok(()),
            (Self::Report, Operation::Report(name)) | (Self::Attest, Operation::Attest(name)) => {
                if scope.covers(name) { Ok(()) } else { Err(Denial::Scope(self)) }
            }
            (actual, operation) => Err(Denial::Role { required: operation.required_role(), actual }),
        }
    }

    /// Authorizes the first report of an environment. `can_create` is the setting of the token.
    ///
    /// # Errors
    ///
    /// [`Denial::Create`] if it is not permitted.
    pub fn permits_creation(self, can_create: bool) -> Result<(), Denial> {
        if can_create || self == Self::Admin { Ok(()) } else { Err(Denial::Create) }
    }

    /// The kind of resource in the scope of this role.
    fn scope_kind(self) -> &'static str {
        if self == Self::Attest { "flow" } else { "environment" }
    }

    /// The role as an alternative to admin.
    fn or(self) -> String {
        if self == Self::Admin { String::new() } else { format!("{} or ", self.as_str()) }
    }

    /// The role's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Attest => "attest",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

impl Operation<'_> {
    /// The role with the least permissions that permits the operation.
    fn required_role(self) -> Role {
        match self {
            Self::Report(_) => Role::Report,
            Self::Attest(_) => Role::Attest,
            Self::Read => Role::Read,
            Self::ReadAudit | Self::Administer => Role::Admin,
        }
    }
}

impl Scope {
    /// Matches every name.
    pub const ALL: &str = "*";

    fn covers(&self, name: &str) -> bool {
        self.0.iter().any(|covered| covered == Self::ALL || covered == name)
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        [Self::Report, Self::Attest, Self::Read, Self::Admin]
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or(UnknownRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_permits_only_its_own_operations() {
        let scope = |names: &[&str]| Scope(names.iter().map(|&name| name.to_owned()).collect());
        let operations = [Operation::Report("prod"), Operation::Attest("cart"), Operation::Read];
        for (role, names, permitted) in [
            (Role::Report, &["prod"][..], [true, false, false]),
            (Role::Report, &["*"], [true, false, false]),
            (Role::Report, &["test", "cart"], [false, false, false]),
            (Role::Report, &[], [false, false, false]),
            (Role::Attest, &["cart"], [false, true, false]),
            (Role::Attest, &["prod", "*"], [false, true, false]),
            (Role::Attest, &["prod"], [false, false, false]),
            (Role::Read, &[], [false, false, true]),
            (Role::Admin, &[], [true, true, true]),
        ] {
            let scope = scope(names);
            assert_eq!(operations.map(|o| role.permits(&scope, o).is_ok()), permitted, "{role:?} {names:?}");
        }
    }

    #[test]
    fn first_report_needs_a_token_that_creates_environments() {
        for (role, can_create, is_permitted) in
            [(Role::Report, false, false), (Role::Report, true, true), (Role::Admin, false, true)]
        {
            assert_eq!(role.permits_creation(can_create).is_ok(), is_permitted, "{role:?} {can_create}");
        }
    }
}
