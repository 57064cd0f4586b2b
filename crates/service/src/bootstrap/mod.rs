//! The bootstrap file: organizations, tokens, policies and actions, which have no operation in the interface.
//!
//! The service reads it at the start and on SIGHUP, checks all of it, and then applies it in one transaction. An invalid
//! file changes nothing; the error names the key and its position. The file refers to secrets and never contains them.

mod error;
mod file;
mod resolve;
mod warnings;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use error::BootstrapError;
use error::READ_TIMEOUT;
pub use file::schema;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::guard::Evaluating;
use crate::engine::notify::AddressBook;
use crate::engine::queue;
use rules::notification::{Cause, CauseKind};
use runtime::error_causes::describe;
use store::bootstrap::file::Token;
use store::bootstrap::{Plan, ReconcileError};

/// Maximum time for which the first evaluations delay the start, or a reload.
const MAX_EVALUATION: Duration = Duration::from_secs(10);

/// A valid file.
pub(crate) struct Bootstrap {
    path: PathBuf,
    plan: Plan,
    addresses: AddressBook,
}

impl Bootstrap {
    /// Reads a file, and the files that it refers to.
    pub(crate) async fn read(path: &Path) -> Result<Self, BootstrapError> {
        let file = path.to_owned();
        let read = timeout(READ_TIMEOUT, spawn_blocking(move || resolve::read(&file)));
        let Ok(Ok(read)) = read.await else { return Err(BootstrapError::TooSlow(path.to_owned())) };
        let (plan, addresses) = read?;
        Ok(Self { path: path.to_owned(), plan, addresses })
    }
}

/// Reads a file and applies it. Returns its generation.
pub(crate) async fn load(app: &App, path: &Path) -> Result<i64, BootstrapError> {
    let read = Bootstrap::read(path).await;
    apply(app, read.inspect_err(|error| app.metrics.bootstrap_failed(error, None))?).await
}

/// Applies a file to the database, queues the changed environments for evaluation, and replaces the addresses of
/// notification targets. Returns the generation.
pub(crate) async fn apply(app: &App, bootstrap: Bootstrap) -> Result<i64, BootstrapError> {
    let applied = try_apply(app, bootstrap).await;
    let applied = applied.inspect(|generation| app.metrics.bootstrap_applied(*generation));
    applied.inspect_err(|error| app.metrics.bootstrap_failed(error, error.newer_generation()))
}

async fn try_apply(app: &App, bootstrap: Bootstrap) -> Result<i64, BootstrapError> {
    let Bootstrap { path, plan, addresses } = bootstrap;
    let generation = plan.generation;
    let tokens = plan.organizations.iter().flat_map(|organization| &organization.tokens);
    let hashes: Vec<_> = tokens.map(Token::hash).collect::<Result<_, store::Error>>()?;
    // Also those that the file removes: requests with their tokens may be in progress.
    let open = store::bootstrap::open_organizations(&mut app.site.store.read().await?).await?;
    let names = plan.organizations.iter().map(|organization| organization.name.as_str());
    let names: BTreeSet<&str> = names.chain(open.iter().map(String::as_str)).collect();
    let mut evaluating =
        Evaluating::exclusive_within(app, names, app.limits.background_permit_timeout).await?;
    let transaction = &mut evaluating.transaction;
    let at = app.site.now();
    let reconciled = store::bootstrap::reconcile(transaction, &plan, at).await;
    let journal = reconciled.map_err(|error| match error {
        ReconcileError::Changed => BootstrapError::Changed { path, generation },
        ReconcileError::Outdated(seen) => BootstrapError::Outdated { path, generation, seen },
        ReconcileError::NumberConflict(conflict) => BootstrapError::NumberConflict { path, conflict },
        ReconcileError::Store(error) => BootstrapError::Store(error),
    })?;
    let cause = Cause { kind: CauseKind::Bootstrap, by: None };
    let environments: Vec<_> = journal.environments.iter().collect();
    for of_one in environments.chunk_by(|(one, _), (next, _)| one == next) {
        let names = of_one.iter().map(|(_, name)| name.as_str());
        let Some((organization, _)) = of_one.first() else { continue };
        store::policies::evaluation_queue::push(&mut transaction.of(organization), names, None, &cause, at)
            .await?;
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
    for hash in hashes {
        app.limiter.admitted(hash);
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
