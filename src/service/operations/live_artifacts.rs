//! Operation 4: the live artifacts of a repository.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;

use crate::domain::evidence::access::Operation;
use crate::domain::model::{
    Embedded, EmbeddedArtifact, EmbeddedEnvironment, LiveArtifact, LiveArtifacts, Provider, RepositoryName,
    Timestamp,
};
use crate::service::access::{Asking, admit};
use crate::service::app::App;
use crate::service::http::openapi::NullableProvider;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem, Refused};
use crate::service::http::segments::Segments;
use crate::store::live::{Environment, Repository};

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
pub(crate) async fn live_artifacts(
    State(app): State<App>,
    Segments((organization, repository)): Segments<(String, String)>,
    asking: Asking,
    uri: Uri,
) -> Result<axum::Json<LiveArtifacts>, Problem> {
    admit(&app, &asking, &organization, Operation::Read).await?;
    let name: RepositoryName = Problem::parse("repo_name", &repository)?;
    let parameters = Parameters::read(&uri, &["provider"])?;
    // A nullable parameter without a value is one that is absent.
    let provider: Option<Provider> = match parameters.text("provider") {
        Some("") => None,
        _ => parameters.parsed("provider")?,
    };
    let mut transaction = app.store.read().await?;
    let repositories = transaction.repositories(&organization, name.as_str()).await?;
    let repository = choose(&repositories, &name, provider)?;
    let running = transaction.live(&organization, repository.id).await?;
    let artifacts = running.iter().map(|running| running.fingerprint).collect();
    let built = transaction.built(&organization, repository.id, artifacts).await?;
    drop(transaction);
    let now = app.now();
    let holds = |environment: &Environment| environment.validity(app.policy.silent_after).holds(now);

    // An artifact's address is made once, however many environments it runs in.
    let links: HashMap<_, _> = built
        .iter()
        .map(|built| (built.fingerprint, Arc::new(app.links.artifact(&organization, built.fingerprint))))
        .collect();
    let links = |artifact| links.get(&artifact).cloned().unwrap_or_default();
    let artifacts = built
        .into_iter()
        .map(|built| EmbeddedArtifact {
            id: built.fingerprint,
            fingerprint: built.fingerprint,
            commit_sha: built.commit_sha,
            commit_url: built.commit_url,
            links: links(built.fingerprint),
        })
        .collect();
    // Those of one environment lie together.
    let environments = running
        .chunk_by(|one, next| one.environment.id == next.environment.id)
        .filter_map(|of_one| Some(shown(&app, &organization, &of_one.first()?.environment, now)))
        .collect();
    let live_artifacts = running
        .into_iter()
        .map(|running| LiveArtifact {
            environment_id: running.environment.id.to_string(),
            artifact_id: running.fingerprint,
            compliance: running.compliance.confirmed(holds(&running.environment)).as_str(),
            artifact_name: running.name,
            snapshot_index: running.environment.snapshot,
            started_at: running.started_at,
            links: links(running.fingerprint),
        })
        .collect();
    Ok(axum::Json(LiveArtifacts {
        live_artifacts,
        links: app.links.live_artifacts(&organization, name.as_str(), repository.provider.parse().ok()),
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
        let at = provider.map(|provider| format!(" at {}", provider.as_str())).unwrap_or_default();
        Problem::not_found(format!(
            "no artifact was attested from a repository \"{name}\"{at} of this organization"
        ))
    };
    let of = |provider: &str| repositories.iter().find(|repository| repository.provider == provider);
    match (provider, repositories) {
        (Some(provider), _) => of(provider.as_str()).ok_or_else(missing),
        (None, []) => Err(missing()),
        (None, [only]) => Ok(only),
        // One whose provider is not known has no other way to be asked for.
        (None, several) => of("").ok_or_else(|| {
            let providers: Vec<_> = several.iter().map(|repository| repository.provider.as_str()).collect();
            let providers = providers.join(", ");
            Problem::field(
                "provider",
                &format!("several providers have this repository; one of {providers} was expected"),
            )
        }),
    }
}

fn shown(app: &App, organization: &str, environment: &Environment, now: Timestamp) -> EmbeddedEnvironment {
    EmbeddedEnvironment {
        id: environment.id.to_string(),
        name: environment.name.clone(),
        kind: "K8S",
        last_report_at: environment.last_report_at,
        is_silent: environment.validity(app.policy.silent_after).is_silent(now),
        links: app.links.environment(organization, &environment.name),
    }
}
