//! Timestamps of the interface: seconds of Unix time, with or without a fraction.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since 1970-01-01T00:00:00Z, up to the year 9999. Exact, unlike seconds as a double.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

const MICROS: i64 = 1_000_000;

/// The second as readable text: `2026-10-03 14:00:00 UTC`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = jiff::Timestamp::from_second(self.0 / MICROS).unwrap_or_default();
        f.write_str(&second.to_string().replacen('T', " ", 1).replacen('Z', " UTC", 1))
    }
}

impl Timestamp {
    /// The start of Unix time.
    pub const EPOCH: Self = Self(0);

    /// The last second that RFC 3339 can represent.
    pub const LAST_SECOND: i64 = 253_402_300_799;

    /// From microseconds, clamped to the valid range.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(0, Self::LAST_SECOND * MICROS))
    }

    /// From seconds; `None` before 1970, after 9999, and for NaN.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "it is exact below 2^53")]
        let last = Self::LAST_SECOND as f64;
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
        (0.0..=last).contains(&seconds).then(|| Self((seconds * 1e6).round() as i64))
    }

    /// Parses ISO 8601, without an offset as UTC. `None` for other text, and before 1970.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let utc = |local: jiff::civil::DateTime| local.to_zoned(jiff::tz::TimeZone::UTC).ok();
        let at = text.parse::<jiff::Timestamp>().ok();
        let at = at.or_else(|| Some(utc(text.parse().ok()?)?.timestamp()))?;
        (at >= jiff::Timestamp::UNIX_EPOCH).then(|| Self::from_micros(at.as_microsecond()))
    }

    /// This timestamp, or the first one after `last` if that is later. Keeps recorded times in order despite clock
    /// changes and clock skew.
    #[must_use]
    pub fn after(self, last: Option<Self>) -> Self {
        last.map_or(self, |last| self.max(Self::from_micros(last.0.saturating_add(1))))
    }

    #[must_use]
    pub fn earlier(self, by: Duration) -> Self {
        Self::from_micros(self.0.saturating_sub(micros(by)))
    }

    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(micros(by)))
    }

    /// The absolute difference of two timestamps.
    #[must_use]
    pub fn distance(self, other: Self) -> Duration {
        Duration::from_micros(self.0.abs_diff(other.0))
    }

    /// The time since `earlier`; zero if that is in the future, as after a clock was set back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or_default())
    }

    /// ISO 8601 in UTC, with a fraction if there is one: `2026-10-03T14:00:00.5Z`.
    #[must_use]
    pub fn iso_8601(self) -> String {
        jiff::Timestamp::from_microsecond(self.0).unwrap_or_default().to_string()
    }

    /// Microseconds since 1970.
    #[must_use]
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Seconds since 1970, as the interface writes them.
    #[must_use]
    pub fn seconds(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "microseconds are exact until the year 2255")]
        let micros = self.0 as f64;
        micros / 1e6
    }

    /// Seconds of Unix time, rounded towards zero.
    #[must_use]
    pub fn whole_seconds(self) -> i64 {
        self.0 / MICROS
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % MICROS == 0 {
            serializer.serialize_i64(self.0 / MICROS)
        } else {
            serializer.serialize_f64(self.seconds())
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Self::from_seconds(seconds).ok_or_else(|| {
            let expected = "seconds of Unix time between the years 1970 and 9999";
            serde::de::Error::custom(format!("expected {expected}, got {seconds:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_keeps_microseconds_and_is_written_in_its_shortest_form() {
        for (read, written) in [("0", "0"), ("1700000000.0", "1700000000"), ("1.5", "1.5"), ("1e3", "1000")] {
            let time: Timestamp = serde_json::from_str(read).unwrap();
            assert_eq!(serde_json::to_string(&time).unwrap(), written);
        }
        let exact: Timestamp = serde_json::from_str("1700000000.123456").unwrap();
        assert_eq!(exact.micros(), 1_700_000_000_123_456);
    }

    #[test]
    fn after_is_monotonic_if_the_clock_is_set_back() {
        let at = Timestamp::from_micros;
        assert_eq!(at(5).after(None), at(5));
        assert_eq!(at(5).after(Some(at(3))), at(5));
        assert_eq!(at(5).after(Some(at(5))), at(6));
        assert_eq!(at(5).after(Some(at(9))), at(10));
        assert_eq!(at(5).distance(at(9)), at(9).distance(at(5)));
        assert_eq!([at(9).since(at(5)), at(5).since(at(9))], [4, 0].map(Duration::from_micros));
    }

    #[test]
    fn timestamp_out_of_range_is_rejected() {
        for bad in ["-1", "-0.5", "253402300800", "1e300", "\"1\"", "null"] {
            assert!(serde_json::from_str::<Timestamp>(bad).is_err(), "{bad}");
        }
        assert!(Timestamp::from_seconds(f64::NAN).is_none());
    }
}
