//! The summary line of a report.

use std::fmt;
use std::time::Duration;

use crate::live::live_set::Tally;
use client::Accepted;
use model::escape::Escaped;
use model::{EnvironmentName, pluralize};

/// The result of a report that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportOutcome {
    /// Written to standard output: `--dry-run`.
    Printed,
    Accepted(Accepted),
}

/// A completed report; `Display` is the log message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub environment: EnvironmentName,
    pub outcome: ReportOutcome,
    /// Number of artifacts in the report, including departed pods.
    pub artifacts: usize,
    /// Counts of running pods, and of pods and containers left out.
    pub tally: Tally,
    /// Single run: time since its start. Daemon: duration of the upload.
    pub took: Duration,
}

impl Summary {
    fn departed(&self) -> u64 {
        (self.artifacts as u64).saturating_sub(self.tally.artifacts)
    }

    pub(super) fn log(&self) {
        tracing::info!(
            environment = self.environment.as_str(),
            pods = self.artifacts,
            departed = self.departed(),
            outcome = self.outcome.as_str(),
            left_out = left_out(&self.tally),
            config_digests = self.tally.config_digests,
            seconds = self.took.as_secs_f64(),
            "{self}",
        );
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let environment = Escaped(self.environment.as_str());
        let pods = pluralize(self.artifacts as u64, "pod");
        let departed = match self.departed() {
            0 => String::new(),
            departed => format!(" ({departed} departed)"),
        };
        let (outcome, seconds) = (self.outcome.as_str(), self.took.as_secs_f64());
        write!(f, "{environment}: {pods}{departed} {outcome} ({seconds:.1} s)")?;
        let left_out = left_out(&self.tally);
        if left_out.is_empty() { Ok(()) } else { write!(f, "; left out: {left_out}") }
    }
}

impl ReportOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Printed => "printed, not sent",
            Self::Accepted(Accepted::NewSnapshot) => "reported, new snapshot",
            Self::Accepted(Accepted::Unchanged) => "reported, unchanged",
            Self::Accepted(Accepted::Unspecified) => "reported",
        }
    }
}

/// The pods and containers left out, such as `2 pods ended, 1 container not started`.
fn left_out(tally: &Tally) -> String {
    let pods =
        tally.skipped_pods.iter().map(|(why, n)| format!("{} {}", pluralize(*n, "pod"), why.description()));
    let containers = tally
        .skipped_containers
        .iter()
        .map(|(why, n)| format!("{} {}", pluralize(*n, "container"), why.description()));
    pods.chain(containers).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::collapse::{ContainerSkip, PodSkip};

    #[test]
    fn pods_and_containers_left_out_are_listed_by_reason() {
        assert_eq!(left_out(&Tally::default()), "");
        let tally = Tally {
            skipped_pods: [(PodSkip::Ended, 2), (PodSkip::NoDigest, 1)].into(),
            skipped_containers: [(ContainerSkip::NotStarted, 1)].into(),
            ..Default::default()
        };
        assert_eq!(left_out(&tally), "2 pods ended, 1 pod without a SHA-256 digest, 1 container not started");
    }
}
