//! Whether the namespaces exist that are named and hold no pod.
//!
//! Asked once a list is complete, and again every so often while one is not there: it may come to be.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::shared::Shared;
use crate::cluster::Cluster;
use crate::domain::confirmation::Existence;
use crate::process::causes;

/// Looks up for ever.
pub(super) async fn look_up(shared: Arc<Shared>, cluster: Cluster, pause: Duration) {
    loop {
        for name in shared.to_look_up() {
            match cluster.namespace(&name).await {
                Ok(existence) => shared.looked_up(&name, existence),
                Err(error) => {
                    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                    tracing::warn!("{}{hint}", causes::said_once(&error).join(": "));
                    shared.looked_up(&name, Existence::Unsaid);
                }
            }
        }
        // Whichever comes first.
        let _ = timeout(pause, shared.listed()).await;
    }
}
