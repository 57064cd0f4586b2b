//! Options of lists of a period.

use clap::Args;

use crate::cli::exit::Failure;
use client::Operation;

#[derive(Debug, Args)]
pub(crate) struct Period {
    /// Received at or after this time, such as 2026-10-03 or 2026-10-03T14:00Z
    #[arg(long, value_name = "TIME", value_parser = first_second)]
    from: Option<i64>,
    /// Received at or before this time; a date includes the whole day
    #[arg(long, value_name = "TIME", value_parser = last_second)]
    to: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
#[error("--from must not be later than --to")]
struct InvalidPeriod;

impl Period {
    /// Restricts an operation to the period; fails if it ends before it starts.
    pub(super) fn restrict<'a>(&self, operation: Operation<'a>) -> Result<Operation<'a>, Failure> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from > to => Err(Failure::usage(InvalidPeriod)),
            (from, to) => Ok(operation.with("from_timestamp", from).with("to_timestamp", to)),
        }
    }

    /// Describes the period for an empty list.
    pub(super) fn filter(&self) -> &'static str {
        if self.from.or(self.to).is_some() { " in this period" } else { "" }
    }
}

/// Parses the start of a UTC date or an RFC 3339 time with optional seconds, in seconds of Unix time.
fn first_second(text: &str) -> Result<i64, String> {
    seconds(text).map(|(first, _)| first)
}

fn last_second(text: &str) -> Result<i64, String> {
    seconds(text).map(|(_, last)| last)
}

/// First and last second of a date or time.
fn seconds(text: &str) -> Result<(i64, i64), String> {
    let expected =
        || "expected a date such as 2026-10-03, or a time with zone such as 2026-10-03T14:00Z".to_owned();
    let non_negative =
        |at: jiff::Timestamp| Some(at.as_second()).filter(|second| *second >= 0).ok_or_else(expected);
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        let second = non_negative(at)?;
        return Ok((second, second));
    }
    let day: jiff::civil::Date = text.parse().map_err(|_| expected())?;
    // jiff ignores a time after the date.
    if text.contains(['T', 't', ' ', ':']) {
        return Err(expected());
    }
    let first = non_negative(day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| expected())?.timestamp())?;
    Ok((first, first + 24 * 60 * 60 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_covers_whole_day_and_time_covers_one_second() {
        assert_eq!(seconds("2026-10-03"), Ok((1_790_985_600, 1_791_071_999)));
        assert_eq!(seconds("2026-10-03T14:00Z"), Ok((1_791_036_000, 1_791_036_000)));
        assert_eq!(seconds("2026-10-03T16:00:00.9+02:00"), Ok((1_791_036_000, 1_791_036_000)));
        for bad in ["", "yesterday", "2026-13-01", "2026-10-03T14:00", "1790985600", "1969-12-31"] {
            assert!(seconds(bad).unwrap_err().contains("expected a date"), "{bad}");
        }
    }
}
