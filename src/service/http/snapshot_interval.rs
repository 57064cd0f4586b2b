//! The snapshots of a list: the parameters `interval` and `reverse`.

use std::str::FromStr;

use super::parameters::Parameters;
use super::problem::Problem;
use crate::domain::model::{EnvironmentName, InvalidExpression, PointInTime, SnapshotExpression};
use crate::store::timeline::AvailableSnapshots;

/// The requested part of a list.
#[derive(Debug)]
pub(crate) struct SnapshotInterval {
    interval: Interval,
    /// Whether the list starts with the oldest.
    pub(crate) is_reversed: bool,
}

/// Both ends of an interval, in any order; all snapshots without any.
#[derive(Debug, Default)]
pub(crate) struct Interval(Option<(SnapshotExpression, SnapshotExpression)>);

/// A limit of a list of events: a snapshot, or a point in time.
#[derive(Debug)]
pub(crate) enum EventsLimit {
    Snapshot(i64),
    Time(PointInTime),
}

impl FromStr for EventsLimit {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, InvalidExpression> {
        match text.parse() {
            Ok(SnapshotExpression::Number(number)) => Ok(Self::Snapshot(number)),
            _ => text.parse().map(Self::Time),
        }
    }
}

/// Text that is no interval.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("expected A..B, each a number, ~N or NOW, or one of them")]
pub(crate) struct InvalidInterval;

/// An end: a number, or a distance from the latest.
fn end(text: &str) -> Result<SnapshotExpression, InvalidInterval> {
    if text.is_empty() || text.eq_ignore_ascii_case("now") {
        return Ok(SnapshotExpression::Behind(0));
    }
    let is_time = text.starts_with('@');
    text.parse().ok().filter(|_| !is_time).ok_or(InvalidInterval)
}

impl FromStr for Interval {
    type Err = InvalidInterval;

    fn from_str(text: &str) -> Result<Self, InvalidInterval> {
        Ok(Self(match text.split_once("..") {
            _ if text.is_empty() => None,
            Some((one, other)) => Some((end(one)?, end(other)?)),
            None => Some((end(text)?, end(text)?)),
        }))
    }
}

impl SnapshotInterval {
    pub(crate) fn parse(parameters: &Parameters) -> Result<Self, Problem> {
        let is_reversed = parameters.parsed::<bool>("reverse")?.unwrap_or_default();
        Ok(Self { interval: parameters.parsed("interval")?.unwrap_or_default(), is_reversed })
    }

    /// Whether all snapshots are requested.
    pub(crate) fn is_whole(&self) -> bool {
        self.interval.0.is_none()
    }

    /// Whether the interval ends with the latest of `last` snapshots.
    pub(crate) fn includes_latest(&self, last: i64) -> bool {
        self.interval.0.as_ref().is_none_or(|(one, other)| number(one, last).max(number(other, last)) >= last)
    }

    /// The first and last number, of those that are available. Returns 404 if retention removed all of them.
    pub(crate) fn numbers(
        &self,
        environment: &EnvironmentName,
        last: i64,
        available: &AvailableSnapshots,
    ) -> Result<(i64, i64), Problem> {
        let first = available.first.unwrap_or(1);
        let Some((one, other)) = &self.interval.0 else { return Ok((first, last)) };
        let (one, other) = (number(one, last), number(other, last));
        let (from, to) = (one.min(other), one.max(other));
        if to < first && last > 0 {
            return Err(Problem::not_found(format!(
                "the snapshots of environment \"{environment}\" before {first} were removed by retention"
            )));
        }
        Ok((from.max(first), to.min(last)))
    }
}

/// The number, from 1, of an end of an interval.
fn number(end: &SnapshotExpression, last: i64) -> i64 {
    match end {
        SnapshotExpression::Number(number) => *number,
        SnapshotExpression::Behind(count) => (last - count).max(1),
        SnapshotExpression::At(_) => last,
    }
}
