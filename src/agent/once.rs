//! The one shot: one complete list, one report for each environment, and an end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::retry::{Deadline, GaveUp};
use super::summary::{self, Outcome};
use super::{Emptiness, Environment};
use crate::api::{self, Client};
use crate::cluster::{self, Cluster, FileError, Listed, Namespace, PodsFile};
use crate::domain::collapse::{Counting, collapse};
use crate::domain::model::{EnvironmentName, NamespaceName};
use crate::domain::outcome::Backoff;
use crate::domain::report::Report;
use crate::domain::roster::{Gathering, Roster};
use crate::domain::selection::{Scope, TooManyNamespaces};
use crate::domain::visible::Visible;

/// How many pods that cannot be read are named one by one.
const MOST_NAMED: u64 = 10;

/// What to report.
#[derive(Debug, Clone)]
pub struct Plan {
    /// To which environments, in this order.
    pub environments: Vec<Environment>,
    /// Which containers count.
    pub counting: Counting,
    /// How long all of it may take, second tries included.
    pub timeout: Duration,
    /// How long to wait between tries.
    pub backoff: Backoff,
}

/// Where pods come from.
pub enum Source {
    /// An API server.
    Cluster(Cluster),
    /// `--pods-from`.
    File(PodsFile),
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
    /// Too many namespaces are named.
    #[error("the pods cannot be listed")]
    Scope(#[source] TooManyNamespaces),
    /// The API server's list failed.
    #[error("the pods cannot be listed, so nothing was reported")]
    List(#[source] GaveUp<cluster::Error>),
    /// The file holds no pods.
    #[error("the pods cannot be read, so nothing was reported")]
    File(#[source] FileError),
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
    #[error("the report for the environment \"{}\" was not accepted", Visible(environment.as_str()))]
    NotAccepted {
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
    /// No pod is in its namespaces.
    #[error("no pod is in its namespaces")]
    NoPods,
}

/// Lists once and reports each environment. A failure of one does not keep the others from being
/// reported.
///
/// # Errors
///
/// All failures, in the order of the environments; where the list fails, that alone.
pub async fn run(plan: &Plan, source: &Source, mut destination: Destination<'_>) -> Result<(), Vec<Error>> {
    let deadline = Deadline::after(plan.timeout, plan.backoff);
    let roster = Arc::new(gather(plan, source, deadline).await.map_err(|e| vec![e])?);
    let mut known = BTreeMap::new();
    let mut failures = Vec::new();
    for environment in &plan.environments {
        let done = match confirm(environment, &roster, source, deadline, &mut known).await {
            Ok(()) => report(environment, &roster, &mut destination, deadline).await,
            Err(withheld) => Err(withheld),
        };
        failures.extend(done.err());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Reads the pods of all environments.
async fn gather(plan: &Plan, source: &Source, deadline: Deadline) -> Result<Roster, Error> {
    let start = Instant::now();
    let mut gathering = Gathering::default();
    let mut unreadable = 0;
    match source {
        Source::File(file) => {
            file.read(&mut |listed| take(plan, &mut gathering, &mut unreadable, listed))
                .map_err(Error::File)?;
        }
        Source::Cluster(cluster) => {
            let selections = plan.environments.iter().map(|e| &e.selection);
            let scope = Scope::covering(selections).map_err(Error::Scope)?;
            let listed = deadline.persist("the pods cannot be listed", async || {
                gathering = Gathering::default();
                unreadable = 0;
                cluster.list_pods(&scope, |listed| take(plan, &mut gathering, &mut unreadable, listed)).await
            });
            listed.await.map_err(Error::List)?;
        }
    }
    if unreadable > MOST_NAMED {
        tracing::warn!("{unreadable} pods in all cannot be read and are left out");
    }
    let (roster, replaced) = gathering.finish();
    for artifact in replaced {
        let name = format!("{}/{}", artifact.namespace, artifact.pod_name);
        tracing::warn!("the pod \"{}\" is listed more than once; the last one counts", Visible(&name));
    }
    tracing::debug!("the list took {:.3} s", start.elapsed().as_secs_f64());
    Ok(roster)
}

/// Takes in one pod, where any environment wants it.
fn take(plan: &Plan, gathering: &mut Gathering, unreadable: &mut u64, listed: Listed) {
    match listed {
        Listed::Pod(pod) => {
            if plan.environments.iter().any(|e| e.selection.takes(&pod.namespace)) {
                let namespace = pod.namespace.clone();
                gathering.add(&namespace, collapse(pod, plan.counting));
            }
        }
        Listed::Unreadable(problem) => {
            *unreadable += 1;
            if *unreadable <= MOST_NAMED {
                tracing::warn!("a pod cannot be read and is left out: {}", Visible(&problem));
            }
        }
        Listed::StartOver(namespace) => gathering.forget(namespace.as_ref().map(NamespaceName::as_str)),
    }
}

/// Makes sure that what would be missing from a report is not there: a namespace that does not exist
/// lists as empty, and so does one whose name was misspelt.
async fn confirm(
    environment: &Environment,
    roster: &Arc<Roster>,
    source: &Source,
    deadline: Deadline,
    known: &mut BTreeMap<NamespaceName, Result<Namespace, Arc<GaveUp<cluster::Error>>>>,
) -> Result<(), Error> {
    if environment.empty == Emptiness::Allowed {
        return Ok(());
    }
    let withheld = |why, source| Err(Error::Withheld { environment: environment.name.clone(), why, source });
    for name in environment.selection.names.iter().filter(|n| !roster.has_seen(n.as_str())) {
        let Source::Cluster(cluster) = source else {
            return withheld(Withheld::NotInFile(name.clone()), None);
        };
        if !known.contains_key(name) {
            let what = format!("the namespace \"{name}\" cannot be looked up");
            let answer = deadline.persist(&what, async || cluster.namespace(name).await).await;
            known.insert(name.clone(), answer.map_err(Arc::new));
        }
        match known.get(name) {
            Some(Ok(Namespace::Exists)) | None => {}
            Some(Ok(Namespace::Missing)) => return withheld(Withheld::NoSuchNamespace(name.clone()), None),
            Some(Err(error)) => {
                return withheld(Withheld::Unconfirmed(name.clone()), Some(Arc::clone(error)));
            }
        }
    }
    if roster.select(&environment.selection).tally.pods == 0 {
        return withheld(Withheld::NoPods, None);
    }
    Ok(())
}

async fn report(
    environment: &Environment,
    roster: &Arc<Roster>,
    destination: &mut Destination<'_>,
    deadline: Deadline,
) -> Result<(), Error> {
    let start = Instant::now();
    let snapshot = roster.select(&environment.selection);
    let tally = snapshot.tally.clone();
    let report = Report::new(snapshot);
    let outcome = match destination {
        Destination::Output(output) => {
            print(&report, output).map_err(Error::Output)?;
            Outcome::Printed
        }
        Destination::Service(client) => {
            let what = format!("the report for \"{}\" was not accepted", environment.name);
            let sent = deadline.persist(&what, async || client.report_k8s(&environment.name, &report).await);
            Outcome::Accepted(sent.await.map_err(|source| Error::NotAccepted {
                environment: environment.name.clone(),
                hint: source.last().and_then(|e| client.hint(e)),
                source,
            })?)
        }
    };
    summary::log(&environment.name, outcome, report.artifacts(), &tally, start.elapsed());
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

impl Error {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Scope(_) => {
                Some("select them by --namespace-regex (namespacesRegex), which lists the whole cluster".into())
            }
            Self::List(source) => source.last().and_then(cluster::Error::hint),
            Self::File(_) | Self::Output(_) => None,
            Self::Withheld { source: Some(source), .. } => source.last().and_then(cluster::Error::hint),
            Self::Withheld { why: Withheld::NoPods, .. } => {
                Some("where that is meant to be so, say --allow-empty, or allowEmpty in the configuration file".into())
            }
            Self::Withheld { .. } => Some(
                "check the name; where it is meant to be so, say --allow-empty, or allowEmpty in the configuration file"
                    .into(),
            ),
            Self::NotAccepted { hint, .. } => hint.clone(),
        }
    }
}
