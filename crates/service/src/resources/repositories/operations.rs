//! Close and reopen repositories: extensions of the interface.

use axum::extract::State;
use axum::http::Uri;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::guard::Evaluating;
use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Administer, Admitted, Caller};
use model::{Provider, RepositoryName, at_provider};

/// Close a repository that should not exist: attestations must not name it, and it is the origin of no artifact. Not in
/// Kosli's API.
#[utoipa::path(
    put,
    path = "/repos/{org}/close/{*repo_name}",
    tag = "repos",
    params(
        ("repo_name" = inline(RepositoryName), Path, description = "Repository with its owner; slashes as they are or as %2F", example = "acme/cart"),
        ("provider" = inline(Option<Provider>), Query, description = "Provider of the repository; absent if it has none"),
    ),
    responses(
        (status = 200, description = "Closed", body = String, content_type = "application/json"),
        (status = 404, description = "No such repository", body = ErrorBody),
    ),
)]
pub(crate) async fn close_repository(
    State(app): State<App>,
    Admitted { organization, rest: repository, caller, .. }: Admitted<Administer, String>,
    uri: Uri,
) -> Result<axum::Json<&'static str>, Problem> {
    set_closed(&app, &caller, &organization, &repository, &uri, true).await?;
    Ok(axum::Json("Repository closed"))
}

/// Reopen a closed repository. Not in Kosli's API.
#[utoipa::path(
    put,
    path = "/repos/{org}/reopen/{*repo_name}",
    tag = "repos",
    params(
        ("repo_name" = inline(RepositoryName), Path, description = "Repository with its owner; slashes as they are or as %2F", example = "acme/cart"),
        ("provider" = inline(Option<Provider>), Query, description = "Provider of the repository; absent if it has none"),
    ),
    responses(
        (status = 200, description = "Open", body = String, content_type = "application/json"),
        (status = 404, description = "No such repository", body = ErrorBody),
    ),
)]
pub(crate) async fn reopen_repository(
    State(app): State<App>,
    Admitted { organization, rest: repository, caller, .. }: Admitted<Administer, String>,
    uri: Uri,
) -> Result<axum::Json<&'static str>, Problem> {
    set_closed(&app, &caller, &organization, &repository, &uri, false).await?;
    Ok(axum::Json("Repository reopened"))
}

async fn set_closed(
    app: &App,
    caller: &Caller,
    organization: &str,
    repository: &str,
    uri: &Uri,
    is_closed: bool,
) -> Result<(), Problem> {
    let name: RepositoryName = Problem::parse("repo_name", repository)?;
    let provider: Option<Provider> = Parameters::read(uri, &["provider"])?.nullable("provider")?;
    // Excludes attestations, which record origins.
    let mut evaluating = Evaluating::exclusive(app, organization).await?;
    let now = app.site.now();
    let tenant = &mut evaluating.transaction.of(organization);
    let closed_at = is_closed.then_some(now);
    if !store::repositories::set_closed(tenant, name.as_str(), provider.as_ref(), closed_at, now).await? {
        let why = match provider {
            None => ": no attestation names it without a provider: set `provider`, if it has one",
            Some(_) => ": no attestation names it",
        };
        let (name, provider) = (name.as_str(), provider.as_ref());
        return Err(not_found::repository(tenant, name, provider, why).await);
    }
    let audit = Audit::from_caller(caller, organization, || {
        let change = if is_closed { "closed" } else { "reopened" };
        format!("{change} the repository {name}{}", at_provider(provider.as_ref()))
    });
    evaluating.audit(audit, now).await?;
    evaluating.commit().await?;
    Ok(())
}
