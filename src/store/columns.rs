//! Values as columns keep them.

use std::time::Duration;

use super::Error;
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::Fingerprint;

/// Thirty-two bytes.
pub(super) fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, Error> {
    let bytes: [u8; 32] =
        bytes.try_into().map_err(|_| Error::Unreadable("a fingerprint of other than 32 bytes"))?;
    Ok(Fingerprint::from(bytes))
}

/// How long microseconds are.
pub(super) fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

/// How many microseconds a duration is.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// How something stands; nothing is known where nothing was decided.
pub(super) fn compliance(word: Option<&str>) -> Result<Compliance, Error> {
    word.map_or(Ok(Compliance::Unknown), str::parse).map_err(|_| Error::Unreadable("a verdict"))
}

/// A verdict of an artifact; nothing is known of one without.
pub(super) fn verdict(word: Option<&str>, is_allowed: bool, reasons: Option<&str>) -> Result<Verdict, Error> {
    let Some(reasons) = reasons else { return Ok(Verdict::UNKNOWN) };
    let reasons = serde_json::from_str(reasons).map_err(|_| Error::Unreadable("reasons"))?;
    Ok(Verdict { compliance: compliance(word)?, is_allowed, reasons })
}

/// A value of ours as JSON, which cannot fail.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
