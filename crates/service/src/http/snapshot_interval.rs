//! The snapshots of a list: the parameter `interval`, and the limits of a list of events.

use std::str::FromStr;

use crate::http::problem::Problem;
use model::{EnvironmentName, InvalidExpression, PointInTime, SnapshotExpression};
use store::environments::timeline::AvailableSnapshots;

/// Both ends of an interval, in any order; all snapshots without any.
#[derive(Debug, Default)]
pub(crate) struct Interval(Option<[SnapshotExpression; 2]>);

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

#[derive(Debug, thiserror::Error)]
#[error("expected A..B, each a number, ~N or NOW, or one of them")]
pub(crate) struct InvalidInterval;

/// An end: a number, or a distance from the latest.
fn end(text: &str) -> Result<SnapshotExpression, InvalidInterval> {
    match text.parse() {
        _ if text.is_empty() || text.eq_ignore_ascii_case("now") => Ok(SnapshotExpression::Behind(0)),
        Ok(SnapshotExpression::At(_)) | Err(_) => Err(InvalidInterval),
        Ok(expression) => Ok(expression),
    }
}

impl FromStr for Interval {
    type Err = InvalidInterval;

    fn from_str(text: &str) -> Result<Self, InvalidInterval> {
        Ok(Self(match text.split_once("..") {
            _ if text.is_empty() => None,
            Some((one, other)) => Some([end(one)?, end(other)?]),
            None => Some([end(text)?, end(text)?]),
        }))
    }
}

impl Interval {
    /// Whether all snapshots are requested.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.is_none()
    }

    /// The first and last number, of those that are available. Returns 404 if retention removed all of them.
    pub(crate) fn numbers(
        &self,
        environment: &EnvironmentName,
        last: i64,
        available: &AvailableSnapshots,
    ) -> Result<(i64, i64), Problem> {
        let first = available.first.unwrap_or(1);
        let Some(ends) = &self.0 else { return Ok((first, last)) };
        let [one, other] = ends.each_ref().map(|end| match end {
            SnapshotExpression::Number(number) => *number,
            SnapshotExpression::Behind(count) => (last - count).max(1),
            SnapshotExpression::At(_) => last,
        });
        let (from, to) = (one.min(other), one.max(other));
        if to < first && last > 0 {
            return Err(Problem::not_found(format!(
                "the snapshots of environment \"{environment}\" before {first} were removed by retention"
            )));
        }
        Ok((from.max(first), to.min(last)))
    }
}
