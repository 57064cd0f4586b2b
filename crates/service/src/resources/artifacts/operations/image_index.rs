//! Record the manifests of an image index: an extension of the interface.
//!
//! The request has the index itself. Its SHA-256 is its digest, so that no token can add a manifest to an index.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::check_limit;
use crate::engine::guard::{self, Evaluating};
use crate::engine::origin;
use crate::http::json;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Attest};
use model::{Fingerprint, FlowName, ImageIndex};
use rules::notification::{Cause, CauseKind};
use store::image_indexes::related;
use store::quotas::Created;

/// An image index.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SentIndex {
    /// Its digest
    fingerprint: Fingerprint,
    /// Its bytes: an OCI image index or a Docker manifest list, with at most 64 manifests
    #[schema(max_length = 262_144)]
    document: String,
}

/// Record the manifests of an image index, so that evidence for the index counts for its manifests, and vice versa. Not in Kosli's API.
#[utoipa::path(
    post,
    path = "/artifacts/{org}/{flow_name}/image-index",
    tag = "artifacts",
    request_body(content = SentIndex, content_type = "application/json"),
    responses(
        (status = 201, description = "Recorded", body = ImageIndex),
        (status = 200, description = "It was recorded before", body = ImageIndex),
        (status = 400, description = "The document is not an image index, or has another digest", body = ErrorBody),
    ),
)]
pub(crate) async fn record_image_index(
    State(app): State<App>,
    Admitted { organization, rest: flow, caller, .. }: Admitted<Attest, String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let (sent, _share): (SentIndex, _) =
        json::receive(&app, &organization, "the image index", &headers, body).await?;
    let index =
        ImageIndex::parse(sent.document.as_bytes()).map_err(|error| Problem::field("document", &error))?;
    if index.fingerprint != sent.fingerprint {
        let expected = format!("expected the SHA-256 of the document, {}", index.fingerprint);
        return Err(Problem::field("fingerprint", &expected));
    }
    let mut changed: BTreeSet<Fingerprint> =
        index.manifests.iter().map(|manifest| manifest.fingerprint).collect();
    changed.insert(index.fingerprint);
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let now = app.site.now();
    let tenant = &mut evaluating.transaction.of(&organization);
    // The new index replaces the oldest of those whose evidence counts for a manifest.
    let before = store::image_indexes::listed_manifests(tenant, &changed).await?;
    let (mut evaluating, _) =
        origin::check(evaluating, &caller, &organization, &flow, None, None, &changed).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    changed.extend(related(&before));
    if store::flows::get(tenant, flow.as_str()).await?.is_none() {
        check_limit(&app, tenant, &caller, Created::Flows).await?;
        store::flows::create(tenant, flow.as_str(), caller.token, now).await?;
    }
    let mut status = StatusCode::OK;
    if store::image_indexes::insert(tenant, &index, flow.as_str(), &caller.name, now).await? {
        status = StatusCode::CREATED;
        let cause = Cause { kind: CauseKind::Attestation, by: Some(caller.name.clone()) };
        evaluating.evaluate_attested(&organization, &changed, &guard::ALL, &cause).await?;
        let audit = Audit::from_caller(&caller, &organization, || {
            format!("recorded the image index {} in {flow}", index.fingerprint)
        });
        evaluating.audit(audit, now).await?;
        evaluating.commit().await?;
    }
    Ok((status, axum::Json(index)).into_response())
}
