//! The bootstrap file: what has no operation in the interface.
//!
//! Read at the start and at each SIGHUP, checked whole, and only then brought into the database. What
//! is wrong is said with its key and place and leaves what was there. Secrets are referred to and
//! never stand in it.

mod file;
mod resolve;
mod warnings;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use file::schema;
pub use resolve::BootstrapError;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::app::App;
use super::evaluation::audit::Audit;
use super::evaluation::evaluate::{self, Judged};
use super::notify::AddressBook;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::store;
use crate::store::bootstrap::{Applied, Plan};

/// A bootstrap file that was not applied.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is at fault.
    #[error(transparent)]
    File(#[from] BootstrapError),
    /// The file, or one that it refers to, is not read to its end: a pipe that nobody writes to.
    #[error("the bootstrap file \"{}\", or a file that it refers to, could not be read within {TIME:?}", .0.display())]
    TooSlow(PathBuf),
    /// The database failed.
    #[error("the bootstrap file could not be applied")]
    Store(#[from] store::Error),
}

/// How long reading may take.
const TIME: Duration = Duration::from_secs(10);

/// Reads a file, and what it refers to.
#[cfg(any(feature = "fuzzing", test))]
pub(super) fn read(path: &Path) -> Result<(), BootstrapError> {
    resolve::read(path).map(drop)
}

/// A file that was read and may be applied.
pub(super) struct Bootstrap {
    path: PathBuf,
    plan: Plan,
    addresses: AddressBook,
}

impl Bootstrap {
    /// Reads a file, and what it refers to.
    pub(super) async fn read(path: &Path) -> Result<Self, LoadError> {
        let file = path.to_owned();
        let read = timeout(TIME, spawn_blocking(move || resolve::read(&file)));
        let Ok(Ok(read)) = read.await else { return Err(LoadError::TooSlow(path.to_owned())) };
        let (plan, addresses) = read?;
        Ok(Self { path: path.to_owned(), plan, addresses })
    }
}

/// Reads a file and applies it; gives its generation.
pub(super) async fn load(app: &App, path: &Path) -> Result<i64, LoadError> {
    apply(app, Bootstrap::read(path).await?).await
}

/// Brings the database to what a file says, judges what that changes, and has notifications go where it says;
/// gives its generation.
pub(super) async fn apply(app: &App, bootstrap: Bootstrap) -> Result<i64, LoadError> {
    let Bootstrap { path, plan, addresses } = bootstrap;
    let generation = plan.generation;
    // In one order, as the database's own locks are taken.
    let names: BTreeSet<&str> = plan.organizations.iter().map(|o| o.name.as_str()).collect();
    let mut gates = Vec::new();
    for name in names {
        gates.push(app.gates.hold(name).await);
    }
    let mut transaction = app.store.write().await?;
    let at = app.now();
    let journal = match transaction.reconcile(&plan, at).await? {
        Applied::Done(journal) => journal,
        Applied::Changed => return Err(BootstrapError::Changed { path, generation }.into()),
        Applied::Outdated(seen) => return Err(BootstrapError::Outdated { path, generation, seen }.into()),
        Applied::Taken(taken) => return Err(BootstrapError::Taken(path, taken).into()),
    };
    let mut judged = Judged::default();
    let cause = Cause { kind: CauseKind::Bootstrap, by: None };
    let environments: Vec<_> = journal.environments.iter().collect();
    for of_one in environments.chunk_by(|(one, _), (next, _)| one == next) {
        let names: Vec<&str> = of_one.iter().map(|(_, name)| name.as_str()).collect();
        let Some((organization, _)) = of_one.first() else { continue };
        judged =
            judged.and(evaluate::again(&mut transaction, organization, &names, &cause, &app.clock).await?);
    }
    let doubts = warnings::doubts(&mut transaction, &plan).await?;
    let audit = Audit::of_bootstrap(generation, journal.changes);
    audit.record(&mut transaction, at).await?;
    transaction.commit().await?;
    drop(gates);
    audit.tell();
    for doubt in doubts {
        tracing::warn!("the bootstrap file: {doubt}");
    }
    app.addresses.replace(addresses);
    for token in plan.organizations.iter().flat_map(|organization| &organization.tokens) {
        app.throttle.admitted(token.sha256);
    }
    judged.tell(app);
    Ok(generation)
}
