//! What happened to one environment, in one line.

use std::fmt;
use std::time::Duration;

use crate::api::Accepted;
use crate::domain::escape::Visible;
use crate::domain::live::live_set::Tally;
use crate::domain::model::EnvironmentName;

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was printed: `--dry-run`.
    Printed,
    /// The service has it.
    Accepted(Accepted),
}

/// What was reported of an environment; shown as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Which.
    pub environment: EnvironmentName,
    /// What became of the report.
    pub outcome: Outcome,
    /// How many artifacts it held.
    pub artifacts: usize,
    /// What was seen, and left out.
    pub tally: Tally,
    /// How long it took, from the first look at the pods.
    pub took: Duration,
}

impl Summary {
    /// How many artifacts it held of what came and went since the last report.
    fn gone(&self) -> u64 {
        (self.artifacts as u64).saturating_sub(self.tally.artifacts)
    }

    /// Logs the sentence, with the same as fields for machines.
    pub(super) fn log(&self) {
        tracing::info!(
            environment = self.environment.as_str(),
            artifacts = self.artifacts,
            came_and_went = self.gone(),
            outcome = self.outcome.said(),
            left_out = left_out(&self.tally),
            config_digests = self.tally.config_digests,
            seconds = self.took.as_secs_f64(),
            "{self}",
        );
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let environment = Visible(self.environment.as_str());
        let artifacts = counted(self.artifacts as u64, "artifact");
        let gone = match self.gone() {
            0 => String::new(),
            gone => format!(" ({gone} of them came and went)"),
        };
        let (said, seconds) = (self.outcome.said(), self.took.as_secs_f64());
        write!(f, "{environment}: {artifacts}{gone} {said} ({seconds:.1} s)")?;
        let left_out = left_out(&self.tally);
        if left_out.is_empty() { Ok(()) } else { write!(f, "; left out: {left_out}") }
    }
}

impl Outcome {
    fn said(self) -> &'static str {
        match self {
            Self::Printed => "printed, not sent",
            Self::Accepted(Accepted::NewSnapshot) => "reported, new snapshot",
            Self::Accepted(Accepted::Unchanged) => "reported, unchanged",
            Self::Accepted(Accepted::Unsaid) => "reported",
        }
    }
}

/// `2 pods ended, 1 container not started`; empty where nothing was left out.
fn left_out(tally: &Tally) -> String {
    let pods = tally.skipped_pods.iter().map(|(why, n)| format!("{} {why}", counted(*n, "pod")));
    let containers =
        tally.skipped_containers.iter().map(|(why, n)| format!("{} {why}", counted(*n, "container")));
    pods.chain(containers).collect::<Vec<_>>().join(", ")
}

/// `1 pod`, `2 pods`.
pub(crate) fn counted(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::live::collapse::{ContainerSkip, PodSkip};

    #[test]
    fn what_was_left_out_is_said_with_its_reason_and_nothing_else() {
        assert_eq!(left_out(&Tally::default()), "");
        let tally = Tally {
            skipped_pods: [(PodSkip::Ended, 2), (PodSkip::NoDigest, 1)].into(),
            skipped_containers: [(ContainerSkip::NotStarted, 1)].into(),
            ..Default::default()
        };
        assert_eq!(left_out(&tally), "2 pods ended, 1 pod without a SHA-256 digest, 1 container not started");
    }
}
