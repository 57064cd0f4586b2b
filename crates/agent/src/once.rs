//! A single run: lists the pods once and sends one report per environment.
//!
//! Called by `cli` for `--once` and `--dry-run`. An environment whose content is uncertain is not reported.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use tokio::time::Instant;

use super::gather::{GatherError, Gathered, Source, gather};
use super::summary::{ReportOutcome, Summary};
use super::{EnvironmentConfig, Plan};
use crate::cluster::{self, PodsFile};
use crate::live::confirmation::{self, Emptiness, Existence, Facts, Withheld};
use crate::live::live_set::Snapshot;
use crate::live::report::Report;
use client::{Client, Deadline, ReportBody, Resource, RetryError};
use model::escape::Escaped;
use model::{EnvironmentName, NamespaceName};

pub enum Destination<'a> {
    Service(&'a Client),
    /// Standard output, one line per report: `--dry-run`.
    Output(&'a mut dyn Write),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// The content of the environment is uncertain.
    #[error("environment \"{}\" not reported: {why}{}", Escaped(environment.as_str()), read_from(file.as_ref()))]
    Withheld {
        environment: EnvironmentName,
        why: Withheld,
        /// The file of `--pods-from`.
        file: Option<PodsFile>,
        /// The failed request to the API server.
        #[source]
        source: Option<Arc<RetryError<cluster::Error>>>,
    },
    #[error("{}\"{}\"", failure(source), Escaped(environment.as_str()))]
    NotReported {
        environment: EnvironmentName,
        #[source]
        source: RetryError<client::Error>,
        hint: Option<String>,
    },
    #[error("failed to write the report to standard output")]
    Output(#[source] io::Error),
}

/// Lists once and reports each environment. A failed environment does not prevent reports for the
/// others.
///
/// # Errors
///
/// All failures, in the order of the environments. If the pods cannot be read, only that failure.
pub async fn run(
    plan: &Plan,
    source: &Source,
    destination: Destination<'_>,
    deadline: Deadline,
) -> Result<Vec<Summary>, Vec<Error>> {
    let start = Instant::now();
    let environments = &plan.environments;
    let gathered = gather(plan, source, deadline).await.map_err(|e| vec![e.into()])?;
    let lookups = look_up(environments, &gathered, source, deadline).await;
    let file = match source {
        Source::File(file) => Some(file),
        Source::Cluster(_) => None,
    };
    let mut failures = BTreeMap::new();
    let mut reports = Vec::new();
    let mut summaries = Vec::new();
    for (n, environment) in environments.iter().enumerate() {
        let snapshot = gathered.live_set.snapshot(n, Vec::new());
        match confirm(n, environment, &snapshot, &gathered, source, &lookups) {
            Ok(()) => reports.push((n, environment, Report::new(snapshot))),
            Err((why, source)) => {
                let environment = environment.name.clone();
                let file = file.cloned();
                failures.insert(n, Error::Withheld { environment, why, file, source });
            }
        }
    }
    let summarize = |environment: &EnvironmentConfig, report: &Report, outcome| {
        let (environment, tally) = (environment.name.clone(), report.tally().clone());
        let summary = Summary { environment, outcome, artifacts: report.len(), tally, took: start.elapsed() };
        summary.log();
        summary
    };
    match destination {
        Destination::Output(output) => {
            for (n, environment, report) in reports {
                match print(&report, output) {
                    Ok(()) => summaries.push(summarize(environment, &report, ReportOutcome::Printed)),
                    Err(error) => {
                        failures.insert(n, Error::Output(error));
                    }
                }
            }
        }
        Destination::Service(client) => {
            let describe = |(_, environment, ..): &(usize, &EnvironmentConfig, Report)| {
                client.report_k8s_request(&environment.name, environment.if_unknown).to_string()
            };
            let sent = deadline.retry_each(reports, describe, async |(_, environment, report)| {
                let accepted = client.report_k8s(&environment.name, environment.if_unknown, report).await?;
                Ok(summarize(environment, report, ReportOutcome::Accepted(accepted)))
            });
            for ((n, environment, ..), result) in sent.await {
                match result {
                    Ok(summary) => summaries.push(summary),
                    Err(source) => {
                        let name = &environment.name;
                        let about = Resource::Reported(name.as_str());
                        let hint = source.last().and_then(|e| client.hint(e, about));
                        failures.insert(n, Error::NotReported { environment: name.clone(), source, hint });
                    }
                }
            }
        }
    }
    if failures.is_empty() { Ok(summaries) } else { Err(failures.into_values().collect()) }
}

/// A failed namespace list or lookup.
type LookupError = Arc<RetryError<cluster::Error>>;

type Lookups = BTreeMap<NamespaceName, Result<Existence, LookupError>>;

/// Looks up the named namespaces without pods: the list of a namespace that does not exist is empty as well.
async fn look_up(
    environments: &[EnvironmentConfig],
    Gathered { live_set, failed, .. }: &Gathered,
    source: &Source,
    deadline: Deadline,
) -> Lookups {
    let Source::Cluster(cluster) = source else { return Lookups::new() };
    let unseen: BTreeSet<_> = environments
        .iter()
        .filter(|e| e.empty == Emptiness::Withheld)
        .flat_map(|e| e.selection.names())
        .filter(|name| !live_set.has_seen(name.as_str()) && !failed.contains_key(*name))
        .cloned()
        .collect();
    let describe = |name: &NamespaceName| format!("looking up namespace \"{name}\" at {}", cluster.url());
    let results = deadline.retry_each(unseen, describe, async |name| cluster.namespace(name).await);
    results.await.into_iter().map(|(name, result)| (name, result.map_err(Arc::new))).collect()
}

/// Checks that the snapshot is complete.
fn confirm(
    n: usize,
    environment: &EnvironmentConfig,
    snapshot: &Snapshot,
    Gathered { live_set, failed, no_labels }: &Gathered,
    source: &Source,
    lookups: &Lookups,
) -> Result<(), (Withheld, Option<LookupError>)> {
    let selection = &environment.selection;
    if let Some((name, error)) = failed.iter().find(|(name, _)| selection.selects(name.as_str())) {
        return Err((Withheld::NotListed(name.clone()), Some(Arc::clone(error))));
    }
    if let Some(error) = no_labels.as_ref().filter(|_| selection.has_label_selector()) {
        return Err((Withheld::NoLabels, Some(Arc::clone(error))));
    }
    let facts = Facts {
        artifacts: snapshot.len(),
        has_pods: snapshot.tally.pods > 0,
        unreadable: live_set.unattributed(n) + snapshot.tally.unreadable(),
    };
    let existence = |name: &NamespaceName| match (source, lookups.get(name)) {
        _ if live_set.has_seen(name.as_str()) => Existence::Exists,
        (Source::File(_), _) => Existence::NotInFile,
        (Source::Cluster(_), Some(Ok(existence))) => *existence,
        (Source::Cluster(_), Some(Err(_)) | None) => Existence::Unknown,
    };
    confirmation::confirm(selection, environment.empty, facts, existence).map_err(|why| {
        let source = match &why {
            Withheld::Unconfirmed(name) => lookups.get(name).and_then(|result| result.clone().err()),
            _ => None,
        };
        (why, source)
    })
}

/// Writes the exact request body, followed by a line break.
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

/// The start of the message: a response means that the service rejected the report.
fn failure(source: &RetryError<client::Error>) -> &'static str {
    match source {
        RetryError::Permanent(error) if matches!(**error, client::Error::Answered { .. }) => {
            "the service rejected the report for environment "
        }
        _ => "failed to report environment ",
    }
}

impl Error {
    /// Hint for the operator, if a fix is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Gather(GatherError::Scope(_)) => Some(GatherError::WHOLE_CLUSTER.to_owned()),
            Self::Gather(GatherError::List(source)) => source.last().and_then(cluster::Error::hint),
            Self::Gather(GatherError::File(_) | GatherError::FileTimedOut(..)) | Self::Output(_) => None,
            Self::Withheld { source: Some(source), .. } => source.last().and_then(cluster::Error::hint),
            Self::Withheld { why, source: None, .. } => why.hint().map(str::to_owned),
            Self::NotReported { hint, .. } => hint.clone(),
        }
    }
}
