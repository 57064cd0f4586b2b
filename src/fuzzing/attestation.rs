//! Target `data_json`: the JSON body of an attestation.

use super::checks::assert_printable;
use serde_json::{Map, Value};

use crate::domain::evidence::attestation_type::AttestationType;
use crate::domain::evidence::verdict;
use crate::domain::model::{
    CustomFields, GenericFields, JiraFields, JunitAttestation, JunitFields, JunitResult, PullRequestFields,
    SnykFields, SonarFields, SystemFields, commit_url,
};
use crate::service::fuzzing::{self, Rejection};

pub(super) fn target(bytes: &[u8]) {
    match fuzzing::attestation::<JunitFields>(bytes) {
        Ok((sent, _)) => assert_round_trips(&sent),
        Err(refusal) => assert_rejection(&refusal),
    }
    assert_stored::<GenericFields>(bytes);
    assert_stored::<CustomFields>(bytes);
    assert_stored::<SystemFields>(bytes);
    assert_stored::<SnykFields>(bytes);
    assert_stored::<JiraFields>(bytes);
    assert_stored::<SonarFields>(bytes);
    assert_stored::<PullRequestFields>(bytes);
}

/// Other members are stored as a JSON object that can be read.
fn assert_stored<T: AttestationType>(bytes: &[u8]) {
    match fuzzing::attestation::<T>(bytes) {
        Ok((sent, other)) => {
            assert!(!other.contains('\0') && !sent.own.name().is_empty());
            serde_json::from_str::<Map<String, Value>>(&other).expect("an object");
        }
        Err(refusal) => assert_rejection(&refusal),
    }
}

/// The stored form of an attestation is accepted again and stays equal.
pub(super) fn assert_round_trips(sent: &JunitAttestation) {
    let written = serde_json::to_string(sent).expect("an attestation is JSON");
    assert!(!written.contains('\0'), "PostgreSQL cannot store NUL");
    let again = fuzzing::attestation::<JunitFields>(written.as_bytes());
    let (again, _) = again.unwrap_or_else(|rejection| panic!("{rejection:?}: {written}"));
    let rewritten = serde_json::to_string(&again).expect("an attestation is JSON");
    assert_eq!(rewritten, written);

    let (results, sent) = (&sent.own.junit_results, &sent.fields);
    let sum = JunitResult::sum(results);
    let passes = verdict::passes(results);
    let sum_of_passed: u64 = results.iter().map(|result| u64::from(result.passed())).sum();
    assert_eq!(passes, sum_of_passed > 0 && sum.unsuccessful() == 0, "{sum:?}");
    for fingerprint in sent.fingerprints() {
        assert!(written.contains(&fingerprint.to_string()));
    }
    assert!(sent.template_targets().len() <= sent.target_artifacts.as_ref().map_or(0, Vec::len));
    let page = sent.git_commit_info.as_ref().and_then(|commit| commit_url(sent.repo_info.as_ref(), commit));
    assert!(page.is_none_or(|page| page.to_ascii_lowercase().starts_with("http")), "a page becomes a link");
}

/// A rejection has status 400 and a short printable message.
pub(super) fn assert_rejection(rejection: &Rejection) {
    assert_eq!(rejection.status, 400, "{rejection:?}");
    assert_printable(&rejection.text);
    assert!(rejection.text.len() < 4_000, "{rejection:?}");
}
