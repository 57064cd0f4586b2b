//! Whether the namespaces exist that are named and hold no pod.
//!
//! Asked once a list is complete, and again every so often while one is not there: it may come to be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::shared::Shared;
use crate::cluster::Cluster;
use crate::domain::failure_log::{Outage, Say};
use crate::domain::live::confirmation::Existence;
use crate::process::error_causes;

/// Looks up for ever.
pub(super) async fn look_up(shared: Arc<Shared>, cluster: Cluster, pause: Duration, remind: Duration) {
    let mut outage = Outage::new(remind);
    loop {
        for name in shared.to_look_up() {
            match cluster.namespace(&name).await {
                Ok(existence) => {
                    outage.over(Instant::now());
                    shared.looked_up(&name, existence);
                }
                Err(error) => {
                    let words =
                        error_causes::with_hint(&error_causes::said_once(&error).join(": "), error.hint());
                    match outage.failed(&words, Instant::now()) {
                        Say::Nothing => tracing::debug!("{words}"),
                        Say::This | Say::Still(..) => tracing::warn!("{words}"),
                    }
                    shared.looked_up(&name, Existence::Unsaid);
                }
            }
        }
        // Whichever comes first.
        let _ = timeout(pause, shared.listed()).await;
    }
}
