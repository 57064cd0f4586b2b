//! The daemon between proxies that cut, stall, delay, throttle and reorder what it says and hears.
//!
//! A run is a seed: which way is over TLS, whether the gate or the service itself takes reports, what happens to pods,
//! and what each connection meets. Times are the machine's, so that a seed repeats the faults and not the moment of
//! each. `SUPERCARGO_TEST_SEEDS` selects the seeds: `17`, or `0..40`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::of_each;
use crate::daemon::churn::Churn;
use crate::daemon::cluster::{Cluster, Life};
use crate::daemon::reported::{Identity, Reported, difference};
use crate::daemon::{
    Daemon, PROD, Starting, eventually, eventually_or, never_fewer_than_live, nothing_was_invented,
};
use crate::fake::proxy::{Kinds, Proxy, all_of, every_kind};
use fastrand::Rng;

/// Enough for every kind of fault to occur; `.ci/run` runs 40.
const SEEDS: Range<u64> = 0..12;

/// Several times what a list takes here, in bytes.
const A_WATCH: usize = 300_000;
const SOME_REPORTS: usize = 60_000;

fn seeds() -> Range<u64> {
    let Ok(chosen) = std::env::var("SUPERCARGO_TEST_SEEDS") else { return SEEDS };
    let number = |text: &str| text.parse::<u64>().expect("a seed, or a range of seeds as 0..40");
    match chosen.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&chosen)..number(&chosen) + 1,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_befalls_its_connections_no_pod_is_lost_and_none_invented() {
    let (mut failed, mut struck) = (BTreeSet::new(), BTreeMap::new());
    for (seed, outcome) in of_each(seeds(), run).await {
        match outcome {
            None => _ = failed.insert(seed),
            Some(did) => did.into_iter().for_each(|(what, times)| *struck.entry(what).or_insert(0) += times),
        }
    }
    let again = "SUPERCARGO_TEST_SEEDS=SEED cargo test --test it whatever_befalls repeats one";
    assert!(failed.is_empty(), "the seeds {failed:?} failed; {again}");
    if seeds().count() >= SEEDS.count() {
        assert_eq!(struck.into_keys().collect::<BTreeSet<_>>(), every_kind());
    }
}

struct Run {
    cluster: Cluster,
    endpoint: Endpoint,
    api: Proxy,
    way: Proxy,
    churn: RefCell<Churn>,
    start: Instant,
}

/// What was done to its connections.
async fn run(seed: u64) -> BTreeMap<&'static str, usize> {
    let mut random = Rng::with_seed(seed);
    // Bytes that a middle box changes in the clear are what was said, for all that anybody can know.
    let is_hostile = seed % 10 == 9;
    let (api_tls, way_tls) = (!is_hostile && random.bool(), !is_hostile && random.bool());
    let cluster = if api_tls { Cluster::start_tls() } else { Cluster::start() };
    let endpoint = Endpoint::start(random.bool(), way_tls).await;
    let holds_back = random.bool();
    let kinds = |most, has_tls| Kinds { most, holds_back, changes: has_tls || is_hostile };
    let api = Proxy::before(&cluster.url(), random.u64(..), kinds(A_WATCH, api_tls));
    let way = Proxy::before(&endpoint.url, random.u64(..), kinds(SOME_REPORTS, way_tls));
    let churn = RefCell::new(Churn::new(seed, 25));
    let run = Run { cluster, endpoint, api, way, churn, start: Instant::now() };
    run.churn.borrow_mut().begin(&run.cluster);
    // A pod whose node was started again before the agent saw it has no digest that the agent could know.
    let begins_calm = random.bool();
    if begins_calm {
        run.api.calm();
        run.way.calm();
    }
    let daemon = run.daemon();
    if begins_calm {
        eventually("the first report", async || !run.endpoint.holds().await.0.is_empty()).await;
        run.api.storm();
        run.way.storm();
    }
    let (of_api, of_way) = (random.usize(1..5), random.usize(1..8));
    run.goes_on("both ways are struck", async || {
        run.api.struck().values().sum::<usize>() >= of_api
            && run.way.struck().values().sum::<usize>() >= of_way
    })
    .await;
    // What comes and goes from here on, the agent is told of.
    run.api.calm();
    let before = run.way.struck().values().sum::<usize>();
    run.goes_on("the way to the service is struck again", async || {
        run.way.struck().values().sum::<usize>() >= before + of_way
    })
    .await;
    run.way.calm();
    run.churn.borrow_mut().settle(&run.cluster);
    if is_hostile {
        assert_eq!(daemon.livez().await.0, 200);
    } else {
        run.judge(begins_calm, holds_back).await;
    }
    // It ends in order in the midst of it, too.
    run.api.storm();
    run.way.storm();
    run.churn.borrow_mut().step(&run.cluster);
    daemon.stop().await;
    all_of([&run.api, &run.way])
}

impl Run {
    fn daemon(&self) -> Daemon {
        let kubeconfig = self.cluster.kubeconfig_at(&self.api.leads_to(&self.cluster.url()));
        let ca = self.endpoint.folder.path().join("ca.pem");
        Starting::at(&kubeconfig, &self.endpoint.gate)
            .env("SUPERCARGO_BASE_URL", &self.way.leads_to(&self.endpoint.url))
            .env("SUPERCARGO_CA_FILE", ca.to_str().unwrap())
            .start()
    }

    /// Life goes on until it is so.
    async fn goes_on(&self, what: &str, until: impl AsyncFn() -> bool) {
        eventually(what, async || {
            self.churn.borrow_mut().step(&self.cluster);
            until().await
        })
        .await;
    }

    /// From when to when the agent may not have been told of a pod: from the start to its last list, but for what it
    /// was told since.
    fn lost(&self) -> Option<(Instant, Instant)> {
        let asks = self.cluster.asked();
        let list = asks.iter().rfind(|ask| ask.is_about_pods() && !ask.is_watch())?;
        Some((self.start, list.at + Duration::from_secs(1)))
    }

    async fn judge(&self, began_calm: bool, holds_back: bool) {
        let wrong = RefCell::new(Vec::new());
        let is_right = async || {
            let now = self.wrong().await;
            let is_right = now.is_empty();
            wrong.replace(now);
            is_right
        };
        eventually_or("all that lived is reported", is_right, || format!("{:#?}", wrong.borrow())).await;
        if self.endpoint.url.starts_with("http://") {
            assert_eq!(self.way.most_at_once(), 1, "reports on their way at once");
        }
        if self.endpoint.is_service {
            self.nothing_else_was_held(holds_back).await;
        } else {
            nothing_was_invented(&self.endpoint.gate, &self.cluster, PROD);
            // One that was held back arrives with what was true when it was sent.
            if began_calm && !holds_back {
                never_fewer_than_live(&self.endpoint.gate, &self.cluster, PROD);
            }
        }
    }

    /// What is not as it has to be yet.
    async fn wrong(&self) -> Vec<String> {
        let (held, every) = self.endpoint.holds().await;
        let mut wrong: Vec<_> =
            difference(&held, &self.cluster.expected_report(|_| true)).into_iter().collect();
        let reported: BTreeSet<Identity> = every.iter().map(Reported::identity).collect();
        let lost = self.lost();
        let is_exempt = |life: &Life| {
            lost.is_some_and(|(from, to)| life.to.is_some_and(|end| end > from) && life.from < to)
        };
        let is_missing = |life: &Life| life.was_told && !is_exempt(life) && !reported.contains(&life.pod);
        let missing = self.cluster.lives().into_iter().filter(is_missing);
        wrong.extend(missing.map(|life| format!("{:?} is in no report", life.pod)));
        wrong
    }

    /// The same of the service's database as of reports: no pod is there that never was, and none that lives on ended
    /// in between.
    async fn nothing_else_was_held(&self, holds_back: bool) {
        let lives = self.cluster.lives();
        let every = self.endpoint.gate.what_it_ever_held(PROD.name).await;
        // A pod that a report names twice, as it ran before and as it runs, is one that runs the digests of both.
        let mut known: BTreeMap<Identity, BTreeSet<_>> = BTreeMap::new();
        for version in lives.iter().flat_map(|life| &life.versions) {
            known.entry(version.identity()).or_default().extend(&version.digests);
        }
        let is_known = |pod: &&Reported| {
            known.get(&pod.identity()).is_some_and(|ran| pod.digests.iter().all(|one| ran.contains(&one)))
        };
        let invented: Vec<_> = every.iter().filter(|pod| !is_known(pod)).collect();
        assert!(invented.is_empty(), "{invented:#?}");
        if holds_back {
            return;
        }
        for life in lives.iter().filter(|life| life.to.is_none() && life.versions.len() == 1) {
            let runs = every.iter().filter(|pod| pod.identity() == life.pod).count();
            assert!(runs <= 1, "{:?} ran {runs} times", life.pod);
        }
    }
}
