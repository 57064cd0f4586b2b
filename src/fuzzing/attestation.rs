//! `data_json` of an attestation.

use super::is_told;
use crate::domain::evidence::verdict;
use crate::domain::model::{JunitAttestation, JunitResult, commit_url};
use crate::service::fuzzing::{self, Refusal};

pub(super) fn target(bytes: &[u8]) {
    match fuzzing::attestation(bytes) {
        Ok(sent) => is_taken(&sent),
        Err(refusal) => is_refused(&refusal),
    }
}

/// What is kept of an attestation is taken again, and says the same.
pub(super) fn is_taken(sent: &JunitAttestation) {
    let written = serde_json::to_string(sent).expect("an attestation is JSON");
    assert!(!written.contains('\0'), "PostgreSQL keeps no NUL");
    let again = fuzzing::attestation(written.as_bytes());
    let again = again.unwrap_or_else(|refusal| panic!("{refusal:?}: {written}"));
    let rewritten = serde_json::to_string(&again).expect("an attestation is JSON");
    assert_eq!(rewritten, written);

    let sum = JunitResult::of_all(&sent.junit_results);
    let passes = verdict::passes(&sent.junit_results);
    assert_eq!(passes, sum.total > 0 && sum.wrong() == 0, "{sum:?}");
    for fingerprint in sent.fingerprints() {
        assert!(written.contains(&fingerprint.to_string()));
    }
    assert!(sent.template_targets().len() <= sent.target_artifacts.as_ref().map_or(0, Vec::len));
    let page = sent.git_commit_info.as_ref().and_then(|commit| commit_url(sent.repo_info.as_ref(), commit));
    assert!(page.is_none_or(|page| page.to_ascii_lowercase().starts_with("http")), "a page becomes a link");
}

/// It is said what is wrong, and where that is a field, with its name.
pub(super) fn is_refused(refusal: &Refusal) {
    assert_eq!(refusal.status, 400, "{refusal:?}");
    is_told(&refusal.told);
    assert!(refusal.told.len() < 4_000, "{refusal:?}");
}
