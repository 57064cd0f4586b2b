//! List the agents of an environment: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::evidence::reporters::{Reporter, version_and_command};
use crate::domain::model::{EnvironmentName, Timestamp};
use crate::service::access::{Admitted, Read};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::service::site::Site;
use crate::store;

/// An agent of an environment, or another client that reports it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ListedAgent {
    /// The name of its token, or `issuer/subject` of its identity
    pub(crate) name: String,
    /// Version of supercargo; null for another program
    pub(crate) version: Option<String>,
    /// Command of supercargo, such as `agent`; null for another program
    pub(crate) command: Option<String>,
    /// `User-Agent` of the last report, at most 200 characters
    pub(crate) user_agent: String,
    /// UID of the cluster's namespace `kube-system`; null if the agent does not send it
    pub(crate) cluster: Option<String>,
    pub(crate) first_reported_at: Timestamp,
    pub(crate) last_reported_at: Timestamp,
    /// Number of pods in the last report
    pub(crate) pods: i64,
    /// Number of reports in the last hour, approximately
    pub(crate) reports_per_hour: i64,
    /// Whether another agent overwrites its reports: both reported within `silentAfter`
    pub(crate) is_overwritten: bool,
}

/// List the latest 20 agents of an environment, latest first. Not in the interface.
#[utoipa::path(
    get,
    path = "/environments/{org}/{env_name}/agents",
    tag = "environments",
    responses(
        (status = 200, description = "The agents", body = Vec<ListedAgent>),
        (status = 404, description = "No such environment", body = ErrorBody),
    ),
)]
pub(crate) async fn list_agents(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Vec<ListedAgent>>, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    Parameters::read(&uri, &[])?;
    let agents = read(&site, &organization, name.as_str()).await?;
    let not_found = || Problem::not_found(format!("environment \"{name}\" not found"));
    agents.map(axum::Json).ok_or_else(not_found)
}

/// The agents of an environment; `None` if it does not exist.
pub(crate) async fn read(
    site: &Site,
    organization: &str,
    name: &str,
) -> Result<Option<Vec<ListedAgent>>, store::Error> {
    let mut transaction = site.store.read().await?;
    let Some(environment) = transaction.environment_overview(organization, name).await? else {
        return Ok(None);
    };
    let reporters = transaction.reporters(environment.id).await?;
    drop(transaction);
    let (now, recently) = (site.now(), environment.validity(site.silent_after).silent_after);
    let agent = |reporter: &Reporter| {
        let Reporter { name, sender, first_at, last_at, pods, counts } = reporter.clone();
        let program = version_and_command(&sender.user_agent);
        ListedAgent {
            name,
            version: program.map(|(version, _)| version.to_owned()),
            command: program.map(|(_, command)| command.to_owned()),
            user_agent: sender.user_agent,
            cluster: Some(sender.cluster).filter(|cluster| !cluster.is_empty()),
            first_reported_at: first_at,
            last_reported_at: last_at,
            pods,
            reports_per_hour: counts.per_hour(now),
            is_overwritten: reporter.is_overwritten(&reporters, now, recently),
        }
    };
    Ok(Some(reporters.iter().map(agent).collect()))
}
