//! Evaluates attestations and trails.
//!
//! Called by the service when it records an attestation or shows a trail. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{
    ArtifactStatus, AttestationPresence, AttestationStatus, ComplianceState, ComplianceStatus, JunitResult,
    RequiredAttestation, Template, Timestamp,
};

/// Whether test results pass: at least one test passed, and no failure or error.
#[must_use]
pub fn passes(results: &[JunitResult]) -> bool {
    results.iter().any(|result| result.passed() > 0)
        && results.iter().all(|result| result.failures == 0 && result.errors == 0)
}

/// An attestation without a later one of the same name and targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestAttestation {
    pub id: String,
    pub name: String,
    pub kind: String,
    /// The previous attestation with the same name and targets.
    pub overrides: Option<String>,
    /// Whether the attestation passes; `None` if its type has no verdict.
    pub passes: Option<bool>,
    /// Artifacts of the template; empty for the trail itself.
    pub targets: BTreeSet<String>,
}

/// Evaluates a trail by the latest attestation of each name, for the trail and for each artifact.
///
/// `attestations` are in the order of receipt. With a template, every required attestation must exist and pass;
/// others are `unexpected` and do not count. Without a template, there must be an attestation, and all must pass.
#[must_use]
pub fn evaluate_trail(
    template: Option<&Template>,
    attestations: &[LatestAttestation],
    now: Timestamp,
) -> ComplianceStatus {
    let required = template.map(|template| &template.body);
    let mut by_target = latest_by_target(attestations);
    let declared: BTreeMap<&str, &[RequiredAttestation]> = required
        .iter()
        .flat_map(|body| &body.artifacts)
        .map(|artifact| (artifact.name.as_str(), artifact.attestations.as_slice()))
        .collect();

    let of_trail = by_target.remove(&None).unwrap_or_default();
    let attestations_statuses = statuses(required.map(|body| body.attestations.as_slice()), of_trail);
    let targets = by_target.keys().copied().flatten().chain(declared.keys().copied());
    let artifacts: BTreeSet<&str> = targets.collect();
    let artifacts_statuses: BTreeMap<String, ArtifactStatus> = artifacts
        .into_iter()
        .map(|name| {
            let required = required.map(|_| declared.get(name).copied().unwrap_or_default());
            let latest = by_target.remove(&Some(name)).unwrap_or_default();
            let attestations_statuses = statuses(required, latest);
            let is_compliant = all_expected_pass(&attestations_statuses);
            let status = state(is_compliant, attestations_statuses.iter().filter(|one| !one.unexpected));
            (
                name.to_owned(),
                ArtifactStatus { artifact_fingerprint: None, is_compliant, status, attestations_statuses },
            )
        })
        .collect();
    let is_compliant = all_expected_pass(&attestations_statuses)
        && artifacts_statuses.values().all(|artifact| artifact.is_compliant)
        && (template.is_some() || !attestations.is_empty());
    let of_artifacts = artifacts_statuses.values().flat_map(|artifact| &artifact.attestations_statuses);
    let all = attestations_statuses.iter().chain(of_artifacts);
    ComplianceStatus {
        is_compliant,
        status: state(is_compliant, all.filter(|one| !one.unexpected)),
        attestations_statuses,
        artifacts_statuses,
        evaluated_at: now,
        flow_template_id: template.map(|template| template.id.clone()),
    }
}

/// Evaluates an artifact by the attestations of its trail and its own, which target the artifact by `names`.
///
/// As [`evaluate_trail`], without the requirements for other artifacts of the template. An artifact without a name must
/// fulfill all of them. An unexpected attestation that fails counts.
#[must_use]
pub fn evaluate_artifact(
    template: Option<&Template>,
    attestations: &[LatestAttestation],
    names: &BTreeSet<String>,
) -> (ComplianceState, Vec<AttestationStatus>) {
    let ComplianceStatus { attestations_statuses, artifacts_statuses, .. } =
        evaluate_trail(template, attestations, Timestamp::EPOCH);
    let own = artifacts_statuses.into_iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    let own = own.flat_map(|(_, artifact)| artifact.attestations_statuses);
    let statuses: Vec<_> = attestations_statuses.into_iter().chain(own).collect();
    let passes = |status: &AttestationStatus| {
        status.is_compliant == Some(true) || (status.unexpected && status.is_compliant.is_none())
    };
    let is_compliant = statuses.iter().all(passes) && (template.is_some() || !statuses.is_empty());
    (state(is_compliant, statuses.iter()), statuses)
}

/// `counted` are the attestations that the verdict depends on.
fn state<'a>(
    is_compliant: bool,
    mut counted: impl Iterator<Item = &'a AttestationStatus>,
) -> ComplianceState {
    let has_failed = |status: &AttestationStatus| {
        status.status == AttestationPresence::Complete && status.is_compliant == Some(false)
    };
    if is_compliant {
        ComplianceState::Compliant
    } else if counted.any(has_failed) {
        ComplianceState::NonCompliant
    } else {
        ComplianceState::Incomplete
    }
}

/// The latest attestations of the trail itself (`None`) and of each artifact, in the order of the first attestation
/// of each name.
fn latest_by_target(attestations: &[LatestAttestation]) -> BTreeMap<Option<&str>, Vec<AttestationStatus>> {
    let mut latest: BTreeMap<Option<&str>, Vec<AttestationStatus>> = BTreeMap::new();
    let mut indexes: HashMap<(Option<&str>, &str), usize> = HashMap::new();
    for attestation in attestations {
        let of_trail = attestation.targets.is_empty().then_some(None);
        for target in of_trail.into_iter().chain(attestation.targets.iter().map(|name| Some(name.as_str()))) {
            let mut status = AttestationStatus {
                attestation_name: attestation.name.clone(),
                attestation_type: attestation.kind.clone(),
                attestation_id: Some(attestation.id.clone()),
                overridden_attestation_id: attestation.overrides.clone(),
                status: AttestationPresence::Complete,
                is_compliant: attestation.passes,
                unexpected: false,
            };
            let of_target = latest.entry(target).or_default();
            let index = *indexes.entry((target, attestation.name.as_str())).or_insert(of_target.len());
            if let Some(earlier) = of_target.get_mut(index) {
                // Identifiers grow with time (RFC 9562, section 5.7).
                status.overridden_attestation_id =
                    status.overridden_attestation_id.max(earlier.attestation_id.take());
                *earlier = status;
            } else {
                of_target.push(status);
            }
        }
    }
    latest
}

fn all_expected_pass(statuses: &[AttestationStatus]) -> bool {
    statuses.iter().all(|status| status.is_compliant == Some(true) || status.unexpected)
}

/// Required attestations in the template's order, then the others. `required` is `None` without a template; then no
/// attestation is unexpected.
fn statuses(
    required: Option<&[RequiredAttestation]>,
    mut rest: Vec<AttestationStatus>,
) -> Vec<AttestationStatus> {
    let mut statuses = Vec::new();
    for entry in required.unwrap_or_default() {
        let found = rest.iter().position(|a| entry.matches(&a.attestation_name, &a.attestation_type));
        statuses.push(match found {
            Some(n) => rest.remove(n),
            None => AttestationStatus {
                attestation_name: entry.name.clone(),
                attestation_type: entry.kind.clone(),
                attestation_id: None,
                overridden_attestation_id: None,
                status: AttestationPresence::Missing,
                is_compliant: Some(false),
                unexpected: false,
            },
        });
    }
    let unexpected = required.is_some();
    statuses.extend(rest.into_iter().map(|status| AttestationStatus { unexpected, ..status }));
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{RequiredArtifact, TemplateBody};

    fn result(total: u32, failures: u32, errors: u32, skipped: u32) -> JunitResult {
        JunitResult { failures, errors, skipped, total, ..JunitResult::default() }
    }

    fn latest(name: &str, passes: bool, targets: &[&str]) -> LatestAttestation {
        LatestAttestation {
            id: format!("id of {name}"),
            name: name.to_owned(),
            kind: "junit".to_owned(),
            overrides: None,
            passes: Some(passes),
            targets: targets.iter().map(|&t| t.to_owned()).collect(),
        }
    }

    fn required(name: &str, kind: &str) -> RequiredAttestation {
        RequiredAttestation { name: name.to_owned(), kind: kind.to_owned() }
    }

    fn template(attestations: &[RequiredAttestation], web: &[RequiredAttestation]) -> Template {
        let artifacts = if web.is_empty() {
            vec![]
        } else {
            vec![RequiredArtifact { name: "web".to_owned(), attestations: web.to_vec() }]
        };
        Template {
            id: "t".to_owned(),
            version: 1,
            body: TemplateBody { attestations: attestations.to_vec(), artifacts },
            content: String::new(),
        }
    }

    #[test]
    fn results_pass_with_passed_tests_and_without_failures_or_errors() {
        for (results, expected) in [
            (vec![], false),
            (vec![result(0, 0, 0, 0)], false),
            (vec![result(3, 0, 0, 0)], true),
            (vec![result(3, 0, 0, 3)], false),
            (vec![result(3, 0, 0, 2)], true),
            (vec![result(3, 0, 0, 3), result(1, 0, 0, 0)], true),
            (vec![result(3, 1, 0, 0)], false),
            (vec![result(3, 0, 1, 0)], false),
            (vec![result(0, 0, 0, 0), result(3, 0, 0, 0)], true),
            (vec![result(3, 0, 0, 0), result(0, 0, 1, 0)], false),
        ] {
            assert_eq!(passes(&results), expected, "{results:?}");
        }
    }

    #[test]
    fn trail_without_template_is_compliant_if_it_has_attestations_and_all_pass() {
        let verdict = |latest: &[LatestAttestation]| {
            evaluate_trail(None, latest, Timestamp::from_micros(0)).is_compliant
        };
        assert!(!verdict(&[]));
        assert!(verdict(&[latest("unit", true, &[])]));
        assert!(!verdict(&[latest("unit", true, &[]), latest("e2e", false, &[])]));
        assert!(!verdict(&[latest("unit", true, &[]), latest("e2e", false, &["web"])]));
    }

    #[test]
    fn trail_with_template_is_compliant_if_all_required_attestations_pass() {
        let template = template(&[required("unit", "junit")], &[required("e2e", "*")]);
        let verdict =
            |latest: &[LatestAttestation]| evaluate_trail(Some(&template), latest, Timestamp::from_micros(0));
        let complete = [latest("unit", true, &[]), latest("e2e", true, &["web"]), latest("lint", false, &[])];
        let status = verdict(&complete);
        assert!(status.is_compliant, "{status:#?}");
        assert!(status.attestations_statuses[1].unexpected);
        // A missing attestation, a failed one, and one with another target.
        assert!(!verdict(&complete[..1]).is_compliant);
        assert!(!verdict(&[latest("unit", false, &[]), latest("e2e", true, &["web"])]).is_compliant);
        let elsewhere = verdict(&[latest("unit", true, &[]), latest("e2e", true, &[])]);
        assert!(!elsewhere.is_compliant);
        let missing = &elsewhere.artifacts_statuses["web"].attestations_statuses[0];
        assert_eq!((missing.attestation_type.as_str(), missing.attestation_id.as_deref()), ("*", None));
    }

    #[test]
    fn artifact_must_fulfill_the_requirements_of_its_trail_and_of_its_names_only() {
        let web = template(&[required("unit", "junit")], &[required("e2e", "*")]);
        let (unit, e2e) = (latest("unit", true, &[]), latest("e2e", true, &["web"]));
        let verdict = |template, latest: &[&LatestAttestation], names: &[&str]| {
            let latest: Vec<_> = latest.iter().copied().cloned().collect();
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let (state, statuses) = evaluate_artifact(template, &latest, &names);
            (state == ComplianceState::Compliant, statuses)
        };
        for (given, names, expected) in [
            (vec![&unit, &e2e], vec!["web"], true),
            (vec![&unit], vec!["web"], false),
            (vec![&e2e], vec!["web"], false),
            (vec![&unit], vec!["api"], true),
            // Its name is unknown.
            (vec![&unit], vec![], false),
            (vec![&unit, &e2e], vec![], true),
            (vec![&unit, &e2e, &latest("lint", false, &["web"])], vec!["web"], false),
            (vec![&unit, &latest("lint", false, &[])], vec!["api"], false),
            (
                vec![&unit, &LatestAttestation { passes: None, ..latest("sbom", true, &[]) }],
                vec!["api"],
                true,
            ),
        ] {
            assert_eq!(verdict(Some(&web), &given, &names).0, expected, "{given:?} {names:?}");
        }
        let (state, _) = evaluate_artifact(Some(&self::template(&[], &[])), &[], &BTreeSet::new());
        assert_eq!(state, ComplianceState::Compliant);
        assert!(!verdict(None, &[], &[]).0);
        assert!(verdict(None, &[&unit], &[]).0);
        let missing = &verdict(Some(&web), &[&unit], &["web"]).1[1];
        assert_eq!(missing.status, AttestationPresence::Missing);
    }

    #[test]
    fn trail_is_incomplete_until_an_attestation_that_counts_fails() {
        let template = template(&[required("unit", "junit"), required("sbom", "*")], &[]);
        let (unit, lint) = (latest("unit", true, &[]), latest("lint", false, &[]));
        let sbom = LatestAttestation { passes: None, ..latest("sbom", true, &[]) };
        for (required, given, expected) in [
            (Some(&template), vec![], ComplianceState::Incomplete),
            (None, vec![], ComplianceState::Incomplete),
            (Some(&template), vec![&unit], ComplianceState::Incomplete),
            (Some(&template), vec![&unit, &sbom], ComplianceState::Incomplete),
            (Some(&template), vec![&unit, &lint], ComplianceState::Incomplete),
            (Some(&template), vec![&latest("unit", false, &[])], ComplianceState::NonCompliant),
            (Some(&template), vec![&unit, &latest("sbom", true, &[])], ComplianceState::Compliant),
            (None, vec![&unit, &lint], ComplianceState::NonCompliant),
        ] {
            let given: Vec<_> = given.into_iter().cloned().collect();
            assert_eq!(evaluate_trail(required, &given, Timestamp::EPOCH).status, expected, "{given:?}");
        }
    }

    #[test]
    fn later_attestation_overrides_only_its_own_targets() {
        let web = template(&[], &[required("e2e", "junit")]);
        let attestation = |n: u8, passes: bool, targets: &[&str]| LatestAttestation {
            id: n.to_string(),
            ..latest("e2e", passes, targets)
        };
        let (both, alone) = (attestation(1, true, &["api", "web"]), attestation(2, false, &["web"]));
        for template in [None, Some(&web)] {
            let status = evaluate_trail(template, &[both.clone(), alone.clone()], Timestamp::from_micros(0));
            assert!(!status.is_compliant, "{status:#?}");
            let web = &status.artifacts_statuses["web"].attestations_statuses[0];
            assert_eq!(web.attestation_id.as_deref(), Some("2"));
            assert_eq!(web.overridden_attestation_id.as_deref(), Some("1"));
            assert!(status.artifacts_statuses["api"].is_compliant);
        }
        // A failure is overridden once each of its targets has passed.
        let failed = attestation(1, false, &["api", "web"]);
        let passed_later = [failed, attestation(2, true, &["web"]), attestation(3, true, &["api"])];
        assert!(evaluate_trail(None, &passed_later, Timestamp::from_micros(0)).is_compliant);
    }

    #[test]
    fn empty_template_requires_nothing() {
        let status = evaluate_trail(Some(&template(&[], &[])), &[], Timestamp::from_micros(5));
        assert!(status.is_compliant);
        assert_eq!(status.evaluated_at.micros(), 5);
    }

    #[test]
    fn attestation_of_another_type_does_not_fulfill_the_requirement() {
        let template = template(&[required("unit", "generic")], &[]);
        assert!(
            !evaluate_trail(Some(&template), &[latest("unit", true, &[])], Timestamp::from_micros(0))
                .is_compliant
        );
    }
}
