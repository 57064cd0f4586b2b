//! Report an artifact that a pipeline built: an extension of the interface.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::guard::{self, Evaluating};
use crate::engine::not_found;
use crate::engine::origin;
use crate::engine::repeated::{self, KeyedRequest};
use crate::http::json;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Attest};
use model::{FlowName, ReportedArtifact};
use rules::notification::{Cause, CauseKind};
use store::artifacts::reported::NewReport;
use store::repositories::RepositorySource;

/// The response to the report of an artifact.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Recorded {
    message: &'static str,
}

/// Report an artifact that a pipeline built.
#[utoipa::path(
    post,
    path = "/artifacts/{org}/{flow_name}",
    tag = "artifacts",
    params(("Idempotency-Key" = Option<String>, Header, description = "Key of the request, the same when it is repeated", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body(content = ReportedArtifact, content_type = "application/json"),
    responses(
        (status = 201, description = "Recorded", body = Recorded),
        (status = 404, description = "No such flow or trail", body = ErrorBody),
        (status = 422, description = "Another request had this Idempotency-Key", body = ErrorBody),
    ),
)]
pub(crate) async fn report_artifact(
    State(app): State<App>,
    Admitted { organization, rest: flow, caller, .. }: Admitted<Attest, String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let (sent, _share): (ReportedArtifact, _) =
        json::receive(&app, &organization, "the artifact", &headers, body).await?;
    app.unknown_fields.warn(caller.token, &caller.name, &organization, sent.unknown_fields());
    let key = KeyedRequest::read(&headers, &caller)?;
    let content = serde_json::to_vec(&sent).map_err(store::Error::Serialize)?;
    let content = repeated::hash(&[b"artifact", flow.as_str().as_bytes(), &content]);
    let artifacts = BTreeSet::from([sent.fingerprint]);
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    if let Some(key) = &key
        && key.is_recorded(tenant, content, app.site.now()).await?
    {
        return Ok(recorded());
    }
    if store::flows::get(tenant, flow.as_str()).await?.is_none() {
        return Err(not_found::flow_to_attest(tenant, &flow, &caller).await);
    }
    let trail = match &sent.trail_name {
        None => None,
        Some(name) => match store::trails::writes::stored(tenant, flow.as_str(), name.as_str()).await? {
            Some(trail) => Some(trail),
            None => return Err(Problem::not_found(origin::missing_trail(&flow, name))),
        },
    };
    let commit = sent.commit();
    let repository = sent.repo_info.as_ref();
    let (mut evaluating, owned) =
        origin::check(evaluating, &caller, &organization, &flow, repository, Some(&commit), &artifacts)
            .await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    let last = store::attestations::latest::last_time(tenant, &artifacts);
    let at = app.site.now().after(trail.map(|trail| trail.last_modified_at).max(last.await?));
    let reporter = RepositorySource { flow: flow.as_str(), reported_by: &caller.name, owned: &owned };
    let new = NewReport { reporter, trail: trail.map(|trail| trail.id), sent: &sent, commit: &commit };
    if store::artifacts::reported::is_repeated(tenant, new).await? {
        if let Some(key) = &key {
            key.record(tenant, content, app.site.now()).await?;
            evaluating.commit().await?;
        }
        return Ok(recorded());
    }
    let before = match new.trail {
        Some(trail) => evaluating.trail_compliance(&organization, trail).await?,
        None => None,
    };
    let tenant = &mut evaluating.transaction.of(&organization);
    let effect = store::artifacts::reported::insert(tenant, new, at).await?;
    if let Some(key) = &key {
        key.record(tenant, content, app.site.now()).await?;
    }
    let cause = Cause { kind: CauseKind::Attestation, by: Some(caller.name.clone()) };
    match trail {
        Some(trail) => {
            evaluating.evaluate_attestation(&organization, trail.id, before, &artifacts, &cause, at).await?;
        }
        None => evaluating.evaluate_attested(&organization, &artifacts, &guard::ALL, &cause).await?,
    }
    let audit = Audit::from_caller(&caller, &organization, || {
        let trail = sent.trail_name.as_ref().map(|trail| format!("/{trail}")).unwrap_or_default();
        format!("reported the artifact {} in {flow}{trail}", sent.fingerprint)
    });
    evaluating.audit(audit, at).await?;
    let what = format!("artifact \"{}\"", sent.filename.as_str());
    origin::commit_with_warning(evaluating, &caller, &organization, &flow, &what, effect, at).await?;
    Ok(recorded())
}

fn recorded() -> Response {
    (StatusCode::CREATED, axum::Json(Recorded { message: "OK" })).into_response()
}
