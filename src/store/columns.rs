//! Converts between column values and domain types.

use std::time::Duration;

use super::Error;
use crate::domain::evidence::access::{Role, Scope};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::Fingerprint;

/// Parses 32 bytes.
pub(super) fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, Error> {
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| Error::Unreadable("a fingerprint"))?;
    Ok(Fingerprint::from(bytes))
}

pub(super) fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

/// A duration in microseconds.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Role and scope of a token: the column `scope` has the list of the roles `report` and `attest`. A token of role `approve`
/// is stored as one of role `read` with the column `approves`, so that a previous version of the program lets it read.
pub(super) fn permissions(role: &str, listed: &str, approves: Option<&str>) -> Result<(Role, Scope), Error> {
    let unreadable = |_| Error::Unreadable("a scope");
    if let Some(scope) = approves {
        return Ok((Role::Approve, serde_json::from_str(scope).map_err(unreadable)?));
    }
    let listed = serde_json::from_str(listed).map_err(unreadable)?;
    let scope = Scope::default();
    Ok(match role.parse().map_err(|_| Error::Unreadable("a role"))? {
        role @ Role::Report => (role, Scope { environments: listed, ..scope }),
        role @ Role::Attest => (role, Scope { flows: listed, ..scope }),
        role => (role, scope),
    })
}

/// The columns `role`, `scope` and `approves` of a token.
pub(super) fn permission_columns(
    role: Role,
    scope: &Scope,
) -> Result<(&'static str, String, Option<String>), Error> {
    const NONE: &str = "[]";
    Ok(match role {
        Role::Report => (role.as_str(), json(&scope.environments)?, None),
        Role::Attest => (role.as_str(), json(&scope.flows)?, None),
        Role::Approve => (Role::Read.as_str(), NONE.to_owned(), Some(json(scope)?)),
        Role::Read | Role::Admin => (role.as_str(), NONE.to_owned(), None),
    })
}

/// The namespaces of an artifact, from JSON.
pub(super) fn namespaces(json: Option<&str>) -> Result<Option<Vec<String>>, Error> {
    json.map(serde_json::from_str).transpose().map_err(|_| Error::Unreadable("namespaces"))
}

/// `NULL` means that compliance was never evaluated.
pub(super) fn compliance(text: Option<&str>) -> Result<Compliance, Error> {
    text.map_or(Ok(Compliance::Unknown), str::parse).map_err(|_| Error::Unreadable("a compliance state"))
}

/// The verdict on an artifact; unknown without reasons, which every stored verdict has.
pub(super) fn verdict(text: Option<&str>, is_allowed: bool, reasons: Option<&str>) -> Result<Verdict, Error> {
    let Some(reasons) = reasons else { return Ok(Verdict::UNKNOWN) };
    let reasons = serde_json::from_str(reasons).map_err(|_| Error::Unreadable("the reasons of a verdict"))?;
    Ok(Verdict { compliance: compliance(text)?, is_allowed, reasons })
}

/// Serializes a value to be stored.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::Serialize)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn value_that_is_not_json_is_an_error_instead_of_an_empty_text() {
        let keyed_by_a_list = HashMap::from([(vec![1], 2)]);
        assert!(matches!(json(&keyed_by_a_list), Err(Error::Serialize(_))));
    }
}
