//! What an answer of an HTTP service means, and after how long it is asked again.
//!
//! `cluster`, `api` and `agent` ask it about what came back. Time is an
//! argument.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBuilder};

/// What a status code means for the request that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 2xx.
    Success,
    /// 401, 403: the credentials do not allow it.
    NotAuthorized,
    /// 404.
    NotFound,
    /// Other 4xx: what was sent is at fault and will be again.
    Refused,
    /// 408, 409, 429 and 5xx but 501: it may go better later.
    Transient,
    /// Anything else (1xx, 3xx, 501): not the answer of a service that knows the operation.
    Foreign,
}

/// Classifies a status code (RFC 9110, section 15).
#[must_use]
pub fn class(status: u16) -> Class {
    match status {
        200..=299 => Class::Success,
        401 | 403 => Class::NotAuthorized,
        404 => Class::NotFound,
        408 | 409 | 429 | 500 | 502..=599 => Class::Transient,
        400..=499 => Class::Refused,
        _ => Class::Foreign,
    }
}

/// A failed try of something that may be tried again.
pub trait Retryable: std::error::Error {
    /// Whether the same try may go better later.
    fn is_transient(&self) -> bool;

    /// The value of the Retry-After header, where the answer had one.
    fn retry_after(&self) -> Option<&str>;
}

/// How long to wait between two tries.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Before the second try; it doubles from there on.
    pub first: Duration,
    /// Between any two tries.
    pub most: Duration,
    /// The longest Retry-After that is believed.
    pub most_asked: Duration,
}

impl Default for Backoff {
    /// 1 s, 60 s, 5 min.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_mins(1),
            most_asked: Duration::from_mins(5),
        }
    }
}

impl Backoff {
    /// The same, so many times shorter.
    #[must_use]
    pub fn hastened(self, times: u32) -> Self {
        let Self { first, most, most_asked } = self;
        Self { first: first / times, most: most / times, most_asked: most_asked / times }
    }

    /// The delays, each between once and twice its nominal length, which doubles up to half of `most`, so
    /// that those who wait the longest do not keep in step either. The same seed gives the same delays.
    pub fn delays(self, seed: u64) -> impl Iterator<Item = Duration> {
        ExponentialBuilder::new()
            .with_min_delay(self.first)
            .with_max_delay(self.first.max(self.most / 2))
            .with_factor(2.0)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed)
            .build()
            .map(move |delay| delay.min(self.most))
    }

    /// The delay to keep where an answer carried a Retry-After: at least what it asks for.
    #[must_use]
    pub fn at_least(self, delay: Duration, asked: Option<Duration>) -> Duration {
        asked.map_or(delay, |asked| delay.max(asked.min(self.most_asked)))
    }
}

/// Reads a Retry-After in either form, seconds or a date (RFC 9110, section 10.2.3); `None` for
/// anything else. A date that has passed is no delay.
#[must_use]
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// How far another clock is away, where that is so far that tokens and certificates may be judged wrongly:
/// more than five minutes. `date` is a Date header (RFC 9110, section 6.6.1).
#[must_use]
pub fn apart(date: &str, now: SystemTime) -> Option<Duration> {
    let date = httpdate::parse_http_date(date).ok()?;
    let apart = date.duration_since(now).unwrap_or_else(|error| error.duration());
    Some(apart).filter(|apart| *apart > Duration::from_mins(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_class() {
        for (class_of, statuses) in [
            (Class::Success, &[200, 201, 202, 204][..]),
            (Class::NotAuthorized, &[401, 403]),
            (Class::NotFound, &[404]),
            (Class::Refused, &[400, 402, 405, 410, 413, 415, 422, 451]),
            (Class::Transient, &[408, 409, 429, 500, 502, 503, 504, 599]),
            (Class::Foreign, &[100, 301, 302, 304, 307, 501, 600]),
        ] {
            for status in statuses {
                assert_eq!(class(*status), class_of, "{status}");
            }
        }
    }

    #[test]
    fn delays_double_from_a_second_to_a_minute_with_jitter() {
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
    fn retry_after_is_read_in_both_forms_and_believed_up_to_five_minutes() {
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
            assert_eq!(apart(date, now), minutes.map(Duration::from_mins), "{date}");
        }
        let backoff = Backoff::default();
        let second = Duration::from_secs(1);
        assert_eq!(backoff.at_least(second, None), second);
        assert_eq!(backoff.at_least(second, Some(Duration::ZERO)), second);
        assert_eq!(backoff.at_least(second, Some(2 * second)), 2 * second);
        assert_eq!(backoff.at_least(second, Some(Duration::MAX)), Duration::from_mins(5));
    }
}
