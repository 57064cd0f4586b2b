//! How long a snapshot held, and the silences in it. Pure.

use std::time::Duration;

use crate::domain::model::Timestamp;
use crate::service::pages::parts::environment_status::Present;
use crate::store::timeline::{Kept, Silence, Snapshot};

/// As many silences as are told of a snapshot.
pub(crate) const SILENCES: i64 = 5;

/// The silences of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Silent {
    /// The one that the next snapshot ended.
    pub(crate) at_its_end: Option<(Timestamp, Timestamp)>,
    /// The latest of those after which the same was reported.
    pub(crate) within: Vec<(Timestamp, Timestamp)>,
    /// How many of those there are.
    pub(crate) total: i64,
    /// How long they are together.
    pub(crate) sum: Duration,
}

/// Until when a snapshot held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) span: Duration,
    /// Whether it still does.
    pub(crate) goes_on: bool,
}

impl Silent {
    /// Those of a snapshot, among those of several.
    pub(crate) fn of(snapshot: &Snapshot, silences: &[Silence]) -> Self {
        let mut silent = Self::default();
        for silence in silences.iter().filter(|silence| silence.snapshot == snapshot.number) {
            (silent.total, silent.sum) = (silence.total, silence.sum);
            if snapshot.superseded_at == Some(silence.to) {
                silent.at_its_end = Some((silence.from, silence.to));
            } else {
                silent.within.push((silence.from, silence.to));
            }
        }
        if let Some((from, to)) = silent.at_its_end {
            silent.total -= 1;
            silent.sum = silent.sum.saturating_sub(to.distance(from));
        }
        silent
    }
}

impl Held {
    /// How long a snapshot held: until another took its place, or until the last report before a silence.
    pub(crate) fn of(snapshot: &Snapshot, silent: &Silent, present: Present) -> Self {
        let end = match (snapshot.superseded_at, silent.at_its_end) {
            (Some(_), Some((from, _))) => Some(from),
            (Some(superseded), None) => Some(superseded),
            (None, _) => present.validity.last_report_at.filter(|_| present.is_silent()),
        };
        let span = end.unwrap_or(present.now.max(snapshot.received_at)).distance(snapshot.received_at);
        Self { span, goes_on: end.is_none() }
    }
}

/// The moment at which a snapshot is looked at: when it was received, or the first of it of which all is still there.
pub(crate) fn looked_at(snapshot: &Snapshot, kept: &Kept) -> Timestamp {
    kept.horizon_at.map_or(snapshot.received_at, |horizon| horizon.max(snapshot.received_at))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::evidence::compliance::Compliance;
    use crate::domain::evidence::validity::Validity;

    pub(in crate::service::pages) fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    pub(in crate::service::pages) fn snapshot(
        number: i64,
        received: i64,
        superseded: Option<i64>,
    ) -> Snapshot {
        Snapshot {
            number,
            received_at: at(received),
            reported_by: "agent".into(),
            confirmed_at: None,
            superseded_at: superseded.map(at),
            compliance: None,
        }
    }

    fn silence(snapshot: i64, from: i64, to: i64, total: i64, sum: u64) -> Silence {
        Silence { snapshot, from: at(from), to: at(to), total, sum: Duration::from_secs(sum) }
    }

    #[test]
    fn a_silence_stands_in_a_snapshot_or_at_its_end_and_a_snapshot_holds_until_it() {
        let present = |silent_after| {
            let silent_after = Duration::from_secs(silent_after);
            let validity = Validity { last_report_at: Some(at(900)), silent_after, compliant_until: None };
            Present { now: at(1_000), validity, decided: Compliance::Unknown }
        };
        let (quiet_now, present) = (present(99), present(100));
        let silences = [silence(1, 60, 100, 3, 60), silence(1, 30, 40, 3, 60), silence(1, 10, 20, 3, 60)];
        let closed = snapshot(1, 0, Some(100));
        let silent = Silent::of(&closed, &silences);
        assert_eq!((silent.at_its_end, silent.total, silent.sum.as_secs()), (Some((at(60), at(100))), 2, 20));
        assert_eq!(silent.within, [(at(30), at(40)), (at(10), at(20))]);
        let held = |snapshot: &Snapshot, silent: &Silent, present| {
            let Held { span, goes_on } = Held::of(snapshot, silent, present);
            (span.as_secs(), goes_on)
        };
        assert_eq!(held(&closed, &silent, present), (60, false));
        let quiet = Silent::default();
        assert_eq!(Silent::of(&snapshot(2, 100, None), &silences), quiet);
        assert_eq!(held(&closed, &quiet, present), (100, false));
        assert_eq!(held(&snapshot(2, 100, None), &quiet, present), (900, true));
        assert_eq!(held(&snapshot(2, 100, None), &quiet, quiet_now), (800, false));
    }
}
