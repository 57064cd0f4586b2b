//! Create, list and revoke tokens at runtime: extensions of the interface.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::declared;
use crate::engine::guard::Evaluating;
use crate::http::json::{Contents, Sent};
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Administer, Admitted, Caller, ReadAudit};
use crate::identity::rule_id;
use crate::limits::MAX_TOKENS;
use crate::random::random;
use crate::site::Site;
use model::access::{Role, Scope};
use model::{Fingerprint, Timestamp, TokenName};
use rules::identity::{Issuer, Rule};
use store::bootstrap::until;
use store::tokens::authentication::Token;
use store::tokens::issuers::StoredIssuer;

/// The start of each token, by which secret scanners find it.
const PREFIX: &str = "supercargo_";

/// A token to be created. Unknown fields are rejected: a misspelled expiry must not be ignored.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    name: TokenName,
    role: Role,
    /// Environments of the role `report` or `approve`; `*` for all.
    #[serde(default)]
    environments: Vec<String>,
    /// Flows of the role `attest` or `approve`; `*` for all.
    #[serde(default)]
    flows: Vec<String>,
    /// Whether its reports create environments, for the role `report`.
    #[serde(default)]
    create: bool,
    /// A time in the future; never if absent.
    expires_at: Option<Timestamp>,
}

impl Contents for NewToken {
    const WHAT: &'static str = "the token";
}

/// A created token.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct CreatedToken {
    /// The token. No other response has it.
    token: String,
    #[serde(flatten)]
    created: Token,
}

/// Create a token. Not in Kosli's API.
#[utoipa::path(
    post,
    path = "/tokens/{org}",
    tag = "tokens",
    request_body(content = NewToken, content_type = "application/json"),
    responses(
        (status = 201, description = "Created", body = CreatedToken),
    ),
)]
pub(crate) async fn create_token(
    State(app): State<App>,
    Admitted { organization, caller, .. }: Admitted<Administer>,
    Sent(new, _share): Sent<NewToken>,
) -> Result<(StatusCode, axum::Json<CreatedToken>), Problem> {
    let NewToken { name, role, environments, flows, create, expires_at } = new;
    let scope = Scope { environments, flows };
    scope.check(role, create).map_err(|error| Problem::invalid(error.to_string()))?;
    let now = app.site.now();
    if expires_at.is_some_and(|expiry| expiry <= now) {
        return Err(Problem::field("expires_at", "expected a time in the future"));
    }
    let random = random::<20>().map_err(|error| {
        tracing::error!("failed to get random bytes: {error}");
        Problem::defect()
    })?;
    let secret = format!("{PREFIX}{random}");
    let sha256 = Fingerprint::from_content(secret.as_bytes());
    let name = name.as_str().to_owned();
    let token = Token {
        organization: organization.clone(),
        name,
        sha256,
        role,
        scope,
        can_create: create,
        expires_at,
        created_at: now,
        created_by: Some(caller.name.clone()),
        last_used_at: None,
    };

    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let open = store::tokens::authentication::tokens(&mut evaluating.transaction.of(&organization)).await?;
    let issuers = store::tokens::issuers::list(&mut evaluating.transaction, Some(&organization)).await?;
    // The token may have been revoked while the body was received: the new one would outlast it.
    if !is_admin(&caller, &organization, &open, &issuers, app.site.now()) {
        return Err(Problem::unauthorized());
    }
    match open.iter().find(|open| open.name == token.name) {
        Some(open) if open.created_by.is_none() => return Err(declared("token", &token.name)),
        Some(_) => {
            return Err(Problem::field("name", "a token has this name: revoke it, or choose another name"));
        }
        None => {}
    }
    if open.iter().filter(|open| open.created_by.is_some()).count() >= MAX_TOKENS {
        return Err(Problem::invalid(format!(
            "this organization has reached its limit of {MAX_TOKENS} tokens that were created at runtime: revoke one"
        )));
    }
    store::tokens::create(&mut evaluating.transaction, &token).await?;
    let change = format!("created the {token} {}", until(expires_at));
    evaluating.audit(Audit::from_token(&caller.name, &organization, change), now).await?;
    evaluating.commit().await?;
    app.limiter.admitted(sha256);
    Ok((StatusCode::CREATED, axum::Json(CreatedToken { token: secret, created: token })))
}

/// Whether the token of a request has the role `admin` now, by the open tokens and issuers of its organization.
fn is_admin(
    caller: &Caller,
    organization: &str,
    open: &[Token],
    issuers: &[StoredIssuer],
    now: Timestamp,
) -> bool {
    let is_rule = |issuer: &Issuer, rule: &Rule| {
        rule.role == Role::Admin && rule_id(organization, issuer, rule) == caller.token
    };
    let is_token = |token: &Token| token.role == Role::Admin && token.sha256 == caller.token;
    open.iter().any(|token| is_token(token) && token.expires_at.is_none_or(|end| end > now))
        || issuers
            .iter()
            .any(|StoredIssuer { issuer, .. }| issuer.rules.iter().any(|rule| is_rule(issuer, rule)))
}

/// List the open tokens by name, also those of the bootstrap file and expired ones. Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/tokens/{org}",
    tag = "tokens",
    responses((status = 200, description = "The tokens", body = Vec<Token>)),
)]
pub(crate) async fn list_tokens(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<ReadAudit>,
) -> Result<axum::Json<Vec<Token>>, Problem> {
    Ok(axum::Json(
        store::tokens::authentication::tokens(&mut site.store.read().await?.of(&organization)).await?,
    ))
}

/// Revoke a token that was created at runtime. Not in Kosli's API.
#[utoipa::path(
    delete,
    path = "/tokens/{org}/{token_name}",
    tag = "tokens",
    params(
        ("token_name" = inline(TokenName), Path, description = "Token"),
    ),
    responses(
        (status = 200, description = "Revoked", body = String, content_type = "application/json"),
        (status = 404, description = "No such token", body = ErrorBody),
    ),
)]
pub(crate) async fn revoke_token(
    State(app): State<App>,
    Admitted { organization, rest: name, caller, .. }: Admitted<Administer, String>,
) -> Result<axum::Json<&'static str>, Problem> {
    let name: TokenName = Problem::parse("token_name", &name)?;
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let now = app.site.now();
    let open = store::tokens::authentication::tokens(&mut evaluating.transaction.of(&organization)).await?;
    match open.into_iter().find(|open| open.name == name.as_str()) {
        None => return Err(Problem::not_found(format!("token \"{name}\" not found"))),
        Some(open) if open.created_by.is_none() => return Err(declared("token", name)),
        Some(open) => {
            store::tokens::revoke(&mut evaluating.transaction.of(&organization), open.sha256, now).await?;
        }
    }
    let change = format!("revoked the token {name}");
    evaluating.audit(Audit::from_token(&caller.name, &organization, change), now).await?;
    evaluating.commit().await?;
    Ok(axum::Json("Token revoked"))
}
