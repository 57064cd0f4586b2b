//! Begin a trail: an extension of the interface.

use std::collections::BTreeSet;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Deserialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::{check_limit, declared};
use crate::engine::guard::{self, Evaluating};
use crate::engine::not_found;
use crate::engine::origin;
use crate::http::form::Form;
use crate::http::json;
use crate::http::problem::{ErrorBody, Problem};
use crate::http::response::created;
use crate::http::template_file;
use crate::identity::access::{Admitted, Attest};
use model::{
    AnyJson, FlowName, FreeForm, GitCommit, RepositoryInfo, Text, TrailName, UnknownFields, UrlText,
    unknown_fields,
};
use rules::notification::{Cause, CauseKind};
use store::quotas::Created;
use store::repositories::RepositorySource;
use store::trails::writes::NewTrail;

/// A trail to be begun.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct TrailData {
    name: TrailName,
    description: Option<Text>,
    #[schema(value_type = AnyJson, required = false)]
    user_data: Option<AnyJson>,
    git_commit_info: Option<GitCommit>,
    repo_info: Option<RepositoryInfo>,
    origin_url: Option<UrlText>,
    external_urls: Option<FreeForm>,
    #[serde(flatten)]
    #[schema(ignore)]
    unknown: UnknownFields,
}

/// The form, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the form in the OpenAPI document")]
pub(crate) struct TrailForm {
    /// The trail, a JSON object
    data_json: TrailData,
    /// The template of the trail, YAML; by default the current one of its flow
    #[schema(value_type = Option<String>, format = Binary)]
    template_file: Option<Vec<u8>>,
}

/// Begin a trail, or change it. It keeps the template that it was begun with.
#[utoipa::path(
    put,
    path = "/trails/{org}/{flow_name}",
    tag = "trails",
    request_body(content = TrailForm, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "The trail existed", body = String, content_type = "application/json"),
        (status = 201, description = "Begun", body = String, content_type = "application/json"),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn begin_trail(
    State(app): State<App>,
    Admitted { organization, rest: flow, caller, .. }: Admitted<Attest, FlowName>,
    request: Request,
) -> Result<Response, Problem> {
    let form = Form::read(&app, &organization, template_file::PARTS, request).await?;
    let sent: TrailData = json::read(template_file::DATA, form.data()?)?;
    let own_template = form.file().map(template_file::read).transpose()?;
    let unknown = unknown_fields(&sent.unknown, sent.git_commit_info.as_ref(), sent.repo_info.as_ref());
    app.unknown_fields.warn(caller.token, &caller.name, &organization, unknown);
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    let Some(stored_flow) = store::flows::get(tenant, flow.as_str()).await? else {
        return Err(not_found::flow_to_attest(tenant, &flow, &caller).await);
    };
    if own_template.is_some() && stored_flow.is_declared && stored_flow.has_template {
        return Err(declared("template of the flow", &flow));
    }
    let (repository, commit) = (sent.repo_info.as_ref(), sent.git_commit_info.as_ref());
    let (mut evaluating, owned) =
        origin::check(evaluating, &caller, &organization, &flow, repository, commit, &BTreeSet::new())
            .await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    let stored = store::trails::writes::stored(tenant, flow.as_str(), sent.name.as_str()).await?;
    if stored.is_none() {
        check_limit(&app, tenant, &caller, Created::Trails).await?;
    }
    let now = app.site.now();
    let at = now.after(stored.map(|trail| trail.last_modified_at));
    let repository = match &sent.repo_info {
        Some(named) => {
            let (flow, reported_by) = (flow.as_str(), caller.name.as_str());
            let reporter = RepositorySource { flow, reported_by, owned: &owned };
            Some(store::repositories::record(tenant, reporter, named, at).await?)
        }
        None => None,
    };
    let template = match &own_template {
        Some(body) => Some(store::flows::template_version(tenant, flow.as_str(), body, at).await?),
        None if stored.is_none() => store::flows::open_template_id(tenant, flow.as_str()).await?,
        None => None,
    };
    let new = NewTrail {
        flow: flow.as_str(),
        name: sent.name.as_str(),
        // Older clients send empty fields for absent ones.
        description: sent.description.as_ref().filter(|text| !text.as_str().is_empty()),
        origin_url: sent.origin_url.as_ref(),
        user_data: sent.user_data.as_ref().filter(|data| data.as_str() != "{}"),
        external_urls: sent.external_urls.as_ref(),
        commit: sent.git_commit_info.as_ref(),
        repository: repository.as_ref().map(|repository| repository.id),
        template,
        reported_by: &caller.name,
        token: caller.token,
    };
    store::trails::writes::upsert(tenant, new, at).await?;
    if let Some(stored) = stored.filter(|_| template.is_some()) {
        // A policy may require that the trails of an artifact comply with their templates.
        let artifacts = store::trails::writes::artifacts_attested_in(tenant, stored.id).await?;
        let cause = Cause { kind: CauseKind::Attestation, by: Some(caller.name.clone()) };
        evaluating.evaluate_attested(&organization, &artifacts, &guard::ALL, &cause).await?;
    }
    let is_new = stored.is_none();
    let audit = Audit::from_caller(&caller, &organization, || {
        format!("{} the trail {} of flow {flow}", if is_new { "began" } else { "changed" }, sent.name)
    });
    evaluating.audit(audit, at).await?;
    if let Some(change) = repository.and_then(|repository| repository.change) {
        evaluating.audit(Audit::from_token(&caller.name, &organization, change), at).await?;
    }
    evaluating.commit().await?;
    Ok(created(is_new))
}
