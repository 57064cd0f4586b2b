//! Operation 7: report a K8S environment.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;

use super::access::{Caller, admit};
use super::app::{App, now};
use super::body::{Paced, announced};
use super::json;
use super::problem::{Problem, Refused, RefusedBody};
use super::segments::Segments;
use crate::domain::access::Operation;
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};
use crate::domain::snapshot::change;
use crate::domain::snapshot::reported::{K8sReport, Reported};
use crate::store;
use crate::store::reports::Received;

/// What a report changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    /// It says what the one before said.
    Nothing,
    /// Other pods run the same artifacts.
    Pods,
    /// Other artifacts run: a new snapshot, of this number.
    Artifacts(i64),
}

/// The largest body that is read on the thread that also serves others, in bytes.
const SMALL: usize = 64 * 1024;

/// Report the pods of an environment and the image digests that they run.
#[utoipa::path(
    put,
    path = "/environments/{org}/{env_name}/report/K8S",
    tag = "environments",
    params(
        ("org" = String, Path, description = "Organization"),
        ("env_name" = inline(EnvironmentName), Path, description = "Environment, which comes into being with its first report"),
    ),
    request_body(content = K8sReport, content_type = "application/json"),
    responses(
        (status = 200, description = "No other artifacts run than before", body = String, content_type = "application/json"),
        (status = 201, description = "A new snapshot", body = String, content_type = "application/json"),
        Refused,
        RefusedBody,
    ),
    security(("token" = [])),
)]
pub(super) async fn report_k8s(
    State(app): State<App>,
    Segments((organization, environment)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let caller = admit(&app, &headers, &organization, Operation::Report(&environment)).await?;
    let environment: EnvironmentName = Problem::parse("env_name", &environment)?;
    if !is_json(&headers) {
        return Err(Problem::unsupported("application/json"));
    }
    let most = app.policy.report;
    let expected = announced(&headers, "the report", most)?;
    let share = app.inbound.reserve(expected.unwrap_or(most)).await?;
    let body =
        Paced::new(body, app.policy.pace).read("the report", most, expected.unwrap_or_default()).await?;
    let changed = receive(&app, &caller, &organization, &environment, body).await?;
    drop(share);
    Ok(answer(&app, changed))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn answer(app: &App, changed: Changed) -> Response {
    let (status, outcome, says) = match changed {
        Changed::Nothing => (StatusCode::OK, "unchanged", NOTHING_NEW.to_owned()),
        Changed::Pods => (StatusCode::OK, "pods", NOTHING_NEW.to_owned()),
        Changed::Artifacts(number) => {
            (StatusCode::CREATED, "snapshot", format!("report processed, new snapshot {number}"))
        }
    };
    app.metrics.reported(outcome);
    (status, axum::Json(says)).into_response()
}

/// The interface's word for a report that changes no artifact.
const NOTHING_NEW: &str = "report processed, no new snapshots to create";

async fn receive(
    app: &App,
    caller: &Caller,
    organization: &str,
    environment: &EnvironmentName,
    body: Vec<u8>,
) -> Result<Changed, Problem> {
    let (body, body_hash) = if body.len() > SMALL {
        let hashed = spawn_blocking(move || {
            let hash = Fingerprint::of(&body);
            (body, hash)
        });
        hashed.await.map_err(|_| Problem::defect())?
    } else {
        let hash = Fingerprint::of(&body);
        (body, hash)
    };
    // The same bytes say the same: they need not be read again.
    let silent_after = app.policy.silent_after;
    let name = environment.as_str();
    if app.store.confirm(organization, name, body_hash, now(), silent_after).await? {
        return Ok(Changed::Nothing);
    }
    let read = move || json::read::<K8sReport<'_>>("the report", &body).map(Reported::new);
    let reported = spawn_blocking(read).await.map_err(|_| Problem::defect())??;
    Ok(record(app, caller, organization, name, body_hash, &reported).await?)
}

/// Writes down what a report says and what follows from it, all or nothing, while no other report
/// of the environment is.
async fn record(
    app: &App,
    caller: &Caller,
    organization: &str,
    environment: &str,
    body_hash: Fingerprint,
    reported: &Reported,
) -> Result<Changed, store::Error> {
    let mut transaction = app.store.write().await?;
    let held = transaction.environment(organization, environment, now()).await?;
    // Another replica's clock may be ahead: time in an environment only goes forward.
    let after_last = held.last_report_at.map(|last| Timestamp::from_micros(last.micros() + 1));
    let at = after_last.map_or_else(now, |after_last| now().max(after_last));
    let received = Received { at, body_hash, report_hash: reported.hash };
    if let Some(last) = held.last_report_at {
        let silence = u64::try_from(at.micros() - last.micros()).unwrap_or_default();
        let longest = held.silent_after.unwrap_or(app.policy.silent_after);
        if u128::from(silence) > longest.as_micros() {
            transaction.insert_gap(held.id, last, at).await?;
        }
    }
    if held.report_hash == Some(reported.hash) {
        transaction.note_report(held.id, received, held.snapshot).await?;
        transaction.commit().await?;
        return Ok(Changed::Nothing);
    }
    let running = transaction.running_artifacts(held.id).await?;
    let artifacts = change::artifacts(&running, reported);
    let changed = if held.snapshot > 0 && artifacts.are_the_same() {
        Changed::Pods
    } else {
        let number = held.snapshot + 1;
        transaction.supersede_snapshot(held.id, held.snapshot, held.last_report_at, at).await?;
        transaction.insert_snapshot(held.id, number, received, &caller.name).await?;
        transaction.end_artifacts(held.id, &artifacts.ended, held.snapshot, at).await?;
        transaction.start_artifacts(organization, held.id, &artifacts.started, number, at).await?;
        Changed::Artifacts(number)
    };
    transaction.rename_artifacts(held.id, &artifacts.renamed).await?;
    let pods = change::pods(transaction.running_pods(held.id).await?, reported);
    transaction.end_pods(pods.ended, at).await?;
    transaction.start_pods(organization, held.id, &pods.started, &reported.workloads, at).await?;
    let snapshot = if let Changed::Artifacts(number) = changed { number } else { held.snapshot };
    transaction.note_report(held.id, received, snapshot).await?;
    transaction.commit().await?;
    Ok(changed)
}
