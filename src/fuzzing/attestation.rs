//! Target `data_json`: the JSON body of an attestation.

use super::checks::assert_printable;
use crate::domain::evidence::verdict;
use crate::domain::model::{JunitAttestation, JunitResult, commit_url};
use crate::service::fuzzing::{self, Rejection};

pub(super) fn target(bytes: &[u8]) {
    match fuzzing::attestation(bytes) {
        Ok(sent) => assert_round_trips(&sent),
        Err(refusal) => assert_rejection(&refusal),
    }
}

/// The stored form of an attestation is accepted again and stays equal.
pub(super) fn assert_round_trips(sent: &JunitAttestation) {
    let written = serde_json::to_string(sent).expect("an attestation is JSON");
    assert!(!written.contains('\0'), "PostgreSQL cannot store NUL");
    let again = fuzzing::attestation(written.as_bytes());
    let again = again.unwrap_or_else(|rejection| panic!("{rejection:?}: {written}"));
    let rewritten = serde_json::to_string(&again).expect("an attestation is JSON");
    assert_eq!(rewritten, written);

    let sum = JunitResult::sum(&sent.junit_results);
    let passes = verdict::passes(&sent.junit_results);
    assert_eq!(passes, sum.total > 0 && sum.unsuccessful() == 0, "{sum:?}");
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
