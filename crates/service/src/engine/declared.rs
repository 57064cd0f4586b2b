//! Limits of a token for new objects, and objects that the bootstrap file declares and operations cannot change.

use std::fmt::Display;

use crate::app::App;
use crate::http::problem::Problem;
use crate::identity::access::Caller;
use crate::limits::CREATED_WITHIN;
use model::escape::Escaped;
use store::Tenant;
use store::quotas::Created;

/// Returns 429 if the caller's token has reached its limit.
pub(crate) async fn check_limit(
    app: &App,
    tenant: &mut Tenant<'_>,
    caller: &Caller,
    created: Created,
) -> Result<(), Problem> {
    let (max, what) = match created {
        Created::Environments => (app.limits.new_environments, "environments"),
        Created::Flows => (app.limits.new_flows, "flows"),
        Created::Trails => (app.limits.new_trails, "trails"),
    };
    let since = app.site.now().earlier(CREATED_WITHIN);
    match store::quotas::nth_created(tenant, created, caller.token, since, max).await? {
        Some(blocking) => Err(Problem::too_many_created(what, max, blocking.distance(since))),
        None => Ok(()),
    }
}

/// 400: the bootstrap file declares the object.
pub(crate) fn declared(what: &str, name: impl Display) -> Problem {
    let name = name.to_string();
    Problem::invalid(format!(
        "the bootstrap file declares the {what} \"{}\": change it there",
        Escaped(&name)
    ))
}
