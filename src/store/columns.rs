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

pub(super) fn role(text: &str) -> Result<Role, Error> {
    text.parse().map_err(|_| Error::Unreadable("a role"))
}

pub(super) fn scope(json: &str) -> Result<Scope, Error> {
    serde_json::from_str(json).map_err(|_| Error::Unreadable("a scope"))
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
