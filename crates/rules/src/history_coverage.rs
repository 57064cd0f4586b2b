//! Determines how much of an environment's history at a point in time is known.
//!
//! Called before a past point in time is shown, so that an incomplete list is never shown as complete. Pure: time is an
//! argument.

use std::time::Duration;

use model::Timestamp;

/// The recorded history of an environment around a point in time.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportHistory {
    /// The first report that was not removed.
    pub first_report_at: Option<Timestamp>,
    /// The last report.
    pub last_report_at: Option<Timestamp>,
    /// The retention horizon: rows that ended before it were removed.
    pub horizon_at: Option<Timestamp>,
    /// The snapshot that was current.
    pub snapshot: Option<i64>,
    /// The gap between two reports around the point in time.
    pub gap: Option<(Timestamp, Timestamp)>,
}

/// The known part of the artifacts at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryCoverage {
    Known,
    /// The point in time is in the future.
    Future,
    NeverReported,
    /// The first report was later, at this time.
    BeforeFirst(Timestamp),
    /// Only artifacts that still ran at the retention horizon are known, and verdicts may be missing.
    BeforeHorizon(Timestamp),
    /// Only the artifacts of the report before the gap are known.
    Gap(Timestamp, Timestamp),
    /// Only the artifacts of the last report are known. The environment has been silent since.
    Silent(Timestamp),
}

impl HistoryCoverage {
    /// Determines the coverage at a point in time. `silent_after` is the maximum time between two reports.
    #[must_use]
    pub fn new(at: Timestamp, now: Timestamp, record: &ReportHistory, silent_after: Duration) -> Self {
        if at > now {
            return Self::Future;
        }
        let Some(last) = record.last_report_at else { return Self::NeverReported };
        // Checked before the first report and gaps, which retention may have removed.
        if let Some(horizon) = record.horizon_at.filter(|horizon| at < *horizon) {
            return Self::BeforeHorizon(horizon);
        }
        if let Some(first) = record.first_report_at.filter(|first| at < *first) {
            return Self::BeforeFirst(first);
        }
        if let Some((from, to)) = record.gap {
            return Self::Gap(from, to);
        }
        // Becomes a gap with the next report.
        if at > last && now.distance(last) > silent_after {
            return Self::Silent(last);
        }
        Self::Known
    }

    #[must_use]
    pub fn has_data(self) -> bool {
        !matches!(self, Self::Future | Self::NeverReported | Self::BeforeFirst(_))
    }

    /// A warning if the list for the point in time may be incomplete or outdated.
    #[must_use]
    pub fn warning(self) -> Option<String> {
        Some(match self {
            Self::Known => return None,
            Self::Future => "This point in time is in the future.".to_owned(),
            Self::NeverReported => "This environment was never reported.".to_owned(),
            Self::BeforeFirst(first) => format!("No data: the first report was received at {first}."),
            Self::BeforeHorizon(horizon) => format!(
                "Data that ended before {horizon} was removed by retention. The list contains only artifacts that \
                 still ran then, and their verdicts may be incomplete."
            ),
            Self::Gap(from, to) => format!(
                "Gap: no reports from {from} to {to}. The list shows the last report before; the artifacts that ran \
                 are unknown."
            ),
            Self::Silent(last) => format!(
                "No reports since {last}. The list shows the last report; the artifacts that ran are unknown."
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn coverage_depends_on_reports_around_the_point_in_time() {
        let record = ReportHistory {
            first_report_at: Some(at(100)),
            last_report_at: Some(at(200)),
            ..ReportHistory::default()
        };
        let in_gap = ReportHistory { gap: Some((at(120), at(150))), ..record };
        let cut = ReportHistory { horizon_at: Some(at(160)), ..in_gap };
        for (time, now, history, expected) in [
            (99, 205, record, HistoryCoverage::BeforeFirst(at(100))),
            (100, 205, record, HistoryCoverage::Known),
            (200, 205, record, HistoryCoverage::Known),
            (205, 205, record, HistoryCoverage::Known),
            (206, 205, record, HistoryCoverage::Future),
            (210, 210, record, HistoryCoverage::Known),
            // Silent now: the silence starts at the last report.
            (200, 211, record, HistoryCoverage::Known),
            (201, 211, record, HistoryCoverage::Silent(at(200))),
            (211, 211, record, HistoryCoverage::Silent(at(200))),
            (130, 205, in_gap, HistoryCoverage::Gap(at(120), at(150))),
            (130, 205, cut, HistoryCoverage::BeforeHorizon(at(160))),
            (50, 205, cut, HistoryCoverage::BeforeHorizon(at(160))),
            (50, 205, ReportHistory::default(), HistoryCoverage::NeverReported),
        ] {
            let coverage = HistoryCoverage::new(at(time), at(now), &history, Duration::from_secs(10));
            assert_eq!(coverage, expected, "{time} of {now}");
        }
    }

    #[test]
    fn only_future_and_times_before_the_first_report_have_no_data() {
        let time = at(1);
        for without_data in
            [HistoryCoverage::Future, HistoryCoverage::NeverReported, HistoryCoverage::BeforeFirst(time)]
        {
            assert!(!without_data.has_data(), "{without_data:?}");
        }
        for with_data in [
            HistoryCoverage::Known,
            HistoryCoverage::BeforeHorizon(time),
            HistoryCoverage::Gap(time, time),
            HistoryCoverage::Silent(time),
        ] {
            assert!(with_data.has_data(), "{with_data:?}");
        }
    }
}
