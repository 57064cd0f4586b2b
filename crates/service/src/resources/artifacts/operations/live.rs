//! Operation 4: the live artifacts of a repository.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;

use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{
    Embedded, EmbeddedEnvironment, Link, LiveArtifact, LiveArtifacts, Provider, RepositoryName, Timestamp,
};
use store::artifacts::live::{LiveEnvironment, Repository};

/// List the running artifacts of a repository in all environments.
#[utoipa::path(
    get,
    path = "/repos/{org}/live-artifacts/{*repo_name}",
    tag = "repos",
    params(
        ("repo_name" = inline(RepositoryName), Path, description = "Repository with its owner; slashes as they are or as %2F", example = "acme/cart"),
        ("provider" = inline(Option<Provider>), Query, description = "Provider; required if several have a repository of this name"),
    ),
    responses(
        (status = 200, description = "Live artifacts", body = LiveArtifacts),
        (status = 404, description = "No such repository", body = ErrorBody),
    ),
)]
pub(crate) async fn live_artifacts(
    State(site): State<Site>,
    Admitted { organization, rest: repository, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<LiveArtifacts>, Problem> {
    let name: RepositoryName = Problem::parse("repo_name", &repository)?;
    let parameters = Parameters::read(&uri, &["provider"])?;
    let provider: Option<Provider> = parameters.nullable("provider")?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let repositories = store::artifacts::live::repositories(tenant, name.as_str()).await?;
    let Some(repository) = select(&repositories, provider.as_ref())? else {
        let (name, why) = (name.as_str(), ": no attestation names it, or it is closed");
        return Err(not_found::repository(tenant, name, provider.as_ref(), why).await);
    };
    let running = store::artifacts::live::list(tenant, repository.id).await?;
    let fingerprints = running.iter().map(|running| running.fingerprint).collect();
    let conflicts = store::provenance::numbers_of_conflicts(tenant, &fingerprints).await?;
    let mut artifacts = store::artifacts::live::built(tenant, repository.id, fingerprints).await?;
    drop(transaction);
    let now = site.now();
    let holds = |environment: &LiveEnvironment| environment.validity(site.silent_after).is_valid(now);

    // Links of an artifact are built once, however many environments run it.
    let mut links = HashMap::new();
    for artifact in &mut artifacts {
        artifact.provenance_conflicts = conflicts.get(&artifact.fingerprint).copied().unwrap_or_default();
        artifact.links = Arc::new(site.links.artifact(&organization, artifact.fingerprint));
        links.insert(artifact.fingerprint, Arc::clone(&artifact.links));
    }
    let page = site.links.environment_pages(&organization);
    // The rows of an environment are adjacent.
    let environments = running
        .chunk_by(|one, next| one.environment.id == next.environment.id)
        .filter_map(|of_one| {
            let environment = &of_one.first()?.environment;
            Some(response(&site, environment, page(&environment.name), now))
        })
        .collect();
    let live_artifacts: Vec<_> = running
        .into_iter()
        .map(|running| LiveArtifact {
            environment_id: running.environment.id.to_string(),
            artifact_id: running.fingerprint,
            compliance: running.compliance.confirmed(holds(&running.environment)).as_str(),
            artifact_name: running.name,
            snapshot_index: running.environment.snapshot,
            started_at: running.started_at,
            links: links.get(&running.fingerprint).cloned().unwrap_or_default(),
        })
        .collect();
    let selector = provider_of(repository, &repositories);
    let links = site.links.live_artifacts(&organization, name.as_str(), selector.as_ref());
    let embedded = Embedded { artifacts, environments };
    Ok(axum::Json(LiveArtifacts { live_artifacts, links, embedded }))
}

/// The repository of this provider if artifacts were built from several; `None` if there is none.
fn select<'a>(
    repositories: &'a [Repository],
    provider: Option<&Provider>,
) -> Result<Option<&'a Repository>, Problem> {
    let selected: Vec<_> = repositories
        .iter()
        .filter(|repository| provider.is_none_or(|provider| repository.known.is_selected_by(provider)))
        .collect();
    let origins: Vec<_> = selected.iter().copied().filter(|repository| repository.is_origin).collect();
    match (origins.as_slice(), selected.as_slice()) {
        ([only], _) | ([], [only, ..]) => Ok(Some(only)),
        ([], []) => Ok(None),
        // A repository without a provider can only be requested without one.
        (several, _) => {
            let bare = several.iter().find(|repository| repository.known.key.is_empty());
            bare.copied().filter(|_| provider.is_none()).map(Some).ok_or_else(|| {
                let selectors =
                    several.iter().filter_map(|repository| provider_of(repository, several.iter().copied()));
                let selectors: Vec<_> = selectors.map(|selector| selector.as_str().to_owned()).collect();
                let expected = selectors.join(", ");
                Problem::field(
                    "provider",
                    &format!("several repositories have this name: expected one of {expected}"),
                )
            })
        }
    }
}

/// The value of `provider` that selects a repository among others of its name.
fn provider_of<'a>(
    repository: &Repository,
    others: impl IntoIterator<Item = &'a Repository>,
) -> Option<Provider> {
    let provider = repository.known.provider()?;
    let matching = others.into_iter().filter(|other| other.known.is_selected_by(&provider)).count();
    if matching > 1 { repository.known.selector().parse().ok() } else { Some(provider) }
}

fn response(site: &Site, environment: &LiveEnvironment, page: String, now: Timestamp) -> EmbeddedEnvironment {
    EmbeddedEnvironment {
        id: environment.id.to_string(),
        name: environment.name.clone(),
        kind: "K8S",
        last_report_at: environment.last_report_at,
        is_silent: environment.validity(site.silent_after).is_silent(now),
        last_evaluated_at: environment.last_evaluated_at,
        absence: environment.absence.as_ref().map(ToString::to_string),
        links: BTreeMap::from([("html", Link { href: page })]),
    }
}
