//! Operation 1: list trails.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::evidence::verdict;
use crate::domain::model::{
    Fingerprint, Flow, FlowName, GitCommit, Pagination, Template, Text, Timestamp, Trail, TrailCommit,
    TrailTemplate,
};
use crate::service::access::{Admitted, Read};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorResponses, Problem};
use crate::service::http::response::check_size;
use crate::service::site::Site;
use crate::store::trails::{self as stored, Filter};

/// The response of operation 1.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Trails {
    data: Vec<Trail>,
    /// Present when there is more than one page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pagination: Option<Pagination>,
}

/// List the trails of an organization, newest first.
#[utoipa::path(
    get,
    path = "/trails/{org}",
    tag = "trails",
    params(
        ("org" = String, Path, description = "Organization"),
        ("flow" = Option<String>, Query, description = "Filter by flow", pattern = "^[a-zA-Z0-9][a-zA-Z0-9._~-]*$", max_length = 255),
        ("flow_tag" = Option<String>, Query, description = "Filter by tag of the flow, key=value", pattern = "^[^=\\x00]+=[^\\x00]*$"),
        ("fingerprint" = Option<String>, Query, description = "Filter by attested artifact", pattern = "^[a-f0-9]{64}$"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Trails),
        ErrorResponses,
    ),
    security(("token" = [])),
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
    let bytes = transaction.size_of_trails(&organization, filter, page).await?;
    check_size(bytes).map_err(|why| Problem::field("per_page", &why))?;
    let listed = transaction.trails(&organization, filter, page).await?;
    drop(transaction);
    let evaluated = site.now();
    let pagination = Some(page.pagination(listed.total)).filter(|pagination| pagination.page_count > 1);
    let stored::Trails { trails, tags, templates, .. } = listed;
    let data = trails
        .into_iter()
        .map(|trail| {
            let html_url = site.links.trail(&organization, &trail.flow, &trail.name);
            response(trail, html_url, &tags, &templates, evaluated)
        })
        .collect();
    Ok(axum::Json(Trails { data, pagination }))
}

/// The response for a trail.
pub(crate) fn response(
    trail: stored::Trail,
    html_url: String,
    tags: &HashMap<String, std::collections::BTreeMap<String, String>>,
    templates: &HashMap<String, Template>,
    evaluated: Timestamp,
) -> Trail {
    let template = trail.template.as_ref().or_else(|| templates.get(&trail.flow));
    let mut compliance_status = verdict::evaluate_trail(template, &trail.latest, evaluated);
    for (name, artifact) in trail.artifacts {
        let status = compliance_status.artifacts_statuses.entry(name).or_default();
        status.artifact_fingerprint = Some(artifact);
    }
    Trail {
        name: trail.name,
        last_modified_at: trail.last_modified_at,
        created_at: trail.created_at,
        is_compliant: compliance_status.is_compliant,
        compliance_status,
        template: template.map(|template| TrailTemplate {
            trail: template.body.clone(),
            version: template.version,
            content: serde_json::to_string(&template.body).unwrap_or_default(),
        }),
        created_by: trail.created_by,
        flow: Flow { tags: tags.get(&trail.flow).cloned().unwrap_or_default(), name: trail.flow },
        html_url,
        description: trail.description,
        git_commit_info: trail.commit.map(commit),
        origin_url: trail.origin_url,
        user_data: trail.user_data,
        repo_ids: trail.repositories.iter().map(ToString::to_string).collect(),
        events: Vec::new(),
        external_urls: trail.external_urls,
    }
}

fn commit(sent: GitCommit) -> TrailCommit {
    let text = |text: Option<Text>| text.map(|text| text.as_str().to_owned());
    TrailCommit {
        sha1: sent.sha1,
        message: text(sent.message),
        author: text(sent.author),
        branch: text(sent.branch),
        timestamp: sent.timestamp,
        url: sent.url.map(|url| url.as_str().to_owned()),
    }
}
