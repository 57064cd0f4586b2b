//! What can be said of an environment at a moment of the past.
//!
//! The service asks before it shows what ran then: a list that looks whole where nobody knows would be a lie.
//! Pure; time is an argument.

use std::time::Duration;

use crate::domain::model::Timestamp;

/// What is recorded of an environment around a moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record {
    /// The first report that is still there.
    pub first_report_at: Option<Timestamp>,
    /// The last report.
    pub last_report_at: Option<Timestamp>,
    /// What ended before this was removed.
    pub horizon_at: Option<Timestamp>,
    /// The silence between two reports that the moment lies in.
    pub gap: Option<(Timestamp, Timestamp)>,
    /// How long the environment may be silent.
    pub silent_after: Duration,
}

/// How much of what ran at a moment is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hindsight {
    /// All of it.
    Known,
    /// Nothing: the moment has not come.
    Future,
    /// Nothing: the environment was never reported.
    NeverReported,
    /// Nothing: this was the first report.
    BeforeFirst(Timestamp),
    /// Only what still ran at the horizon, and no verdict for certain.
    BeforeHorizon(Timestamp),
    /// What was reported before: between these two reports the environment was silent for too long.
    Gap(Timestamp, Timestamp),
    /// What was reported last: since then the environment has been silent for too long.
    Silent(Timestamp),
}

impl Hindsight {
    /// What is known of a moment.
    #[must_use]
    pub fn of(at: Timestamp, now: Timestamp, record: &Record) -> Self {
        if at > now {
            return Self::Future;
        }
        let Some(last) = record.last_report_at else { return Self::NeverReported };
        // What is removed may be the first report, and gaps: the horizon is asked before them.
        if let Some(horizon) = record.horizon_at.filter(|horizon| at < *horizon) {
            return Self::BeforeHorizon(horizon);
        }
        if let Some(first) = record.first_report_at.filter(|first| at < *first) {
            return Self::BeforeFirst(first);
        }
        if let Some((from, to)) = record.gap {
            return Self::Gap(from, to);
        }
        // As with a gap, which this becomes with the next report: nobody confirms what ran after the last one.
        if at > last && now.distance(last) > record.silent_after {
            return Self::Silent(last);
        }
        Self::Known
    }

    /// Whether anything is known to have run then.
    #[must_use]
    pub fn says_something(self) -> bool {
        !matches!(self, Self::Future | Self::NeverReported | Self::BeforeFirst(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_moment_is_known_only_where_reports_surround_it() {
        let record = Record {
            first_report_at: Some(at(100)),
            last_report_at: Some(at(200)),
            silent_after: Duration::from_secs(10),
            ..Record::default()
        };
        let in_gap = Record { gap: Some((at(120), at(150))), ..record };
        let cut = Record { horizon_at: Some(at(160)), ..in_gap };
        for (moment, now, record, expected) in [
            (99, 205, record, Hindsight::BeforeFirst(at(100))),
            (100, 205, record, Hindsight::Known),
            (200, 205, record, Hindsight::Known),
            (205, 205, record, Hindsight::Known),
            (206, 205, record, Hindsight::Future),
            (210, 210, record, Hindsight::Known),
            // Silent now: the silence began with the last report, and not later.
            (200, 211, record, Hindsight::Known),
            (201, 211, record, Hindsight::Silent(at(200))),
            (211, 211, record, Hindsight::Silent(at(200))),
            (130, 205, in_gap, Hindsight::Gap(at(120), at(150))),
            (130, 205, cut, Hindsight::BeforeHorizon(at(160))),
            (50, 205, cut, Hindsight::BeforeHorizon(at(160))),
            (50, 205, Record::default(), Hindsight::NeverReported),
        ] {
            assert_eq!(Hindsight::of(at(moment), at(now), &record), expected, "{moment} of {now}");
        }
    }

    #[test]
    fn where_nothing_is_known_nothing_ran_for_all_we_know() {
        let moment = at(1);
        for nothing in [Hindsight::Future, Hindsight::NeverReported, Hindsight::BeforeFirst(moment)] {
            assert!(!nothing.says_something(), "{nothing:?}");
        }
        for something in [
            Hindsight::Known,
            Hindsight::BeforeHorizon(moment),
            Hindsight::Gap(moment, moment),
            Hindsight::Silent(moment),
        ] {
            assert!(something.says_something(), "{something:?}");
        }
    }
}
