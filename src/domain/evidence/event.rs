//! Events: what happened between how an environment stood and how it stands.
//!
//! The service asks in the transaction that changed something, whatever that was: a report, an attestation,
//! an approval, the allow-list, a policy, or the time. Pure: both standings in, events out.

use serde::{Deserialize, Serialize};

use super::compliance::Compliance;
use super::environment_status::{Running, Standing};
use crate::domain::model::{Fingerprint, Trigger};

/// Something that happened in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub trigger: Trigger,
    /// To which artifacts: at most [`MOST`], and none where a whole environment became compliant.
    pub artifacts: Vec<Concerned>,
    /// How many artifacts it is about: more than those only where an environment became non-compliant.
    pub total: usize,
}

/// An artifact that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
pub struct Concerned {
    /// Its SHA-256, 64 lowercase hex digits.
    #[cfg_attr(feature = "service", schemars(with = "String", regex(pattern = r"^[a-f0-9]{64}$")))]
    pub fingerprint: Fingerprint,
    /// The image's name.
    pub name: String,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`.
    pub compliance: String,
    /// What keeps it from being compliant.
    pub reasons: Vec<String>,
    /// In how many pods it runs.
    pub pods: i64,
    /// In how many it did; `null` where that was not counted.
    pub pods_before: Option<i64>,
}

/// How many artifacts one event names at most, so that it can be sent: of those that start, exit, scale or are
/// allowed, more are several events.
pub const MOST: usize = 100;

/// What happened from one standing to the next, in the interface's order of triggers.
#[must_use]
pub fn between(before: &Standing, after: &Standing) -> Vec<Event> {
    let concerned = |artifact: &Fingerprint| {
        let (was, is) = (before.artifacts.get(artifact), after.artifacts.get(artifact));
        let shown = is.or(was)?;
        Some(Concerned {
            fingerprint: *artifact,
            name: shown.name.clone(),
            compliance: shown.verdict.compliance.as_str().to_owned(),
            reasons: shown.verdict.reasons.clone(),
            pods: is.map_or(0, |is| is.pods.unwrap_or_default()),
            pods_before: was.map_or(Some(0), |was| was.pods),
        })
    };
    let of = |trigger: Trigger| -> Vec<Concerned> {
        let gone = before.artifacts.keys().filter(|artifact| !after.artifacts.contains_key(artifact));
        let artifacts = gone.chain(after.artifacts.keys()).filter(|artifact| {
            concerns(trigger, before.artifacts.get(artifact), after.artifacts.get(artifact))
        });
        artifacts.filter_map(concerned).collect()
    };
    let mut events = Vec::new();
    for trigger in Trigger::ALL {
        match trigger {
            Trigger::NonCompliantEnvironment if became(before, after, Compliance::NonCompliant) => {
                let mut artifacts = of(trigger);
                let total = artifacts.len();
                artifacts.truncate(MOST);
                events.push(Event { trigger, artifacts, total });
            }
            Trigger::CompliantEnvironment if became(before, after, Compliance::Compliant) => {
                events.push(Event { trigger, artifacts: Vec::new(), total: 0 });
            }
            Trigger::NonCompliantEnvironment | Trigger::CompliantEnvironment => {}
            _ => events.extend(of(trigger).chunks(MOST).map(|artifacts| Event {
                trigger,
                artifacts: artifacts.to_vec(),
                total: artifacts.len(),
            })),
        }
    }
    events
}

fn became(before: &Standing, after: &Standing, word: Compliance) -> bool {
    before.compliance != word && after.compliance == word
}

/// Whether a trigger's event is about an artifact, by how it ran and how it runs.
fn concerns(trigger: Trigger, was: Option<&Running>, is: Option<&Running>) -> bool {
    let allowed = |running: Option<&Running>| running.is_some_and(|running| running.verdict.is_allowed);
    match trigger {
        Trigger::StartedArtifact => was.is_none() && is.is_some(),
        Trigger::ExitedArtifact => was.is_some() && is.is_none(),
        Trigger::ScaledArtifact => match (was.and_then(|was| was.pods), is.and_then(|is| is.pods)) {
            (Some(before), Some(after)) => before != after,
            _ => false,
        },
        Trigger::AllowedArtifact => !allowed(was) && allowed(is),
        Trigger::NonCompliantEnvironment => {
            is.is_some_and(|is| is.verdict.compliance == Compliance::NonCompliant)
        }
        Trigger::CompliantEnvironment => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Compliance::{Compliant, NonCompliant, Unknown};
    use super::*;
    use crate::domain::evidence::environment_status::Verdict;

    fn artifact(n: usize) -> Fingerprint {
        Fingerprint::of(&n.to_be_bytes())
    }

    fn running(pods: i64, compliance: Compliance, is_allowed: bool) -> Running {
        let verdict = Verdict { compliance, is_allowed, reasons: Vec::new() };
        Running { name: "cart:1".into(), pods: Some(pods), verdict }
    }

    fn standing(artifacts: &[Running], compliance: Compliance) -> Standing {
        let artifacts = artifacts.iter().enumerate().map(|(n, is)| (artifact(n), is.clone())).collect();
        Standing { artifacts, compliance }
    }

    fn words(before: &Standing, after: &Standing) -> Vec<(&'static str, usize)> {
        let events = between(before, after);
        events.iter().map(|event| (event.trigger.as_str(), event.artifacts.len())).collect()
    }

    /// How it stood, what caused a change, how it stands, and what that is told as.
    type Case<'a> = (&'a [Running], Compliance, &'a str, &'a [Running], Compliance, &'a [(&'a str, usize)]);

    const STARTED: &str = "ON_STARTED_ARTIFACT";
    const EXITED: &str = "ON_EXITED_ARTIFACT";
    const SCALED: &str = "ON_SCALED_ARTIFACT";
    const ALLOWED: &str = "ON_ALLOWED_ARTIFACT";
    const ILL: &str = "ON_NON_COMPLIANT_ENV";
    const WELL: &str = "ON_COMPLIANT_ENV";

    fn hold(cases: &[Case<'_>]) {
        for (before, stood, cause, after, stands, expected) in cases {
            assert_eq!(words(&standing(before, *stood), &standing(after, *stands)), *expected, "{cause}");
        }
    }

    #[test]
    fn a_report_starts_exits_and_scales_artifacts_and_may_change_how_it_stands() {
        let [good, bad, free, plain] = artifacts();
        let (more, uncounted) = (running(3, Compliant, false), Running { pods: None, ..good.clone() });
        let both = [good.clone(), bad.clone()];
        let ills = [bad.clone(), bad.clone()];
        let [good, bad, free, plain] = [&[good][..], &[bad], &[free], &[plain]];
        hold(&[
            (&[], Unknown, "the first, no policy", plain, Unknown, &[(STARTED, 1)]),
            (&[], Unknown, "the first, compliant", good, Compliant, &[(STARTED, 1), (WELL, 0)]),
            (&[], Unknown, "the first, not compliant", &both, NonCompliant, &[(STARTED, 2), (ILL, 1)]),
            (good, Compliant, "one more, failing", &both, NonCompliant, &[(STARTED, 1), (ILL, 1)]),
            (bad, NonCompliant, "one more that fails", &ills, NonCompliant, &[(STARTED, 1)]),
            (&both, NonCompliant, "a rollback", good, Compliant, &[(EXITED, 1), (WELL, 0)]),
            (&[], Compliant, "an allow-listed one", free, Compliant, &[(STARTED, 1), (ALLOWED, 1)]),
            (good, Compliant, "more pods", &[more], Compliant, &[(SCALED, 1)]),
            (&[uncounted], Compliant, "pods that were not counted", good, Compliant, &[]),
            (&both, NonCompliant, "the same", &both, NonCompliant, &[]),
        ]);
    }

    #[test]
    fn evidence_the_allow_list_a_policy_and_time_change_how_it_stands() {
        let [good, bad, free, plain] = artifacts();
        let both = [good.clone(), bad.clone()];
        let ills = [bad.clone(), bad.clone()];
        let [good, bad, free, plain] = [&[good][..], &[bad], &[free], &[plain]];
        hold(&[
            (good, Compliant, "an attestation that fails", bad, NonCompliant, &[(ILL, 1)]),
            (bad, NonCompliant, "one that passes", good, Compliant, &[(WELL, 0)]),
            (bad, NonCompliant, "an approval", good, Compliant, &[(WELL, 0)]),
            (&ills, NonCompliant, "one of two that are missing", &both, NonCompliant, &[]),
            (bad, NonCompliant, "the allow-list", free, Compliant, &[(ALLOWED, 1), (WELL, 0)]),
            (good, Compliant, "the allow-list, not needed", free, Compliant, &[(ALLOWED, 1)]),
            (free, Compliant, "its end", bad, NonCompliant, &[(ILL, 1)]),
            (plain, Unknown, "a policy that is fulfilled", good, Compliant, &[(WELL, 0)]),
            (plain, Unknown, "a policy that is not", bad, NonCompliant, &[(ILL, 1)]),
            (bad, NonCompliant, "a policy's end", plain, Unknown, &[]),
        ]);
    }

    /// One that complies, one that does not, one that is allow-listed, and one without a policy.
    fn artifacts() -> [Running; 4] {
        let running = |(compliance, is_allowed)| running(1, compliance, is_allowed);
        [(Compliant, false), (NonCompliant, false), (Compliant, true), (Unknown, false)].map(running)
    }

    #[test]
    fn an_event_says_how_many_pods_there_were_and_are() {
        let (before, after) = (
            standing(&[running(2, Compliant, false)], Compliant),
            standing(&[running(5, Compliant, false)], Compliant),
        );
        let pods = |before: &Standing, after: &Standing| {
            let events = between(before, after);
            events.iter().flat_map(|e| &e.artifacts).map(|a| (a.pods_before, a.pods)).collect::<Vec<_>>()
        };
        assert_eq!(pods(&before, &after), [(Some(2), 5)]);
        assert_eq!(pods(&standing(&[], Compliant), &after), [(Some(0), 5)]);
        assert_eq!(pods(&after, &standing(&[], Compliant)), [(Some(5), 0)]);
    }

    #[test]
    fn many_artifacts_are_several_events_but_an_environment_changes_once() {
        let many = vec![running(1, NonCompliant, false); 2 * MOST + 1];
        let events = between(&standing(&[], Unknown), &standing(&many, NonCompliant));
        let sizes: Vec<_> = events.iter().map(|e| (e.trigger, e.artifacts.len(), e.total)).collect();
        let started = |n| (Trigger::StartedArtifact, n, n);
        let became = (Trigger::NonCompliantEnvironment, MOST, 2 * MOST + 1);
        assert_eq!(sizes, [started(MOST), started(MOST), started(1), became]);
    }
}
