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
    #[error("the pods cannot be read, so nothing was reported: {0} did not end within {secs:.1} s of --timeout", secs = .1.as_secs_f32())]
    FileTooSlow(PodsFile, Duration),
}

/// What was read.
pub(super) struct Gathered {
    /// The pods of every list that is complete.
    pub(super) roster: Arc<Roster>,
    /// The namespaces whose list is not.
    pub(super) failed: BTreeMap<NamespaceName, Arc<GaveUp<cluster::Error>>>,
    /// How many pods could not be read, wherever they belong.
    pub(super) unreadable: u64,
}

/// Lists that are being read.
struct Intake {
    environments: Vec<Environment>,
    counting: Counting,
    gathering: Gathering,
    /// Of the complete lists.
    unreadable: Unreadable,
    /// Of the one that is being read.
    unreadable_here: Unreadable,
}

/// Pods that cannot be read: how many, and why the first of them cannot.
#[derive(Default)]
struct Unreadable {
    count: u64,
    named: Vec<String>,
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
        unreadable: Unreadable::default(),
        unreadable_here: Unreadable::default(),
    };
    let mut failed = BTreeMap::new();
    match source {
        Source::File(file) => intake = read_file(file.clone(), intake, deadline).await?,
        Source::Cluster(cluster) => {
            let scope = Scope::covering(environments.iter().map(|e| &e.selection));
            match scope.map_err(GatherError::Scope)? {
                Scope::Cluster => intake.list(cluster, None, deadline).await.map_err(GatherError::List)?,
                Scope::Namespaces(namespaces) => {
                    let count = namespaces.len();
                    for (n, namespace) in namespaces.into_iter().enumerate() {
                        // One part for each list that is left, and one for the reports.
                        let share = deadline.share(count - n + 1);
                        if let Err(failure) = intake.list(cluster, Some(&namespace), share).await {
                            failed.insert(namespace, Arc::new(failure));
                        }
                    }
                }
            }
        }
    }
    let unreadable = intake.unreadable.log();
    let (roster, replaced) = intake.gathering.finish();
    for artifact in replaced {
        let name = format!("{}/{}", artifact.namespace, artifact.pod_name);
        tracing::warn!("the pod \"{}\" runs more than once in the list; the last one counts", Visible(&name));
    }
    tracing::debug!("all lists took {:.3} s", start.elapsed().as_secs_f64());
    Ok(Gathered { roster: Arc::new(roster), failed, unreadable })
}

/// Reads a file on a thread of its own: a pipe may be silent for ever.
async fn read_file(file: PodsFile, mut intake: Intake, deadline: Deadline) -> Result<Intake, GatherError> {
    let shown = file.clone();
    let read = spawn_blocking(move || {
        file.read(&mut |listed| intake.take(None, listed)).map(|()| {
            intake.complete();
            intake
        })
    });
    match timeout(deadline.left(), read).await {
        Ok(Ok(read)) => read.map_err(GatherError::File),
        Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        Err(_) => Err(GatherError::FileTooSlow(shown, deadline.within())),
    }
}

impl Intake {
    /// Reads one list; nothing of one that fails stays behind.
    async fn list(
        &mut self,
        cluster: &Cluster,
        namespace: Option<&NamespaceName>,
        deadline: Deadline,
    ) -> Result<(), GaveUp<cluster::Error>> {
        let asking = match namespace {
            Some(namespace) => {
                format!("listing the pods of the namespace \"{namespace}\" at {}", cluster.url())
            }
            None => format!("listing the pods at {}", cluster.url()),
        };
        let listed = deadline
            .persist(&asking, async || {
                self.start_over(namespace);
                cluster.list_pods(namespace, |listed| self.take(namespace, listed)).await
            })
            .await;
        match listed {
            Ok(()) => self.complete(),
            Err(_) => self.start_over(namespace),
        }
        listed
    }

    /// Takes in one pod, where any environment wants it.
    fn take(&mut self, of: Option<&NamespaceName>, listed: Listed) {
        match listed {
            Listed::Pod(pod) => {
                let namespace = pod.namespace.clone();
                if !self.environments.iter().any(|e| e.selection.takes(&namespace)) {
                    return;
                }
                let name = pod.name.clone();
                let collapsed = collapse(pod, self.counting);
                log_skips(&namespace, &name, &collapsed);
                if collapsed.artifact == Err(PodSkip::Unreadable) {
                    self.unreadable(format!(
                        "\"{namespace}/{name}\" has no name, no namespace or no creation time"
                    ));
                } else {
                    self.gathering.add(&namespace, collapsed);
                }
            }
            Listed::Unreadable(problem) => self.unreadable(problem),
            Listed::StartOver => self.start_over(of),
        }
    }

    fn unreadable(&mut self, problem: String) {
        self.unreadable_here.count += 1;
        if self.unreadable_here.named.len() < MOST_NAMED {
            self.unreadable_here.named.push(problem);
        }
    }

    /// Forgets the list that is being read.
    fn start_over(&mut self, of: Option<&NamespaceName>) {
        self.gathering.forget(of.map(NamespaceName::as_str));
        self.unreadable_here = Unreadable::default();
    }

    /// The list that was being read is complete.
    fn complete(&mut self) {
        let here = std::mem::take(&mut self.unreadable_here);
        self.unreadable.count += here.count;
        self.unreadable.named.extend(here.named);
    }
}

impl Unreadable {
    /// Names the first, and counts them all.
    fn log(&self) -> u64 {
        for problem in self.named.iter().take(MOST_NAMED) {
            tracing::warn!("a pod cannot be read and is left out: {}", Visible(problem));
        }
        if self.count > MOST_NAMED as u64 {
            tracing::warn!("{} pods in all cannot be read and are left out", self.count);
        }
        self.count
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
