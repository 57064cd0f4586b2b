//! For how long a snapshot was current, and the gaps in that period.

use std::time::Duration;

use serde::Serialize;
use sqlx::types::Uuid;

use crate::domain::evidence::validity::Validity;
use crate::domain::model::Timestamp;
use crate::store::timeline::{AvailableSnapshots, Gap, Snapshot};
use crate::store::{Error, Transaction};

/// Maximum number of gaps that are listed per snapshot.
const MAX_GAPS: i64 = 5;

/// A period without reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct ReportGap {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

/// The gaps of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SnapshotGaps {
    /// The gap that ended with the next snapshot.
    pub(crate) at_end: Option<ReportGap>,
    /// The latest gaps after which the same artifacts were reported.
    pub(crate) within: Vec<ReportGap>,
    /// The number of gaps within.
    pub(crate) total: i64,
    /// The total duration of the gaps within.
    pub(crate) sum: Duration,
}

/// The period in which a snapshot was current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CurrentPeriod {
    /// `None` while the snapshot is current.
    pub(crate) end: Option<Timestamp>,
    pub(crate) duration: Duration,
}

/// The snapshots from one number to another, inclusive, newest first, each with its gaps.
pub(crate) async fn snapshots(
    transaction: &mut Transaction,
    organization: &str,
    environment: Uuid,
    numbers: (i64, i64),
) -> Result<Vec<(Snapshot, SnapshotGaps)>, Error> {
    let snapshots = transaction.snapshots(organization, environment, numbers).await?;
    let gaps = transaction.gaps(organization, environment, numbers, MAX_GAPS).await?;
    let with_gaps = |snapshot| {
        let gaps = SnapshotGaps::new(&snapshot, &gaps);
        (snapshot, gaps)
    };
    Ok(snapshots.into_iter().map(with_gaps).collect())
}

impl SnapshotGaps {
    /// Selects the gaps of one snapshot.
    fn new(snapshot: &Snapshot, all: &[Gap]) -> Self {
        let mut gaps = Self::default();
        for &Gap { from, to, total, sum, .. } in all.iter().filter(|gap| gap.snapshot == snapshot.number) {
            (gaps.total, gaps.sum) = (total, sum);
            if snapshot.superseded_at == Some(to) {
                gaps.at_end = Some(ReportGap { from, to });
            } else {
                gaps.within.push(ReportGap { from, to });
            }
        }
        if let Some(ReportGap { from, to }) = gaps.at_end {
            gaps.total -= 1;
            gaps.sum = gaps.sum.saturating_sub(to.distance(from));
        }
        gaps
    }
}

impl CurrentPeriod {
    /// The period ends when the snapshot is superseded, or with the last report before a gap.
    pub(crate) fn new(snapshot: &Snapshot, gaps: &SnapshotGaps, validity: &Validity, now: Timestamp) -> Self {
        let end = match (snapshot.superseded_at, gaps.at_end) {
            (Some(_), Some(gap)) => Some(gap.from),
            (Some(superseded), None) => Some(superseded),
            (None, _) => validity.last_report_at.filter(|_| validity.is_silent(now)),
        };
        let duration = end.unwrap_or(now.max(snapshot.received_at)).distance(snapshot.received_at);
        Self { end, duration }
    }
}

/// The time for which the content of a snapshot is read: its receipt, or the retention horizon if that is later.
pub(crate) fn view_time(snapshot: &Snapshot, available: &AvailableSnapshots) -> Timestamp {
    available.horizon_at.map_or(snapshot.received_at, |horizon| horizon.max(snapshot.received_at))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(in crate::service) fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    pub(in crate::service) fn snapshot(number: i64, received: i64, superseded: Option<i64>) -> Snapshot {
        Snapshot {
            number,
            received_at: at(received),
            reported_by: "agent".into(),
            confirmations: Vec::new(),
            confirmed_at: None,
            superseded_at: superseded.map(at),
            compliance: None,
        }
    }

    fn gap(snapshot: i64, from: i64, to: i64, total: i64, sum: u64) -> Gap {
        Gap { snapshot, from: at(from), to: at(to), total, sum: Duration::from_secs(sum) }
    }

    #[test]
    fn snapshot_is_current_until_a_gap_at_its_end_or_its_successor() {
        let status = |silent_after| {
            let silent_after = Duration::from_secs(silent_after);
            Validity { last_report_at: Some(at(900)), silent_after, compliant_until: None }
        };
        let (silent, reporting) = (status(99), status(100));
        let all = [gap(1, 60, 100, 3, 60), gap(1, 30, 40, 3, 60), gap(1, 10, 20, 3, 60)];
        let closed = snapshot(1, 0, Some(100));
        let gaps = SnapshotGaps::new(&closed, &all);
        let between = |from, to| ReportGap { from: at(from), to: at(to) };
        assert_eq!((gaps.at_end, gaps.total, gaps.sum.as_secs()), (Some(between(60, 100)), 2, 20));
        assert_eq!(gaps.within, [between(30, 40), between(10, 20)]);
        let period = |snapshot: &Snapshot, gaps: &SnapshotGaps, validity: Validity| {
            let CurrentPeriod { end, duration } = CurrentPeriod::new(snapshot, gaps, &validity, at(1_000));
            (duration.as_secs(), end.is_none())
        };
        assert_eq!(period(&closed, &gaps, reporting), (60, false));
        let none = SnapshotGaps::default();
        assert_eq!(SnapshotGaps::new(&snapshot(2, 100, None), &all), none);
        assert_eq!(period(&closed, &none, reporting), (100, false));
        assert_eq!(period(&snapshot(2, 100, None), &none, reporting), (900, true));
        assert_eq!(period(&snapshot(2, 100, None), &none, silent), (800, false));
    }
}
