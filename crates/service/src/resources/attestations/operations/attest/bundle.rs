//! Verifies signed evidence before it is recorded.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::http::blocking::compute;
use crate::http::form::File;
use crate::http::problem::Problem;
use crate::resources::attestations::operations::attest::data::AttestationData;
use ::bundle::Verified;
use model::escape::shortened;
use model::{AttestationFields, GitCommit, RepositoryInfo, SignedEvidence, repository_path};

/// What was verified, such as `slsa-provenance signed by …`.
const EVIDENCE: HeaderName = HeaderName::from_static("x-supercargo-signed-evidence");

/// Maximum length of that, in characters.
const MAX_RECEIPT_CHARS: usize = 1000;

/// One file is verified at a time, in a few ms: the values of a statement need up to 180 MB.
static VERIFIER: Semaphore = Semaphore::const_new(1);

/// Verifies a file as evidence for the artifact of the attestation, which gets the type, the verdict and the origin of the
/// evidence. Nothing is recorded of a file that is not trusted.
pub(super) async fn verify(
    app: &App,
    organization: &str,
    data: &mut AttestationData,
    file: &mut Option<File>,
    receipt: &mut HeaderMap,
) -> Result<Verified, Problem> {
    let artifacts = data.fields.fingerprints();
    let (Some(&artifact), 1) = (artifacts.first(), artifacts.len()) else {
        let expected = "expected one fingerprint: signed evidence is about a single artifact";
        return Err(Problem::field("artifact_fingerprint", expected));
    };
    let Some(File { name, content }) = file.take() else {
        return Err(Problem::field(
            "attachment_file",
            "missing part: expected a Sigstore bundle or a DSSE envelope",
        ));
    };
    let trusted = store::bootstrap::trusted(&mut app.site.store.read().await?.of(organization)).await?;
    let now = app.site.now();
    let _verifier = VERIFIER.acquire().await;
    let verify = move || {
        let verified = ::bundle::verify(&content, artifact, &trusted, now);
        (content, verified)
    };
    let (content, verified) = compute(verify).await?;
    let verified = verified
        .map_err(|rejected| Problem::field("attachment_file", &format!("not accepted: {rejected}")))?;
    let Verified { kind, passes, evidence, .. } = &verified;
    *file = Some(File { name, content });
    adopt_origin(&mut data.fields, evidence);
    (data.kind, data.passes) = (kind.to_string(), *passes);
    let text = format!("{kind} {evidence}").replace(|c: char| !c.is_ascii(), "?");
    let text = shortened(&text, MAX_RECEIPT_CHARS).replace('…', "...");
    receipt.extend(HeaderValue::try_from(text).ok().map(|text| (EVIDENCE, text)));
    Ok(verified)
}

/// The origin that is signed counts, and not one that the client names. An earlier attestation that names another one is in
/// conflict with it.
fn adopt_origin(fields: &mut AttestationFields, evidence: &SignedEvidence) {
    let Some(source) = &evidence.source else { return };
    let repository = json!({"name": repository_path(source), "url": source});
    fields.repo_info = serde_json::from_value::<RepositoryInfo>(repository).ok();
    let sent = fields.git_commit_info.take();
    let is_same = |sent: &GitCommit| sent.sha1.is_some() && sent.sha1 == evidence.commit;
    fields.git_commit_info = sent.filter(is_same).or_else(|| {
        let sha1 = evidence.commit.clone()?;
        Some(GitCommit { sha1: Some(sha1), ..GitCommit::default() })
    });
}
