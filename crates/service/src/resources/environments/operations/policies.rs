//! Attach policies to an environment, and detach them.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::guard::Evaluating;
use crate::engine::not_found;
use crate::http::json;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Administer, Admitted, Caller};
use model::{EnvironmentName, PolicyName};
use rules::notification::{Cause, CauseKind};
use rules::policy::MAX_POLICIES;
use store::environments::reports::IfLocked;
use store::policies::Attachment;

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
    let mut change = AttachmentChange::begin(&app, &organization, &environment, &headers, body).await?;
    let AttachmentChange { evaluating, names, attached, .. } = &mut change;
    names.retain(|name| attached.iter().all(|attachment| attachment.policy != *name));
    if attached.len() + names.len() > MAX_POLICIES {
        let problem = format!("expected at most {MAX_POLICIES} policies of an environment");
        return Err(Problem::field("policy_names", &problem));
    }
    if names.is_empty() {
        return Ok(axum::Json("OK"));
    }
    let pairs: Vec<_> = names.iter().map(|name| (environment.as_str(), name.as_str())).collect();
    let now = app.site.now();
    store::policies::attach(&mut evaluating.transaction.of(&organization), &pairs, false, &caller.name, now)
        .await?;
    change
        .finish(&app, &caller, |names, environment| {
            format!("attached {names} to the environment {environment}")
        })
        .await
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
    let mut change = AttachmentChange::begin(&app, &organization, &environment, &headers, body).await?;
    let AttachmentChange { evaluating, names, attached, .. } = &mut change;
    let mut closed = Vec::new();
    for name in names.iter() {
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
    store::policies::detach(&mut evaluating.transaction.of(&organization), closed, app.site.now()).await?;
    change
        .finish(&app, &caller, |names, environment| {
            format!("detached {names} from the environment {environment}")
        })
        .await
}

/// A change of the policies of an environment, which is locked.
struct AttachmentChange<'a> {
    evaluating: Evaluating<'a>,
    organization: &'a str,
    environment: EnvironmentName,
    /// The policies to attach or to detach, each once.
    names: BTreeSet<String>,
    attached: Vec<Attachment>,
}

impl<'a> AttachmentChange<'a> {
    /// Receives the names, and begins the change.
    async fn begin(
        app: &'a App,
        organization: &'a str,
        environment: &str,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Self, Problem> {
        let environment: EnvironmentName = Problem::parse("env_name", environment)?;
        let received = json::receive_bytes(app, organization, "the body", MAX_BODY, headers, body).await?;
        let PolicyNames { policy_names } = json::read("the body", &received.bytes)?;
        if policy_names.is_empty() {
            return Err(Problem::field("policy_names", "expected at least one policy"));
        }
        drop(received);
        let names: BTreeSet<_> = policy_names.iter().map(|name| name.as_str().to_owned()).collect();
        let mut evaluating = Evaluating::exclusive(app, organization).await?;
        let (tenant, name) = (&mut evaluating.transaction.of(organization), environment.as_str());
        if store::environments::reports::lock(tenant, name, IfLocked::Wait).await?.is_none() {
            return Err(not_found::environment(tenant, name).await);
        }
        for name in &names {
            if store::policies::current(tenant, name).await?.is_none() {
                return Err(not_found::policy(tenant, name).await);
            }
        }
        let attached = store::policies::attachments(tenant, Some(name), None).await?;
        Ok(Self { evaluating, organization, environment, names, attached })
    }

    /// Evaluates the environment, and commits the change.
    async fn finish(
        mut self,
        app: &App,
        caller: &Caller,
        change: fn(&str, &EnvironmentName) -> String,
    ) -> Result<axum::Json<&'static str>, Problem> {
        let cause = Cause { kind: CauseKind::Policy, by: Some(caller.name.clone()) };
        self.evaluating.reevaluate(self.organization, self.environment.as_str(), &cause).await?;
        let audit = Audit::from_caller(caller, self.organization, || {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            change(&names.join(", "), &self.environment)
        });
        self.evaluating.audit(audit, app.site.now()).await?;
        self.evaluating.commit().await?;
        Ok(axum::Json("OK"))
    }
}
