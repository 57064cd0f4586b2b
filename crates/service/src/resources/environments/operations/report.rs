//! Operation 7: report a K8S environment.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::USER_AGENT;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::check_limit;
use crate::engine::guard::{Coverage, Evaluating, MAX_CLOCK_DIFFERENCE, Subject};
use crate::engine::not_found;
use crate::http::blocking::compute;
use crate::http::body;
use crate::http::json;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Caller, Report};
use model::access::Operation;
use model::reporter::{CLUSTER_HEADER, EXCLUDED_HEADER, Sender};
use model::{EnvironmentName, Fingerprint, Timestamp, pluralize};
use rules::environment_status::{EnvironmentStatus, Expiry, ReportedArtifacts, RunningArtifact, Verdict};
use rules::notification::{Cause, CauseKind};
use rules::snapshot::change::{self, ArtifactChanges};
use rules::snapshot::report::{K8sReport, NormalizedReport};
use store::Tenant;
use store::environments::reports::{IfLocked, LockedEnvironment, ReceivedReport};
use store::quotas::Created;

/// The effect of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    /// Same pods and artifacts as before.
    Nothing,
    /// Different pods run the same artifacts.
    Pods,
    /// Different artifacts run: a new snapshot with this number.
    Artifacts(i64),
}

/// Report the pods of an environment and their image digests.
#[utoipa::path(
    put,
    path = "/environments/{org}/{env_name}/report/K8S",
    tag = "environments",
    params(("env_name" = inline(EnvironmentName), Path, description = "Environment"),
        ("create" = Option<bool>, Query, description = "Create the environment if it does not exist, and the token may")),
    request_body(content = K8sReport, content_type = "application/json"),
    responses(
        (status = 200, description = "The same artifacts run as before", body = String, content_type = "application/json"),
        (status = 201, description = "A new snapshot", body = String, content_type = "application/json"),
        (status = 404, description = "No such environment", body = ErrorBody),
        (status = 410, description = "The environment is archived", body = ErrorBody),
    ),
)]
pub(crate) async fn report_k8s(
    State(app): State<App>,
    Admitted { organization, rest: environment, caller, .. }: Admitted<Report, String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let environment: EnvironmentName = Problem::parse("env_name", &environment)?;
    let if_unknown = match Parameters::read(&uri, &["create"])?.parsed("create")? {
        Some(true) => IfUnknown::Create,
        Some(false) | None => IfUnknown::Reject,
    };
    json::require(&headers)?;
    let max = app.limits.report;
    let body = json::receive_bytes(&app, &organization, "the report", max, &headers, body).await?;
    let header = |name| headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
    let sender = Sender::new(header(USER_AGENT.as_str()), header(CLUSTER_HEADER));
    let excluded_pods = excluded_pods(&headers)?;
    let to = ReportedEnvironment { organization: &organization, name: &environment, if_unknown };
    let changed = receive(&app, &caller, to, sender, excluded_pods, body).await?;
    let (status, outcome, message) = match changed {
        Changed::Nothing => (StatusCode::OK, "unchanged", NO_SNAPSHOT.to_owned()),
        Changed::Pods => (StatusCode::OK, "pods", NO_SNAPSHOT.to_owned()),
        Changed::Artifacts(number) => {
            (StatusCode::CREATED, "snapshot", format!("report processed, new snapshot {number}"))
        }
    };
    app.metrics.report(outcome);
    Ok((status, axum::Json(message)).into_response())
}

/// The interface's message for a report without a new snapshot.
const NO_SNAPSHOT: &str = "report processed, no new snapshots to create";

/// The number of pods that the agent excluded. A header that cannot be read must not hide them.
fn excluded_pods(headers: &HeaderMap) -> Result<u32, Problem> {
    let mut values = headers.get_all(EXCLUDED_HEADER).iter();
    let number = match (values.next(), values.next()) {
        (None, _) => Some(0),
        (Some(value), None) => value.to_str().ok().and_then(|number| number.parse().ok()),
        (Some(_), Some(_)) => None,
    };
    number.ok_or_else(|| Problem::field(EXCLUDED_HEADER, "expected a number of pods"))
}

async fn receive(
    app: &App,
    caller: &Caller,
    to: ReportedEnvironment<'_>,
    sender: Sender,
    excluded_pods: u32,
    body: body::Received,
) -> Result<Changed, Problem> {
    let ReportedEnvironment { organization, name: environment, .. } = to;
    // A body with the same bytes as the last one of the same sender needs no parsing.
    let silent_after = app.site.silent_after;
    let name = environment.as_str();
    let excluded = excluded_pods.to_be_bytes();
    let (cluster, user_agent) = (sender.cluster.as_bytes(), sender.user_agent.as_bytes());
    let identity = [&body.hash.bytes()[..], &excluded, cluster, &[0], user_agent];
    let hash = Fingerprint::from_content(&identity.concat());
    let permit = app.organization_locks.heartbeat(organization, app.limits.permit_timeout).await?;
    let now = app.site.now();
    if store::environments::reports::confirm(
        &app.site.store,
        organization,
        name,
        hash,
        &caller.name,
        now,
        silent_after,
    )
    .await?
    {
        return Ok(Changed::Nothing);
    }
    drop(permit);
    let read = move || {
        let body::Received { bytes, share, .. } = body;
        (json::read_with::<K8sReport<'_>, _>("the report", &bytes, NormalizedReport::parse), share)
    };
    // The parsed report holds its memory until it is recorded, while it waits for the database too.
    let (reported, mut share) = compute(read).await?;
    let reported = reported?;
    let artifacts = reported.artifacts();
    share.grow_to("the report", memory(&reported, &artifacts)).await?;
    let report = ParsedReport { reported: &reported, artifacts, excluded_pods };
    let changed = record(app, caller, to, &sender, hash, report).await?;
    drop(share);
    Ok(changed)
}

/// The environment that a report names.
#[derive(Debug, Clone, Copy)]
struct ReportedEnvironment<'a> {
    organization: &'a str,
    name: &'a EnvironmentName,
    if_unknown: IfUnknown,
}

/// What a report to an environment does that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfUnknown {
    Reject,
    Create,
}

pub(super) struct ParsedReport<'a> {
    pub(super) reported: &'a NormalizedReport,
    pub(super) artifacts: ReportedArtifacts,
    pub(super) excluded_pods: u32,
}

/// Memory to record a report, in bytes, measured with a policy and a report that changes everything: rows and names per
/// pod; statuses, reasons and events per artifact, each with its name.
fn memory(reported: &NormalizedReport, artifacts: &ReportedArtifacts) -> usize {
    const POD: usize = 320;
    const ARTIFACT: usize = 3 * 1024;
    const NAMED: usize = 16;
    let artifacts = artifacts.values().map(|artifact| ARTIFACT + NAMED * artifact.name.len());
    reported.pods.len() * POD + artifacts.sum::<usize>()
}

/// The artifacts that keep their verdicts: none if the clock has been set back.
fn kept(
    before: &BTreeMap<Fingerprint, RunningArtifact>,
    changes: &ArtifactChanges<'_>,
    environment: &LockedEnvironment,
    now: Timestamp,
) -> BTreeMap<Fingerprint, Verdict> {
    let is_ahead = environment.changed_at.since(now) > MAX_CLOCK_DIFFERENCE;
    let is_current = environment.is_evaluated && !is_ahead;
    let is_kept =
        |artifact| is_current && !changes.ended.contains(artifact) && !changes.changed.contains_key(artifact);
    let kept = before.iter().filter(|(artifact, _)| is_kept(artifact));
    kept.map(|(artifact, running)| (*artifact, running.verdict.clone())).collect()
}

/// Records a report and its consequences in one transaction, which locks the environment.
async fn record(
    app: &App,
    caller: &Caller,
    to: ReportedEnvironment<'_>,
    sender: &Sender,
    body_hash: Fingerprint,
    report: ParsedReport<'_>,
) -> Result<Changed, Problem> {
    let ReportedEnvironment { organization, name: environment, .. } = to;
    let ParsedReport { reported, excluded_pods, .. } = report;
    let mut evaluating = Evaluating::shared(app, organization).await?;
    let tenant = &mut evaluating.transaction.of(organization);
    let stored =
        match store::environments::reports::lock(tenant, environment.as_str(), IfLocked::Wait).await? {
            Some(stored) => stored,
            None => create_environment(app, tenant, caller, to).await?,
        };
    if stored.archived_at.is_some() {
        return Err(Problem::gone(format!(
            "environment \"{environment}\" is archived; `supercargo environment create {environment}` restores it"
        )));
    }
    check_exclusion(environment, stored.forbids_exclusion, excluded_pods)?;
    let now = app.site.now();
    let at = now.after(Some(stored.changed_at));
    let reported_by = &caller.name;
    let received = ReceivedReport { at, reported_by, body_hash, report_hash: reported.hash, excluded_pods };
    let longest = stored.silent_after.unwrap_or(app.site.silent_after);
    // Only reports end a silence: an evaluation by a replica whose clock is ahead is none.
    let reported_at = now.after(stored.last_report_at);
    if let Some(last) = stored.last_report_at.filter(|last| reported_at.distance(*last) > longest) {
        store::environments::reports::insert_gap(tenant, stored.id, last, at).await?;
    }
    let pods = i64::try_from(reported.pods.len()).unwrap_or(i64::MAX);
    store::environments::reporters::record(tenant, &stored, received, sender, pods).await?;
    if stored.report_hash == Some(reported.hash) {
        store::environments::reports::record(tenant, &stored, received, stored.snapshot).await?;
        evaluating.commit().await?;
        return Ok(Changed::Nothing);
    }
    let changed = record_change(&mut evaluating, organization, environment, stored, received, report).await?;
    let audit = Audit::from_caller(caller, organization, || match changed {
        Changed::Artifacts(number) => format!("reported environment {environment}: snapshot {number}"),
        _ => format!("reported environment {environment}: pods changed"),
    });
    evaluating.audit(audit, at).await?;
    evaluating.commit().await?;
    Ok(changed)
}

/// Records what a report of a locked environment changes, and evaluates it.
pub(super) async fn record_change(
    evaluating: &mut Evaluating<'_>,
    organization: &str,
    environment: &EnvironmentName,
    stored: LockedEnvironment,
    received: ReceivedReport<'_>,
    report: ParsedReport<'_>,
) -> Result<Changed, Problem> {
    let ParsedReport { reported, artifacts: seen, .. } = report;
    let at = received.at;
    let tenant = &mut evaluating.transaction.of(organization);
    let before = store::policies::verdicts::running_artifacts(tenant, stored.id).await?;
    let artifacts = change::compare_artifacts(&before, &seen);
    let pods =
        change::compare_pods(store::environments::runs::running_pods(tenant, stored.id).await?, reported);
    let kept = kept(&before, &artifacts, &stored, evaluating.app.site.now());
    let changed = if stored.snapshot > 0 && artifacts.is_unchanged() {
        Changed::Pods
    } else {
        let number = stored.snapshot + 1;
        store::environments::reports::start_snapshot(tenant, &stored, number, received).await?;
        store::environments::runs::end_artifacts(tenant, stored.id, &artifacts.ended, stored.snapshot, at)
            .await?;
        store::environments::runs::start_artifacts(tenant, stored.id, &artifacts.started, number, at).await?;
        Changed::Artifacts(number)
    };
    store::environments::runs::change_artifacts(tenant, stored.id, &artifacts.changed).await?;
    store::environments::runs::end_pods(tenant, stored.id, pods.ended, at).await?;
    store::environments::runs::start_pods(tenant, stored.id, &pods.started, &reported.workloads, received)
        .await?;
    let snapshot = if let Changed::Artifacts(number) = changed { number } else { stored.snapshot };
    store::environments::reports::record(tenant, &stored, received, snapshot).await?;
    let before = EnvironmentStatus {
        artifacts: before,
        compliance: stored.compliance,
        absence: stored.absence.clone(),
    };
    let cause = Cause { kind: CauseKind::Report, by: Some(received.reported_by.to_owned()) };
    let coverage = Coverage::Complete(Expiry::default());
    let name = environment.clone();
    let subject = Subject { name, environment: stored, snapshot, before, seen, kept, coverage };
    evaluating.evaluate(organization, subject, &cause, at).await?;
    Ok(changed)
}

/// Rejects a report that excludes pods where the bootstrap file forbids it.
fn check_exclusion(
    environment: &EnvironmentName,
    is_forbidden: bool,
    excluded_pods: u32,
) -> Result<(), Problem> {
    if !is_forbidden || excluded_pods == 0 {
        return Ok(());
    }
    let pods = pluralize(u64::from(excluded_pods), "pod");
    Err(Problem::invalid(format!(
        "environment \"{environment}\" forbids excluded pods, and the report excludes {pods}: run its agent without --allow-exclusion (allowExclusion), or remove forbidExclusion from the bootstrap file"
    )))
}

/// Creates the environment of a report that asks for it, unless the caller's token may not, or has reached its limit.
async fn create_environment(
    app: &App,
    tenant: &mut Tenant<'_>,
    caller: &Caller,
    to: ReportedEnvironment<'_>,
) -> Result<LockedEnvironment, Problem> {
    let ReportedEnvironment { name, if_unknown, .. } = to;
    let permitted = caller.role.permits_creation(caller.can_create);
    if permitted.is_err() || if_unknown == IfUnknown::Reject {
        let may_read = |name: &str| caller.may(Operation::ReadEnvironment(name));
        let name = name.as_str();
        let nearest = not_found::nearest_environments(tenant, name, may_read).await?;
        let message = not_found::unknown_environment(name, &nearest);
        return Err(match permitted {
            Ok(()) => Problem::not_found(message),
            Err(denial) => Problem::forbidden(&format!("{message} ({denial})")),
        });
    }
    check_limit(app, tenant, caller, Created::Environments).await?;
    let now = app.site.now();
    Ok(store::environments::reports::create(tenant, name.as_str(), caller.token, now).await?)
}
