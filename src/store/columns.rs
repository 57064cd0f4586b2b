//! Values as columns keep them.

use std::time::Duration;

use super::Error;
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

/// A value of ours as JSON, which cannot fail.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
