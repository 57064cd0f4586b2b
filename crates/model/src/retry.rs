//! Classifies HTTP responses and computes retry delays.
//!
//! Called by `client`, `agent` and `service` for each response. Pure: time is an argument.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBuilder};

/// The meaning of a status code for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusClass {
    /// 2xx.
    Success,
    /// 401, 403: the credentials do not permit the request.
    NotAuthorized,
    /// 404.
    NotFound,
    /// Other 4xx: the request is invalid, and a retry would fail again.
    Rejected,
    /// 408, 409, 429, and 5xx except 501: a retry may succeed.
    Transient,
    /// Other codes (1xx, 3xx, 501): the server does not implement the operation.
    Foreign,
}

/// Classifies a status code (RFC 9110, section 15).
#[must_use]
pub fn classify(status: u16) -> StatusClass {
    match status {
        200..=299 => StatusClass::Success,
        401 | 403 => StatusClass::NotAuthorized,
        404 => StatusClass::NotFound,
        408 | 409 | 429 | 500 | 502..=599 => StatusClass::Transient,
        400..=499 => StatusClass::Rejected,
        _ => StatusClass::Foreign,
    }
}

/// An error of an operation that may be retried.
pub trait Retryable: std::error::Error {
    /// Whether a retry may succeed.
    fn is_transient(&self) -> bool;

    /// Whether there was no connection: the server may not run.
    fn is_unconnected(&self) -> bool {
        false
    }

    /// The value of the response's Retry-After header.
    fn retry_after(&self) -> Option<&str>;
}

/// Exponential backoff between two attempts.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Delay before the first retry; it doubles from there on.
    pub initial: Duration,
    pub max: Duration,
    /// Limit for the value of Retry-After.
    pub max_retry_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::scaled(1)
    }
}

impl Backoff {
    /// 1 s, 60 s and 5 min, divided by `divisor`.
    #[must_use]
    pub fn scaled(divisor: u32) -> Self {
        let seconds = |seconds| Duration::from_secs(seconds) / divisor;
        Self { initial: seconds(1), max: seconds(60), max_retry_after: seconds(5 * 60) }
    }

    /// The delays with jitter: each is one to two times its nominal value, which doubles up to half of `max`.
    /// Clients at the maximum delay are therefore desynchronized too. The same seed gives the same delays.
    pub fn delays(self, seed: u64) -> impl Iterator<Item = Duration> {
        ExponentialBuilder::new()
            .with_min_delay(self.initial)
            .with_max_delay(self.initial.max(self.max / 2))
            .with_factor(2.0)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed)
            .build()
            .map(move |delay| delay.min(self.max))
    }

    /// Raises a delay to the value of Retry-After, up to the limit.
    #[must_use]
    pub fn with_retry_after(self, delay: Duration, retry_after: Option<Duration>) -> Duration {
        retry_after.map_or(delay, |least| delay.max(least.min(self.max_retry_after)))
    }
}

/// Parses Retry-After, seconds or a date (RFC 9110, section 10.2.3); `None` for other text. A date in the past is
/// a delay of zero.
#[must_use]
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The clock skew to a server by its Date header (RFC 9110, section 6.6.1), if it exceeds five minutes. Tokens and
/// certificates may then be rejected or accepted wrongly.
#[must_use]
pub fn clock_skew(date: &str, now: SystemTime) -> Option<Duration> {
    let date = httpdate::parse_http_date(date).ok()?;
    let skew = date.duration_since(now).unwrap_or_else(|error| error.duration());
    Some(skew).filter(|skew| *skew > Duration::from_mins(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_are_classified() {
        for (class_of, statuses) in [
            (StatusClass::Success, &[200, 201, 202, 204][..]),
            (StatusClass::NotAuthorized, &[401, 403]),
            (StatusClass::NotFound, &[404]),
            (StatusClass::Rejected, &[400, 402, 405, 410, 413, 415, 422, 451]),
            (StatusClass::Transient, &[408, 409, 429, 500, 502, 503, 504, 599]),
            (StatusClass::Foreign, &[100, 301, 302, 304, 307, 501, 600]),
        ] {
            for status in statuses {
                assert_eq!(classify(*status), class_of, "{status}");
            }
        }
    }

    #[test]
    fn delays_double_up_to_a_minute_with_jitter() {
        let delays: Vec<_> = Backoff::default().delays(7).take(12).collect();
        let mut nominal = 1.0;
        for delay in &delays {
            let seconds = delay.as_secs_f64();
            assert!(seconds >= nominal && seconds <= 2.0 * nominal, "{delays:?}");
            nominal = f64::min(2.0 * nominal, 30.0);
        }
        assert_ne!(delays[10], delays[11]);
        assert_ne!(delays, Backoff::default().delays(8).take(12).collect::<Vec<_>>());
    }

    #[test]
    fn retry_after_is_parsed_in_both_forms_and_limited_to_five_minutes() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (value, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:49:38 GMT", Some(1)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value:?}");
        }
        for (date, minutes) in [
            ("Sun, 06 Nov 1994 09:49:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:43:37 GMT", Some(6)),
            ("Sun, 06 Nov 1994 08:52:00 GMT", None),
            ("now", None),
        ] {
            assert_eq!(clock_skew(date, now), minutes.map(Duration::from_mins), "{date}");
        }
        let backoff = Backoff::default();
        let second = Duration::from_secs(1);
        assert_eq!(backoff.with_retry_after(second, None), second);
        assert_eq!(backoff.with_retry_after(second, Some(Duration::ZERO)), second);
        assert_eq!(backoff.with_retry_after(second, Some(2 * second)), 2 * second);
        assert_eq!(backoff.with_retry_after(second, Some(Duration::MAX)), Duration::from_mins(5));
    }
}
