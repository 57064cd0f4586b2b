//! The bootstrap file: organizations, tokens, policies and actions, which have no operation in the interface.
//!
//! The service reads it at the start and on SIGHUP, checks all of it, and then applies it in one transaction. An invalid
//! file changes nothing; the error names the key and its position. The file refers to secrets and never contains them.

mod file;
mod resolve;
mod warnings;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use file::schema;
pub use resolve::BootstrapError;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::app::App;
use super::evaluation::audit::Audit;
use super::evaluation::guard::Evaluating;
use super::evaluation::queue;
use super::notify::AddressBook;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::process::error_causes::describe;
use crate::store;
use crate::store::bootstrap::{Plan, Reconciliation};

/// A failure to apply a bootstrap file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] BootstrapError),
    /// Reading the file, or a file that it refers to, takes too long: for example a pipe.
    #[error("failed to read the bootstrap file \"{}\" or a file that it refers to: timed out after {READ_TIMEOUT:?}", .0.display())]
    TooSlow(PathBuf),
    /// The database failed.
    #[error("failed to apply the bootstrap file")]
    Store(#[from] store::Error),
}

impl LoadError {
    /// The generation of the database, if it is higher than the file's.
    pub(super) fn newer_generation(&self) -> Option<i64> {
        match self {
            Self::File(BootstrapError::Outdated { seen, .. }) => Some(*seen),
            _ => None,
        }
    }
}

/// Maximum time for which the first evaluations delay the start, or a reload.
const MAX_EVALUATION: Duration = Duration::from_secs(10);

/// Timeout for reading the file and its secrets.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A valid file.
pub(super) struct Bootstrap {
    path: PathBuf,
    plan: Plan,
    addresses: AddressBook,
}

impl Bootstrap {
    /// Reads a file, and the files that it refers to.
    pub(super) async fn read(path: &Path) -> Result<Self, LoadError> {
        let file = path.to_owned();
        let read = timeout(READ_TIMEOUT, spawn_blocking(move || resolve::read(&file)));
        let Ok(Ok(read)) = read.await else { return Err(LoadError::TooSlow(path.to_owned())) };
        let (plan, addresses) = read?;
        Ok(Self { path: path.to_owned(), plan, addresses })
    }
}

/// Reads a file and applies it. Returns its generation.
pub(super) async fn load(app: &App, path: &Path) -> Result<i64, LoadError> {
    match Bootstrap::read(path).await {
        Ok(bootstrap) => apply(app, bootstrap).await,
        Err(error) => {
            app.metrics.bootstrap_failed(&error, None);
            Err(error)
        }
    }
}

/// Applies a file to the database, queues the changed environments for evaluation, and replaces the addresses of
/// notification targets. Returns the generation.
pub(super) async fn apply(app: &App, bootstrap: Bootstrap) -> Result<i64, LoadError> {
    let applied = try_apply(app, bootstrap).await;
    match &applied {
        Ok(generation) => app.metrics.bootstrap_applied(*generation),
        Err(error) => app.metrics.bootstrap_failed(error, error.newer_generation()),
    }
    applied
}

async fn try_apply(app: &App, bootstrap: Bootstrap) -> Result<i64, LoadError> {
    let Bootstrap { path, plan, addresses } = bootstrap;
    let generation = plan.generation;
    // Also those that the file removes: requests with their tokens may be in progress.
    let open = app.site.store.read().await?.open_organizations().await?;
    let names = plan.organizations.iter().map(|organization| organization.name.as_str());
    let names: BTreeSet<&str> = names.chain(open.iter().map(String::as_str)).collect();
    let mut evaluating =
        Evaluating::exclusive_within(app, names, app.limits.background_permit_timeout).await?;
    let transaction = &mut evaluating.transaction;
    let at = app.site.now();
    let journal = match transaction.reconcile(&plan, at).await? {
        Reconciliation::Applied(journal) => journal,
        Reconciliation::Changed => return Err(BootstrapError::Changed { path, generation }.into()),
        Reconciliation::Outdated(seen) => {
            return Err(BootstrapError::Outdated { path, generation, seen }.into());
        }
        Reconciliation::NumberConflict(conflict) => {
            return Err(BootstrapError::NumberConflict(path, conflict).into());
        }
    };
    let cause = Cause { kind: CauseKind::Bootstrap, by: None };
    let environments: Vec<_> = journal.environments.iter().collect();
    for of_one in environments.chunk_by(|(one, _), (next, _)| one == next) {
        let names = of_one.iter().map(|(_, name)| name.as_str());
        let Some((organization, _)) = of_one.first() else { continue };
        transaction.queue_evaluations(organization, names, None, &cause, at).await?;
    }
    let warnings = warnings::check(&mut evaluating.transaction, &plan).await?;
    let audit = Audit::from_bootstrap(generation, journal.changes);
    evaluating.audit(audit, at).await?;
    // Before the sender wakes: notifications of this change use the new addresses.
    evaluating.commit_and(|| app.addresses.replace(addresses)).await?;
    for warning in warnings {
        tracing::warn!("bootstrap file: {warning}");
    }
    // A task does it again within 30 s.
    if let Err(error) = app.identities.load(&app.site.store).await {
        tracing::warn!("failed to read issuers from the database: {}", describe(&error));
    }
    for token in plan.organizations.iter().flat_map(|organization| &organization.tokens) {
        app.limiter.admitted(token.sha256);
    }
    // Evaluates a first batch, so that a small change is in effect when this returns. The task of the queue evaluates the
    // rest.
    let deadline = Instant::now() + MAX_EVALUATION;
    if let Err(error) = queue::evaluate_batch(app, || Instant::now() >= deadline).await {
        tracing::warn!(
            "failed to evaluate environments after a change of the bootstrap file: {}",
            describe(&error)
        );
    }
    Ok(generation)
}
