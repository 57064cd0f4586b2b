//! The bootstrap file: what has no operation in the interface.
//!
//! Read at the start and at each SIGHUP, checked whole, and only then brought into the database. What
//! is wrong is said with its key and place and leaves what was there. Secrets are referred to and
//! never stand in it.

mod file;
mod resolve;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use file::schema;
pub use resolve::BootstrapError;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::app::now;
use crate::store::bootstrap::Applied;
use crate::store::{self, Store};

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

/// Reads a file and brings the database to what it says; gives its generation.
pub(super) async fn load(store: &Store, path: &Path) -> Result<i64, LoadError> {
    let file = path.to_owned();
    let read = timeout(TIME, spawn_blocking(move || resolve::read(&file)));
    let Ok(Ok(plan)) = read.await else { return Err(LoadError::TooSlow(path.to_owned())) };
    let plan = plan?;
    let mut transaction = store.write().await?;
    match transaction.reconcile(&plan, now()).await? {
        Applied::Done => transaction.commit().await?,
        Applied::Changed => {
            return Err(BootstrapError::Changed { path: path.to_owned(), generation: plan.generation }.into());
        }
        Applied::Outdated(seen) => {
            let generation = plan.generation;
            return Err(BootstrapError::Outdated { path: path.to_owned(), generation, seen }.into());
        }
    }
    Ok(plan.generation)
}
