//! All pods that any environment wants, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::Plan;
use super::intake::{self, MAX_NAMED};
use super::retry::{Deadline, GaveUp};
use crate::cluster::{self, Cluster, FileError, Heard, PodsFile, Unreadable};
use crate::domain::escape::Visible;
use crate::domain::live::live_set::Roster;
use crate::domain::live::pod::PodView;
use crate::domain::live::selection::{Scope, TooManyNamespaces};
use crate::domain::model::NamespaceName;
use crate::process::error_causes;

/// Where pods come from.
pub enum Source {
    /// An API server.
    Cluster(Box<Cluster>),
    /// `--pods-from`.
    File(PodsFile),
}

/// Why no pods were read.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// Too many namespaces are named.
    #[error("the pods cannot be listed")]
    Scope(#[source] TooManyNamespaces),
    /// The API server's list failed.
    #[error("the pods cannot be listed, so nothing was reported")]
    List(#[source] GaveUp<cluster::Error>),
    /// The file holds no pods.
    #[error("the pods cannot be read, so nothing was reported")]
    File(#[source] FileError),
    /// The file does not come to an end, as where nobody closes a pipe.
    #[error("the pods cannot be read, so nothing was reported: {0} did not end in {secs:.1} s (--timeout)", secs = .1.as_secs_f32())]
    FileTooSlow(PodsFile, Duration),
}

impl GatherError {
    /// What to do where too many namespaces are named.
    pub const WHOLE_CLUSTER: &'static str =
        "select them by --namespace-regex (namespacesRegex), which lists the whole cluster";
}

/// What was read.
pub(super) struct Gathered {
    /// The pods of every list that is complete, and what came of the others.
    pub(super) roster: Roster,
    /// The namespaces whose list is not complete.
    pub(super) failed: BTreeMap<NamespaceName, Arc<GaveUp<cluster::Error>>>,
}

/// Lists that are being read.
struct Intake {
    plan: Plan,
    roster: Roster,
    /// Of the complete lists.
    noted: Notes,
    /// Of the list that is being read.
    noted_here: Notes,
}

/// What is worth a warning once a list is complete.
#[derive(Default)]
struct Notes {
    /// Why pods cannot be read. All are counted, and of the first it is kept what they are.
    problems: Vec<String>,
    /// The pods that a list named again.
    repeated: BTreeSet<String>,
}

/// Reads the pods of all environments.
pub(super) async fn gather(
    plan: &Plan,
    source: &Source,
    deadline: Deadline,
) -> Result<Gathered, GatherError> {
    let start = Instant::now();
    let environments = &plan.environments;
    let selections = environments.iter().map(|e| e.selection.clone()).collect();
    let mut intake = Intake {
        plan: plan.clone(),
        roster: Roster::new(selections, plan.counting),
        noted: Notes::default(),
        noted_here: Notes::default(),
    };
    let mut failed = BTreeMap::new();
    match source {
        Source::File(file) => intake = read_file(file.clone(), intake, deadline).await?,
        Source::Cluster(cluster) => {
            let scope = Scope::covering(environments.iter().map(|e| &e.selection));
            match scope.map_err(GatherError::Scope)? {
                Scope::Cluster => {
                    let mut listed = intake.list(cluster, [None], deadline).await;
                    listed.pop().map_or(Ok(()), |(_, result)| result).map_err(GatherError::List)?;
                }
                Scope::Namespaces(namespaces) => {
                    // One that hangs must leave time for reporting the others.
                    let deadline = if namespaces.len() > 1 { deadline.half() } else { deadline };
                    for (namespace, result) in
                        intake.list(cluster, namespaces.into_iter().map(Some), deadline).await
                    {
                        if let (Some(namespace), Err(failure)) = (namespace, result) {
                            failed.insert(namespace, Arc::new(failure));
                        }
                    }
                }
            }
        }
    }
    let Notes { problems, repeated } = intake.noted;
    for problem in problems.iter().take(MAX_NAMED as usize) {
        tracing::warn!("{}", intake::warning(problem));
    }
    if problems.len() > MAX_NAMED as usize {
        tracing::warn!("{} pods in all cannot be read and are left out", problems.len());
    }
    for name in &repeated {
        tracing::warn!("the pod \"{}\" runs more than once in the list; the last one counts", Visible(name));
    }
    tracing::debug!("all lists took {:.3} s", start.elapsed().as_secs_f64());
    Ok(Gathered { roster: intake.roster, failed })
}

/// Reads a file on a thread of its own: a pipe may be silent for ever.
async fn read_file(file: PodsFile, mut intake: Intake, deadline: Deadline) -> Result<Intake, GatherError> {
    let (shown, start) = (file.clone(), Instant::now());
    let read = spawn_blocking(move || {
        intake.begin(None);
        file.read(&mut |pod| intake.add(None, pod)).map(|()| {
            intake.complete(None);
            intake
        })
    });
    match timeout(deadline.left(), read).await {
        Ok(Ok(read)) => read.map_err(GatherError::File),
        Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        Err(_) => Err(GatherError::FileTooSlow(shown, start.elapsed())),
    }
}

impl Intake {
    /// Reads one list each.
    async fn list(
        &mut self,
        cluster: &Cluster,
        namespaces: impl IntoIterator<Item = Option<NamespaceName>>,
        deadline: Deadline,
    ) -> Vec<(Option<NamespaceName>, Result<(), GaveUp<cluster::Error>>)> {
        let asking = |namespace: &Option<NamespaceName>| match namespace {
            Some(namespace) => {
                format!("listing the pods of the namespace \"{namespace}\" at {}", cluster.url())
            }
            None => format!("listing the pods at {}", cluster.url()),
        };
        let listed = deadline.persist(namespaces, asking, async |namespace| {
            let namespace = namespace.as_ref();
            cluster.list_pods(namespace, |heard| self.hear(namespace, heard)).await
        });
        listed.await
    }

    /// Applies what the list of a namespace, or of the cluster, brought.
    fn hear(&mut self, of: Option<&NamespaceName>, heard: Heard) {
        match heard {
            Heard::Begin => self.begin(of),
            Heard::Pod(pod) => self.add(of, pod),
            Heard::Complete => self.complete(of),
            Heard::Failed { error, .. } => {
                tracing::debug!("{}; the list begins again", error_causes::said_once(&error).join(": "));
            }
            _ => {}
        }
    }

    fn add(&mut self, of: Option<&NamespaceName>, pod: Result<PodView, Unreadable>) {
        let added = intake::add(&self.plan, &mut self.roster, of, pod);
        if let Some(problem) = added.problem {
            self.noted_here.problem(problem);
        }
        self.noted_here.repeated.extend(added.repeated);
    }

    /// A list begins, or begins again. Of one that never ends, the roster keeps what it brought; no
    /// environment with such a namespace is reported.
    fn begin(&mut self, of: Option<&NamespaceName>) {
        self.roster.begin(of);
        self.noted_here = Notes::default();
    }

    /// The list that was being read is complete.
    fn complete(&mut self, of: Option<&NamespaceName>) {
        self.roster.complete(of, drop);
        self.noted.problems.append(&mut self.noted_here.problems);
        self.noted.repeated.append(&mut self.noted_here.repeated);
    }
}

impl Notes {
    fn problem(&mut self, problem: String) {
        self.problems.push(if self.problems.len() < MAX_NAMED as usize { problem } else { String::new() });
    }
}
