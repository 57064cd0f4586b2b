//! Attach policies to an environment, and detach them.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;

use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::evidence::policy::MAX_POLICIES;
use crate::domain::model::{EnvironmentName, PolicyName};
use crate::service::access::{Administer, Admitted, Caller};
use crate::service::app::App;
use crate::service::evaluation::audit::Audit;
use crate::service::evaluation::guard::Evaluating;
use crate::service::http::body::{Paced, content_length};
use crate::service::http::json;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::store::policies::Attachment;

/// Maximum size of the body, in bytes.
const MAX_BODY: u64 = 64 * 1024;

/// Policies of an environment.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct PolicyNames {
    /// The policies, at least one
    #[schema(min_items = 1)]
    policy_names: Vec<PolicyName>,
}

/// Attach policies to an environment, which is evaluated at once. Attached ones stay.
#[utoipa::path(
    post,
    path = "/environments/{org}/{env_name}/policies",
    tag = "environments",
    request_body(content = PolicyNames, content_type = "application/json"),
    responses(
        (status = 200, description = "Attached", body = String, content_type = "application/json"),
        (status = 404, description = "No such environment or policy", body = ErrorBody),
    ),
)]
pub(crate) async fn attach_policies(
    State(app): State<App>,
    Admitted { organization, rest: environment, caller, .. }: Admitted<Administer, String>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<&'static str>, Problem> {
    let environment: EnvironmentName = Problem::parse("env_name", &environment)?;
    let names = read_names(&app, &organization, &headers, body).await?;
    let (mut evaluating, attached) = begin(&app, &organization, &environment, &names).await?;
    let is_attached = |name: &str| attached.iter().any(|attachment| attachment.policy == name);
    let new: Vec<&str> = names.iter().map(String::as_str).filter(|name| !is_attached(name)).collect();
    if attached.len() + new.len() > MAX_POLICIES {
        let problem = format!("expected at most {MAX_POLICIES} policies of an environment");
        return Err(Problem::field("policy_names", &problem));
    }
    let pairs: Vec<_> = new.iter().map(|name| (environment.as_str(), *name)).collect();
    let now = app.site.now();
    evaluating.transaction.attach_policies(&organization, &pairs, false, &caller.name, now).await?;
    finish(evaluating, &app, &caller, &organization, &environment, ("attached", "to"), &new).await
}

/// Detach policies from an environment, which is evaluated at once.
#[utoipa::path(
    delete,
    path = "/environments/{org}/{env_name}/policies",
    tag = "environments",
    request_body(content = PolicyNames, content_type = "application/json"),
    responses(
        (status = 200, description = "Detached", body = String, content_type = "application/json"),
        (status = 404, description = "No such environment or policy, or the policy is not attached", body = ErrorBody),
    ),
)]
pub(crate) async fn detach_policies(
    State(app): State<App>,
    Admitted { organization, rest: environment, caller, .. }: Admitted<Administer, String>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<&'static str>, Problem> {
    let environment: EnvironmentName = Problem::parse("env_name", &environment)?;
    let names = read_names(&app, &organization, &headers, body).await?;
    let (mut evaluating, attached) = begin(&app, &organization, &environment, &names).await?;
    let mut closed = Vec::new();
    for name in &names {
        let Some(attachment) = attached.iter().find(|attachment| attachment.policy == *name) else {
            let problem = format!("policy \"{name}\" is not attached to environment \"{environment}\"");
            return Err(Problem::not_found(problem));
        };
        if attachment.is_declared {
            return Err(Problem::invalid(format!(
                "the bootstrap file attaches the policy \"{name}\" to the environment \"{environment}\": detach it there"
            )));
        }
        closed.push(attachment.id);
    }
    evaluating.transaction.detach_policies(&organization, closed, app.site.now()).await?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    finish(evaluating, &app, &caller, &organization, &environment, ("detached", "from"), &names).await
}

/// The names in the body, each once.
async fn read_names(
    app: &App,
    organization: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<BTreeSet<String>, Problem> {
    let expected = content_length(headers, "the body", MAX_BODY)?.unwrap_or_default();
    let paced = Paced::new(body, app.limits.pace);
    let received = paced.read("the body", MAX_BODY, expected, app.inbound.share(organization)).await?;
    let PolicyNames { policy_names } = json::read("the body", &received.bytes)?;
    if policy_names.is_empty() {
        return Err(Problem::field("policy_names", "expected at least one policy"));
    }
    Ok(policy_names.iter().map(|name| name.as_str().to_owned()).collect())
}

/// Begins the change. Returns the attachments of the environment.
async fn begin<'a>(
    app: &'a App,
    organization: &str,
    environment: &EnvironmentName,
    names: &BTreeSet<String>,
) -> Result<(Evaluating<'a>, Vec<Attachment>), Problem> {
    let mut evaluating = Evaluating::exclusive(app, organization).await?;
    let transaction = &mut evaluating.transaction;
    if transaction.lock_environment(organization, environment.as_str()).await?.is_none() {
        return Err(Problem::not_found(format!("environment \"{environment}\" not found")));
    }
    for name in names {
        if transaction.current_policy(organization, name).await?.is_none() {
            return Err(Problem::not_found(format!("policy \"{name}\" not found")));
        }
    }
    let attached = transaction.policy_attachments(organization, Some(environment.as_str()), None).await?;
    Ok((evaluating, attached))
}

/// Evaluates the environment, and commits the change.
async fn finish(
    mut evaluating: Evaluating<'_>,
    app: &App,
    caller: &Caller,
    organization: &str,
    environment: &EnvironmentName,
    (change, preposition): (&str, &str),
    names: &[&str],
) -> Result<axum::Json<&'static str>, Problem> {
    if !names.is_empty() {
        let cause = Cause { kind: CauseKind::Policy, by: Some(caller.name.clone()) };
        evaluating.reevaluate(organization, environment.as_str(), &cause).await?;
        let audit = Audit::from_caller(caller, organization, || {
            format!("{change} {} {preposition} the environment {environment}", names.join(", "))
        });
        evaluating.audit(audit, app.site.now()).await?;
        evaluating.commit().await?;
    }
    Ok(axum::Json("OK"))
}
