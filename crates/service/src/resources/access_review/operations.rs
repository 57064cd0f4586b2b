//! Review who may make an artifact compliant: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;

use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, ReadAudit};
use crate::site::Site;
use model::EnvironmentName;
use rules::access_review::{AccessReview, TokenGrant};

/// Review who may make an artifact compliant in an environment: the tokens that may fulfill each requirement of its policies.
/// Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/environments/{org}/{env_name}/access-review",
    tag = "environments",
    responses(
        (status = 200, description = "The review", body = AccessReview),
        (status = 404, description = "No such environment", body = ErrorBody),
    ),
)]
pub(crate) async fn review_access(
    State(site): State<Site>,
    Admitted { organization, rest: environment, .. }: Admitted<ReadAudit, String>,
    uri: Uri,
) -> Result<axum::Json<AccessReview>, Problem> {
    let environment: EnvironmentName = Problem::parse("env_name", &environment)?;
    Parameters::read(&uri, &[])?;
    let review = read(&site, &organization, &environment).await?;
    match review {
        Some(review) => Ok(axum::Json(review)),
        None => {
            Err(not_found::environment(&mut site.store.read().await?.of(&organization), environment.as_str())
                .await)
        }
    }
}

/// Reads and reviews an environment; `None` if it does not exist.
pub(crate) async fn read(
    site: &Site,
    organization: &str,
    environment: &EnvironmentName,
) -> Result<Option<AccessReview>, store::Error> {
    let name = environment.as_str();
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(organization);
    if !store::environments::exists(tenant, name).await? {
        return Ok(None);
    }
    let tokens = store::tokens::authentication::tokens(tenant).await?;
    let issuers = store::tokens::issuers::list(&mut transaction, Some(organization)).await?;
    let policies = site.policies.of(&mut transaction.of(organization), [name]).await?.remove(name);
    drop(transaction);
    let now = site.now();
    let valid = tokens.into_iter().filter(|token| token.expires_at.is_none_or(|end| now < end));
    let tokens = valid.map(|token| TokenGrant {
        name: token.name,
        claims: None,
        role: token.role,
        scope: token.scope,
        expires_at: token.expires_at,
    });
    let issuers = issuers.into_iter().map(|stored| stored.issuer);
    let rules = issuers.flat_map(|issuer| {
        issuer.rules.into_iter().map(move |rule| TokenGrant {
            name: issuer.name.clone(),
            claims: Some(rule.to_string()),
            role: rule.role,
            scope: rule.scope(),
            expires_at: None,
        })
    });
    let grants: Vec<TokenGrant> = tokens.chain(rules).collect();
    Ok(Some(AccessReview::new(environment, &policies.unwrap_or_default(), &grants)))
}
