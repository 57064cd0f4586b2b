//! List and get environments: extensions of the interface.

pub(crate) mod agents;
pub(crate) mod archive;
pub(crate) mod create;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod policies;
pub(crate) mod report;
pub(crate) mod snapshot;
pub(crate) mod snapshots;
pub(crate) mod statement;

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Uri;
use serde::{Deserialize, Serialize};

use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read, ReadEnvironment};
use crate::site::Site;
use model::access::Operation;
use model::{EnvironmentName, Timestamp};
use rules::compliance::Compliance;
use store::environments::EnvironmentOverview;

/// An environment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the response")]
pub(crate) struct Environment {
    org: String,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    description: String,
    last_modified_at: Timestamp,
    last_reported_at: Option<Timestamp>,
    last_changed_at: Option<Timestamp>,
    /// When it was archived; null if it is not
    archived_at: Option<Timestamp>,
    /// Number of pods that an annotation excludes from the last report
    excluded_pods: i64,
    /// Whether it is compliant; null if that is unknown
    state: Option<bool>,
    /// Whether it waits to be evaluated: the state is that of its last evaluation
    evaluating: bool,
    /// Whether it waits because its evaluation failed
    evaluation_failed: bool,
    /// Whether it was not reported for longer than expected
    is_silent: bool,
    include_scaling: bool,
    tags: BTreeMap<String, String>,
    /// Names of the attached policies
    policies: Vec<String>,
    included_environments: Option<Vec<String>>,
    html_url: String,
}

/// Environments: all of them, or a page.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum Environments {
    All(Vec<Environment>),
    Page(EnvironmentsPage),
}

/// A page of environments.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct EnvironmentsPage {
    environments: Vec<Environment>,
    page: i64,
    per_page: i64,
    total_pages: u64,
    total_count: u64,
}

/// The type of an environment. There are only those of Kubernetes here; a filter by another one matches none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EnvironmentType {
    #[serde(rename = "K8S")]
    K8s,
    #[serde(rename = "ECS")]
    Ecs,
    #[serde(rename = "S3")]
    S3,
    Lambda,
    Server,
    Docker,
    AzureApps,
    CloudRun,
    Logical,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    #[default]
    Name,
    LastModifiedAt,
    LastChangedAt,
}

/// The direction of an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    #[default]
    Asc,
    Desc,
}

/// List the environments that are not archived. A list without `page` and `per_page` is an array of all.
#[utoipa::path(
    get,
    path = "/environments/{org}",
    tag = "environments",
    params(
        ("name" = Option<String>, Query, description = "Part of the name, ignoring case", pattern = "^[^\\x00]*$"),
        ("type" = inline(Option<Vec<EnvironmentType>>), Query, description = "Type; may be repeated"),
        ("tag" = Option<Vec<String>>, Query, description = "Tag as key or key:value; may be repeated"),
        ("space_id" = Option<Vec<String>>, Query, description = "There are no spaces: matches none"),
        ("sort" = inline(Option<Sort>), Query, description = "Order"),
        ("sort_direction" = inline(Option<Direction>), Query, description = "Direction of the order"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "The environments", body = Environments)),
)]
pub(crate) async fn list_environments(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<Environments>, Problem> {
    let known = ["name", "sort", "sort_direction", "page", "per_page"];
    let parameters = Parameters::read_with_lists(&uri, &known, &["type", "tag", "space_id"])?;
    let sort: Sort = parameters.words("sort")?.pop().unwrap_or_default();
    let direction: Direction = parameters.words("sort_direction")?.pop().unwrap_or_default();
    let types: Vec<EnvironmentType> = parameters.words("type")?;
    let name = parameters.text("name").unwrap_or_default().to_lowercase();
    let (tags, page) = (parameters.all("tag"), parameters.page()?);
    let mut all = environments(&site, &organization, None).await?;
    all.retain(|environment| {
        environment.name.to_lowercase().contains(&name)
            && (types.is_empty() || types.contains(&EnvironmentType::K8s))
            && (tags.is_empty() || tags.iter().any(|tag| environment.has_tag(tag)))
            && parameters.all("space_id").is_empty()
    });
    all.sort_unstable_by(|one, other| match sort {
        Sort::Name => one.name.cmp(&other.name),
        Sort::LastModifiedAt => (one.last_modified_at, &one.name).cmp(&(other.last_modified_at, &other.name)),
        Sort::LastChangedAt => (one.last_changed_at, &one.name).cmp(&(other.last_changed_at, &other.name)),
    });
    if direction == Direction::Desc {
        all.reverse();
    }
    if !parameters.is_paged() {
        return Ok(axum::Json(Environments::All(all)));
    }
    let pagination = page.pagination(all.len() as u64);
    let skipped = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    Ok(axum::Json(Environments::Page(EnvironmentsPage {
        environments: all
            .into_iter()
            .skip(skipped)
            .take(usize::try_from(page.size()).unwrap_or(usize::MAX))
            .collect(),
        page: page.number().into(),
        per_page: page.size(),
        total_pages: pagination.page_count,
        total_count: pagination.total,
    })))
}

/// Get an environment. Its reporters may read it too.
#[utoipa::path(
    get,
    path = "/environments/{org}/{env_name}",
    tag = "environments",
    responses(
        (status = 200, description = "The environment", body = Environment),
        (status = 404, description = "No such environment", body = ErrorBody),
    ),
)]
pub(crate) async fn get_environment(
    State(site): State<Site>,
    Admitted { organization, rest: name, caller, .. }: Admitted<ReadEnvironment, String>,
    uri: Uri,
) -> Result<axum::Json<Environment>, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    Parameters::read(&uri, &[])?;
    let environment = environments(&site, &organization, Some(name.as_str())).await?.pop();
    if let Some(environment) = environment {
        return Ok(axum::Json(environment));
    }
    let may_read = |name: &str| caller.may(Operation::ReadEnvironment(name));
    let mut transaction = site.store.read().await?;
    let name = name.as_str();
    let nearest = not_found::nearest_environments(&mut transaction.of(&organization), name, may_read).await?;
    Err(Problem::not_found(not_found::unknown_environment(name, &nearest)))
}

/// The environments of an organization; of this name, if there is one.
async fn environments(
    site: &Site,
    organization: &str,
    name: Option<&str>,
) -> Result<Vec<Environment>, Problem> {
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(organization);
    let stored = store::environments::list(tenant, name).await?;
    let attachments = store::policies::attachments(tenant, name, None).await?;
    let mut tags = store::tags::of_environments(tenant, name).await?;
    drop(transaction);
    let mut policies: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for attachment in attachments {
        policies.entry(attachment.environment).or_default().push(attachment.policy);
    }
    let now = site.now();
    let environment = |stored: EnvironmentOverview| {
        let validity = stored.validity(site.silent_after);
        Environment {
            html_url: site.links.environment_page(organization, &stored.name),
            org: organization.to_owned(),
            tags: tags.remove(&stored.name).unwrap_or_default(),
            policies: policies.remove(&stored.name).unwrap_or_default(),
            name: stored.name,
            kind: "K8S",
            description: stored.description,
            last_modified_at: stored.last_changed_at.unwrap_or(stored.created_at),
            last_reported_at: stored.last_report_at,
            last_changed_at: stored.last_changed_at,
            archived_at: stored.archived_at,
            excluded_pods: stored.excluded_pods,
            state: match stored.compliance.confirmed(validity.is_valid(now)) {
                Compliance::Compliant => Some(true),
                Compliance::NonCompliant => Some(false),
                Compliance::Unknown => None,
            },
            evaluating: stored.is_queued,
            evaluation_failed: stored.has_failed,
            is_silent: validity.is_silent(now),
            include_scaling: false,
            included_environments: None,
        }
    };
    Ok(stored.into_iter().map(environment).collect())
}

impl Environment {
    /// Whether it has a tag with this key, and value if there is one.
    fn has_tag(&self, tag: &str) -> bool {
        match tag.split_once(':') {
            Some((key, value)) => self.tags.get(key).is_some_and(|known| known == value),
            None => self.tags.contains_key(tag),
        }
    }
}
