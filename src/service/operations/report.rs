//! Operation 7: report a K8S environment.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;

use crate::domain::evidence::access::Operation;
use crate::domain::evidence::environment_status::Standing;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::evidence::snapshot::change;
use crate::domain::evidence::snapshot::reported::{K8sReport, Reported};
use crate::domain::model::{EnvironmentName, Fingerprint};
use crate::service::access::{Asking, Caller, admit};
use crate::service::app::App;
use crate::service::evaluation::audit::Audit;
use crate::service::evaluation::evaluate::{self, Judged, Subject};
use crate::service::http::body::{self, Paced, announced};
use crate::service::http::json;
use crate::service::http::problem::{Problem, Refused, RefusedBody};
use crate::service::http::segments::Segments;
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
pub(crate) async fn report_k8s(
    State(app): State<App>,
    Segments((organization, environment)): Segments<(String, String)>,
    asking: Asking,
    body: Body,
) -> Result<Response, Problem> {
    let caller = admit(&app, &asking, &organization, Operation::Report(&environment)).await?;
    let environment: EnvironmentName = Problem::parse("env_name", &environment)?;
    if !is_json(&asking.headers) {
        return Err(Problem::unsupported("application/json"));
    }
    let most = app.policy.report;
    let expected = announced(&asking.headers, "the report", most)?;
    let paced = Paced::new(body, app.policy.pace);
    let body = paced
        .read("the report", most, expected.unwrap_or_default(), app.inbound.share(&organization))
        .await?;
    let changed = receive(&app, &caller, &organization, &environment, body).await?;
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
    body: body::Received,
) -> Result<Changed, Problem> {
    // The same bytes say the same: they need not be read again.
    let silent_after = app.policy.silent_after;
    let (name, hash) = (environment.as_str(), body.hash);
    let place = app.gates.place(organization).await;
    if app.store.confirm(organization, name, hash, app.now(), silent_after).await? {
        return Ok(Changed::Nothing);
    }
    drop(place);
    let read = move || {
        let body::Received { bytes, share, .. } = body;
        (json::read::<K8sReport<'_>>("the report", &bytes).map(Reported::new), share)
    };
    // What was read of it takes memory until it is recorded, and so does who waits for the database meanwhile.
    let (reported, mut share) = spawn_blocking(read).await.map_err(|_| Problem::defect())?;
    let reported = reported?;
    share.become_at_least("the report", weight(&reported)).await?;
    let (changed, judged) = record(app, caller, organization, environment, hash, &reported).await?;
    drop(share);
    judged.tell(app);
    Ok(changed)
}

/// How much memory it takes to record a report, in bytes, as measured where everything is another than before, under a
/// policy: of a pod its rows and names, of an artifact how it stood and stands, why, and the events that tell of it, each
/// of which holds its name.
fn weight(reported: &Reported) -> usize {
    const POD: usize = 320;
    const ARTIFACT: usize = 3 * 1024;
    const NAMED: usize = 16;
    let artifacts = reported.artifacts();
    let artifacts = artifacts.values().map(|(name, _)| ARTIFACT + NAMED * name.len());
    reported.pods.len() * POD + artifacts.sum::<usize>()
}

/// Writes down what a report says and what follows from it, all or nothing, while no other report
/// of the environment is.
async fn record(
    app: &App,
    caller: &Caller,
    organization: &str,
    environment: &EnvironmentName,
    body_hash: Fingerprint,
    reported: &Reported,
) -> Result<(Changed, Judged), store::Error> {
    let _gate = app.gates.share(organization).await;
    let mut transaction = app.store.write().await?;
    transaction.share_verdicts(organization).await?;
    let held = transaction.environment(organization, environment.as_str(), app.now()).await?;
    let at = app.now().after(held.last_report_at.max(held.judged_at));
    let received = Received { at, body_hash, report_hash: reported.hash };
    let longest = held.silent_after.unwrap_or(app.policy.silent_after);
    if let Some(last) = held.last_report_at.filter(|last| at.distance(*last) > longest) {
        transaction.insert_gap(held.id, last, at).await?;
    }
    if held.report_hash == Some(reported.hash) {
        transaction.note_report(held.id, received, held.snapshot).await?;
        transaction.commit().await?;
        return Ok((Changed::Nothing, Judged::default()));
    }
    let before = Standing { artifacts: transaction.standing(held.id).await?, compliance: held.compliance };
    let artifacts = change::artifacts(&before.artifacts, reported);
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
    transaction.change_artifacts(held.id, &artifacts.changed).await?;
    let pods = change::pods(transaction.running_pods(held.id).await?, reported);
    transaction.end_pods(pods.ended, at).await?;
    transaction.start_pods(organization, held.id, &pods.started, &reported.workloads, at).await?;
    let snapshot = if let Changed::Artifacts(number) = changed { number } else { held.snapshot };
    transaction.note_report(held.id, received, snapshot).await?;
    let seen = reported.artifacts().into_iter();
    let seen = seen.map(|(artifact, (name, pods))| (artifact, (name.to_owned(), Some(pods)))).collect();
    let cause = Cause { kind: CauseKind::Report, by: Some(caller.name.clone()) };
    let subject = Subject { name: environment.clone(), environment: held, snapshot, before, seen };
    let judged =
        evaluate::environments(&mut transaction, organization, vec![subject], &cause, &app.clock, at).await?;
    let audit = Audit::of(caller, organization, || match changed {
        Changed::Artifacts(number) => format!("reported the environment {environment}: snapshot {number}"),
        _ => format!("reported other pods of the environment {environment}"),
    });
    audit.record(&mut transaction, at).await?;
    transaction.commit().await?;
    audit.tell();
    Ok((changed, judged))
}
