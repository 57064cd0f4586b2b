//! Operation 4: the live artifacts of a repository.

use std::collections::{BTreeMap, HashMap};

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use sqlx::types::Uuid;

use super::access::admit;
use super::app::{App, now};
use super::parameters::Parameters;
use super::problem::{ErrorBody, Problem, Refused};
use super::schema::NullableProvider;
use super::segments::Segments;
use crate::domain::access::Operation;
use crate::domain::model::{
    Embedded, EmbeddedArtifact, EmbeddedEnvironment, LiveArtifact, LiveArtifacts, Provider, RepositoryName,
};
use crate::store::live::{Environment, Repository};

/// What is said of an artifact in an environment without a policy.
const UNKNOWN: &str = "UNKNOWN";

/// List what runs now of a repository, in every environment.
#[utoipa::path(
    get,
    path = "/repos/{org}/live-artifacts/{*repo_name}",
    tag = "repos",
    params(
        ("org" = String, Path, description = "Organization"),
        ("repo_name" = inline(RepositoryName), Path, description = "Repository with its owners; slashes raw or as %2F", example = "acme/cart"),
        ("provider" = inline(Option<NullableProvider>), Query, description = "Needed where several providers have a repository of this name"),
    ),
    responses(
        (status = 200, description = "What runs", body = LiveArtifacts),
        (status = 404, description = "No such repository", body = ErrorBody),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn live_artifacts(
    State(app): State<App>,
    Segments((organization, repository)): Segments<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<axum::Json<LiveArtifacts>, Problem> {
    admit(&app, &headers, &organization, Operation::Read).await?;
    let name: RepositoryName = Problem::parse("repo_name", &repository)?;
    let parameters = Parameters::read(&uri, &["provider"])?;
    // A nullable parameter without a value is one that is absent.
    let provider: Option<Provider> = match parameters.text("provider") {
        Some("") => None,
        _ => parameters.parsed("provider")?,
    };
    let mut transaction = app.store.read().await?;
    let repositories = transaction.repositories(&organization, name.as_str()).await?;
    let repository = choose(&repositories, &name, provider)?.id;
    let running = transaction.live(&organization, repository).await?;
    let mut built = transaction.live_artifacts(&organization, repository).await?;
    let mut environments = transaction.live_environments(&organization, repository).await?;
    drop(transaction);
    // Here, and not in the database, whose order of letters is its own.
    environments.sort_by(|a, b| a.name.cmp(&b.name));
    built.sort_by_key(|built| built.fingerprint);

    let snapshots: HashMap<Uuid, i64> = environments.iter().map(|e| (e.id, e.snapshot)).collect();
    let order: HashMap<Uuid, usize> = environments.iter().enumerate().map(|(n, e)| (e.id, n)).collect();
    let mut live: Vec<_> = running
        .into_iter()
        .filter_map(|running| {
            Some((*order.get(&running.environment)?, *snapshots.get(&running.environment)?, running))
        })
        .collect();
    live.sort_by(|(a, _, x), (b, _, y)| (a, &x.name, x.fingerprint).cmp(&(b, &y.name, y.fingerprint)));
    let live_artifacts = live
        .into_iter()
        .map(|(_, snapshot_index, running)| LiveArtifact {
            environment_id: running.environment.to_string(),
            artifact_id: running.fingerprint,
            artifact_name: running.name,
            snapshot_index,
            started_at: running.started_at,
            compliance: UNKNOWN.to_owned(),
            links: app.links.trails_of(&organization, running.fingerprint),
        })
        .collect();
    let artifacts = built
        .into_iter()
        .map(|built| EmbeddedArtifact {
            id: built.fingerprint,
            fingerprint: built.fingerprint,
            commit_sha: built.commit_sha,
            commit_url: built.commit_url,
            links: app.links.trails_of(&organization, built.fingerprint),
        })
        .collect();
    let environments = environments.into_iter().map(|environment| shown(&app, environment)).collect();
    Ok(axum::Json(LiveArtifacts {
        live_artifacts,
        links: app.links.live_artifacts(&organization, name.as_str()),
        embedded: Embedded { artifacts, environments },
    }))
}

/// The repository that is meant.
fn choose<'a>(
    repositories: &'a [Repository],
    name: &RepositoryName,
    provider: Option<Provider>,
) -> Result<&'a Repository, Problem> {
    let missing = || {
        Problem::not_found(format!(
            "no artifact was attested from a repository \"{name}\" of this organization"
        ))
    };
    match (provider, repositories) {
        (None, [only]) => Ok(only),
        (None, []) => Err(missing()),
        (None, several) => {
            let providers: Vec<_> =
                several.iter().map(|r| r.provider.as_str()).filter(|p| !p.is_empty()).collect();
            let expected = format!(
                "several providers have this repository; one of {} was expected",
                providers.join(", ")
            );
            Err(Problem::field("provider", &expected))
        }
        (Some(provider), all) => all.iter().find(|r| r.provider == provider.as_str()).ok_or_else(missing),
    }
}

fn shown(app: &App, environment: Environment) -> EmbeddedEnvironment {
    let silence = now().micros().saturating_sub(environment.last_report_at.micros());
    let longest = environment.silent_after.unwrap_or(app.policy.silent_after);
    EmbeddedEnvironment {
        id: environment.id.to_string(),
        name: environment.name,
        kind: "K8S",
        last_report_at: environment.last_report_at,
        is_silent: u128::from(silence.unsigned_abs()) > longest.as_micros() && silence > 0,
        links: BTreeMap::new(),
    }
}
