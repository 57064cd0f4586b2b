//! The attributes of a suite.

use quick_xml::events::BytesStart;

use super::attributes::{MAX_NAME_CHARS, attributes, seconds};
use super::case::PerKind;
use super::error::Problem;
use model::escape::shortened;
use model::{JunitResult, Text, Timestamp};

/// What the attributes of `testsuite` or `testsuites` say.
#[derive(Debug, Default)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) declared: Declared,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) start: Option<Start>,
    pub(super) host: Option<String>,
    /// Totals that are not a number, with their attribute.
    pub(super) unclear: Vec<(&'static str, String)>,
}

/// The totals that a suite declares. `None` if it declares none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Declared {
    pub(super) tests: Option<u32>,
    pub(super) unsuccessful: PerKind<Option<u32>>,
    pub(super) seconds: Option<f64>,
}

/// When a suite started, to distinguish runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) at: Timestamp,
    /// Without an offset, it is a local time or UTC.
    pub(super) has_offset: bool,
}

impl Suite {
    pub(super) fn new(element: &BytesStart<'_>) -> Result<Self, Problem> {
        let mut suite = Self::default();
        for attribute in attributes(element) {
            let (key, value) = attribute?;
            let Self { declared, unclear, .. } = &mut suite;
            match key.to_ascii_lowercase().as_str() {
                "name" => suite.name = shortened(&value.replace('\0', "\u{fffd}"), MAX_NAME_CHARS),
                "tests" => declared.tests = number("tests", &value, unclear),
                "failures" => {
                    add(&mut declared.unsuccessful.failures, number("failures", &value, unclear));
                }
                "errors" => add(&mut declared.unsuccessful.errors, number("errors", &value, unclear)),
                "time" => declared.seconds = seconds(&value),
                "timestamp" => {
                    suite.timestamp = Timestamp::parse(value.trim());
                    suite.start = start(value.trim());
                }
                "hostname" if !value.trim().is_empty() => suite.host = Some(value.into_owned()),
                _ => {}
            }
        }
        Ok(suite)
    }

    /// The result without numbers.
    pub(super) fn result(&self) -> JunitResult {
        JunitResult {
            name: Text::new(self.name.as_str()).unwrap_or_default(),
            timestamp: self.timestamp,
            ..JunitResult::default()
        }
    }
}

/// Adds a repeated number, so that it does not hide the first.
fn add(sum: &mut Option<u32>, number: Option<u32>) {
    *sum = number.map(|number| sum.unwrap_or(0).saturating_add(number)).or(*sum);
}

fn number(key: &'static str, text: &str, unclear: &mut Vec<(&'static str, String)>) -> Option<u32> {
    let text = text.trim();
    match text.parse::<u64>() {
        // More than 2^32 are as wrong as 2^32.
        Ok(number) => Some(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) if text.is_empty() => None,
        Err(_) if text.parse() == Ok(0.0) => Some(0),
        Err(_) => {
            unclear.push((key, text.to_owned()));
            None
        }
    }
}

/// Reads ISO 8601 and the two forms of TestNG: `2026-09-15T12:00:00 UTC` and `15 Sep 2026 12:00:00 GMT`.
fn start(text: &str) -> Option<Start> {
    let zone = text.rsplit_once(' ').filter(|(_, zone)| matches!(*zone, "UTC" | "GMT" | "Z"));
    let local = zone.map_or(text, |(local, _)| local);
    let at = Timestamp::parse(local).or_else(|| {
        let at = jiff::fmt::strtime::parse("%d %b %Y %H:%M:%S", local).ok()?.to_datetime().ok()?;
        Some(Timestamp::from_micros(at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_microsecond()))
    })?;
    let has_offset = zone.is_some() || text.parse::<jiff::Timestamp>().is_ok();
    Some(Start { at, has_offset })
}
