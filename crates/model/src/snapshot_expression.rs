//! Expressions that select a snapshot of an environment, in requests and on the command line.

use std::fmt;
use std::str::FromStr;

use jiff::Unit;

use super::{EnvironmentName, InvalidName, Timestamp};

/// Selects a snapshot: `7`, `-1` (the latest), `#7`, `~1` (the one before the latest), or what was current at a point in time:
/// `@2026-10-03T14:00Z`, `@14:00`, `@{2.weeks.ago}`, `@2w`, `@{now}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotExpression {
    /// The snapshot with this number, from 1.
    Number(i64),
    /// The snapshot this many before the latest.
    Behind(i64),
    /// The snapshot that was current at this time.
    At(PointInTime),
}

/// A point in time, absolute or before now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointInTime {
    /// A time; a date is its start in UTC.
    Absolute(Timestamp),
    /// The last time that it was this time in UTC.
    OfDay(jiff::civil::Time),
    /// A number of units before now.
    Ago(i64, Unit),
}

/// A snapshot of a named environment, such as `prod`, `prod#7` or `prod@2w`. The name must not contain `#`, `~` or `@`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentSnapshot {
    pub environment: EnvironmentName,
    pub expression: SnapshotExpression,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidExpression {
    #[error("expected a number of a snapshot, #N, ~N or @TIME")]
    Snapshot,
    #[error("expected a time such as 2026-10-03, 2026-10-03T14:00Z, 14:00 (UTC), 2w, 2.weeks.ago or now")]
    Time,
    #[error(transparent)]
    Environment(#[from] InvalidName),
}

/// Units with their names and abbreviations. Months and years follow the calendar.
const UNITS: [(&str, &str, Unit); 7] = [
    ("second", "s", Unit::Second),
    ("minute", "m", Unit::Minute),
    ("hour", "h", Unit::Hour),
    ("day", "d", Unit::Day),
    ("week", "w", Unit::Week),
    ("month", "mo", Unit::Month),
    ("year", "y", Unit::Year),
];

fn span(count: i64, unit: Unit) -> jiff::Span {
    let span = jiff::Span::new();
    match unit {
        Unit::Nanosecond => span.nanoseconds(count),
        Unit::Microsecond => span.microseconds(count),
        Unit::Millisecond => span.milliseconds(count),
        Unit::Second => span.seconds(count),
        Unit::Minute => span.minutes(count),
        Unit::Hour => span.hours(count),
        Unit::Day => span.days(count),
        Unit::Week => span.weeks(count),
        // Within jiff's limits of 19,998 years.
        Unit::Month => span.months(count.min(100_000)),
        Unit::Year => span.years(count.min(9_999)),
    }
}

fn utc(at: Timestamp) -> jiff::Zoned {
    let at = jiff::Timestamp::from_microsecond(at.micros()).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::UTC)
}

impl PointInTime {
    /// The time, at most to 1970.
    #[must_use]
    pub fn resolve(&self, now: Timestamp) -> Timestamp {
        match *self {
            Self::Absolute(at) => at,
            Self::OfDay(time) => {
                let utc = utc(now);
                let today = utc.date().to_datetime(time);
                let last =
                    if today > utc.datetime() { today.saturating_sub(span(1, Unit::Day)) } else { today };
                Timestamp::parse(&last.to_string()).unwrap_or(Timestamp::EPOCH)
            }
            Self::Ago(count, unit) => {
                let at = utc(now).checked_sub(span(count, unit));
                at.map_or(Timestamp::EPOCH, |at| Timestamp::from_micros(at.timestamp().as_microsecond()))
            }
        }
    }
}

/// A number of at most `max` digits, without a sign.
fn number(digits: &str, max: usize) -> Option<i64> {
    digits.parse().ok().filter(|_| digits.len() <= max && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

impl FromStr for PointInTime {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, InvalidExpression> {
        if text.eq_ignore_ascii_case("now") {
            return Ok(Self::Ago(0, Unit::Second));
        }
        let ago = text.strip_suffix(".ago").unwrap_or(text);
        let (digits, word) = ago.split_at(ago.find(|c: char| !c.is_ascii_digit()).unwrap_or(ago.len()));
        let word = word.strip_prefix('.').unwrap_or(word);
        let is_named =
            |name: &str, short: &str| word == short || word.strip_suffix('s').unwrap_or(word) == name;
        let unit = UNITS.into_iter().find(|(name, short, _)| is_named(name, short));
        let ago = unit.and_then(|(.., unit)| Some(Self::Ago(number(digits, 6)?, unit)));
        let of_day = || {
            let time = text.strip_suffix('Z').unwrap_or(text);
            let time = time.strip_prefix('T').unwrap_or(time);
            // jiff would ignore a zone.
            let is_bare =
                time.contains(':') && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
            time.parse().ok().filter(|_| is_bare).map(Self::OfDay)
        };
        ago.or_else(|| Timestamp::parse(text).map(Self::Absolute))
            .or_else(of_day)
            .ok_or(InvalidExpression::Time)
    }
}

impl FromStr for SnapshotExpression {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, InvalidExpression> {
        if let Some(time) = text.strip_prefix('@') {
            let inner = time.strip_prefix('{').and_then(|time| time.strip_suffix('}'));
            return inner.unwrap_or(time).parse().map(Self::At);
        }
        let positive = |text: &str| number(text, 15).filter(|number| *number > 0);
        let selected = if let Some(behind) = text.strip_prefix('~') {
            number(behind, 15).map(Self::Behind)
        } else if let Some(back) = text.strip_prefix('-') {
            positive(back).map(|back| Self::Behind(back - 1))
        } else {
            positive(text.strip_prefix('#').unwrap_or(text)).map(Self::Number)
        };
        selected.ok_or(InvalidExpression::Snapshot)
    }
}

impl FromStr for EnvironmentSnapshot {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, InvalidExpression> {
        let (name, expression) = text.split_at(text.find(['#', '~', '@']).unwrap_or(text.len()));
        let expression = if expression.is_empty() { "~0" } else { expression };
        Ok(Self { environment: name.parse()?, expression: expression.parse()? })
    }
}

/// The form that the public service accepts too.
impl fmt::Display for SnapshotExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "#{number}"),
            Self::Behind(count) => write!(f, "~{count}"),
            Self::At(PointInTime::Absolute(at)) => {
                write!(f, "@{{{}}}", at.iso_8601().trim_end_matches('Z'))
            }
            Self::At(PointInTime::OfDay(time)) => write!(f, "@{{{time}}}"),
            Self::At(PointInTime::Ago(count, unit)) => {
                let name = UNITS.into_iter().find(|(.., known)| known == unit).map_or("", |(name, ..)| name);
                write!(f, "@{{{count}.{name}s.ago}}")
            }
        }
    }
}

impl fmt::Display for EnvironmentSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.environment, self.expression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expression_selects_a_snapshot_by_number_distance_or_time() {
        let at = |seconds: i64| {
            SnapshotExpression::At(PointInTime::Absolute(Timestamp::from_micros(seconds * 1_000_000)))
        };
        let ago = |count, unit| SnapshotExpression::At(PointInTime::Ago(count, unit));
        for (text, expected) in [
            ("7", SnapshotExpression::Number(7)),
            ("#7", SnapshotExpression::Number(7)),
            ("-1", SnapshotExpression::Behind(0)),
            ("-3", SnapshotExpression::Behind(2)),
            ("~0", SnapshotExpression::Behind(0)),
            ("~2", SnapshotExpression::Behind(2)),
            ("@{now}", ago(0, Unit::Second)),
            ("@NOW", ago(0, Unit::Second)),
            ("@{2.weeks.ago}", ago(2, Unit::Week)),
            ("@{1.month.ago}", ago(1, Unit::Month)),
            ("@2w", ago(2, Unit::Week)),
            ("@1hour", ago(1, Unit::Hour)),
            ("@90m", ago(90, Unit::Minute)),
            ("@6mo", ago(6, Unit::Month)),
            ("@{1970-01-02T00:00:01}", at(86_401)),
            ("@1970-01-02", at(86_400)),
            ("@1970-01-02T01:00+01:00", at(86_400)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "",
            "0",
            "#0",
            "-0",
            "#",
            "~",
            "~-1",
            "+7",
            "7.0",
            "prod",
            "@",
            "@{}",
            "@{now",
            "@2",
            "@2x",
            "@-2w",
            "@w",
            "@{2.week.s}",
            "@{2.fortnights.ago}",
            "@1969-12-31",
            "@9999999w",
            "@14",
            "@T14",
            "@25:00",
            "@14:00+02:00",
            "#9999999999999999",
        ] {
            assert!(text.parse::<SnapshotExpression>().is_err(), "{text}");
        }
    }

    #[test]
    fn name_ends_at_the_expression() {
        for (text, name, expression) in [
            ("prod", "prod", "~0"),
            ("prod#7", "prod", "#7"),
            ("a_b~1", "a_b", "~1"),
            ("prod@2w", "prod", "@{2.weeks.ago}"),
            ("prod@T14:00", "prod", "@{14:00:00}"),
            ("prod@2026-10-03T14:00Z", "prod", "@{2026-10-03T14:00:00}"),
        ] {
            let parsed: EnvironmentSnapshot = text.parse().unwrap();
            assert_eq!((parsed.environment.as_str(), &*parsed.expression.to_string()), (name, expression));
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        for text in ["", "#7", "prod#", "prod#7#8", "a/b", "a b"] {
            assert!(text.parse::<EnvironmentSnapshot>().is_err(), "{text}");
        }
    }

    #[test]
    fn relative_time_follows_the_calendar_and_never_precedes_1970() {
        let now = Timestamp::parse("2026-03-31T12:00:00Z").unwrap();
        for (text, expected) in [
            ("1mo", "2026-02-28T12:00:00Z"),
            ("2w", "2026-03-17T12:00:00Z"),
            ("1y", "2025-03-31T12:00:00Z"),
            ("999999y", "1970-01-01T00:00:00Z"),
            ("999999mo", "1970-01-01T00:00:00Z"),
            ("now", "2026-03-31T12:00:00Z"),
            ("12:00", "2026-03-31T12:00:00Z"),
            ("T12:00:01Z", "2026-03-30T12:00:01Z"),
            ("T09:30", "2026-03-31T09:30:00Z"),
        ] {
            let at: PointInTime = text.parse().unwrap();
            assert_eq!(at.resolve(now), Timestamp::parse(expected).unwrap(), "{text}");
        }
    }
}
