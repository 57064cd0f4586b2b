//! The bootstrap file: what has no operation in the interface.
//!
//! Read at the start and at each SIGHUP, checked whole, and only then brought into the database. What
//! is wrong is said with its key and place and leaves what was there. Secrets are referred to and
//! never stand in it.

mod file;
mod resolve;

use std::path::Path;

pub use file::schema;
pub use resolve::BootstrapError;

use super::app::now;
use crate::store::bootstrap::Applied;
use crate::store::{self, Store};

/// A bootstrap file that was not applied.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is at fault.
    #[error(transparent)]
    File(#[from] BootstrapError),
    /// The database failed.
    #[error("the bootstrap file could not be applied")]
    Store(#[from] store::Error),
}

/// Reads a file and brings the database to what it says; gives its generation.
pub(super) async fn load(store: &Store, path: &Path) -> Result<i64, LoadError> {
    let plan = resolve::read(path)?;
    let mut transaction = store.write().await?;
    match transaction.reconcile(&plan, now()).await? {
        Applied::Done => transaction.commit().await?,
        Applied::Outdated(seen) => {
            let generation = plan.generation;
            return Err(BootstrapError::Outdated { path: path.to_owned(), generation, seen }.into());
        }
    }
    Ok(plan.generation)
}
