//! Derives events from two statuses of an environment.
//!
//! Called in the transaction of every evaluation. Pure: status before and after in, events out.

use serde::{Deserialize, Serialize};

use super::compliance::Compliance;
use super::environment_status::{EnvironmentStatus, RunningArtifact};
use model::owner::Owner;
use model::reason::{Reason, RuleReference};
use model::{Fingerprint, Trigger};

/// An event of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusEvent {
    /// What changed.
    pub trigger: Trigger,
    /// The affected artifacts, at most [`MAX_ARTIFACTS`]; none if the environment became compliant.
    pub artifacts: Vec<AffectedArtifact>,
    /// Number of affected artifacts. Exceeds `artifacts` only if the environment became non-compliant, or runs too few
    /// artifacts.
    pub total: usize,
}

/// An artifact that an event affects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AffectedArtifact {
    /// SHA-256 digest, 64 lowercase hex digits.
    #[cfg_attr(feature = "openapi", schemars(with = "String", regex(pattern = r"^[a-f0-9]{64}$")))]
    pub fingerprint: Fingerprint,
    /// The image's name.
    pub name: String,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`.
    pub compliance: String,
    /// Why the artifact is not compliant.
    pub reasons: Vec<Reason>,
    /// Number of pods after the event.
    pub pods: i64,
    /// Number of pods before the event.
    pub pods_before: i64,
    /// The first owners of its pods at the event, or before it if the artifact exited, at most 10. Added when a
    /// notification is sent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub owners: Vec<NamespacedOwner>,
}

impl AffectedArtifact {
    /// The rules that it does not satisfy.
    pub fn rules(&self) -> impl Iterator<Item = &RuleReference> {
        self.reasons.iter().filter_map(|reason| reason.rule.as_ref())
    }
}

/// The owner of pods in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NamespacedOwner {
    /// The namespace.
    pub namespace: String,
    /// The owner.
    #[serde(flatten)]
    pub owner: Owner,
}

/// Maximum number of owners of an artifact in an event.
pub const MAX_OWNERS: usize = 10;

/// Limit for the artifacts of one event, so that it can be sent. More artifacts that start, exit, scale, are
/// allow-listed or not compliant become several events.
pub const MAX_ARTIFACTS: usize = 100;

/// The events between two statuses, in the interface's order of triggers.
#[must_use]
pub fn between(before: &EnvironmentStatus, after: &EnvironmentStatus) -> Vec<StatusEvent> {
    let affected =
        |(artifact, was, is): (&Fingerprint, Option<&RunningArtifact>, Option<&RunningArtifact>)| {
            let either = is.or(was)?;
            Some(AffectedArtifact {
                fingerprint: *artifact,
                name: either.reported.name.clone(),
                compliance: either.verdict.compliance.as_str().to_owned(),
                reasons: either.verdict.reasons.clone(),
                pods: is.map_or(0, |is| is.reported.pods),
                pods_before: was.map_or(0, |was| was.reported.pods),
                owners: Vec::new(),
            })
        };
    let gone = before.artifacts.keys().filter(|artifact| !after.artifacts.contains_key(artifact));
    let all = gone.chain(after.artifacts.keys());
    let all = all.map(|artifact| (artifact, before.artifacts.get(artifact), after.artifacts.get(artifact)));
    // An event affects artifacts that changed, except that of an environment which became non-compliant.
    let changed: Vec<_> = all.clone().filter(|(_, was, is)| was != is).collect();
    let is_allowed =
        |running: Option<&RunningArtifact>| running.is_some_and(|running| running.verdict.is_allowed);
    let is_failing = |running: Option<&RunningArtifact>| {
        running.is_some_and(|running| running.verdict.compliance == Compliance::NonCompliant)
    };
    let mut events = Vec::new();
    for trigger in Trigger::ALL {
        let affects = |was: Option<&RunningArtifact>, is: Option<&RunningArtifact>| match trigger {
            Trigger::StartedArtifact => was.is_none() && is.is_some(),
            Trigger::ExitedArtifact => was.is_some() && is.is_none(),
            Trigger::ScaledArtifact => {
                was.zip(is).is_some_and(|(was, is)| was.reported.pods != is.reported.pods)
            }
            Trigger::AllowedArtifact => !is_allowed(was) && is_allowed(is),
            Trigger::NonCompliantArtifact => !is_failing(was) && is_failing(is),
            // Of the environment, of the log, or of an action.
            Trigger::NonCompliantEnvironment
            | Trigger::CompliantEnvironment
            | Trigger::Checkpoint
            | Trigger::SilentEnvironment
            | Trigger::ReportingEnvironment
            | Trigger::Test => false,
        };
        let changed = changed.iter().copied().filter(|(_, was, is)| affects(*was, *is));
        let artifacts: Vec<AffectedArtifact> = changed.filter_map(affected).collect();
        events.extend(artifacts.chunks(MAX_ARTIFACTS).map(|chunk| StatusEvent {
            trigger,
            artifacts: chunk.to_vec(),
            total: chunk.len(),
        }));
    }
    if became(before, after, Compliance::NonCompliant) || before.absence.is_none() && after.absence.is_some()
    {
        let failing = all.filter(|(.., is)| is_failing(*is));
        let total = failing.clone().count();
        let artifacts = failing.take(MAX_ARTIFACTS).filter_map(affected).collect();
        events.push(StatusEvent { trigger: Trigger::NonCompliantEnvironment, artifacts, total });
    }
    if became(before, after, Compliance::Compliant) {
        events.push(StatusEvent { trigger: Trigger::CompliantEnvironment, artifacts: Vec::new(), total: 0 });
    }
    events
}

fn became(before: &EnvironmentStatus, after: &EnvironmentStatus, compliance: Compliance) -> bool {
    before.compliance != compliance && after.compliance == compliance
}

#[cfg(test)]
mod tests {
    use super::Compliance::{Compliant, NonCompliant, Unknown};
    use super::*;
    use crate::environment_status::{ReportedArtifact, Verdict};
    use model::reason::Code;

    fn artifact(n: usize) -> Fingerprint {
        Fingerprint::from_content(&n.to_be_bytes())
    }

    fn running(pods: i64, compliance: Compliance, is_allowed: bool) -> RunningArtifact {
        let verdict = Verdict { compliance, is_allowed, reasons: Vec::new() };
        let reported = ReportedArtifact { name: "cart:1".into(), pods, namespaces: vec![] };
        RunningArtifact { reported, verdict }
    }

    fn status(artifacts: &[RunningArtifact], compliance: Compliance) -> EnvironmentStatus {
        let artifacts = artifacts.iter().enumerate().map(|(n, is)| (artifact(n), is.clone())).collect();
        EnvironmentStatus { artifacts, compliance, absence: None }
    }

    fn triggers(before: &EnvironmentStatus, after: &EnvironmentStatus) -> Vec<(&'static str, usize)> {
        let events = between(before, after);
        events.iter().map(|event| (event.trigger.as_str(), event.artifacts.len())).collect()
    }

    /// Status before, cause of the change, status after, and the expected events.
    type Case<'a> = (
        &'a [RunningArtifact],
        Compliance,
        &'a str,
        &'a [RunningArtifact],
        Compliance,
        &'a [(&'a str, usize)],
    );

    const STARTED: &str = "ON_STARTED_ARTIFACT";
    const EXITED: &str = "ON_EXITED_ARTIFACT";
    const SCALED: &str = "ON_SCALED_ARTIFACT";
    const ALLOWED: &str = "ON_ALLOWED_ARTIFACT";
    const FAILING: &str = "ON_NON_COMPLIANT_ARTIFACT";
    const NON_COMPLIANT: &str = "ON_NON_COMPLIANT_ENV";
    const COMPLIANT: &str = "ON_COMPLIANT_ENV";

    fn check(cases: &[Case<'_>]) {
        for (before, compliance_before, cause, after, compliance_after, expected) in cases {
            let (before, after) = (status(before, *compliance_before), status(after, *compliance_after));
            assert_eq!(triggers(&before, &after), *expected, "{cause}");
        }
    }

    #[test]
    fn report_triggers_artifact_and_compliance_events() {
        let [good, bad, allowed, unknown] = artifacts();
        let (more, more_bad) = (running(3, Compliant, false), running(3, NonCompliant, false));
        let both = [good.clone(), bad.clone()];
        let both_bad = [bad.clone(), bad.clone()];
        let [good, bad, allowed, unknown] = [&[good][..], &[bad], &[allowed], &[unknown]];
        check(&[
            (&[], Unknown, "the first, no policy", unknown, Unknown, &[(STARTED, 1)]),
            (&[], Unknown, "the first, compliant", good, Compliant, &[(STARTED, 1), (COMPLIANT, 0)]),
            (
                &[],
                Unknown,
                "the first, not compliant",
                &both,
                NonCompliant,
                &[(STARTED, 2), (FAILING, 1), (NON_COMPLIANT, 1)],
            ),
            (
                good,
                Compliant,
                "one more, failing",
                &both,
                NonCompliant,
                &[(STARTED, 1), (FAILING, 1), (NON_COMPLIANT, 1)],
            ),
            (
                bad,
                NonCompliant,
                "one more that fails",
                &both_bad,
                NonCompliant,
                &[(STARTED, 1), (FAILING, 1)],
            ),
            (bad, NonCompliant, "more pods of a failing one", &[more_bad], NonCompliant, &[(SCALED, 1)]),
            (&both, NonCompliant, "a rollback", good, Compliant, &[(EXITED, 1), (COMPLIANT, 0)]),
            (&[], Compliant, "an allow-listed one", allowed, Compliant, &[(STARTED, 1), (ALLOWED, 1)]),
            (good, Compliant, "more pods", &[more], Compliant, &[(SCALED, 1)]),
            (&both, NonCompliant, "the same", &both, NonCompliant, &[]),
        ]);
    }

    #[test]
    fn evidence_allow_list_policy_and_time_trigger_compliance_events() {
        let [good, bad, allowed, unknown] = artifacts();
        let both = [good.clone(), bad.clone()];
        let both_bad = [bad.clone(), bad.clone()];
        let [good, bad, allowed, unknown] = [&[good][..], &[bad], &[allowed], &[unknown]];
        check(&[
            (
                good,
                Compliant,
                "an attestation that fails",
                bad,
                NonCompliant,
                &[(FAILING, 1), (NON_COMPLIANT, 1)],
            ),
            (&both, NonCompliant, "one more that fails", &both_bad, NonCompliant, &[(FAILING, 1)]),
            (bad, NonCompliant, "one that passes", good, Compliant, &[(COMPLIANT, 0)]),
            (bad, NonCompliant, "an approval", good, Compliant, &[(COMPLIANT, 0)]),
            (&both_bad, NonCompliant, "one of two that are missing", &both, NonCompliant, &[]),
            (bad, NonCompliant, "the allow-list", allowed, Compliant, &[(ALLOWED, 1), (COMPLIANT, 0)]),
            (good, Compliant, "the allow-list, not needed", allowed, Compliant, &[(ALLOWED, 1)]),
            (allowed, Compliant, "its end", bad, NonCompliant, &[(FAILING, 1), (NON_COMPLIANT, 1)]),
            (unknown, Unknown, "a policy that is fulfilled", good, Compliant, &[(COMPLIANT, 0)]),
            (
                unknown,
                Unknown,
                "a policy that is not",
                bad,
                NonCompliant,
                &[(FAILING, 1), (NON_COMPLIANT, 1)],
            ),
            (bad, NonCompliant, "a policy's end", unknown, Unknown, &[]),
        ]);
    }

    #[test]
    fn beginning_and_end_of_an_absence_trigger_compliance_events() {
        let [good, bad, ..] = artifacts();
        let absent = |artifacts: &[RunningArtifact], compliance| EnvironmentStatus {
            absence: Some(Code::TooFewArtifacts { artifacts: 0, min_artifacts: 1 }.into()),
            ..status(artifacts, compliance)
        };
        for (before, after, expected) in [
            (status(&[], Compliant), absent(&[], Unknown), &[(NON_COMPLIANT, 0)][..]),
            (status(&[], Unknown), absent(&[], Unknown), &[(NON_COMPLIANT, 0)]),
            (absent(&[], Unknown), absent(&[], Unknown), &[]),
            (absent(&[], Unknown), status(&[], Compliant), &[(COMPLIANT, 0)]),
            (
                status(&[bad.clone(), good], NonCompliant),
                absent(&[bad], NonCompliant),
                &[(EXITED, 1), (NON_COMPLIANT, 1)],
            ),
        ] {
            assert_eq!(triggers(&before, &after), expected, "{before:?} {after:?}");
        }
    }

    /// A compliant, a non-compliant and an allow-listed artifact, and one without a policy.
    fn artifacts() -> [RunningArtifact; 4] {
        let running = |(compliance, is_allowed)| running(1, compliance, is_allowed);
        [(Compliant, false), (NonCompliant, false), (Compliant, true), (Unknown, false)].map(running)
    }

    #[test]
    fn event_has_pod_counts_before_and_after() {
        let (before, after) = (
            status(&[running(2, Compliant, false)], Compliant),
            status(&[running(5, Compliant, false)], Compliant),
        );
        let pods = |before: &EnvironmentStatus, after: &EnvironmentStatus| {
            let events = between(before, after);
            events.iter().flat_map(|e| &e.artifacts).map(|a| (a.pods_before, a.pods)).collect::<Vec<_>>()
        };
        assert_eq!(pods(&before, &after), [(2, 5)]);
        assert_eq!(pods(&status(&[], Compliant), &after), [(0, 5)]);
        assert_eq!(pods(&after, &status(&[], Compliant)), [(5, 0)]);
    }

    #[test]
    fn artifacts_above_the_limit_become_several_events_but_compliance_changes_once() {
        let many = vec![running(1, NonCompliant, false); 2 * MAX_ARTIFACTS + 1];
        let events = between(&status(&[], Unknown), &status(&many, NonCompliant));
        let sizes: Vec<_> = events.iter().map(|e| (e.trigger, e.artifacts.len(), e.total)).collect();
        let started = |n| (Trigger::StartedArtifact, n, n);
        let failing = |n| (Trigger::NonCompliantArtifact, n, n);
        let became = (Trigger::NonCompliantEnvironment, MAX_ARTIFACTS, 2 * MAX_ARTIFACTS + 1);
        let [max, rest] = [MAX_ARTIFACTS, 1];
        let expected = [started(max), started(max), started(rest), failing(max), failing(max), failing(rest)];
        assert_eq!(sizes, [&expected[..], &[became]].concat());
    }
}
