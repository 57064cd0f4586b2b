//! Set and remove the tags of environments and flows: extensions of the interface.
//!
//! The tags of a flow are read by the conditions of policies. Therefore only role `admin` may change tags.

use std::collections::BTreeMap;

use axum::extract::State;
use serde::Deserialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::declared;
use crate::engine::guard::Evaluating;
use crate::engine::not_found;
use crate::http::json::{Contents, Sent};
use crate::http::openapi::nullable_tags;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Administer, Admitted, Caller};
use model::{EnvironmentName, FlowName, ShortText};
use rules::notification::{Cause, CauseKind};
use store::tags::Tagged;

const MAX_TAGS: usize = 100;

/// A change of tags. Others stay.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct TagChanges {
    /// Tags to set, by key; an object has at most 100
    #[schema(schema_with = nullable_tags)]
    set_tags: Option<BTreeMap<ShortText, ShortText>>,
    /// Keys of tags to remove
    remove_tags: Option<Vec<ShortText>>,
}

impl Contents for TagChanges {
    const WHAT: &'static str = "the tags";
}

/// Set and remove tags of an environment.
#[utoipa::path(
    patch,
    path = "/tags/{org}/env/{env_name}",
    tag = "environments",
    request_body(content = TagChanges, content_type = "application/json"),
    responses(
        (status = 200, description = "Changed", body = String, content_type = "application/json"),
        (status = 404, description = "No such environment", body = ErrorBody),
    ),
)]
pub(crate) async fn tag_environment(
    State(app): State<App>,
    Admitted { organization, rest: name, caller, .. }: Admitted<Administer, EnvironmentName>,
    Sent(changes, _share): Sent<TagChanges>,
) -> Result<axum::Json<&'static str>, Problem> {
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    not_found::require_environment(&mut evaluating.transaction.of(&organization), name.as_str()).await?;
    change(&app, evaluating, &caller, &organization, Tagged::Environment(name.as_str()), &changes).await
}

/// Set and remove tags of a flow. Environments with policies are evaluated again.
#[utoipa::path(
    patch,
    path = "/tags/{org}/flow/{flow_name}",
    tag = "flows",
    request_body(content = TagChanges, content_type = "application/json"),
    responses(
        (status = 200, description = "Changed", body = String, content_type = "application/json"),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn tag_flow(
    State(app): State<App>,
    Admitted { organization, rest: name, caller, .. }: Admitted<Administer, FlowName>,
    Sent(changes, _share): Sent<TagChanges>,
) -> Result<axum::Json<&'static str>, Problem> {
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    match store::flows::get(&mut evaluating.transaction.of(&organization), name.as_str()).await? {
        None => return Err(not_found::flow(&mut evaluating.transaction.of(&organization), &name).await),
        Some(stored) if stored.is_declared => return Err(declared("flow", &name)),
        Some(_) => {}
    }
    change(&app, evaluating, &caller, &organization, Tagged::Flow(name.as_str()), &changes).await
}

async fn change(
    app: &App,
    mut evaluating: Evaluating<'_>,
    caller: &Caller,
    organization: &str,
    object: Tagged<'_>,
    changes: &TagChanges,
) -> Result<axum::Json<&'static str>, Problem> {
    let set = changes.set_tags.iter().flatten();
    let set: BTreeMap<&str, &str> = set.map(|(tag, value)| (tag.as_str(), value.as_str())).collect();
    let remove = changes.remove_tags.iter().flatten().map(ShortText::as_str).collect();
    let now = app.site.now();
    let tenant = &mut evaluating.transaction.of(organization);
    let result = store::tags::change(tenant, object, set, &remove, now).await?;
    if result.total > MAX_TAGS {
        return Err(Problem::field("set_tags", &format!("expected at most {MAX_TAGS} tags of an object")));
    }
    if result.changes.is_empty() {
        return Ok(axum::Json("OK"));
    }
    let place = match object {
        Tagged::Environment(name) => format!("environment {name}"),
        Tagged::Flow(name) => {
            // Conditions of policies use tags.
            let environments = store::policies::environments(tenant).await?;
            let cause = Cause { kind: CauseKind::Policy, by: Some(caller.name.clone()) };
            let environments = environments.iter().map(String::as_str);
            store::policies::evaluation_queue::push(tenant, environments, None, &cause, now).await?;
            format!("flow {name}")
        }
    };
    for description in result.changes {
        let description = format!("{description} of the {place}");
        evaluating.audit(Audit::from_caller(caller, organization, || description), now).await?;
    }
    evaluating.commit().await?;
    Ok(axum::Json("OK"))
}
