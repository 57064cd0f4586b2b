//! Review who may make an artifact compliant: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;

use crate::domain::evidence::access_review::{AccessReview, Permissions, ReviewedArtifact, TokenGrant};
use crate::domain::evidence::environment_status::ReportedArtifact;
use crate::domain::evidence::identity::Issuer;
use crate::domain::model::{EnvironmentName, Fingerprint};
use crate::service::access::{Admitted, ReadAudit};
use crate::service::evaluation::inputs::Inputs;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::service::site::Site;
use crate::store;
use crate::store::access::Token;

/// Review who may make an artifact compliant in an environment: the tokens that may fulfil each requirement of its policies.
/// Not in the interface.
#[utoipa::path(
    get,
    path = "/environments/{org}/{env_name}/access-review",
    tag = "environments",
    params(("fingerprint" = Option<String>, Query, description = "Artifact", pattern = "^[a-f0-9]{64}$")),
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
    let artifact: Option<Fingerprint> = Parameters::read(&uri, &["fingerprint"])?.parsed("fingerprint")?;
    let review = read(&site, &organization, &environment, artifact).await?;
    let not_found = || Problem::not_found(format!("environment \"{environment}\" not found"));
    Ok(axum::Json(review.ok_or_else(not_found)?))
}

/// Reads and reviews an environment; `None` if it does not exist.
pub(crate) async fn read(
    site: &Site,
    organization: &str,
    environment: &EnvironmentName,
    artifact: Option<Fingerprint>,
) -> Result<Option<AccessReview>, store::Error> {
    let (name, now) = (environment.as_str(), site.now());
    let mut transaction = site.store.read().await?;
    let Some(overview) = transaction.environment_overview(organization, name).await? else {
        return Ok(None);
    };
    let tokens = transaction.tokens(organization).await?;
    let issuers = transaction.issuers(Some(organization)).await?;
    let ownerships = transaction.ownerships(organization).await?;
    let artifacts = artifact.into_iter().collect();
    let inputs = Inputs::read(site, &mut transaction, organization, environment, &artifacts).await?;
    let reviewed = match artifact {
        None => None,
        Some(artifact) => {
            let names = transaction.names_of_images(organization, &artifacts).await?;
            let here = overview.id..=overview.id;
            let running = transaction.governed_artifacts(organization, &artifacts, &here, 1).await?.pop();
            let reported = match running {
                Some(governed) => ReportedArtifact::from(&governed.running),
                None => ReportedArtifact {
                    name: names.first().map(|(_, name)| name.clone()).unwrap_or_default(),
                    ..Default::default()
                },
            };
            let evidence = inputs.evidence.get(&artifact).cloned().unwrap_or_default();
            let (verdict, _) =
                inputs.requirements(environment).evaluate(&artifact, &reported, &evidence, now);
            Some((artifact, names, verdict))
        }
    };
    drop(transaction);
    let rules = issuers.into_iter().flat_map(|stored| {
        let Issuer { name, rules, .. } = stored.issuer;
        rules.into_iter().map(move |rule| TokenGrant {
            name: name.clone(),
            claims: Some(rule.to_string()),
            role: rule.role,
            scope: rule.scope,
            expires_at: None,
        })
    });
    let tokens: Vec<TokenGrant> = tokens.into_iter().map(grant).chain(rules).collect();
    let reviewed = reviewed.as_ref().map(|(fingerprint, names, verdict)| ReviewedArtifact {
        fingerprint: *fingerprint,
        names,
        verdict,
    });
    let permissions = Permissions { tokens: &tokens, ownerships: &ownerships };
    Ok(Some(AccessReview::new(environment, &inputs.policies, reviewed, permissions, now)))
}

fn grant(Token { name, role, scope, expires_at, .. }: Token) -> TokenGrant {
    TokenGrant { name, claims: None, role, scope, expires_at }
}
