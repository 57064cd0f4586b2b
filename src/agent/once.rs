//! The one shot: one complete list, one report for each environment, and an end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use tokio::time::Instant;

use super::gather::{GatherError, Gathered, Source, gather};
use super::retry::{Deadline, GaveUp};
use super::summary::{Outcome, Summary};
use super::{Environment, Plan};
use crate::api::{self, About, Client};
use crate::cluster::{self, PodsFile};
use crate::domain::escape::Visible;
use crate::domain::live::confirmation::{self, Emptiness, Existence, Facts, Withheld};
use crate::domain::live::live_set::{Snapshot, Tally};
use crate::domain::live::report::Report;
use crate::domain::model::{EnvironmentName, NamespaceName};

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
    #[error("the environment \"{}\" is not reported: {why}{}", Visible(environment.as_str()), read_from(file.as_ref()))]
    Withheld {
        /// Which.
        environment: EnvironmentName,
        /// Why.
        why: Withheld,
        /// The file that the pods came from, where it was one.
        file: Option<PodsFile>,
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
    let gathered = gather(plan, source, deadline).await.map_err(|e| vec![e.into()])?;
    let looked_up = look_up(environments, &gathered, source, deadline).await;
    let file = match source {
        Source::File(file) => Some(file),
        Source::Cluster(_) => None,
    };
    let mut failures = BTreeMap::new();
    let mut reports = Vec::new();
    let mut summaries = Vec::new();
    for (n, environment) in environments.iter().enumerate() {
        let snapshot = gathered.roster.snapshot(n, Vec::new());
        match confirm(environment, &snapshot, &gathered, source, &looked_up) {
            Ok(()) => reports.push((n, environment, snapshot.tally.clone(), Report::new(snapshot))),
            Err((why, source)) => {
                let environment = environment.name.clone();
                let file = file.cloned();
                failures.insert(n, Error::Withheld { environment, why, file, source });
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
                        let about = About::Environment(name.as_str());
                        let hint = source.last().and_then(|e| client.hint(e, about));
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
type LookedUp = BTreeMap<NamespaceName, Result<Existence, Arc<GaveUp<cluster::Error>>>>;

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
    let facts = Facts {
        artifacts: snapshot.len(),
        has_pods: snapshot.tally.pods > 0,
        unreadable: roster.lost() + snapshot.tally.unreadable(),
    };
    let existence = |name: &NamespaceName| match (source, looked_up.get(name)) {
        _ if roster.has_seen(name.as_str()) => Existence::Exists,
        (Source::File(_), _) => Existence::NotInFile,
        (Source::Cluster(_), Some(Ok(existence))) => *existence,
        (Source::Cluster(_), Some(Err(_)) | None) => Existence::Unsaid,
    };
    confirmation::confirm(selection, environment.empty, facts, existence).map_err(|why| {
        let said = match &why {
            Withheld::Unconfirmed(name) => looked_up.get(name).and_then(|answer| answer.clone().err()),
            _ => None,
        };
        (why, said)
    })
}

/// One line: the exact body, and a line break that is not part of it.
fn print(report: &Report, output: &mut dyn Write) -> io::Result<()> {
    for chunk in report.chunks() {
        output.write_all(&chunk)?;
    }
    output.write_all(b"\n")?;
    output.flush()
}

fn read_from(file: Option<&PodsFile>) -> String {
    file.map(|file| format!(" (--pods-from {file})")).unwrap_or_default()
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
            Self::Gather(GatherError::Scope(_)) => Some(GatherError::WHOLE_CLUSTER.to_owned()),
            Self::Gather(GatherError::List(source)) => source.last().and_then(cluster::Error::hint),
            Self::Gather(GatherError::File(_) | GatherError::FileTooSlow(..)) | Self::Output(_) => None,
            Self::Withheld { source: Some(source), .. } => source.last().and_then(cluster::Error::hint),
            Self::Withheld { why, source: None, .. } => why.hint().map(str::to_owned),
            Self::NotReported { hint, .. } => hint.clone(),
        }
    }
}
