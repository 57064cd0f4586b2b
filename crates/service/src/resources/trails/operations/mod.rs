//! Operation 1: list trails. Get a trail: an extension of the interface.

pub(crate) mod begin;

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{Fingerprint, FlowName, Page, Pagination, TrailEvent, TrailName};
use store::attestations::lists::AttestationSummary;
use store::trails::{Filter, Trail};
use store::{AtMost, Error, Tenant};

/// Maximum number of artifacts of a trail whose runs are listed as events.
const MAX_RUN_ARTIFACTS: usize = 10;

/// The response of operation 1.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Trails {
    data: Vec<Trail>,
    /// Present when there is more than one page, or when a page is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pagination: Option<Pagination>,
}

/// List the trails of an organization, newest first.
#[utoipa::path(
    get,
    path = "/trails/{org}",
    tag = "trails",
    params(
        ("flow" = Option<String>, Query, description = "Filter by flow", pattern = "^[a-zA-Z0-9][a-zA-Z0-9._~-]*$", max_length = 255),
        ("flow_tag" = Option<String>, Query, description = "Filter by tag of the flow, key=value", pattern = "^[^=\\x00]+=[^\\x00]*$"),
        ("fingerprint" = Option<String>, Query, description = "Filter by attested artifact", pattern = "^[a-f0-9]{64}$"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Trails),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn list_trails(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<Trails>, Problem> {
    let parameters = Parameters::read(&uri, &["flow", "flow_tag", "fingerprint", "page", "per_page"])?;
    let page = parameters.page()?;
    let flow: Option<FlowName> = parameters.parsed("flow")?;
    let tag = match parameters.text("flow_tag") {
        None => None,
        Some(tag) => Some(
            tag.split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| Problem::field("flow_tag", "expected key=value"))?,
        ),
    };
    let fingerprint: Option<Fingerprint> = parameters.parsed("fingerprint")?;
    let filter = Filter { flow: flow.as_ref().map(FlowName::as_str), name: None, tag, fingerprint };
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let html_url = |flow: &str, trail: &str| site.links.trail(&organization, flow, trail);
    let data = store::trails::list(tenant, filter, page, html_url, site.now()).await?;
    let total = store::trails::count(tenant, filter).await?;
    if let Some(flow) = flow.as_ref().filter(|_| total == 0) {
        not_found::require_flow(tenant, flow).await?;
    }
    let is_paged = |pagination: &Pagination| pagination.page_count > 1 || parameters.is_paged();
    let pagination = Some(page.pagination(total)).filter(is_paged);
    Ok(axum::Json(Trails { data, pagination }))
}

/// Get a trail with its events, oldest first.
#[utoipa::path(
    get,
    path = "/trails/{org}/{flow_name}/{trail_name}",
    tag = "trails",
    responses(
        (status = 200, description = "The trail", body = Trail),
        (status = 404, description = "No such flow or trail", body = ErrorBody),
    ),
)]
pub(crate) async fn get_trail(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (FlowName, TrailName)>,
    uri: Uri,
) -> Result<axum::Json<Trail>, Problem> {
    let (flow, name) = rest;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let found = FoundTrail::find(&site, tenant, flow.as_str(), name.as_str());
    let Some(found) = found.await? else {
        return Err(not_found::trail(tenant, &flow, &name).await?);
    };
    let events = found.events(tenant).await?;
    let mut trail = Trail { events, ..found.trail };
    if let Some(commit) = &mut trail.git_commit_info {
        commit.complete();
    }
    Ok(axum::Json(trail))
}

/// A trail without its events.
pub(crate) struct FoundTrail {
    pub(crate) trail: Trail,
    /// Current before superseded, newest first.
    pub(crate) attestations: AtMost<AttestationSummary>,
}

impl FoundTrail {
    /// Finds a trail by name; `None` if it does not exist.
    pub(crate) async fn find(
        site: &Site,
        tenant: &mut Tenant<'_>,
        flow: &str,
        name: &str,
    ) -> Result<Option<Self>, Problem> {
        let only = Page::new(None, Some(1)).map_err(|error| Problem::field(error.parameter, &error))?;
        let filter = Filter { flow: Some(flow), name: Some(name), ..Filter::default() };
        let html_url = |flow: &str, trail: &str| site.links.trail(tenant.name, flow, trail);
        let listed = store::trails::list(tenant, filter, only, html_url, site.now()).await;
        let mut listed = listed.map_err(|error| match error {
            Error::PageTooLarge => Problem::invalid(format!("the trail is too large: {error}")),
            error => error.into(),
        })?;
        let Some(trail) = listed.pop() else { return Ok(None) };
        let attestations = store::attestations::lists::of_trail(tenant, trail.id).await?;
        Ok(Some(Self { trail, attestations }))
    }

    async fn events(&self, tenant: &mut Tenant<'_>) -> Result<Vec<TrailEvent>, Problem> {
        let reports = store::artifacts::reported::of_trail(tenant, self.trail.id).await?;
        let mut has_more = self.attestations.has_more || reports.has_more;
        let mut events = vec![TrailEvent::new("trail_reported", self.trail.created_at)];
        events.extend(self.attestations.listed.iter().map(attestation_event));
        let mut names: BTreeMap<Fingerprint, &str> = BTreeMap::new();
        for report in &reports.listed {
            let name = report.template_name.as_ref().unwrap_or(&report.name);
            names.entry(report.artifact).or_insert(name);
            events.push(TrailEvent {
                artifact_name: Some(report.name.clone()),
                artifact_fingerprint: Some(report.artifact),
                template_reference_name: Some(name.clone()),
                ..TrailEvent::new("artifact_creation_reported", report.created_at)
            });
        }
        // Earlier changes of the trail's own fields are not stored.
        let changed = self.trail.last_modified_at;
        if events.iter().all(|event| event.timestamp < changed) {
            events.push(TrailEvent::new("trail_updated", changed));
        }
        has_more |= names.len() > MAX_RUN_ARTIFACTS;
        for (artifact, name) in names.into_iter().take(MAX_RUN_ARTIFACTS) {
            let run = |kind, at, environment: &str, snapshot| TrailEvent {
                artifact_fingerprint: Some(artifact),
                template_reference_name: Some(name.to_owned()),
                environment_name: Some(environment.to_owned()),
                snapshot_index: Some(snapshot),
                ..TrailEvent::new(kind, at)
            };
            let (started, stopped) = ("artifact_started_running", "artifact_stopped_running");
            let current = store::artifacts::current_runs(tenant, artifact).await?;
            let past = store::artifacts::past_runs(tenant, artifact).await?;
            has_more |= current.has_more || past.has_more;
            for now in &current.listed {
                events.push(run(started, now.started_at, &now.environment.name, now.first_snapshot));
            }
            for ended in &past.listed {
                events.push(run(started, ended.started_at, &ended.environment_name, ended.first_snapshot));
                events.push(run(stopped, ended.exited_at, &ended.environment_name, ended.snapshot_index));
            }
        }
        if has_more {
            events.push(TrailEvent::new("older_events_omitted", self.trail.created_at));
        }
        events.sort_by_key(|event| event.timestamp);
        Ok(events)
    }
}

fn attestation_event(attested: &AttestationSummary) -> TrailEvent {
    let (kind, target) = match (attested.artifact, attested.targets.as_slice()) {
        (None, []) => ("trail_attestation_reported", None),
        (None, targets) => ("trail_attestation_for_artifact_reported", Some(targets.join(", "))),
        (Some(artifact), []) => ("artifact_attestation_reported", Some(artifact.to_string())),
        (Some(_), targets) => ("artifact_attestation_reported", Some(targets.join(", "))),
    };
    TrailEvent {
        attestation_id: Some(attested.id.to_string()),
        attestation_type: Some(attested.kind.clone()),
        is_compliant: attested.passes,
        template_reference_name: Some(attested.name.clone()),
        target_artifact: target,
        artifact_fingerprint: attested.artifact,
        ..TrailEvent::new(kind, attested.created_at)
    }
}
