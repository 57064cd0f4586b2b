//! Archive an environment: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;

use super::report::{ParsedReport, record_change};
use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::declared;
use crate::engine::guard::Evaluating;
use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Administer, Admitted};
use model::access::Operation;
use model::{EnvironmentName, Fingerprint};
use rules::snapshot::report::NormalizedReport;
use store::environments::reports::{IfLocked, ReceivedReport};

/// Archive an environment: nothing runs in it from now on, it is not listed, and its reports are rejected until it is created
/// again. What ran before stays.
#[utoipa::path(
    put,
    path = "/environments/{org}/{env_name}/archive",
    tag = "environments",
    params(("env_name" = inline(EnvironmentName), Path, description = "Environment")),
    responses(
        (status = 200, description = "Archived", body = String, content_type = "application/json"),
        (status = 404, description = "No such environment", body = ErrorBody),
    ),
)]
pub(crate) async fn archive_environment(
    State(app): State<App>,
    Admitted { organization, rest: name, caller, .. }: Admitted<Administer, String>,
    uri: Uri,
) -> Result<axum::Json<&'static str>, Problem> {
    let environment: EnvironmentName = Problem::parse("env_name", &name)?;
    Parameters::read(&uri, &[])?;
    let mut evaluating = Evaluating::shared(&app, &organization).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    let name = environment.as_str();
    let Some(stored) = store::environments::reports::lock(tenant, name, IfLocked::Wait).await? else {
        let may_read = |name: &str| caller.may(Operation::ReadEnvironment(name));
        let nearest = not_found::nearest_environments(tenant, name, may_read).await?;
        return Err(Problem::not_found(not_found::unknown_environment(name, &nearest)));
    };
    let overview = store::environments::overview(tenant, name).await?;
    if overview.is_some_and(|environment| environment.is_declared) {
        return Err(declared("environment", name));
    }
    if stored.archived_at.is_some() {
        return Ok(axum::Json("Environment archived"));
    }
    let at = app.site.now().after(Some(stored.changed_at));
    store::environments::reports::set_archived(tenant, name, Some(at)).await?;
    if stored.snapshot > 0 {
        let reported = NormalizedReport::empty();
        let received = ReceivedReport {
            at,
            reported_by: &caller.name,
            // Of no report, so that none confirms it.
            body_hash: Fingerprint::from_content(b""),
            report_hash: reported.hash,
            excluded_pods: 0,
        };
        let report = ParsedReport { reported: &reported, artifacts: reported.artifacts(), excluded_pods: 0 };
        record_change(&mut evaluating, &organization, &environment, stored, received, report).await?;
    }
    let audit = Audit::from_caller(&caller, &organization, || format!("archived the environment {name}"));
    evaluating.audit(audit, at).await?;
    evaluating.commit().await?;
    Ok(axum::Json("Environment archived"))
}
