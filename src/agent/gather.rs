//! All pods that any environment wants, read once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::Environment;
use super::retry::{Deadline, GaveUp};
use crate::cluster::{self, Cluster, FileError, Listed, PodsFile};
use crate::domain::collapse::{Collapsed, Counting, PodSkip, collapse};
use crate::domain::model::NamespaceName;
use crate::domain::roster::{Gathering, Roster};
use crate::domain::selection::{Scope, TooManyNamespaces};
use crate::domain::visible::Visible;

/// How many pods that cannot be read are named one by one.
const MOST_NAMED: usize = 10;

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

/// What was read.
pub(super) struct Gathered {
    /// The pods of every list that is complete.
    pub(super) roster: Arc<Roster>,
    /// The namespaces whose list is not.
    pub(super) failed: BTreeMap<NamespaceName, Arc<GaveUp<cluster::Error>>>,
    /// How many pods could not be read of which not even the namespace is known.
    pub(super) lost: u64,
}

/// Lists that are being read.
struct Intake {
    environments: Vec<Environment>,
    counting: Counting,
    gathering: Gathering,
    lost: u64,
    /// Why pods cannot be read: of the complete lists, and of the one that is being read.
    problems: Vec<String>,
    problems_here: Vec<String>,
}

/// Reads the pods of all environments.
pub(super) async fn gather(
    environments: &[Environment],
    counting: Counting,
    source: &Source,
    deadline: Deadline,
) -> Result<Gathered, GatherError> {
    let start = Instant::now();
    let mut intake = Intake {
        environments: environments.to_vec(),
        counting,
        gathering: Gathering::default(),
        lost: 0,
        problems: Vec::new(),
        problems_here: Vec::new(),
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
    for problem in intake.problems.iter().take(MOST_NAMED) {
        tracing::warn!("a pod cannot be read and is left out: {}", Visible(problem));
    }
    if intake.problems.len() > MOST_NAMED {
        tracing::warn!("{} pods in all cannot be read and are left out", intake.problems.len());
    }
    let (roster, replaced) = intake.gathering.finish();
    for artifact in replaced {
        let name = format!("{}/{}", artifact.namespace, artifact.pod_name);
        tracing::warn!("the pod \"{}\" runs more than once in the list; the last one counts", Visible(&name));
    }
    tracing::debug!("all lists took {:.3} s", start.elapsed().as_secs_f64());
    Ok(Gathered { roster: Arc::new(roster), failed, lost: intake.lost })
}

/// Reads a file on a thread of its own: a pipe may be silent for ever.
async fn read_file(file: PodsFile, mut intake: Intake, deadline: Deadline) -> Result<Intake, GatherError> {
    let (shown, start) = (file.clone(), Instant::now());
    let read = spawn_blocking(move || {
        file.read(&mut |listed| intake.take(None, listed)).map(|()| {
            intake.complete();
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
    /// Reads one list each; nothing of one that fails stays behind.
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
            self.start_over(namespace);
            cluster.list_pods(namespace, |listed| self.take(namespace, listed)).await?;
            self.complete();
            Ok(())
        });
        let listed = listed.await;
        for (namespace, _) in listed.iter().filter(|(_, result)| result.is_err()) {
            self.start_over(namespace.as_ref());
        }
        listed
    }

    /// Takes in one pod, where any environment wants it.
    fn take(&mut self, of: Option<&NamespaceName>, listed: Listed) {
        let pod = match listed {
            Listed::Pod(pod) => pod,
            Listed::Unreadable(problem) => return self.unreadable(of, problem),
            Listed::StartOver => return self.start_over(of),
        };
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        if namespace.is_empty() {
            self.unreadable(of, format!("\"/{name}\" has no namespace"));
        } else if self.environments.iter().any(|e| e.selection.takes(&namespace)) {
            let collapsed = collapse(pod, self.counting);
            log_skips(&namespace, &name, &collapsed);
            if collapsed.artifact == Err(PodSkip::Unreadable) {
                self.problem(format!("\"{namespace}/{name}\" has no name or no creation time"));
            }
            self.gathering.add(&namespace, collapsed);
        }
    }

    /// A pod that does not even say where it belongs, in the list of this namespace.
    fn unreadable(&mut self, of: Option<&NamespaceName>, problem: String) {
        self.problem(problem);
        match of {
            Some(namespace) => self.gathering.add_unreadable(namespace.as_str()),
            None => self.lost += 1,
        }
    }

    /// All are counted, and of the first it is kept what they are.
    fn problem(&mut self, problem: String) {
        self.problems_here.push(if self.problems_here.len() < MOST_NAMED { problem } else { String::new() });
    }

    /// Forgets the list that is being read.
    fn start_over(&mut self, of: Option<&NamespaceName>) {
        self.gathering.forget(of.map(NamespaceName::as_str));
        self.problems_here.clear();
        self.lost = 0;
    }

    /// The list that was being read is complete.
    fn complete(&mut self) {
        self.problems.append(&mut self.problems_here);
    }
}

fn log_skips(namespace: &str, name: &str, collapsed: &Collapsed) {
    let (namespace, name) = (Visible(namespace), Visible(name));
    if let Err(why) = &collapsed.artifact {
        tracing::debug!("left out: the pod {namespace}/{name}, {why}");
    }
    for why in &collapsed.skipped {
        tracing::debug!("left out: a container of {namespace}/{name}, {why}");
    }
}
