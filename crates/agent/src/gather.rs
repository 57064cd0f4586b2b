//! Lists the pods of all environments once, from an API server or a file.
//!
//! Called by `once`. Stays within the deadline and logs unreadable and repeated pods.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::Plan;
use super::intake::{self, MAX_NAMED};
use crate::cluster::{self, Cluster, FileError, PodsFile, Unreadable, WatchEvent};
use crate::live::labels::NamespaceView;
use crate::live::live_set::LiveSet;
use crate::live::pod::PodView;
use crate::live::selection::{Scope, TooManyNamespaces};
use client::{Deadline, RetryError};
use model::NamespaceName;
use model::escape::Escaped;
use runtime::error_causes;

pub enum Source {
    Cluster(Box<Cluster>),
    /// `--pods-from`.
    File(PodsFile),
}

#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error("nothing was reported")]
    Scope(#[source] TooManyNamespaces),
    #[error("nothing was reported")]
    List(#[source] RetryError<cluster::Error>),
    #[error("nothing was reported")]
    File(#[source] FileError),
    /// The file does not end, such as a pipe that is not closed.
    #[error("nothing was reported: reading {0} timed out after {secs:.1} s (--timeout)", secs = .1.as_secs_f32())]
    FileTimedOut(PodsFile, Duration),
}

impl GatherError {
    /// Hint for too many named namespaces.
    pub const WHOLE_CLUSTER: &'static str =
        "select the namespaces with --namespace-regex (namespacesRegex), which lists the whole cluster";
}

pub(super) struct Gathered {
    /// Pods of all lists; those of a failed list may be incomplete.
    pub(super) live_set: LiveSet,
    /// Namespaces whose list failed.
    pub(super) failed: BTreeMap<NamespaceName, Arc<RetryError<cluster::Error>>>,
    /// Why the labels of namespaces are not known.
    pub(super) no_labels: Option<Arc<RetryError<cluster::Error>>>,
}

/// State while lists are read.
struct Intake {
    plan: Plan,
    live_set: LiveSet,
    /// Warnings of the complete lists.
    warnings: Warnings,
}

/// Warnings that are logged after the lists are complete.
#[derive(Default)]
struct Warnings {
    /// One entry per unreadable pod; only the first [`MAX_NAMED`] contain a description.
    problems: Vec<String>,
    /// Pods that a list contained more than once.
    repeated: BTreeSet<String>,
}

/// Reads the pods of all environments once.
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
        live_set: LiveSet::new(selections, plan.counting),
        warnings: Warnings::default(),
    };
    let (mut failed, mut no_labels) = (BTreeMap::new(), None);
    match source {
        Source::File(file) => intake = read_file(file.clone(), intake, deadline).await?,
        Source::Cluster(cluster) => {
            let scope = Scope::covering(environments.iter().map(|e| &e.selection));
            match scope.map_err(GatherError::Scope)? {
                Scope::Cluster => {
                    let mut listed = intake.list(cluster, [None], deadline).await;
                    listed.pop().map_or(Ok(()), |(_, result)| result).map_err(GatherError::List)?;
                    // Afterwards: the namespace of a listed pod is missing then only if it was deleted.
                    if environments.iter().any(|e| e.selection.has_label_selector()) {
                        no_labels = intake.list_namespaces(cluster, deadline).await.err().map(Arc::new);
                    }
                }
                Scope::Namespaces(namespaces) => {
                    // A list that hangs must leave time to report the other namespaces.
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
    let Warnings { problems, repeated } = intake.warnings;
    for problem in problems.iter().take(MAX_NAMED as usize) {
        tracing::warn!("{}", intake::warning(problem));
    }
    if problems.len() > MAX_NAMED as usize {
        tracing::warn!("{} unreadable pods left out in total", problems.len());
    }
    for name in &repeated {
        tracing::warn!("the list contains pod \"{}\" more than once; using the last entry", Escaped(name));
    }
    tracing::debug!("listed all pods in {:.3} s", start.elapsed().as_secs_f64());
    Ok(Gathered { live_set: intake.live_set, failed, no_labels })
}

/// Reads a file on its own thread: a read from a pipe may block forever.
async fn read_file(file: PodsFile, mut intake: Intake, deadline: Deadline) -> Result<Intake, GatherError> {
    let (name, start) = (file.clone(), Instant::now());
    let read = spawn_blocking(move || {
        let mut warnings = Warnings::default();
        intake.live_set.begin(None);
        file.read(&mut |pod| intake.add(None, pod, &mut warnings))?;
        intake.complete(None, &mut warnings);
        Ok(intake)
    });
    match timeout(deadline.remaining(), read).await {
        Ok(Ok(read)) => read.map_err(GatherError::File),
        Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        Err(_) => Err(GatherError::FileTimedOut(name, start.elapsed())),
    }
}

impl Intake {
    /// Lists each namespace, or the cluster (`None`).
    async fn list(
        &mut self,
        cluster: &Cluster,
        namespaces: impl IntoIterator<Item = Option<NamespaceName>>,
        deadline: Deadline,
    ) -> Vec<(Option<NamespaceName>, Result<(), RetryError<cluster::Error>>)> {
        let describe = |namespace: &Option<NamespaceName>| match namespace {
            Some(namespace) => format!("listing pods in namespace \"{namespace}\" at {}", cluster.url()),
            None => format!("listing pods at {}", cluster.url()),
        };
        let intake = RefCell::new(self);
        let listed = deadline.retry_each(namespaces, describe, async |namespace| {
            let (namespace, mut warnings) = (namespace.as_ref(), Warnings::default());
            let apply = |event| intake.borrow_mut().apply(namespace, event, &mut warnings);
            cluster.list_pods(namespace, apply).await
        });
        listed.await
    }

    async fn list_namespaces(
        &mut self,
        cluster: &Cluster,
        deadline: Deadline,
    ) -> Result<(), RetryError<cluster::Error>> {
        let operation = format!("listing namespaces at {}", cluster.url());
        let listed = deadline
            .retry(&operation, async || cluster.list_namespaces(|event| self.apply_namespace(event)).await);
        listed.await
    }

    fn apply_namespace(&mut self, event: WatchEvent<NamespaceView>) {
        match event {
            WatchEvent::ListStarted => self.live_set.begin_namespaces(),
            WatchEvent::Applied(Ok(namespace)) => self.live_set.apply_namespace(&namespace),
            WatchEvent::Applied(Err(Unreadable { namespace, problem, .. })) => {
                self.live_set.add_unreadable_namespace(namespace.as_deref());
                tracing::warn!("{}", intake::namespace_warning(&problem));
            }
            WatchEvent::Complete => _ = self.live_set.complete_namespaces(),
            WatchEvent::Failed { error, .. } => {
                tracing::debug!("{}; restarting the list", error_causes::describe(&error));
            }
            _ => {}
        }
    }

    /// Applies an event of a list. Pods of a list that never completes stay in the live set; `confirm` withholds every
    /// environment with such a namespace.
    fn apply(&mut self, scope: Option<&NamespaceName>, event: WatchEvent, warnings: &mut Warnings) {
        match event {
            WatchEvent::ListStarted => {
                self.live_set.begin(scope);
                *warnings = Warnings::default();
            }
            WatchEvent::Applied(pod) => self.add(scope, pod, warnings),
            WatchEvent::Complete => self.complete(scope, warnings),
            WatchEvent::Failed { error, .. } => {
                tracing::debug!("{}; restarting the list", error_causes::describe(&error));
            }
            _ => {}
        }
    }

    fn add(
        &mut self,
        scope: Option<&NamespaceName>,
        pod: Result<PodView, Unreadable>,
        warnings: &mut Warnings,
    ) {
        let added = intake::add(&self.plan, &mut self.live_set, scope, pod);
        if let Some(problem) = added.problem {
            warnings.add_problem(problem);
        }
        warnings.repeated.extend(added.repeated);
    }

    fn complete(&mut self, scope: Option<&NamespaceName>, warnings: &mut Warnings) {
        self.live_set.complete(scope, drop);
        self.warnings.problems.append(&mut warnings.problems);
        self.warnings.repeated.append(&mut warnings.repeated);
    }
}

impl Warnings {
    fn add_problem(&mut self, problem: String) {
        self.problems.push(if self.problems.len() < MAX_NAMED as usize { problem } else { String::new() });
    }
}
