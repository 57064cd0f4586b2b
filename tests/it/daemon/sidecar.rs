//! A deployment Job with the agent as a native sidecar. The sidecar starts first, the steps run in order, and the
//! kubelet stops the sidecar after the last step.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::daemon::support::cluster::{Cluster, Pod, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::reported_pod::ReportedPod;
use crate::daemon::{Daemon, DaemonBuilder, eventually, eventually_or};
use crate::program::{Outcome, Program, once, supercargo};
use crate::service::bootstrap;
use crate::service::{ADMIN, Database, Options, TestService, digest, form};

/// Name and UID of the Job's pod, which runs the steps and the sidecar.
const JOB: (&str, &str) = ("deploy-1-x7k2p", "6f0d8a52-1c1e-4b7e-9a51-0d9f1c2b3a41");

/// Name and UID of the next Job's pod.
const NEXT_JOB: (&str, &str) = ("deploy-2-p9w4c", "0c1d2e3f-1c1e-4b7e-9a51-0d9f1c2b3a41");

/// An environment that becomes silent soon after the last report.
const SOON_SILENT: &str = "    environments:\n      - {name: prod, silentAfter: 5s}\n";

/// A replica of the deployed version.
fn cart(version: char, n: usize) -> Pod {
    let replica_set = format!("cart-{version}");
    pod("shop", &format!("{replica_set}-{n}"))
        .image(&format!("registry.example.com/cart:{version}"), version)
        .owner("ReplicaSet", &replica_set)
}

fn job(name_and_uid: (&str, &str)) -> Pod {
    let (name, uid) = name_and_uid;
    pod("shop", name)
        .init_image("registry.example.com/supercargo:1", '5')
        .image("registry.example.com/kubectl:1", '6')
        .owner("Job", "deploy-1")
        .uid(uid)
}

/// A cluster, and a gate in front of a service with attested images of `acme/cart`.
struct Deployment {
    cluster: Cluster,
    gate: Gate,
}

impl Deployment {
    async fn new(pods: impl IntoIterator<Item = Pod>, more: &str) -> Self {
        let options = Options { bootstrap: bootstrap(1, more), ..Options::default() };
        let service = TestService::start_with(Database::sqlite(), options).await;
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
        // A pod of another team.
        cluster.add(pod("pay", "api-1").image("registry.example.com/api:1", 'c'));
        Self { cluster, gate: Gate::with_service(service) }
    }

    /// Adds the Job's pod, starts the sidecar, and waits for its startup probe.
    async fn start_job(&self, name_and_uid: (&str, &str)) -> Daemon {
        self.start_job_with(name_and_uid, |builder| builder).await
    }

    async fn start_job_with(
        &self,
        name_and_uid: (&str, &str),
        configure: impl FnOnce(DaemonBuilder) -> DaemonBuilder,
    ) -> Daemon {
        self.cluster.add(job(name_and_uid));
        let builder = DaemonBuilder::new(&self.cluster, &self.gate)
            .args(["--namespace", "shop", "--exclude-self", "--allow-empty"])
            .env("SUPERCARGO_POD_NAME", name_and_uid.0)
            .env("SUPERCARGO_POD_UID", name_and_uid.1);
        let sidecar = configure(builder).start();
        eventually("the startup probe succeeds", async || sidecar.is_ready().await).await;
        sidecar
    }

    /// Replaces the replicas of a version.
    fn roll_out(&self, from: char, to: char) {
        for n in 1..=2 {
            self.cluster.add(cart(to, n));
            self.cluster.delete("shop", &format!("cart-{from}-{n}"));
        }
    }

    /// Runs a program against the service on another thread.
    fn run(&self, program: Program) -> tokio::task::JoinHandle<Outcome> {
        let program = program
            .env("SUPERCARGO_BASE_URL", &self.gate.service().base)
            .env("SUPERCARGO_ORG", "acme")
            .env("SUPERCARGO_TOKEN", ADMIN);
        tokio::task::spawn_blocking(move || program.run())
    }

    /// Runs `supercargo wait` for an image.
    fn wait(&self, version: char, more: &str) -> tokio::task::JoinHandle<Outcome> {
        let digest = digest(version);
        let program = supercargo().args(["wait", "acme/cart", "--environment", "prod", "--every", "1s"]);
        self.run(program.args(["--fingerprint", &digest]).args(more.split_whitespace()))
    }

    /// Waits until the service has received a request for live artifacts.
    async fn wait_for_request(&self) {
        let is_received = async || {
            let metrics = self.gate.service().metrics().await;
            let requests = |line: &&str| line.starts_with("supercargo_http_requests_total{");
            metrics.lines().filter(requests).any(|line| line.contains("live-artifacts"))
        };
        eventually("live artifacts are requested", is_received).await;
    }

    /// The output of `get live-artifacts`.
    async fn live(&self) -> String {
        let outcome = self.run(supercargo().args(["get", "live-artifacts", "acme/cart"])).await.unwrap();
        outcome.expect(0, &[]).stdout.clone()
    }

    /// The running pods of the namespace, without the Jobs' pods.
    fn running_pods(&self) -> BTreeSet<ReportedPod> {
        let all = self.cluster.expected_report(|namespace| namespace == "shop").into_iter();
        all.filter(|pod| !pod.name.starts_with("deploy-")).collect()
    }

    /// Stops the sidecar after the last step. Its last report must match the running pods, and no report may contain
    /// the Job's pod.
    async fn finish_job(&self, sidecar: Daemon) -> Vec<String> {
        let log = sidecar.stop().await;
        let last = self.gate.last_accepted("prod").map(|report| report.pods).unwrap();
        assert_eq!(*last, self.running_pods(), "{log:#?}");
        assert_eq!(self.gate.stored_running_pods("prod").await, self.running_pods());
        let everything = self.gate.every_accepted_pod("prod");
        assert!(everything.iter().all(|pod| !pod.name.starts_with("deploy-")), "{everything:#?}");
        assert!(log.iter().any(|line| line == "INFO stopped"), "{log:#?}");
        for pod in self.cluster.pods().iter().filter(|pod| pod.name.starts_with("deploy-") && !pod.is_ended())
        {
            self.cluster.modify("shop", &pod.name, Pod::ended);
        }
        log
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployment_is_reported_and_awaited_and_the_sidecar_sends_a_last_report() {
    let deployment = Deployment::new([cart('a', 1), cart('a', 2)], SOON_SILENT).await;
    let sidecar = deployment.start_job(JOB).await;
    // `kubectl apply` returns before the pods start, and the next step begins.
    let waiting = deployment.wait('b', "");
    deployment.wait_for_request().await;
    deployment.roll_out('a', 'b');
    waiting.await.unwrap().expect(0, &["does not run in prod"]).expect_result(&["1 artifact runs in prod"]);
    let log = deployment.finish_job(sidecar).await;
    assert!(!log.iter().any(|line| line.contains("warning")), "{log:#?}");

    // Without a sidecar, the environment becomes silent.
    let is_silent = async || deployment.live().await.contains("silent");
    eventually("prod is silent", is_silent).await;
    let live = deployment.live().await;
    assert!(live.contains("registry.example.com/cart:b") && !live.contains("cart:a"), "{live}");
    // `wait` does not accept a silent environment.
    deployment.wait('b', "--timeout 1s").await.unwrap().expect(7, &["at its last report, which is too old"]);

    // The next deployment reports again.
    let sidecar = deployment.start_job(NEXT_JOB).await;
    deployment.wait('b', "").await.unwrap().expect_result(&["1 artifact runs in prod"]);
    deployment.roll_out('b', 'a');
    deployment.wait('b', "--gone").await.unwrap().expect(0, &[]);
    deployment.finish_job(sidecar).await;
    assert!(deployment.live().await.contains("registry.example.com/cart:a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debounced_change_is_in_the_sidecars_last_report() {
    let deployment = Deployment::new([cart('a', 1), cart('a', 2)], "").await;
    let sidecar =
        deployment.start_job_with(JOB, |builder| builder.time_scale(5).args(["--debounce", "24h"])).await;
    sidecar.wait_for_reports("new_snapshot", 1).await;
    // The last step does not wait, so its change is not reported yet.
    deployment.cluster.add(cart('b', 1));
    sidecar.wait_for_pods(3).await;
    assert_eq!(deployment.gate.reports().len(), 1);
    deployment.finish_job(sidecar).await;
    assert_eq!(deployment.gate.reports().len(), 2);
    let live = deployment.live().await;
    assert!(live.contains("cart:a") && live.contains("cart:b"), "{live}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_report_of_a_failed_deployment_has_the_running_pods() {
    let deployment = Deployment::new([cart('a', 1), cart('a', 2)], "").await;
    let sidecar = deployment.start_job(JOB).await;
    // One new replica runs; the image of the other cannot be pulled, and the step gives up.
    deployment.cluster.delete("shop", "cart-a-1");
    deployment.cluster.add(cart('b', 1));
    deployment.cluster.add(cart('b', 2).pending());
    let is_reported = async || {
        deployment.gate.last_accepted("prod").is_some_and(|last| *last.pods == deployment.running_pods())
    };
    eventually("the running pods are reported", is_reported).await;
    deployment.finish_job(sidecar).await;
    let live = deployment.live().await;
    assert!(live.contains("cart:a") && live.contains("cart:b"), "{live}");

    // In a deployment that starts no pod, `wait` fails, and the sidecar ends as usual.
    let sidecar = deployment.start_job(NEXT_JOB).await;
    deployment.cluster.delete("shop", "cart-b-1");
    deployment.wait('b', "--gone").await.unwrap().expect(0, &[]);
    deployment.wait('b', "--timeout 1s").await.unwrap().expect(7, &["does not run in prod"]);
    deployment.finish_job(sidecar).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_deployment_and_the_one_that_empties_the_namespace_are_reported() {
    let deployment = Deployment::new([], "").await;
    let sidecar = deployment.start_job(JOB).await;
    // The namespace has only the Job's pod, so the report is empty.
    sidecar.wait_for_reports("new_snapshot", 1).await;
    assert!(deployment.gate.last_accepted("prod").unwrap().pods.is_empty());
    deployment.cluster.add_all([cart('b', 1), cart('b', 2)]);
    deployment.wait('b', "").await.unwrap().expect_result(&["1 artifact runs in prod"]);
    deployment.finish_job(sidecar).await;

    let sidecar = deployment.start_job(NEXT_JOB).await;
    sidecar.wait_for_reports("unchanged", 1).await;
    for n in 1..=2 {
        deployment.cluster.delete("shop", &format!("cart-b-{n}"));
    }
    deployment.wait('b', "--gone").await.unwrap().expect(0, &[]);
    assert!(deployment.running_pods().is_empty());
    deployment.finish_job(sidecar).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_service_delays_the_end_of_the_job_only_briefly() {
    let deployment = Deployment::new([cart('a', 1), cart('a', 2)], "").await;
    let sidecar = deployment.start_job(JOB).await;
    sidecar.wait_for_reports("new_snapshot", 1).await;
    deployment.gate.listen(false);
    deployment.roll_out('a', 'b');
    eventually("the change is pending", async || {
        sidecar.metric("supercargo_agent_pending_seconds", "").await > 0.0
    })
    .await;
    sidecar.signal(Signal::SIGTERM);
    let (code, log) = sidecar.wait().await;
    assert_eq!(code, 0, "{log:#?}");
    let lost = "WARN prod: shutting down with unreported changes after ";
    assert!(log.iter().any(|line| line.starts_with(lost)), "{log:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_step_and_wait_step_work_without_a_sidecar() {
    let deployment = Deployment::new([cart('a', 1), cart('a', 2)], "").await;
    deployment.cluster.add(job(JOB));
    let report = |uid: &str| {
        let program = once().kubeconfig(&deployment.cluster.kubeconfig());
        let program = program.args(["--environment", "prod", "--namespace", "shop", "--exclude-self"]);
        let program = program.args(["--allow-empty", "--create"]);
        deployment.run(program.env("SUPERCARGO_POD_NAME", JOB.0).env("SUPERCARGO_POD_UID", uid))
    };
    // Before the end of the rollout, the report has the old replicas.
    report(JOB.1).await.unwrap().expect(0, &["prod: 2 pods reported, new snapshot"]);
    deployment.wait('b', "--timeout 1s").await.unwrap().expect(7, &["does not run in prod"]);
    deployment.roll_out('a', 'b');
    report(JOB.1).await.unwrap().expect(0, &["prod: 2 pods reported, new snapshot"]);
    deployment.wait('b', "").await.unwrap().expect_result(&["1 artifact runs in prod"]);
    assert_eq!(deployment.gate.service().database.rows("SELECT pod FROM pod_runs").await.len(), 4);
    let is_stored = async || deployment.gate.stored_running_pods("prod").await == deployment.running_pods();
    let details = || format!("{:#?}", deployment.running_pods());
    eventually_or("the service stores the running pods", is_stored, details).await;
    // A variable that the downward API left empty is named.
    report("").await.unwrap().expect(2, &["--exclude-self", "SUPERCARGO_POD_UID", "metadata.uid"]);
}
