//! The one shot: one complete list, one report for each environment, and an end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use tokio::time::Instant;

use super::gather::{GatherError, Gathered, Source, gather};
use super::retry::{Deadline, GaveUp};
use super::summary::{Outcome, Summary};
use super::{Emptiness, Environment};
use crate::api::{self, Client};
use crate::cluster::{self, Namespace};
use crate::domain::collapse::{Counting, PodSkip};
use crate::domain::model::{EnvironmentName, NamespaceName};
use crate::domain::report::Report;
use crate::domain::roster::{Snapshot, Tally};
use crate::domain::visible::Visible;

/// What to report.
#[derive(Debug, Clone)]
pub struct Plan {
    /// To which environments, in this order.
    pub environments: Vec<Environment>,
    /// Which containers count.
    pub counting: Counting,
}

/// Where reports go.
pub enum Destination<'a> {
    /// To the service.
    Service(&'a Client),
    /// To standard output, a line each: `--dry-run`.
    Output(&'a mut dyn Write),
}

/// Why a report was not made or not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No pods were read.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// An environment's emptiness would be a guess.
    #[error("the environment \"{}\" is not reported: {}", Visible(environment.as_str()), why)]
    Withheld {
        /// Which.
        environment: EnvironmentName,
        /// Why.
        why: Withheld,
        /// What the API server said.
        #[source]
        source: Option<Arc<GaveUp<cluster::Error>>>,
    },
    /// The service did not accept a report.
    #[error("the report for the environment \"{}\" {}", Visible(environment.as_str()), what_failed(source))]
    NotReported {
        /// Which.
        environment: EnvironmentName,
        /// Why.
        #[source]
        source: GaveUp<api::Error>,
        /// What to do about it.
        hint: Option<String>,
    },
    /// Standard output cannot be written to.
    #[error("the report cannot be printed")]
    Output(#[source] io::Error),
}

/// Why an environment is not reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// A namespace that it names is not there.
    #[error("the namespace \"{0}\" does not exist")]
    NoSuchNamespace(NamespaceName),
    /// A namespace that it names is not in the file.
    #[error("no pod in the file is in the namespace \"{0}\"")]
    NotInFile(NamespaceName),
    /// Nobody can say whether a namespace that it names is there.
    #[error("no pod is in the namespace \"{0}\", and whether it exists cannot be told")]
    Unconfirmed(NamespaceName),
    /// The list of one of its namespaces failed.
    #[error("the pods of the namespace \"{0}\" cannot be listed")]
    NotListed(NamespaceName),
    /// There are pods that cannot be read, and no other.
    #[error("it has no artifact, and {0} of the listed pods, which may be in it, cannot be read")]
    Unreadable(u64),
    /// No pod is in its namespaces.
    #[error("no pod is in {0}")]
    NoPods(String),
}

/// Lists once and reports each environment, in their order. A failure of one does not keep the others
/// from being reported.
///
/// # Errors
///
/// All failures, in the order of the environments; where the whole list fails, that alone.
pub async fn run(
    plan: &Plan,
    source: &Source,
    destination: Destination<'_>,
    deadline: Deadline,
) -> Result<Vec<Summary>, Vec<Error>> {
    let start = Instant::now();
    let environments = &plan.environments;
    let gathered = gather(environments, plan.counting, source, deadline).await.map_err(|e| vec![e.into()])?;
    let looked_up = look_up(environments, &gathered, source, deadline).await;
    let mut failures = BTreeMap::new();
    let mut reports = Vec::new();
    let mut summaries = Vec::new();
    for (n, environment) in environments.iter().enumerate() {
        let snapshot = gathered.roster.snapshot(n, Vec::new());
        match confirm(environment, &snapshot, &gathered, source, &looked_up) {
            Ok(()) => reports.push((n, environment, snapshot.tally.clone(), Report::new(snapshot))),
            Err((why, source)) => {
                let environment = environment.name.clone();
                failures.insert(n, Error::Withheld { environment, why, source });
            }
        }
    }
    match destination {
        Destination::Output(output) => {
            for (n, environment, tally, report) in reports {
                match print(&report, output) {
                    Ok(()) => {
                        let environment = environment.name.clone();
                        let artifacts = report.len();
                        let (outcome, took) = (Outcome::Printed, start.elapsed());
                        let summary = Summary { environment, outcome, artifacts, tally, took };
                        summary.log();
                        summaries.push(summary);
                    }
                    Err(error) => {
                        failures.insert(n, Error::Output(error));
                    }
                }
            }
        }
        Destination::Service(client) => {
            let asking = |(_, environment, ..): &(usize, &Environment, Tally, Report)| {
                client.report_k8s_request(&environment.name).to_string()
            };
            let sent = deadline.persist(reports, asking, async |(_, environment, tally, report)| {
                let accepted = client.report_k8s(&environment.name, report).await?;
                let (artifacts, took) = (report.len(), start.elapsed());
                let (environment, tally) = (environment.name.clone(), tally.clone());
                let outcome = Outcome::Accepted(accepted);
                let summary = Summary { environment, outcome, artifacts, tally, took };
                summary.log();
                Ok(summary)
            });
            for ((n, environment, ..), result) in sent.await {
                match result {
                    Ok(summary) => summaries.push(summary),
                    Err(source) => {
                        let name = &environment.name;
                        let hint = source.last().and_then(|e| client.hint(e, "environment", name.as_str()));
                        failures.insert(n, Error::NotReported { environment: name.clone(), source, hint });
                    }
                }
            }
        }
    }
    if failures.is_empty() { Ok(summaries) } else { Err(failures.into_values().collect()) }
}

/// What the API server said when it was asked.
type Said = Option<Arc<GaveUp<cluster::Error>>>;

/// Whether namespaces exist, as far as the API server said.
type LookedUp = BTreeMap<NamespaceName, Result<Namespace, Arc<GaveUp<cluster::Error>>>>;

/// Looks up the namespaces that are named and of which no pod was seen: one that does not exist lists
/// as empty, and so does one whose name was misspelt.
async fn look_up(
    environments: &[Environment],
    Gathered { roster, failed, .. }: &Gathered,
    source: &Source,
    deadline: Deadline,
) -> LookedUp {
    let Source::Cluster(cluster) = source else { return LookedUp::new() };
    let unseen: BTreeSet<_> = environments
        .iter()
        .filter(|e| e.empty == Emptiness::Withheld)
        .flat_map(|e| e.selection.names())
        .filter(|name| !roster.has_seen(name.as_str()) && !failed.contains_key(*name))
        .cloned()
        .collect();
    let asking = |name: &NamespaceName| format!("looking up the namespace \"{name}\" at {}", cluster.url());
    let answers = deadline.persist(unseen, asking, async |name| cluster.namespace(name).await);
    answers.await.into_iter().map(|(name, answer)| (name, answer.map_err(Arc::new))).collect()
}

/// Makes sure that what would be missing from a report is not there.
fn confirm(
    environment: &Environment,
    snapshot: &Snapshot,
    Gathered { roster, failed }: &Gathered,
    source: &Source,
    looked_up: &LookedUp,
) -> Result<(), (Withheld, Said)> {
    let selection = &environment.selection;
    if let Some((name, error)) = failed.iter().find(|(name, _)| selection.takes(name.as_str())) {
        return Err((Withheld::NotListed(name.clone()), Some(Arc::clone(error))));
    }
    let unreadable =
        roster.lost() + snapshot.tally.skipped_pods.get(&PodSkip::Unreadable).copied().unwrap_or(0);
    if snapshot.is_empty() && unreadable > 0 {
        return Err((Withheld::Unreadable(unreadable), None));
    }
    if environment.empty == Emptiness::Allowed {
        return Ok(());
    }
    for name in selection.names().iter().filter(|n| !roster.has_seen(n.as_str())) {
        match (source, looked_up.get(name)) {
            (Source::File(_), _) => return Err((Withheld::NotInFile(name.clone()), None)),
            (Source::Cluster(_), Some(Ok(Namespace::Exists)) | None) => {}
            (Source::Cluster(_), Some(Ok(Namespace::Missing))) => {
                return Err((Withheld::NoSuchNamespace(name.clone()), None));
            }
            (Source::Cluster(_), Some(Err(error))) => {
                return Err((Withheld::Unconfirmed(name.clone()), Some(Arc::clone(error))));
            }
        }
    }
    if snapshot.tally.pods == 0 {
        return Err((Withheld::NoPods(selection.to_string()), None));
    }
    Ok(())
}

/// One line: the exact body, and a line break that is not part of it.
fn print(report: &Report, output: &mut dyn Write) -> io::Result<()> {
    for chunk in report.chunks() {
        output.write_all(&chunk)?;
    }
    output.write_all(b"\n")?;
    output.flush()
}

/// A service that answered has judged the report; one that did not has not.
fn what_failed(source: &GaveUp<api::Error>) -> &'static str {
    match source {
        GaveUp::Failed(error) if matches!(**error, api::Error::Answered { .. }) => "was not accepted",
        _ => "could not be sent",
    }
}

impl Error {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Gather(GatherError::Scope(_)) => {
                Some("select them by --namespace-regex (namespacesRegex), which lists the whole cluster".into())
            }
            Self::Gather(GatherError::List(source)) => source.last().and_then(cluster::Error::hint),
            Self::Gather(GatherError::File(_) | GatherError::FileTooSlow(..))
            | Self::Withheld { why: Withheld::Unreadable(_), .. }
            | Self::Output(_) => None,
            Self::Withheld { source: Some(source), .. } => source.last().and_then(cluster::Error::hint),
            Self::Withheld { why: Withheld::NoPods(_), .. } => {
                Some("if that is intended, give --allow-empty, or allowEmpty in the configuration file".into())
            }
            Self::Withheld { .. } => Some(
                "check the name; if it is intended, give --allow-empty, or allowEmpty in the configuration file"
                    .into(),
            ),
            Self::NotReported { hint, .. } => hint.clone(),
        }
    }
}
