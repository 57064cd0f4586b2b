//! Which replica does the maintenance.

use crate::app::App;
use store::{Error, Transaction};

/// A task that one replica does at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    Retention,
    Silence,
    Checkpoints,
}

impl Task {
    /// Takes or renews its lease in the transaction of a batch; false if another replica does the task.
    pub(crate) async fn lease(self, app: &App, transaction: &mut Transaction) -> Result<bool, Error> {
        let name = match self {
            Self::Retention => "retention",
            Self::Silence => "silence",
            Self::Checkpoints => "checkpoints",
        };
        store::leases::take(transaction, name, app.replica, app.site.now()).await
    }
}
