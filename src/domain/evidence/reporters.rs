//! The reporters of an environment: who reports it, with which program, how often, and which of them overwrite each other.
//!
//! Called for each report that is not a heartbeat, and by the list of agents. Pure: time is an argument.

use std::time::Duration;

use crate::domain::model::Timestamp;

/// The header of a report with the identity of its cluster: the UID of the namespace `kube-system`.
pub const CLUSTER_HEADER: &str = "supercargo-cluster";

/// Maximum number of reporters that are kept for an environment.
pub const MAX_REPORTERS: usize = 20;

/// Maximum number of characters of a `User-Agent` that are kept.
const MAX_USER_AGENT: usize = 200;

/// The sender of a report, as the report describes it. No token confirms this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The start of the `User-Agent`; empty without one.
    pub user_agent: String,
    /// The identity of the cluster; empty without a valid one.
    pub cluster: String,
}

impl Sender {
    /// Reads the values of the two headers.
    #[must_use]
    pub fn new(user_agent: &[u8], cluster: &[u8]) -> Self {
        let user_agent = String::from_utf8_lossy(user_agent).chars().take(MAX_USER_AGENT).collect();
        let is_uid = cluster.len() == 36 && cluster.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
        let cluster = if is_uid { String::from_utf8_lossy(cluster).into_owned() } else { String::new() };
        Self { user_agent, cluster }
    }
}

/// A token or identity that reports an environment from one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The name of the token, or `issuer/subject`.
    pub name: String,
    /// The sender of its last report.
    pub sender: Sender,
    /// Time of its first report.
    pub first_at: Timestamp,
    /// Time of its last report.
    pub last_at: Timestamp,
    /// Number of pods in its last report.
    pub pods: i64,
    /// Its latest reports.
    pub counts: ReportCounts,
}

/// Number of reports in an hour and in the hour before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportCounts {
    /// Hours since the epoch.
    pub hour: i64,
    /// Reports in this hour.
    pub reports: i64,
    /// Reports in the hour before.
    pub previous: i64,
}

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// The hour of a time, since the epoch.
#[must_use]
pub fn hour(at: Timestamp) -> i64 {
    at.micros().div_euclid(MICROS_PER_HOUR)
}

impl ReportCounts {
    /// One report.
    #[must_use]
    pub fn one(at: Timestamp) -> Self {
        Self { hour: hour(at), reports: 1, previous: 0 }
    }

    /// The counts of a later hour.
    fn at(self, hour: i64) -> Self {
        match hour - self.hour {
            ..=0 => self,
            1 => Self { hour, reports: 0, previous: self.reports },
            2.. => Self { hour, reports: 0, previous: 0 },
        }
    }

    /// The sum of both, in the later hour.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let hour = self.hour.max(other.hour);
        let (one, other) = (self.at(hour), other.at(hour));
        Self { hour, reports: one.reports + other.reports, previous: one.previous + other.previous }
    }

    /// The approximate number of reports in the last hour: those of this hour, and the share of those of the hour before
    /// that the rest of this hour would have.
    #[must_use]
    pub fn per_hour(self, now: Timestamp) -> i64 {
        let Self { reports, previous, .. } = self.at(hour(now));
        let rest = MICROS_PER_HOUR - now.micros().rem_euclid(MICROS_PER_HOUR);
        reports + (previous.saturating_mul(rest / 1_000_000) + 1_800) / 3_600
    }
}

impl Reporter {
    fn key(&self) -> (&str, &str) {
        (&self.name, &self.sender.cluster)
    }

    /// Whether another reporter overwrites its reports: both reported within `recently`, and each of them after the first
    /// report of the other. A replaced token is not overwritten. A cluster without an identity may be the same.
    #[must_use]
    pub fn is_overwritten(&self, all: &[Self], now: Timestamp, recently: Duration) -> bool {
        let is_recent = |reporter: &Self| now.since(reporter.last_at) <= recently;
        let is_other = |other: &Self| {
            let clusters = [&self.sender.cluster, &other.sender.cluster];
            self.name != other.name || clusters.iter().all(|cluster| !cluster.is_empty())
        };
        is_recent(self)
            && all.iter().any(|other| {
                other.key() != self.key()
                    && is_other(other)
                    && is_recent(other)
                    && self.last_at > other.first_at
                    && other.last_at > self.first_at
            })
    }
}

/// Adds a report to the reporters, which are in the order of their last reports, latest first. Returns the evicted reporter:
/// the oldest one of the name with the most clusters. A client can claim any number of clusters, and must not evict the
/// reporters of other names that way.
pub fn add_report(reporters: &mut Vec<Reporter>, mut report: Reporter) -> Option<Reporter> {
    if let Some(place) = reporters.iter().position(|known| known.key() == report.key()) {
        let known = reporters.remove(place);
        report.first_at = known.first_at;
        report.counts = known.counts.plus(report.counts);
    }
    reporters.insert(0, report);
    if reporters.len() <= MAX_REPORTERS {
        return None;
    }
    let clusters = |name: &str| reporters.iter().filter(|reporter| reporter.name == name).count();
    // The last maximum is the oldest.
    let (place, _) = reporters.iter().enumerate().max_by_key(|(_, reporter)| clusters(&reporter.name))?;
    Some(reporters.remove(place))
}

/// Version and command of this program in a `User-Agent` such as `supercargo/0.1.0 (agent)`; `None` for another program.
#[must_use]
pub fn version_and_command(user_agent: &str) -> Option<(&str, &str)> {
    let (version, command) = user_agent.strip_prefix("supercargo/")?.split_once(" (")?;
    Some((version, command.strip_suffix(')')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0c558854-1f14-4c86-ac4c-3f62f048bad0";
    const B: &str = "1c558854-1f14-4c86-ac4c-3f62f048bad0";

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_micros(minutes * 60_000_000)
    }

    fn reporter(name: &str, cluster: &str, first: i64, last: i64) -> Reporter {
        let sender = Sender::new(b"supercargo/0.1.0 (agent)", cluster.as_bytes());
        let (first_at, last_at, counts) = (at(first), at(last), ReportCounts::one(at(last)));
        Reporter { name: name.to_owned(), sender, first_at, last_at, pods: 1, counts }
    }

    #[test]
    fn reporters_that_alternate_overwrite_each_other() {
        for (one, other, expected) in [
            (reporter("a", A, 0, 99), reporter("b", B, 50, 98), true),
            (reporter("a", "", 0, 99), reporter("b", "", 50, 98), true),
            // One token in two clusters.
            (reporter("a", A, 0, 99), reporter("a", B, 50, 98), true),
            // The cluster may be the same.
            (reporter("a", A, 0, 99), reporter("a", "", 50, 98), false),
            // Another token replaced the first.
            (reporter("a", A, 0, 98), reporter("b", A, 98, 99), false),
            // One has stopped.
            (reporter("a", A, 0, 99), reporter("b", B, 50, 80), false),
        ] {
            let both = [one, other];
            let is_overwritten = |n: usize| both[n].is_overwritten(&both, at(100), Duration::from_mins(3));
            assert_eq!([is_overwritten(0), is_overwritten(1)], [expected; 2], "{both:?}");
        }
    }

    #[test]
    fn reports_are_counted_by_hour() {
        let counts = |reports, previous| ReportCounts { hour: 10, reports, previous };
        for (one, minutes, expected) in [
            (counts(60, 0), 660, 60),
            (counts(60, 0), 675, 45),
            (counts(15, 60), 615, 60),
            (counts(60, 60), 720, 0),
            // The clock was set back.
            (counts(60, 0), 570, 60),
        ] {
            assert_eq!(one.per_hour(at(minutes)), expected, "{one:?} {minutes}");
        }
        let next = ReportCounts { hour: 11, reports: 1, previous: 5 };
        assert_eq!(counts(7, 3).plus(next), ReportCounts { hour: 11, reports: 1, previous: 12 });
        assert_eq!(next.plus(counts(7, 3)), ReportCounts { hour: 11, reports: 1, previous: 12 });
    }

    #[test]
    fn report_keeps_the_first_time_and_the_oldest_reporter_is_dropped() {
        let mut reporters: Vec<_> = (0..20).rev().map(|n| reporter(&format!("r{n}"), "", n, n)).collect();
        assert_eq!(add_report(&mut reporters, reporter("r5", "", 30, 30)), None);
        let first = &reporters[0];
        assert_eq!((first.name.as_str(), first.first_at, first.counts.reports), ("r5", at(5), 2));
        let evicted = add_report(&mut reporters, reporter("new", "", 31, 31));
        assert_eq!(evicted, Some(reporter("r0", "", 0, 0)));
        let names: Vec<_> = reporters.iter().map(|reporter| reporter.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[1], names[19]), (20, "new", "r5", "r1"));
    }

    #[test]
    fn reporter_with_many_clusters_evicts_only_its_own_rows() {
        let mut reporters = vec![reporter("agent", A, 0, 1)];
        for n in 2..40 {
            let evicted =
                add_report(&mut reporters, reporter("other", &A.replacen("0c", &n.to_string(), 1), n, n));
            assert!(evicted.is_none_or(|evicted| evicted.name == "other"));
        }
        assert_eq!(reporters.len(), 20);
        let report = reporter("agent", A, 40, 40);
        assert_eq!(add_report(&mut reporters, report), None);
        assert_eq!((&*reporters[0].name, reporters[0].first_at), ("agent", at(0)));
        assert!(reporters[0].is_overwritten(&reporters, at(41), Duration::from_mins(3)));
    }

    #[test]
    fn sender_is_bounded_and_valid() {
        let sender = |cluster: &str| Sender::new(b"", cluster.as_bytes()).cluster;
        assert_eq!(
            [A, "", "x", A.trim_start_matches('0'), &A.replace('0', "<")].map(sender),
            [A, "", "", "", ""]
        );
        let long = Sender::new(&[b'\xff'; 300], b"").user_agent;
        assert_eq!(long, "\u{fffd}".repeat(200));
        for (user_agent, expected) in [
            ("supercargo/0.1.0 (agent)", Some(("0.1.0", "agent"))),
            ("supercargo/0.1.0", None),
            ("supercargo/0.1.0 (agent", None),
            ("curl/8.0 (agent)", None),
        ] {
            assert_eq!(version_and_command(user_agent), expected, "{user_agent}");
        }
    }
}
