//! Verdicts: whether an attestation passes, and whether a trail is as its flow expects.
//!
//! The service asks when it records an attestation and when it shows a trail. Time is an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::model::{
    ArtifactStatus, AttestationStatus, ComplianceStatus, JunitResult, Required, Template, Timestamp,
};

/// Whether test results pass: at least one result, a total above zero, and no failure or error.
#[must_use]
pub fn passes(results: &[JunitResult]) -> bool {
    results.iter().any(|result| result.total > 0)
        && results.iter().all(|result| result.failures == 0 && result.errors == 0)
}

/// An attestation that may be the latest of its name: no later one has its very name and targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latest {
    /// Its identifier.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// The one before, of the same name and targets.
    pub overrides: Option<String>,
    /// Whether it passes.
    pub passes: bool,
    /// The artifacts of the template that it is about; none for the trail itself.
    pub targets: BTreeSet<String>,
}

/// Whether a trail is as its flow expects, by the latest attestation of each name for the trail and for
/// each artifact of the template; `attestations` are in the order in which they were received. With a
/// template: every entry is there and passes, and what it does not ask for is `unexpected`, whatever it says.
/// Without one: there is at least one attestation, and all pass.
#[must_use]
pub fn trail(template: Option<&Template>, attestations: &[Latest], now: Timestamp) -> ComplianceStatus {
    let required = template.map(|template| &template.body);
    let mut concerned = latest_of_each_name(attestations);
    let declared: BTreeMap<&str, &[Required]> = required
        .iter()
        .flat_map(|body| &body.artifacts)
        .map(|artifact| (artifact.name.as_str(), artifact.attestations.as_slice()))
        .collect();

    let of_trail = concerned.remove(&None).unwrap_or_default();
    let attestations_statuses = statuses(required.map(|body| body.attestations.as_slice()), of_trail);
    let targets = concerned.keys().copied().flatten().chain(declared.keys().copied());
    let artifacts: BTreeSet<&str> = targets.collect();
    let artifacts_statuses: BTreeMap<String, ArtifactStatus> = artifacts
        .into_iter()
        .map(|name| {
            let required = required.map(|_| declared.get(name).copied().unwrap_or_default());
            let counting = concerned.remove(&Some(name)).unwrap_or_default();
            let attestations_statuses = statuses(required, counting);
            let is_compliant = all_expected_pass(&attestations_statuses);
            (name.to_owned(), ArtifactStatus { is_compliant, attestations_statuses })
        })
        .collect();
    let is_compliant = all_expected_pass(&attestations_statuses)
        && artifacts_statuses.values().all(|artifact| artifact.is_compliant)
        && (template.is_some() || !attestations.is_empty());
    ComplianceStatus {
        is_compliant,
        attestations_statuses,
        artifacts_statuses,
        evaluated_at: now,
        flow_template_id: template.map(|template| template.id.clone()),
    }
}

/// An attestation, and the one that it takes the place of.
type Counting<'a> = (&'a Latest, Option<&'a str>);

/// What counts for the trail itself (`None`) and for each artifact of the template, in the order of their names'
/// first attestations.
fn latest_of_each_name(attestations: &[Latest]) -> BTreeMap<Option<&str>, Vec<Counting<'_>>> {
    let mut counting: BTreeMap<Option<&str>, Vec<Counting<'_>>> = BTreeMap::new();
    let mut places: HashMap<(Option<&str>, &str), usize> = HashMap::new();
    for attestation in attestations {
        let of_trail = attestation.targets.is_empty().then_some(None);
        for target in of_trail.into_iter().chain(attestation.targets.iter().map(|name| Some(name.as_str()))) {
            let of_target = counting.entry(target).or_default();
            let own = attestation.overrides.as_deref();
            let place = *places.entry((target, attestation.name.as_str())).or_insert(of_target.len());
            match of_target.get_mut(place) {
                // Identifiers grow with time (RFC 9562, section 5.7).
                Some(earlier) => *earlier = (attestation, own.max(Some(earlier.0.id.as_str()))),
                None => of_target.push((attestation, own)),
            }
        }
    }
    counting
}

fn all_expected_pass(statuses: &[AttestationStatus]) -> bool {
    statuses.iter().all(|status| status.is_compliant || status.unexpected)
}

/// What is required, in its order, then the rest; `required` is `None` where nothing can be
/// unexpected, since there is no template.
fn statuses(required: Option<&[Required]>, mut rest: Vec<Counting<'_>>) -> Vec<AttestationStatus> {
    let mut statuses = Vec::new();
    for entry in required.unwrap_or_default() {
        let found = rest.iter().position(|(a, _)| entry.is(&a.name, &a.kind));
        statuses.push(match found.map(|n| rest.remove(n)) {
            Some(attestation) => present(attestation, false),
            None => AttestationStatus {
                attestation_name: entry.name.clone(),
                attestation_type: entry.kind.clone(),
                attestation_id: None,
                overridden_attestation_id: None,
                is_compliant: false,
                unexpected: false,
            },
        });
    }
    statuses.extend(rest.into_iter().map(|attestation| present(attestation, required.is_some())));
    statuses
}

fn present((attestation, overridden): Counting<'_>, unexpected: bool) -> AttestationStatus {
    AttestationStatus {
        attestation_name: attestation.name.clone(),
        attestation_type: attestation.kind.clone(),
        attestation_id: Some(attestation.id.clone()),
        overridden_attestation_id: overridden.map(str::to_owned),
        is_compliant: attestation.passes,
        unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::{RequiredArtifact, TemplateBody, Text};

    fn result(total: u32, failures: u32, errors: u32, skipped: u32) -> JunitResult {
        JunitResult {
            name: Text::default(),
            failures,
            errors,
            skipped,
            total,
            duration: None,
            timestamp: None,
        }
    }

    fn latest(name: &str, passes: bool, targets: &[&str]) -> Latest {
        Latest {
            id: format!("id of {name}"),
            name: name.to_owned(),
            kind: "junit".to_owned(),
            overrides: None,
            passes,
            targets: targets.iter().map(|&t| t.to_owned()).collect(),
        }
    }

    fn required(name: &str, kind: &str) -> Required {
        Required { name: name.to_owned(), kind: kind.to_owned() }
    }

    fn template(attestations: &[Required], web: &[Required]) -> Template {
        let artifacts = if web.is_empty() {
            vec![]
        } else {
            vec![RequiredArtifact { name: "web".to_owned(), attestations: web.to_vec() }]
        };
        Template {
            id: "t".to_owned(),
            version: 1,
            body: TemplateBody { attestations: attestations.to_vec(), artifacts },
        }
    }

    #[test]
    fn an_attestation_passes_with_tests_and_without_failures_or_errors() {
        for (results, expected) in [
            (vec![], false),
            (vec![result(0, 0, 0, 0)], false),
            (vec![result(3, 0, 0, 0)], true),
            (vec![result(3, 0, 0, 3)], true),
            (vec![result(3, 1, 0, 0)], false),
            (vec![result(3, 0, 1, 0)], false),
            (vec![result(0, 0, 0, 0), result(3, 0, 0, 0)], true),
            (vec![result(3, 0, 0, 0), result(0, 0, 1, 0)], false),
        ] {
            assert_eq!(passes(&results), expected, "{results:?}");
        }
    }

    #[test]
    fn without_a_template_a_trail_needs_an_attestation_and_all_of_them_passing() {
        let verdict = |latest: &[Latest]| trail(None, latest, Timestamp::from_micros(0)).is_compliant;
        assert!(!verdict(&[]));
        assert!(verdict(&[latest("unit", true, &[])]));
        assert!(!verdict(&[latest("unit", true, &[]), latest("e2e", false, &[])]));
        assert!(!verdict(&[latest("unit", true, &[]), latest("e2e", false, &["web"])]));
    }

    #[test]
    fn with_a_template_every_entry_is_there_and_passes_and_the_rest_is_unexpected() {
        let template = template(&[required("unit", "junit")], &[required("e2e", "*")]);
        let verdict = |latest: &[Latest]| trail(Some(&template), latest, Timestamp::from_micros(0));
        let complete = [latest("unit", true, &[]), latest("e2e", true, &["web"]), latest("lint", false, &[])];
        let status = verdict(&complete);
        assert!(status.is_compliant, "{status:#?}");
        assert!(status.attestations_statuses[1].unexpected);
        // Missing, failed, and about something else.
        assert!(!verdict(&complete[..1]).is_compliant);
        assert!(!verdict(&[latest("unit", false, &[]), latest("e2e", true, &["web"])]).is_compliant);
        let elsewhere = verdict(&[latest("unit", true, &[]), latest("e2e", true, &[])]);
        assert!(!elsewhere.is_compliant);
        let missing = &elsewhere.artifacts_statuses["web"].attestations_statuses[0];
        assert_eq!((missing.attestation_type.as_str(), missing.attestation_id.as_deref()), ("*", None));
    }

    #[test]
    fn a_later_attestation_of_some_of_the_targets_counts_for_those() {
        let web = template(&[], &[required("e2e", "junit")]);
        let attestation = |n: u8, passes: bool, targets: &[&str]| Latest {
            id: n.to_string(),
            ..latest("e2e", passes, targets)
        };
        let (both, alone) = (attestation(1, true, &["api", "web"]), attestation(2, false, &["web"]));
        for template in [None, Some(&web)] {
            let status = trail(template, &[both.clone(), alone.clone()], Timestamp::from_micros(0));
            assert!(!status.is_compliant, "{status:#?}");
            let web = &status.artifacts_statuses["web"].attestations_statuses[0];
            assert_eq!(web.attestation_id.as_deref(), Some("2"));
            assert_eq!(web.overridden_attestation_id.as_deref(), Some("1"));
            assert!(status.artifacts_statuses["api"].is_compliant);
        }
        // And a failure is over once each of its targets has passed.
        let failed = attestation(1, false, &["api", "web"]);
        let mended = [failed, attestation(2, true, &["web"]), attestation(3, true, &["api"])];
        assert!(trail(None, &mended, Timestamp::from_micros(0)).is_compliant);
    }

    #[test]
    fn an_empty_template_asks_for_nothing() {
        let status = trail(Some(&template(&[], &[])), &[], Timestamp::from_micros(5));
        assert!(status.is_compliant);
        assert_eq!(status.evaluated_at.micros(), 5);
    }

    #[test]
    fn a_type_that_differs_does_not_fulfil() {
        let template = template(&[required("unit", "generic")], &[]);
        assert!(
            !trail(Some(&template), &[latest("unit", true, &[])], Timestamp::from_micros(0)).is_compliant
        );
    }
}
