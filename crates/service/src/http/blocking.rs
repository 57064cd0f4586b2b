//! Computations on blocking threads: a thread of the runtime would be occupied for milliseconds.

use tokio::task::spawn_blocking;

use crate::http::problem::Problem;

/// Computes on a blocking thread.
pub(crate) async fn compute<T: Send + 'static>(
    computation: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    spawn_blocking(computation).await.map_err(|error| {
        tracing::error!("failed to compute a response: {error}");
        Problem::defect()
    })
}
