//! Who may do what: roles, and what each is for.
//!
//! The service asks before it reads a request's body.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Report the environments that it lists.
    Report,
    /// Attest in the flows that it lists.
    Attest,
    /// Read everything of its organization.
    Read,
    /// All of these.
    Admin,
}

/// What is asked for, of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Reporting an environment: operation 7.
    Report(&'a str),
    /// Attesting in a flow: operation 5.
    Attest(&'a str),
    /// Reading.
    Read,
}

/// The environments or flows that a token is for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scope(pub Vec<String>);

/// Text that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such role; one of report, attest, read and admin was expected")]
pub struct UnknownRole;

/// Why a token may not do something, for those who hold it. What they ask for need not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another organization was asked for than the token's.
    #[error("this token belongs to another organization")]
    Organization,
    /// The token's role does not do it.
    #[error("this takes a token of role {} or admin, and this one is of role {}", needed.as_str(), own.as_str())]
    Role {
        /// The role that does no more than this.
        needed: Role,
        /// The token's.
        own: Role,
    },
    /// The token's role does it, but not to what was asked for.
    #[error("this token is of role {}, and does not list this {}", .0.as_str(), .0.lists())]
    Scope(Role),
}

impl Role {
    /// Whether a token of this role and scope may do it.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where it may not.
    pub fn permits(self, scope: &Scope, operation: Operation<'_>) -> Result<(), Refusal> {
        match (self, operation) {
            (Self::Admin, _) | (Self::Read, Operation::Read) => Ok(()),
            (Self::Report, Operation::Report(name)) | (Self::Attest, Operation::Attest(name)) => {
                if scope.covers(name) { Ok(()) } else { Err(Refusal::Scope(self)) }
            }
            (own, operation) => Err(Refusal::Role { needed: operation.role(), own }),
        }
    }

    /// What a token of this role lists.
    fn lists(self) -> &'static str {
        if self == Self::Attest { "flow" } else { "environment" }
    }

    /// The word for it.
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
    /// The role that does no more than this.
    fn role(self) -> Role {
        match self {
            Self::Report(_) => Role::Report,
            Self::Attest(_) => Role::Attest,
            Self::Read => Role::Read,
        }
    }
}

impl Scope {
    /// Stands for every name.
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
    fn each_role_does_what_it_is_for_and_nothing_else() {
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
}
