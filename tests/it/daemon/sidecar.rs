//! A deployment, as a Job acts it out: the agent is a native sidecar that starts first, the steps run one
//! after another, and the kubelet ends the sidecar once the last of them has ended.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::daemon::cluster::{Cluster, Pod, pod};
use crate::daemon::gate::Gate;
use crate::daemon::reported::Reported;
use crate::daemon::{Daemon, Starting, eventually, eventually_or};
use crate::program::{Outcome, Program, once, supercargo};
use crate::service::{ADMIN, Database, Options, Running, bootstrap, digest, form};

/// The Job's own pod, in which the steps and the sidecar run.
const JOB: (&str, &str) = ("deploy-1-x7k2p", "6f0d8a52-1c1e-4b7e-9a51-0d9f1c2b3a41");

/// That of the next.
const NEXT_JOB: (&str, &str) = ("deploy-2-p9w4c", "0c1d2e3f-1c1e-4b7e-9a51-0d9f1c2b3a41");

/// An environment that is silent soon after the last report.
const SOON_SILENT: &str = "    environments:\n      - {name: prod, silentAfter: 5s}\n";

/// A replica of what is deployed.
fn cart(version: char, n: usize) -> Pod {
    let replica_set = format!("cart-{version}");
    pod("shop", &format!("{replica_set}-{n}"))
        .image(&format!("registry.example.com/cart:{version}"), version)
        .owner("ReplicaSet", &replica_set)
}

fn job((name, uid): (&str, &str)) -> Pod {
    pod("shop", name)
        .init_image("registry.example.com/supercargo:1", '5')
        .image("registry.example.com/kubectl:1", '6')
        .owner("Job", "deploy-1")
        .uid(uid)
}

/// A namespace, what is before the real service, and the images of `acme/cart`, whose tests were attested.
struct Stage {
    cluster: Cluster,
    gate: Gate,
}

impl Stage {
    async fn with(pods: impl IntoIterator<Item = Pod>, more: &str) -> Self {
        let options = Options { bootstrap: bootstrap(1, more), ..Options::default() };
        let service = Running::start_with(Database::sqlite(), options).await;
        for version in ['a', 'b'] {
            let attested = json!({
                "attestation_name": "unit-tests", "artifact_fingerprint": digest(version),
                "junit_results": [{"name": "unit", "total": 1, "failures": 0, "errors": 0, "skipped": 0}],
                "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
            });
            service.attest(ADMIN, "cart", &format!("build-{version}"), form(&attested)).await.expect(201);
        }
        let cluster = Cluster::start();
        cluster.add_all(pods);
        // Another team's, which is nobody's business here.
        cluster.add(pod("pay", "api-1").image("registry.example.com/api:1", 'c'));
        Self { cluster, gate: Gate::before(service) }
    }

    /// The Job's pod is placed, its sidecar starts, and the startup probe lets the first step begin.
    async fn begin(&self, name_and_uid: (&str, &str)) -> Daemon {
        self.begin_with(name_and_uid, |starting| starting).await
    }

    async fn begin_with(&self, (name, uid): (&str, &str), how: impl FnOnce(Starting) -> Starting) -> Daemon {
        self.cluster.add(job((name, uid)));
        let starting = Starting::between(&self.cluster, &self.gate)
            .args(["--namespace", "shop", "--exclude-self", "--allow-empty"])
            .env("SUPERCARGO_POD_NAME", name)
            .env("SUPERCARGO_POD_UID", uid);
        let sidecar = how(starting).start();
        eventually("the startup probe succeeds", async || sidecar.is_ready().await).await;
        sidecar
    }

    /// The new replicas of a rollout come, and the old ones go.
    fn roll_out(&self, from: char, to: char) {
        for n in 1..=2 {
            self.cluster.add(cart(to, n));
            self.cluster.delete("shop", &format!("cart-{from}-{n}"));
        }
    }

    /// A program beside the service, on a thread of its own.
    fn run(&self, program: Program) -> tokio::task::JoinHandle<Outcome> {
        let program = program
            .env("SUPERCARGO_BASE_URL", &self.gate.service().base)
            .env("SUPERCARGO_ORG", "acme")
            .env("SUPERCARGO_TOKEN", ADMIN);
        tokio::task::spawn_blocking(move || program.run())
    }

    /// The step `supercargo wait` for an image.
    fn wait(&self, version: char, more: &str) -> tokio::task::JoinHandle<Outcome> {
        let digest = digest(version);
        let program = supercargo().args(["wait", "acme/cart", "--environment", "prod", "--every", "1s"]);
        self.run(program.args(["--fingerprint", &digest]).args(more.split_whitespace()))
    }

    /// Waits until the service was asked what runs.
    async fn is_asked(&self) {
        let asked = async || {
            let metrics = self.gate.service().metrics().await;
            let requests = |line: &&str| line.starts_with("supercargo_http_requests_total{");
            metrics.lines().filter(requests).any(|line| line.contains("live-artifacts"))
        };
        eventually("it is asked what runs", asked).await;
    }

    /// What `get live-artifacts` prints.
    async fn live(&self) -> String {
        let got = self.run(supercargo().args(["get", "live-artifacts", "acme/cart"])).await.unwrap();
        got.says(0, &[]).stdout.clone()
    }

    /// What runs in the namespace, without the Job's own pods.
    fn runs(&self) -> BTreeSet<Reported> {
        let all = self.cluster.expected_report(|namespace| namespace == "shop").into_iter();
        all.filter(|pod| !pod.name.starts_with("deploy-")).collect()
    }

    /// The last step has ended: the kubelet ends the sidecar, whose last word is what runs; no report of it
    /// has the pod that it ran in, which has ended, too, then.
    async fn end(&self, sidecar: Daemon) -> Vec<String> {
        let said = sidecar.stop().await;
        let last = self.gate.last_accepted("prod").map(|report| report.pods).unwrap();
        assert_eq!(*last, self.runs(), "{said:#?}");
        assert_eq!(self.gate.what_it_holds("prod").await, self.runs());
        let everything = self.gate.every_accepted_pod("prod");
        assert!(everything.iter().all(|pod| !pod.name.starts_with("deploy-")), "{everything:#?}");
        assert!(said.iter().any(|line| line == "stopped"), "{said:#?}");
        for pod in self.cluster.held().iter().filter(|pod| pod.name.starts_with("deploy-") && !pod.is_ended())
        {
            self.cluster.modify("shop", &pod.name, Pod::ended);
        }
        said
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_is_reported_waited_for_and_the_sidecar_ends_by_itself_with_the_last_word() {
    let stage = Stage::with([cart('a', 1), cart('a', 2)], SOON_SILENT).await;
    let sidecar = stage.begin(JOB).await;
    // `kubectl apply` returns before anything runs, and the next step begins.
    let waiting = stage.wait('b', "");
    stage.is_asked().await;
    stage.roll_out('a', 'b');
    waiting.await.unwrap().says(0, &["does not run in prod", "1 artifact runs in prod"]);
    let said = stage.end(sidecar).await;
    assert!(!said.iter().any(|line| line.contains("warning")), "{said:#?}");

    // Nobody reports from here on, and the service says so once it was silent for long enough.
    let is_silent = async || stage.live().await.contains("silent");
    eventually("prod is silent", is_silent).await;
    let live = stage.live().await;
    assert!(live.contains("registry.example.com/cart:b") && !live.contains("cart:a"), "{live}");
    // So what is waited for meanwhile is not known to run.
    stage.wait('b', "--timeout 1s").await.unwrap().says(7, &["of which nothing was heard for long"]);

    // The next deployment takes it up.
    let sidecar = stage.begin(NEXT_JOB).await;
    stage.wait('b', "").await.unwrap().says(0, &["1 artifact runs in prod"]);
    stage.roll_out('b', 'a');
    stage.wait('b', "--gone").await.unwrap().says(0, &[]);
    stage.end(sidecar).await;
    assert!(stage.live().await.contains("registry.example.com/cart:a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_since_the_last_report_is_in_the_last_word() {
    let stage = Stage::with([cart('a', 1), cart('a', 2)], "").await;
    let sidecar = stage.begin_with(JOB, |starting| starting.hasten(5).args(["--debounce", "24h"])).await;
    sidecar.has_reported("new_snapshot", 1).await;
    // A step that does not wait: the last it does is what the sidecar has just heard of.
    stage.cluster.add(cart('b', 1));
    sidecar.hears_of(3).await;
    assert_eq!(stage.gate.reports().len(), 1);
    stage.end(sidecar).await;
    assert_eq!(stage.gate.reports().len(), 2);
    let live = stage.live().await;
    assert!(live.contains("cart:a") && live.contains("cart:b"), "{live}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_deployment_that_failed_half_way_the_last_word_is_what_runs() {
    let stage = Stage::with([cart('a', 1), cart('a', 2)], "").await;
    let sidecar = stage.begin(JOB).await;
    // One replica is new; the other cannot be pulled, and the step gives up.
    stage.cluster.delete("shop", "cart-a-1");
    stage.cluster.add(cart('b', 1));
    stage.cluster.add(cart('b', 2).pending());
    let is_reported =
        async || stage.gate.last_accepted("prod").is_some_and(|last| *last.pods == stage.runs());
    eventually("what runs is reported", is_reported).await;
    stage.end(sidecar).await;
    let live = stage.live().await;
    assert!(live.contains("cart:a") && live.contains("cart:b"), "{live}");

    // One that brings nothing: the step `wait` says so, and the sidecar ends as ever.
    let sidecar = stage.begin(NEXT_JOB).await;
    stage.cluster.delete("shop", "cart-b-1");
    stage.wait('b', "--gone").await.unwrap().says(0, &[]);
    stage.wait('b', "--timeout 1s").await.unwrap().says(7, &["does not run in prod"]);
    stage.end(sidecar).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_deployment_into_a_namespace_and_the_one_that_empties_it_are_reported() {
    let stage = Stage::with([], "").await;
    let sidecar = stage.begin(JOB).await;
    // Nothing but the Job's own pod is there, and that is the truth: what ran here once does so no more.
    sidecar.has_reported("new_snapshot", 1).await;
    assert!(stage.gate.last_accepted("prod").unwrap().pods.is_empty());
    stage.cluster.add_all([cart('b', 1), cart('b', 2)]);
    stage.wait('b', "").await.unwrap().says(0, &["1 artifact runs in prod"]);
    stage.end(sidecar).await;

    let sidecar = stage.begin(NEXT_JOB).await;
    sidecar.has_reported("unchanged", 1).await;
    for n in 1..=2 {
        stage.cluster.delete("shop", &format!("cart-b-{n}"));
    }
    stage.wait('b', "--gone").await.unwrap().says(0, &[]);
    assert!(stage.runs().is_empty());
    stage.end(sidecar).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_down_at_the_end_holds_the_job_up_for_seconds_alone_and_that_is_said() {
    let stage = Stage::with([cart('a', 1), cart('a', 2)], "").await;
    let sidecar = stage.begin(JOB).await;
    sidecar.has_reported("new_snapshot", 1).await;
    stage.gate.listen(false);
    stage.roll_out('a', 'b');
    eventually("it hears of it", async || sidecar.metric("supercargo_agent_pending_seconds", "").await > 0.0)
        .await;
    sidecar.signal(Signal::SIGTERM);
    let (code, said) = sidecar.wait().await;
    assert_eq!(code, 0, "{said:#?}");
    let lost = "warning: prod: shutting down with unreported changes after ";
    assert!(said.iter().any(|line| line.starts_with(lost)), "{said:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_reports_once_and_one_that_waits_do_without_a_sidecar() {
    let stage = Stage::with([cart('a', 1), cart('a', 2)], "").await;
    stage.cluster.add(job(JOB));
    let report = |uid: &str| {
        let program = once().kubeconfig(&stage.cluster.kubeconfig());
        let program = program.args(["--environment", "prod", "--namespace", "shop", "--exclude-self"]);
        let program = program.args(["--allow-empty"]);
        stage.run(program.env("SUPERCARGO_POD_NAME", JOB.0).env("SUPERCARGO_POD_UID", uid))
    };
    // What is reported is what runs then: before the rollout is over, that is what was there before.
    report(JOB.1).await.unwrap().says(0, &["prod: 2 artifacts reported, new snapshot"]);
    stage.wait('b', "--timeout 1s").await.unwrap().says(7, &["does not run in prod"]);
    stage.roll_out('a', 'b');
    report(JOB.1).await.unwrap().says(0, &["prod: 2 artifacts reported, new snapshot"]);
    stage.wait('b', "").await.unwrap().says(0, &["1 artifact runs in prod"]);
    assert_eq!(stage.gate.service().database.rows("SELECT pod FROM pod_runs").await.len(), 4);
    let held = async || stage.gate.what_it_holds("prod").await == stage.runs();
    let why = || format!("{:#?}", stage.runs());
    eventually_or("the service holds what runs", held, why).await;
    // A variable that the downward API did not fill in is missed, and named.
    report("").await.unwrap().says(2, &["--exclude-self", "SUPERCARGO_POD_UID", "metadata.uid"]);
}
