//! The state file (`--state`), which keeps departed pods that no accepted report contained over a restart.
//!
//! `daemon` reads it at the start and runs the task that writes it. Both use another thread, because a file system may
//! hang. A failure is logged, a failed write also counted; neither stops the daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::timing::Timing;
use crate::agent::{Plan, pluralize};
use crate::api::Client;
use crate::cluster::Cluster;
use crate::domain::escape::Escaped;
use crate::domain::failure_log::{FailureLog, LogAction};
use crate::domain::live::saved_state::{Encoded, Ignored, MAX_BYTES, Origin, SavedState};
use crate::process::error_causes;
use crate::process::files::{BlockingCall, read_regular, replace};

/// Maximum pause between two writes.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Timeout of reading and of writing the file.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The state file of this agent.
pub(super) struct StateFile {
    path: PathBuf,
    origin: Arc<Origin>,
    /// Pause between two writes: the debounce.
    pause: Duration,
    reminder_interval: Duration,
    /// Number of changes of the departed pods that the file contains; `None` if it has to be written without a change.
    written: Option<u64>,
    /// Each returns the number of pods that it left out.
    writes: BlockingCall<io::Result<u64>>,
    failures: FailureLog,
    /// Writes that left out pods.
    full: FailureLog,
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(transparent)]
    Ignored(#[from] Ignored),
    #[error("timed out after {TIMEOUT:?}")]
    Hangs,
}

impl StateFile {
    pub(super) fn new(path: PathBuf, cluster: &Cluster, client: &Client, timing: &Timing) -> Self {
        let origin = Origin {
            cluster: cluster.url(),
            service: client.base_url().to_string(),
            organization: client.organization().as_str().to_owned(),
        };
        Self {
            path,
            origin: Arc::new(origin),
            pause: timing.cadence.debounce.min(MAX_PAUSE),
            reminder_interval: timing.reminder_interval,
            written: None,
            writes: BlockingCall::default(),
            failures: FailureLog::new(timing.reminder_interval),
            full: FailureLog::new(timing.reminder_interval),
        }
    }

    /// Reads the departed pods of the environments of the plan. A file or pods that cannot be used are ignored with a
    /// warning. The first write replaces them, so that the next start does not repeat the warning.
    pub(super) async fn read(&mut self, plan: &Plan) -> SavedState {
        let (path, origin) = (self.path.clone(), Arc::clone(&self.origin));
        let read = move || -> Result<_, Unusable> {
            let bytes = read_regular(MAX_BYTES as u64, &path)?;
            Ok(SavedState::decode(&bytes, &origin, unix_time())?)
        };
        let result = BlockingCall::default().run(TIMEOUT, read).await;
        let mut state = match result.unwrap_or(Err(Unusable::Hangs)) {
            Ok(state) => state,
            Err(Unusable::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
                return SavedState::default();
            }
            Err(error) => {
                let cause = error_causes::describe(&error);
                tracing::warn!("ignoring the state file {self}: {cause}");
                // A file that cannot be read now may be readable later.
                self.written = (!matches!(error, Unusable::Ignored(_))).then_some(0);
                return SavedState::default();
            }
        };
        let mut has_ignored = false;
        state.environments.retain(|name, saved| {
            let environment = plan.environments.iter().find(|environment| environment.name.as_str() == name);
            let name = Escaped(name);
            let (ignored, reason) = match environment {
                Some(environment) => (
                    saved.retain_selected(&environment.selection),
                    format!("the namespaces of {name} are selected differently now"),
                ),
                None => (saved.pods.len() as u64, format!("this agent does not report {name}")),
            };
            has_ignored |= ignored > 0;
            if ignored > 0 {
                let pods = pluralize(ignored, "departed pod");
                tracing::warn!(departed = ignored, "ignoring {pods} in the state file {self}: {reason}");
            }
            let restored = saved.pods.len() as u64;
            if environment.is_some() && restored > 0 {
                let pods = pluralize(restored, "departed pod");
                tracing::info!(departed = restored, "{name}: restored {pods} from {self}");
            }
            environment.is_some()
        });
        self.written = (!has_ignored).then_some(0);
        state
    }

    /// Writes the file after changes until the daemon ends.
    pub(super) async fn run(mut self, shared: Arc<Shared>, end: CancellationToken) {
        loop {
            // Before the write, so that the last one contains the results of the last reports.
            let is_ending = end.is_cancelled();
            let has_tried = self.write(&shared).await;
            if is_ending {
                return;
            }
            if has_tried {
                let _ = timeout(self.pause, end.cancelled()).await;
            }
            tokio::select! {
                () = end.cancelled() => {}
                // A failed write is repeated without a change.
                _ = timeout(self.reminder_interval, shared.departed_pods_changed()) => {}
            }
        }
    }

    /// Writes the file if departed pods changed. Returns whether it tried.
    async fn write(&mut self, shared: &Shared) -> bool {
        let Some((changes, state)) = shared.save(self.written) else { return false };
        let (path, origin) = (self.path.clone(), Arc::clone(&self.origin));
        let write = move || write(&path, &state, &origin);
        let cause = match self.writes.run_anew(TIMEOUT, write).await {
            Some(Ok(left_out)) => {
                self.written = Some(changes);
                self.log_left_out(left_out);
                if let Some((_, lasted)) = self.failures.recovered(Instant::now()) {
                    tracing::info!("wrote the state file {self} again after {lasted:.0?}");
                }
                return true;
            }
            Some(Err(error)) => error_causes::describe(&error),
            None => format!("timed out after {TIMEOUT:?}"),
        };
        shared.metrics.state_write_failures.inc();
        match self.failures.failed(&cause, Instant::now()) {
            LogAction::Suppress => tracing::debug!("failed to write the state file {self}: {cause}"),
            LogAction::New | LogAction::Ongoing(..) => tracing::warn!(
                "failed to write the state file {self}: {cause}; a restart loses unreported departed pods"
            ),
        }
        true
    }

    /// Logs the pods that did not fit.
    fn log_left_out(&mut self, left_out: u64) {
        let now = Instant::now();
        if left_out == 0 {
            self.full.recovered(now);
        } else if self.full.failed("", now) != LogAction::Suppress {
            let pods = pluralize(left_out, "departed pod");
            tracing::warn!(departed = left_out, "the state file {self} is full: a restart loses {pods}");
        }
    }
}

impl std::fmt::Display for StateFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", Escaped(&self.path.display().to_string()))
    }
}

fn write(path: &Path, state: &SavedState, origin: &Origin) -> io::Result<u64> {
    let Encoded { header, lines, left_out } = state.encode(origin, unix_time())?;
    replace(path, &[&header, &lines])?;
    Ok(left_out)
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
