//! The share of one organization of the process's threads.
//!
//! A task occupies its thread while it is polled, for milliseconds if its report, response or page is large. The requests
//! of one organization are polled, and compute on blocking threads, on half of the threads at a time: those of others find
//! a free one. A waiting request holds its other permits no longer than it would on a busy processor. A request that uses
//! SQLite keeps its thread meanwhile, since that computes in this process.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::ready;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::PollSemaphore;

use super::keyed_semaphore::KeyedSemaphore;
use crate::service::http::problem::Problem;

/// Maximum wait for a thread of the share.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The shares of all organizations.
#[derive(Debug)]
pub(crate) struct CpuShares(KeyedSemaphore<String>);

/// The share of a request's organization.
#[derive(Debug, Clone)]
pub(crate) struct CpuShare {
    /// One permit per thread; `None` while the process serves only one organization.
    threads: Option<Arc<Semaphore>>,
    /// Whether the request keeps its thread while it waits.
    keeps: Arc<AtomicBool>,
}

impl CpuShares {
    /// For the current runtime.
    pub(crate) fn new() -> Self {
        let threads = Handle::current().metrics().num_workers();
        Self(KeyedSemaphore::new(u32::try_from(threads / 2).unwrap_or(u32::MAX)))
    }

    /// The number of threads of one organization; `None` while the process serves only one.
    pub(crate) fn threads(&self) -> Option<u32> {
        (self.0.keys() > 1).then_some(self.0.each)
    }

    /// The share of an organization.
    pub(crate) fn get(&self, organization: &str) -> CpuShare {
        let semaphore = self.0.get(organization.to_owned());
        CpuShare { threads: self.threads().map(|_| semaphore), keeps: Arc::default() }
    }
}

impl CpuShare {
    /// Lets the request keep its thread while it waits, until [`release`](Self::release). Others of the organization wait
    /// meanwhile, so it must not wait for them.
    pub(crate) fn keep(&self) {
        self.keeps.store(true, Ordering::Relaxed);
    }

    /// From now on, the request uses a thread only while it is polled.
    pub(crate) fn release(&self) {
        self.keeps.store(false, Ordering::Relaxed);
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed)
    }

    /// Waits for a thread of the share; `None` if there is none in time, since the request may hold permits of others. A
    /// request that [`run`] polls within the share already has one.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        timeout(MAX_WAIT, self.threads.clone()?.acquire_owned()).await.ok()?.ok()
    }

    /// Waits for a thread of the share, on a blocking thread.
    pub(crate) fn blocking_turn(&self) -> Option<OwnedSemaphorePermit> {
        Handle::current().block_on(self.turn())
    }

    /// Computes on a blocking thread, as part of the share.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let share = Some(self.clone()).filter(|_| !self.keeps());
        // A task of its own waits for the thread: the request is not polled while others of its organization are.
        let computing = tokio::spawn(async move {
            let _turn = match share {
                None => None,
                Some(share) => share.turn().await,
            };
            spawn_blocking(computation).await
        });
        computing.await.and_then(|computed| computed).map_err(|error| {
            tracing::error!("failed to compute a response: {error}");
            Problem::defect()
        })
    }
}

/// Polls a request within the share of its organization as soon as that is known.
pub(crate) async fn run<'a, Request: Future>(
    share: impl Fn() -> Option<&'a CpuShare>,
    request: Request,
) -> Request::Output {
    let (mut request, mut turns, mut turn) = (pin!(request), None, None);
    std::future::poll_fn(|context| {
        if turns.is_none() {
            turns = share().and_then(|share| share.threads.clone()).map(PollSemaphore::new);
        }
        if let (Some(turns), None) = (&mut turns, &turn) {
            turn = ready!(turns.poll_acquire(context));
        }
        let polled = request.as_mut().poll(context);
        // A request that waits for PostgreSQL or its client uses no thread.
        if !share().is_some_and(CpuShare::keeps) {
            turn = None;
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Whether a request of the share is polled at once.
    fn is_polled(share: &CpuShare) -> bool {
        run(|| Some(share), async {}).now_or_never().is_some()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn requests_of_an_organization_are_polled_on_half_of_the_threads() {
        let shares = CpuShares::new();
        let _first = shares.get("acme");
        let [quiet, acme] = ["quiet", "acme"].map(|organization| shares.get(organization));
        run(|| Some(&acme), async {
            run(|| Some(&acme), async {
                assert!(!is_polled(&acme), "two of four threads");
                assert!(is_polled(&quiet));
            })
            .await;
            assert!(is_polled(&acme));
        })
        .await;
    }

    #[tokio::test]
    async fn request_that_waits_leaves_its_thread_to_others_of_its_organization() {
        let shares = CpuShares::new();
        let _other = shares.get("quiet");
        let acme = shares.get("acme");
        let mut waiting = pin!(run(|| Some(&acme), std::future::pending::<()>()));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(is_polled(&acme));
    }

    #[tokio::test]
    async fn request_that_waits_for_sqlite_keeps_its_thread() {
        let shares = CpuShares::new();
        let _other = shares.get("quiet");
        let [acme, next] = [0, 1].map(|_| shares.get("acme"));
        let mut waiting = pin!(run(|| Some(&acme), async {
            acme.keep();
            let computed = acme.compute(|| 1).await.unwrap();
            tokio::task::yield_now().await;
            acme.release();
            tokio::task::yield_now().await;
            computed
        }));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(!is_polled(&next));
        assert_eq!(waiting.await, 1);
        assert!(is_polled(&next));
    }

    #[tokio::test]
    async fn computation_counts_until_it_ends() {
        let shares = CpuShares::new();
        let _other = shares.get("quiet");
        let acme = shares.get("acme");
        let (end, ended) = std::sync::mpsc::channel();
        let mut computing = pin!(acme.compute(move || ended.recv().is_ok()));
        assert!(computing.as_mut().now_or_never().is_none());
        while is_polled(&acme) {
            tokio::task::yield_now().await;
        }
        end.send(()).unwrap();
        assert!(computing.await.unwrap());
        assert!(is_polled(&acme));
    }

    #[tokio::test]
    async fn computations_of_requests_that_compete_for_a_thread_end() {
        let shares = CpuShares::new();
        let _other = shares.get("quiet");
        let acme = shares.get("acme");
        let requests = [1, 2, 3].map(|n| {
            let acme = acme.clone();
            tokio::spawn(async move {
                run(|| Some(&acme), async { acme.compute(move || n).await.unwrap() }).await
            })
        });
        let computed =
            tokio::time::timeout(std::time::Duration::from_mins(1), futures_util::future::join_all(requests));
        assert!(computed.await.unwrap().into_iter().map(Result::unwrap).eq([1, 2, 3]));
    }

    #[tokio::test]
    async fn only_organization_of_a_process_has_no_limit() {
        let acme = CpuShares::new().get("acme");
        run(|| Some(&acme), async { assert!(is_polled(&acme)) }).await;
    }
}
