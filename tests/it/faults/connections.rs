//! The daemon between proxies that cut, stall, delay, throttle and reorder its connections.
//!
//! The seed of a run determines which connections use TLS, whether the gate or the service receives reports, the changes
//! of pods, and the fault of each connection. A seed reproduces faults, but not their timing. `SUPERCARGO_TEST_SEEDS`
//! selects the seeds: `17`, or `0..40`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::daemon::support::cluster::{Cluster, Lifetime};
use crate::daemon::support::reported_pod::{Identity, ReportedPod, difference};
use crate::daemon::watching::churn::Churn;
use crate::daemon::{
    Daemon, DaemonBuilder, PROD, assert_live_pods_reported, assert_reported_pods_existed, eventually,
    eventually_or,
};
use crate::fake::proxy::{FaultKinds, Proxy, fault_names, total_faults};
use crate::faults::endpoint::Endpoint;
use crate::faults::run_seeds;
use fastrand::Rng;

/// Enough for every fault to occur; the nightly workflow runs 200.
const SEEDS: Range<u64> = 0..12;

/// Several times the bytes of a list.
const MAX_WATCH_BYTES: usize = 300_000;
const MAX_REPORT_BYTES: usize = 60_000;

fn seeds() -> Range<u64> {
    let Ok(selected) = std::env::var("SUPERCARGO_TEST_SEEDS") else { return SEEDS };
    let number = |text: &str| text.parse::<u64>().expect("a seed, or a range of seeds as 0..40");
    match selected.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&selected)..number(&selected) + 1,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_converges_under_random_connection_faults() {
    let (mut failed, mut faults) = (BTreeSet::new(), BTreeMap::new());
    for (seed, outcome) in run_seeds(seeds(), run).await {
        match outcome {
            None => _ = failed.insert(seed),
            Some(run) => run.into_iter().for_each(|(name, count)| *faults.entry(name).or_insert(0) += count),
        }
    }
    let hint = "repeat one with SUPERCARGO_TEST_SEEDS=SEED cargo test --test it faults::connections";
    assert!(failed.is_empty(), "the seeds {failed:?} failed; {hint}");
    if seeds().count() >= SEEDS.count() {
        assert_eq!(faults.into_keys().collect::<BTreeSet<_>>(), fault_names());
    }
}

struct Run {
    cluster: Cluster,
    endpoint: Endpoint,
    api: Proxy,
    uplink: Proxy,
    churn: RefCell<Churn>,
    start: Instant,
}

/// Runs one seed and returns the number of injected faults by name.
async fn run(seed: u64) -> BTreeMap<&'static str, usize> {
    let mut random = Rng::with_seed(seed);
    // Without TLS, changed bytes cannot be detected, so such runs only check that the daemon survives.
    let has_undetectable_changes = seed % 10 == 9;
    let (api_tls, uplink_tls) =
        (!has_undetectable_changes && random.bool(), !has_undetectable_changes && random.bool());
    let cluster = if api_tls { Cluster::start_tls() } else { Cluster::start() };
    let endpoint = Endpoint::start(random.bool(), uplink_tls).await;
    let delays = random.bool();
    let kinds =
        |max_bytes, has_tls| FaultKinds { max_bytes, delays, corrupts: has_tls || has_undetectable_changes };
    let api = Proxy::start(&cluster.url(), random.u64(..), kinds(MAX_WATCH_BYTES, api_tls));
    let uplink = Proxy::start(&endpoint.url, random.u64(..), kinds(MAX_REPORT_BYTES, uplink_tls));
    let churn = RefCell::new(Churn::new(seed, 25));
    let run = Run { cluster, endpoint, api, uplink, churn, start: Instant::now() };
    run.churn.borrow_mut().add_initial_pods(&run.cluster);
    // With faults from the start, a node may reboot before the agent has seen a pod's digests.
    let starts_without_faults = random.bool();
    if starts_without_faults {
        run.api.disable_faults();
        run.uplink.disable_faults();
    }
    let daemon = run.daemon();
    if starts_without_faults {
        eventually("the first report", async || !run.endpoint.pods().await.0.is_empty()).await;
        run.api.enable_faults();
        run.uplink.enable_faults();
    }
    let (min_api_faults, min_uplink_faults) = (random.usize(1..5), random.usize(1..8));
    run.churn_until("both proxies have injected faults", async || {
        run.api.faults().values().sum::<usize>() >= min_api_faults
            && run.uplink.faults().values().sum::<usize>() >= min_uplink_faults
    })
    .await;
    // From here on, the agent sees all departures.
    run.api.disable_faults();
    let before = run.uplink.faults().values().sum::<usize>();
    run.churn_until("the uplink proxy has injected further faults", async || {
        run.uplink.faults().values().sum::<usize>() >= before + min_uplink_faults
    })
    .await;
    run.uplink.disable_faults();
    run.churn.borrow_mut().restore_image_ids(&run.cluster);
    if has_undetectable_changes {
        assert_eq!(daemon.livez().await.0, 200);
    } else {
        run.assert_converged(starts_without_faults, delays).await;
    }
    // The daemon also shuts down cleanly during faults.
    run.api.enable_faults();
    run.uplink.enable_faults();
    run.churn.borrow_mut().step(&run.cluster);
    daemon.stop().await;
    total_faults([&run.api, &run.uplink])
}

impl Run {
    fn daemon(&self) -> Daemon {
        let kubeconfig = self.cluster.kubeconfig_at(&self.api.proxied_url(&self.cluster.url()));
        let ca = self.endpoint.folder.path().join("ca.pem");
        DaemonBuilder::from_kubeconfig(&kubeconfig, &self.endpoint.gate)
            .env("SUPERCARGO_BASE_URL", &self.uplink.proxied_url(&self.endpoint.url))
            .env("SUPERCARGO_CA_FILE", ca.to_str().unwrap())
            .start()
    }

    /// Changes pods until the condition holds.
    async fn churn_until(&self, condition: &str, is_met: impl AsyncFn() -> bool) {
        eventually(condition, async || {
            self.churn.borrow_mut().step(&self.cluster);
            is_met().await
        })
        .await;
    }

    /// The time in which the agent may have missed pods: from the start to its last list.
    fn blind_time(&self) -> Option<(Instant, Instant)> {
        let requests = self.cluster.api_requests();
        let list = requests.iter().rfind(|request| request.is_about_pods() && !request.is_watch())?;
        Some((self.start, list.at + Duration::from_secs(1)))
    }

    async fn assert_converged(&self, started_without_faults: bool, delays: bool) {
        let problems = RefCell::new(Vec::new());
        let is_converged = async || {
            let now = self.problems().await;
            let is_converged = now.is_empty();
            problems.replace(now);
            is_converged
        };
        eventually_or("all live pods are reported", is_converged, || format!("{:#?}", problems.borrow()))
            .await;
        if self.endpoint.url.starts_with("http://") {
            assert_eq!(self.uplink.max_waiting(), 1, "concurrent reports");
        }
        if self.endpoint.is_service {
            self.assert_stored_pods_existed(delays).await;
        } else {
            assert_reported_pods_existed(&self.endpoint.gate, &self.cluster, PROD);
            // A delayed report arrives with an older state.
            if started_without_faults && !delays {
                assert_live_pods_reported(&self.endpoint.gate, &self.cluster, PROD);
            }
        }
    }

    /// Differences from the expected state.
    async fn problems(&self) -> Vec<String> {
        let (running, reported) = self.endpoint.pods().await;
        let mut problems: Vec<_> =
            difference(&running, &self.cluster.expected_report(|_| true)).into_iter().collect();
        let reported: BTreeSet<Identity> = reported.iter().map(ReportedPod::identity).collect();
        let blind_time = self.blind_time();
        let is_exempt = |lifetime: &Lifetime| {
            blind_time
                .is_some_and(|(from, to)| lifetime.to.is_some_and(|end| end > from) && lifetime.from < to)
        };
        let is_missing = |lifetime: &Lifetime| {
            lifetime.was_sent && !is_exempt(lifetime) && !reported.contains(&lifetime.pod)
        };
        let missing = self.cluster.lifetimes().into_iter().filter(is_missing);
        problems.extend(missing.map(|lifetime| format!("{:?} is in no report", lifetime.pod)));
        problems
    }

    /// Asserts on the service's database that each stored pod existed, and that no live pod ended in between.
    async fn assert_stored_pods_existed(&self, delays: bool) {
        let lifetimes = self.cluster.lifetimes();
        let runs = self.endpoint.gate.stored_pod_runs(PROD.name).await;
        // A pod that a report lists twice, with old and new digests, is stored with both.
        let mut known: BTreeMap<Identity, BTreeSet<_>> = BTreeMap::new();
        for version in lifetimes.iter().flat_map(|lifetime| &lifetime.versions) {
            known.entry(version.identity()).or_default().extend(&version.digests);
        }
        let is_known = |pod: &&ReportedPod| {
            known.get(&pod.identity()).is_some_and(|ran| pod.digests.iter().all(|one| ran.contains(&one)))
        };
        let unknown: Vec<_> = runs.iter().filter(|pod| !is_known(pod)).collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
        if delays {
            return;
        }
        for lifetime in
            lifetimes.iter().filter(|lifetime| lifetime.to.is_none() && lifetime.versions.len() == 1)
        {
            let count = runs.iter().filter(|pod| pod.identity() == lifetime.pod).count();
            assert!(count <= 1, "{:?} has {count} runs", lifetime.pod);
        }
    }
}
