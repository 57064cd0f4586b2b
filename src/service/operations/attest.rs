//! Operation 5: attest JUnit test results.

use std::io;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use multer::{Constraints, Field, Multipart, SizeLimit};

use crate::domain::evidence::access::Operation;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::evidence::verdict;
use crate::domain::model::{Fingerprint, FlowName, JunitAttestation, TrailName, commit_url};
use crate::service::access::{Asking, admit};
use crate::service::app::{App, Policy};
use crate::service::evaluation::audit::Audit;
use crate::service::evaluation::evaluate;
use crate::service::http::body::{Paced, Share, announced};
use crate::service::http::json;
use crate::service::http::problem::{ErrorBody, Problem, Refused, RefusedBody};
use crate::service::http::segments::Segments;
use crate::store::attestations::{NewAttestation, RecordError};

/// The largest `data_json`, in bytes.
pub(crate) const MOST_DATA: u64 = 1024 * 1024;

/// What boundaries and the headers of parts may take beside the parts, in bytes.
const MOST_FRAMING: u64 = 64 * 1024;

/// The longest name of an attached file that is kept, in characters.
const LONGEST_FILE_NAME: usize = 255;

const DATA: &str = "data_json";
const ATTACHMENT: &str = "attachment_file";

/// The two parts as they are sent.
#[derive(utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it describes the form to the OpenAPI document")]
pub(crate) struct JunitForm {
    /// The attestation, a JSON object.
    data_json: JunitAttestation,
    /// A file that is kept with it.
    #[schema(value_type = Option<String>, format = Binary)]
    attachment_file: Option<Vec<u8>>,
}

/// The parts as they were received.
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
        ("flow_name" = inline(FlowName), Path, description = "Flow, which comes into being with its first attestation"),
        ("trail_name" = inline(TrailName), Path, description = "Trail, which comes into being with its first attestation"),
    ),
    request_body(content = JunitForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "Recorded", body = String, content_type = "application/json"),
        (status = 409, description = "The repository could be any of several that are known", body = ErrorBody),
        Refused,
        RefusedBody,
    ),
    security(("token" = [])),
)]
pub(crate) async fn attest_junit(
    State(app): State<App>,
    Segments((organization, flow, trail)): Segments<(String, String, String)>,
    asking: Asking,
    body: Body,
) -> Result<Response, Problem> {
    let caller = admit(&app, &asking, &organization, Operation::Attest(&flow)).await?;
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let trail: TrailName = Problem::parse("trail_name", &trail)?;
    let boundary = boundary(&asking.headers)?;
    let most = MOST_DATA + app.policy.attachment + MOST_FRAMING;
    announced(&asking.headers, "the form", most)?;
    let mut share = app.inbound.share(&organization);
    let Parts { data, attachment } = read(&app.policy, boundary, body, most, &mut share).await?;

    let data = data.ok_or_else(|| Problem::field(DATA, "this part is missing"))?;
    let sent: JunitAttestation = json::read(DATA, &data)?;
    let commit_url =
        sent.git_commit_info.as_ref().and_then(|commit| commit_url(sent.repo_info.as_ref(), commit));
    let hash = attachment.as_ref().map(|attachment| Fingerprint::of(&attachment.content));
    let new = NewAttestation {
        organization: &organization,
        flow: flow.as_str(),
        trail: trail.as_str(),
        sent: &sent,
        passes: verdict::passes(&sent.junit_results),
        repository: sent.repo_info.as_ref(),
        commit_url,
        attachment: hash.map(|hash| (hash, attachment.as_ref().and_then(|a| a.name.as_deref()))),
        reported_by: &caller.name,
    };
    let gate = app.gates.hold(&organization).await;
    let mut transaction = app.store.write().await?;
    transaction.hold_verdicts(&organization).await?;
    let trail = transaction.hold_trail(&new, app.now()).await?;
    // The latest of a flow counts, so no two came at the same time, whatever clocks replicas have.
    let at = app.now().after(Some(trail.last_modified_at).max(transaction.last_attestation(&new).await?));
    if let (Some(hash), Some(attachment)) = (hash, &attachment) {
        transaction.insert_attachment(&organization, hash, &attachment.content, at).await?;
    }
    transaction.insert_attestation(&new, trail, at).await.map_err(|error| match error {
        RecordError::Repository(error) => Problem::conflict("repo_info.provider", &error),
        RecordError::Store(error) => error.into(),
    })?;
    let cause = Cause { kind: CauseKind::Attestation, by: Some(caller.name.clone()) };
    let artifacts = sent.fingerprints().into_iter();
    let environments = transaction.judged_environments(&organization, artifacts).await?;
    let environments: Vec<&str> = environments.iter().map(String::as_str).collect();
    let judged = evaluate::again(&mut transaction, &organization, &environments, &cause, &app.clock).await?;
    let audit = Audit::of(&caller, &organization, || {
        format!("attested {} in {flow}/{}", sent.attestation_name.as_str(), new.trail)
    });
    audit.record(&mut transaction, at).await?;
    transaction.commit().await?;
    drop(gate);
    audit.tell();
    drop(share);
    app.metrics.attested(new.passes);
    judged.tell(&app);
    Ok((StatusCode::CREATED, axum::Json("Creation Success")).into_response())
}

fn boundary(headers: &HeaderMap) -> Result<String, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    multer::parse_boundary(kind).map_err(|error| match error {
        multer::Error::NoBoundary => Problem::invalid("the Content-Type names no boundary"),
        _ => Problem::unsupported("multipart/form-data"),
    })
}

/// Reads the form part by part as it comes, each up to its limit.
async fn read(
    policy: &Policy,
    boundary: String,
    body: Body,
    most: u64,
    share: &mut Share,
) -> Result<Parts, Problem> {
    let paced = Paced::new(body, policy.pace);
    let stream = chunks(paced);
    let limits = SizeLimit::new()
        .whole_stream(most)
        .for_field(DATA, MOST_DATA)
        .for_field(ATTACHMENT, policy.attachment);
    let constraints = Constraints::new().size_limit(limits);
    let mut form = Multipart::with_constraints(stream, boundary, constraints);
    let mut parts = Parts::default();
    while let Some(field) = form.next_field().await.map_err(problem)? {
        let name = field.name().unwrap_or_default().to_owned();
        let is_there = match name.as_str() {
            DATA => parts.data.is_some(),
            ATTACHMENT => parts.attachment.is_some(),
            _ => {
                let expected = format!("no such part; {DATA} and {ATTACHMENT} were expected");
                return Err(Problem::field(crate::domain::escape::shortened(&name, 100), &expected));
            }
        };
        if is_there {
            return Err(Problem::field(name, "this part is there twice"));
        }
        let file_name =
            field.file_name().map(|name| name.replace('\0', "").chars().take(LONGEST_FILE_NAME).collect());
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

/// The body as the stream that the form's reader takes; what stopped it travels inside the error. The
/// reader searches all that it holds again whenever more comes, so a body that comes byte by byte is
/// gathered first.
///
/// Before its first boundary the reader asks twice in a row and searches only what the first asking
/// brought (multer 3.1.0): where more comes between the two and the end with it, a whole form is taken for
/// a cut off one. So the end is never told in the same breath as what came before it.
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

/// How much of a body is gathered before it is looked at, in bytes.
const GATHERED: usize = 32 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("the body could not be read")]
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
        error => Problem::invalid(format!("the form cannot be read: {error}")),
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

    /// A body that brings these chunks, and has to be asked twice where there is `None`.
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
        let policy = Policy::default();
        let mut share = Budget::new(policy.inbound_kibibytes).share("acme");
        read(&policy, "b".to_owned(), body, MOST_DATA, &mut share).await
    }

    /// The connection is read on one thread and the form on another, so any of it may come at any time.
    #[tokio::test]
    async fn a_form_is_the_same_wherever_it_is_split_and_whenever_its_pieces_come() {
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
    async fn a_form_that_ends_before_its_end_is_refused_whenever_its_end_comes() {
        // Whole from its last boundary's last dash.
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
