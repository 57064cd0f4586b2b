//! Operation 5: attest JUnit test results.

use std::collections::BTreeSet;
use std::io;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use multer::{Constraints, Field, Multipart, SizeLimit};

use crate::domain::escape::Escaped;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::evidence::ownership::{self, NamedOrigin, Owned, OwnershipViolation};
use crate::domain::evidence::verdict;
use crate::domain::model::{Fingerprint, FlowName, JunitAttestation, TrailName, UrlText, commit_url};
use crate::service::access::{Admitted, Attest, Caller};
use crate::service::app::App;
use crate::service::evaluation::audit::Audit;
use crate::service::evaluation::guard::{self, Evaluating};
use crate::service::http::body::{Paced, Share, content_length};
use crate::service::http::json;
use crate::service::http::problem::{BodyErrorResponses, ErrorBody, ErrorResponses, Problem};
use crate::service::limits::{Limits, MAX_DATA};
use crate::store::Transaction;
use crate::store::attestations::{NewAttestation, RecordError, Recorded};
use crate::store::provenance::ClaimEffect;

/// Maximum size of boundaries and part headers, in bytes.
const MAX_FRAMING: u64 = 64 * 1024;

/// Maximum length of an attached file's name, in characters.
const MAX_FILE_NAME_BYTES: usize = 255;

const DATA: &str = "data_json";
const ATTACHMENT: &str = "attachment_file";

/// The form, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the form in the OpenAPI document")]
pub(crate) struct JunitForm {
    /// The attestation, a JSON object
    data_json: JunitAttestation,
    /// A file to store with the attestation
    #[schema(value_type = Option<String>, format = Binary)]
    attachment_file: Option<Vec<u8>>,
}

/// The received parts.
#[derive(Default)]
struct Parts {
    data: Option<Vec<u8>>,
    attachment: Option<Attachment>,
}

struct Attachment {
    name: Option<String>,
    content: Vec<u8>,
}

/// Attest JUnit test results in a trail.
#[utoipa::path(
    post,
    path = "/attestations/{org}/{flow_name}/trail/{trail_name}/junit",
    tag = "attestations",
    params(
        ("org" = String, Path, description = "Organization"),
        ("flow_name" = inline(FlowName), Path, description = "Flow; its first attestation creates it"),
        ("trail_name" = inline(TrailName), Path, description = "Trail; its first attestation creates it"),
    ),
    request_body(content = JunitForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "Recorded", body = String, content_type = "application/json"),
        (status = 409, description = "The repository is ambiguous: several are recorded under this name", body = ErrorBody),
        ErrorResponses,
        BodyErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn attest_junit(
    State(app): State<App>,
    Admitted { organization, rest: (flow, trail), caller, .. }: Admitted<Attest, (String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let trail: TrailName = Problem::parse("trail_name", &trail)?;
    let boundary = boundary(&headers)?;
    let max = MAX_DATA + app.limits.attachment + MAX_FRAMING;
    content_length(&headers, "the form", max)?;
    let mut share = app.inbound.share(&organization);
    let Parts { data, attachment } = read(&app.limits, boundary, body, max, &mut share).await?;

    let data = data.ok_or_else(|| Problem::field(DATA, "missing part"))?;
    let sent: JunitAttestation = json::read(DATA, &data)?;
    let commit_url =
        sent.git_commit_info.as_ref().and_then(|commit| commit_url(sent.repo_info.as_ref(), commit));
    let artifacts = sent.fingerprints();
    let hash = attachment.as_ref().map(|attachment| Fingerprint::from_content(&attachment.content));
    let mut new = NewAttestation {
        organization: &organization,
        flow: flow.as_str(),
        trail: trail.as_str(),
        data: &sent,
        passes: verdict::passes(&sent.junit_results),
        repository: sent.repo_info.as_ref(),
        commit_url,
        attachment: hash.map(|hash| (hash, attachment.as_ref().and_then(|a| a.name.as_deref()))),
        reported_by: &caller.name,
        owned: Owned::default(),
    };
    let mut evaluating =
        Evaluating::exclusive(&app, BTreeSet::from([organization.as_str()]), app.limits.permit_timeout)
            .await?;
    let transaction = &mut evaluating.transaction;
    match ownership(transaction, &organization, &flow, &new, &artifacts).await? {
        Ok(owned) => new.owned = owned,
        Err(violation) => {
            drop(evaluating);
            return Err(refuse(&app, &caller, &organization, &flow, &violation).await?);
        }
    }
    let trail = transaction.lock_trail(&new, app.site.now()).await?;
    // The latest attestation of a flow counts: times increase strictly, whatever the clocks of replicas.
    let at = app
        .site
        .now()
        .after(Some(trail.last_modified_at).max(transaction.last_attestation_time(&new).await?));
    if let (Some(hash), Some(attachment)) = (hash, &attachment) {
        transaction.insert_attachment(&organization, hash, &attachment.content, at).await?;
    }
    let Recorded { claim, repository } =
        transaction.insert_attestation(&new, trail, at).await.map_err(|error| match error {
            RecordError::Ambiguous(error) => Problem::conflict("repo_info.provider", &error),
            RecordError::Closed => Problem::conflict("repo_info.name", &error),
            RecordError::Store(error) => error.into(),
        })?;
    let cause = Cause { kind: CauseKind::Attestation, by: Some(caller.name.clone()) };
    evaluating.evaluate_attested(&organization, &artifacts, &guard::ALL, &cause).await?;
    evaluating.transaction.analyze_after(artifacts.len()).await?;
    let audit = Audit::from_caller(&caller, &organization, || {
        format!("attested {} in {flow}/{}", sent.attestation_name.as_str(), new.trail)
    });
    evaluating.audit(audit, at).await?;
    let warning = origin_warning(&new, claim);
    for change in repository.into_iter().chain(warning.clone()) {
        evaluating.audit(Audit::from_token(&caller.name, &organization, change), at).await?;
    }
    evaluating.commit().await?;
    drop(share);
    if let Some(warning) = warning {
        let (token, ClaimEffect { conflicts, replaced }) = (Escaped(&caller.name), claim);
        tracing::warn!(
            token = %token, flow = flow.as_str(), conflicts, replaced,
            "{organization}: {}: see the pages of the artifacts", Escaped(&warning)
        );
    }
    app.metrics.attestation(new.passes);
    Ok((StatusCode::CREATED, axum::Json("Creation Success")).into_response())
}

/// The ownership of the flow, or why it must not make this attestation.
async fn ownership(
    transaction: &mut Transaction,
    organization: &str,
    flow: &FlowName,
    new: &NewAttestation<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Result<Owned, OwnershipViolation>, Problem> {
    let declared = transaction.ownerships(organization).await?;
    let url = new.repository.and_then(|repository| repository.url.as_ref()).map(UrlText::as_str);
    let commit =
        new.data.git_commit_info.as_ref().and_then(|commit| commit.url.as_ref()).map(UrlText::as_str);
    let repository = new.repository.map(|repository| repository.name.as_str());
    let origin = NamedOrigin { repository, urls: [url, commit] };
    if let Err(violation) = ownership::check_origin(flow.as_str(), origin, &declared) {
        return Ok(Err(violation));
    }
    let Some(own) = declared.get(flow.as_str()) else { return Ok(Ok(Owned::default())) };
    let names = if own.images.is_empty() {
        Vec::new()
    } else {
        transaction.names_of_artifacts(organization, artifacts).await?
    };
    let names = names.iter().map(|(artifact, name)| (*artifact, name.as_str()));
    Ok(own.check_images(names).map(|artifacts| Owned { is_owner: true, artifacts }))
}

/// Describes an attestation that names another origin than recorded, for the audit log and the operator.
fn origin_warning(new: &NewAttestation<'_>, claim: ClaimEffect) -> Option<String> {
    let (name, flow) = (new.data.attestation_name.as_str(), new.flow);
    let ClaimEffect { conflicts, replaced } = claim;
    let replaces = (replaced > 0).then(|| {
        format!("attestation \"{name}\" in flow {flow} replaced the origin of {replaced} of its artifacts")
    });
    let conflict = || {
        format!(
            "attestation \"{name}\" in flow {flow} names another origin than recorded for {conflicts} of its artifacts"
        )
    };
    replaces.or_else(|| (conflicts > 0).then(conflict))
}

/// Records a rejected attestation in the audit log, once an hour if it is repeated.
async fn refuse(
    app: &App,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    violation: &OwnershipViolation,
) -> Result<Problem, Problem> {
    let audit =
        Audit::from_token(&caller.name, organization, format!("attestation in {flow} refused: {violation}"));
    let (mut transaction, now) = (app.site.store.write().await?, app.site.now());
    if audit.record_once(&mut transaction, now).await? {
        transaction.commit().await?;
        audit.log();
    }
    Ok(Problem::not_owned(violation))
}

fn boundary(headers: &HeaderMap) -> Result<String, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    multer::parse_boundary(kind).map_err(|error| match error {
        multer::Error::NoBoundary => Problem::invalid("the Content-Type has no boundary"),
        _ => Problem::unsupported("multipart/form-data"),
    })
}

/// Reads the form part by part, each up to its limit.
async fn read(
    limits: &Limits,
    boundary: String,
    body: Body,
    max: u64,
    share: &mut Share,
) -> Result<Parts, Problem> {
    let paced = Paced::new(body, limits.pace);
    let stream = chunks(paced);
    let size_limit =
        SizeLimit::new().whole_stream(max).for_field(DATA, MAX_DATA).for_field(ATTACHMENT, limits.attachment);
    let constraints = Constraints::new().size_limit(size_limit);
    let mut form = Multipart::with_constraints(stream, boundary, constraints);
    let mut parts = Parts::default();
    while let Some(field) = form.next_field().await.map_err(problem)? {
        let name = field.name().unwrap_or_default().to_owned();
        let is_there = match name.as_str() {
            DATA => parts.data.is_some(),
            ATTACHMENT => parts.attachment.is_some(),
            _ => {
                let expected = format!("unknown part: expected {DATA} or {ATTACHMENT}");
                return Err(Problem::field(crate::domain::escape::shortened(&name, 100), &expected));
            }
        };
        if is_there {
            return Err(Problem::field(name, "must not occur twice"));
        }
        let file_name =
            field.file_name().map(|name| name.replace('\0', "").chars().take(MAX_FILE_NAME_BYTES).collect());
        let content = content(field, share).await?;
        if name == DATA {
            parts.data = Some(content);
        } else if !content.is_empty() || file_name.is_some() {
            parts.attachment = Some(Attachment { name: file_name, content });
        }
    }
    Ok(parts)
}

async fn content(mut field: Field<'_>, share: &mut Share) -> Result<Vec<u8>, Problem> {
    let mut content = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(problem)? {
        share.grow(chunk.len()).await?;
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// The body as a stream for multer; an error carries the [`Problem`] that stopped it. multer searches its whole buffer
/// again after each chunk, so small chunks are merged.
///
/// Before the first boundary, multer 3.1.0 polls twice in a row and searches only the result of the first poll. If data
/// and the end of the stream arrive between the two, it rejects a complete form. The stream therefore yields the end in a
/// poll of its own.
fn chunks(paced: Paced) -> impl futures_util::Stream<Item = Result<Bytes, io::Error>> {
    futures_util::stream::try_unfold(paced, |mut paced| async move {
        let mut gathered = BytesMut::new();
        while gathered.len() < GATHERED {
            match paced.next().await {
                Ok(Some(chunk)) => gathered.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(problem) => return Err(io::Error::other(Stopped(problem))),
            }
        }
        if gathered.is_empty() {
            tokio::task::yield_now().await;
            return Ok(None);
        }
        Ok(Some((gathered.freeze(), paced)))
    })
}

/// Minimum size of a merged chunk, in bytes.
const GATHERED: usize = 32 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("failed to read the body")]
struct Stopped(Problem);

fn problem(error: multer::Error) -> Problem {
    match error {
        multer::Error::FieldSizeExceeded { limit, field_name } => {
            Problem::too_large(&field_name.unwrap_or_default(), limit)
        }
        multer::Error::StreamSizeExceeded { limit } => Problem::too_large("the form", limit),
        multer::Error::StreamReadFailed(error) => match error.downcast::<io::Error>().map(|e| e.into_inner())
        {
            Ok(Some(stopped)) => {
                stopped.downcast::<Stopped>().map_or_else(|_| Problem::broken_off(), |s| s.0)
            }
            _ => Problem::broken_off(),
        },
        error => Problem::invalid(format!("failed to parse the form: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::Poll;

    use futures_util::stream;

    use super::*;
    use crate::service::http::body::Budget;

    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"data_json\"\r\n\r\n{}\r\n\
        --b\r\nContent-Disposition: form-data; name=\"attachment_file\"; filename=\"a\"\r\n\r\n\r\n--\r\n\
        --b--\r\n";

    /// A body of these chunks; `None` is a poll without data.
    fn brings(chunks: impl IntoIterator<Item = Option<&'static str>>) -> Body {
        let mut chunks = chunks.into_iter().collect::<VecDeque<_>>();
        Body::from_stream(stream::poll_fn(move |cx| match chunks.pop_front() {
            Some(Some(chunk)) => Poll::Ready(Some(Ok::<_, Infallible>(chunk))),
            Some(None) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }))
    }

    async fn received(body: Body) -> Result<Parts, Problem> {
        let policy = Limits::default();
        let mut share = Budget::new(policy.inbound_kibibytes).share("acme");
        read(&policy, "b".to_owned(), body, MAX_DATA, &mut share).await
    }

    /// The connection is read on another thread, so chunks arrive at any time.
    #[tokio::test]
    async fn form_is_parsed_alike_for_all_splits_and_delays() {
        for split in 0..=FORM.len() {
            let (first, second) = FORM.split_at(split);
            for waits in 0..8 {
                let wait = |bit: u8| (waits & bit != 0).then_some(None);
                let pieces = [wait(1), Some(Some(first)), wait(2), Some(Some(second)), wait(4)];
                let parts = received(brings(pieces.into_iter().flatten()))
                    .await
                    .unwrap_or_else(|problem| panic!("split at {split}, waits {waits:03b}: {problem:?}"));
                assert_eq!(parts.data.unwrap(), b"{}");
                let attachment = parts.attachment.unwrap();
                assert_eq!((attachment.name.as_deref(), &*attachment.content), (Some("a"), &b"\r\n--"[..]));
            }
        }
    }

    #[tokio::test]
    async fn truncated_form_is_rejected_for_all_splits() {
        // The form is complete with the last dash of the last boundary.
        let whole = FORM.len() - "\r\n".len();
        for split in 0..whole {
            let (first, _) = FORM.split_at(split);
            for waits in 0..4 {
                let wait = |bit: u8| (waits & bit != 0).then_some(None);
                let pieces = [wait(1), Some(Some(first)), wait(2)];
                assert!(received(brings(pieces.into_iter().flatten())).await.is_err(), "split at {split}");
            }
        }
    }
}
