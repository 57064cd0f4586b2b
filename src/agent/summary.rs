//! What happened to one environment, in one line.

use std::time::Duration;

use crate::api::Accepted;
use crate::domain::model::EnvironmentName;
use crate::domain::roster::Tally;
use crate::domain::visible::Visible;

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Printed,
    Accepted(Accepted),
}

/// Logs the line: a sentence for people, with the same as fields for machines.
pub(super) fn log(
    environment: &EnvironmentName,
    outcome: Outcome,
    artifacts: usize,
    tally: &Tally,
    took: Duration,
) {
    let said = match outcome {
        Outcome::Printed => "printed, not sent",
        Outcome::Accepted(Accepted::NewSnapshot) => "reported, new snapshot",
        Outcome::Accepted(Accepted::Unchanged) => "reported, unchanged",
        Outcome::Accepted(Accepted::Unsaid) => "reported",
    };
    let left_out = left_out(tally);
    tracing::info!(
        environment = environment.as_str(),
        artifacts,
        outcome = said,
        left_out,
        config_digests = tally.config_digests,
        seconds = took.as_secs_f64(),
        "{}: {} {said} ({:.1} s){}{left_out}",
        Visible(environment.as_str()),
        counted(artifacts as u64, "artifact"),
        took.as_secs_f64(),
        if left_out.is_empty() { "" } else { "; left out: " },
    );
}

/// `2 pods ended, 1 container not started`; empty where nothing was left out.
fn left_out(tally: &Tally) -> String {
    let pods = tally.skipped_pods.iter().map(|(why, n)| format!("{} {why}", counted(*n, "pod")));
    let containers =
        tally.skipped_containers.iter().map(|(why, n)| format!("{} {why}", counted(*n, "container")));
    pods.chain(containers).collect::<Vec<_>>().join(", ")
}

fn counted(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::collapse::{ContainerSkip, PodSkip};

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
