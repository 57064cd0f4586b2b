//! A clock that is set, while the programs run: what is measured goes by another clock, and what is recorded stays in
//! order. The service's own clock is moved by its hand; libfaketime moves that of the programs, as they call the
//! system's library.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use serde_json::json;
use supercargo::service::Clock;

use crate::daemon::cluster::{Cluster, pod as running};
use crate::daemon::gate::Gate;
use crate::daemon::{PROD, Starting, eventually, holds_what_the_cluster_holds};
use crate::service::process::{self, Process};
use crate::service::{
    ADMIN, Answer, Database, Options, READER, Running, bootstrap, digest, folder, form, on_both, pod, report,
};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// What runs at one time.
fn with(digit: char) -> String {
    report(&[pod(&format!("p-{digit}"), "i", digit)])
}

/// Nothing ends before it begins, each snapshot ends where the next begins, and no two gaps overlap.
async fn is_in_order(database: &Database, snapshots: usize, gaps: usize) {
    let wrong = "
        SELECT 'snapshot ' || CAST(s.snapshot AS TEXT) FROM snapshots s
        LEFT JOIN snapshots n ON n.environment = s.environment AND n.snapshot = s.snapshot + 1
        WHERE s.superseded_at <= s.received_at OR s.confirmed_at < s.received_at OR s.confirmed_at > s.superseded_at
           OR COALESCE(s.superseded_at, 0) <> COALESCE(n.received_at, 0)
        UNION ALL SELECT 'pod ' || pod FROM pod_runs WHERE ended_at <= started_at
        UNION ALL SELECT 'artifact' FROM artifact_runs WHERE ended_at <= started_at
        UNION ALL SELECT 'gap' FROM gaps g WHERE g.to_at <= g.from_at OR EXISTS
          (SELECT 1 FROM gaps o WHERE o.environment = g.environment AND o.from_at > g.from_at AND o.from_at < g.to_at)";
    assert_eq!(database.rows(wrong).await, [] as [&str; 0]);
    let count =
        "SELECT CAST(COUNT(*) AS TEXT) FROM snapshots UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM gaps";
    assert_eq!(database.rows(count).await, [snapshots.to_string(), gaps.to_string()]);
}

/// Whether the environment of what runs is shown as silent.
async fn is_silent(service: &Running) -> bool {
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    live["_embedded"]["environments"][0]["is_silent"].as_bool().unwrap_or_else(|| panic!("{live}"))
}

async fn a_clock_that_is_set_leaves_what_is_recorded_in_order(database: Database) {
    let (clock, hand) = Clock::movable();
    hand.set_back(DAY);
    let until = jiff::Timestamp::try_from(SystemTime::now() - HOUR).unwrap();
    let token = "short-0123456789abcdef0123456789";
    let more = format!("      - {{name: short, role: read, file: short, expires: \"{until}\"}}");
    let files = vec![("short", token.to_owned())];
    let options = Options { clock, bootstrap: bootstrap(1, &more), files, ..Options::default() };
    let service = Running::start_with(database, options).await;
    let reports = async |digit, status| {
        let answer = service.report(ADMIN, "prod", with(digit)).await.expect(status);
        if status == 201 { answer.text } else { String::new() }
    };
    for digit in 'a'..='d' {
        let data = json!({
            "attestation_name": "unit", "artifact_fingerprint": digest(digit), "repo_info": {"name": "acme/cart"},
            "junit_results": [{"name": "s", "failures": 0, "errors": 0, "total": 1}],
        });
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    reports('a', 201).await;
    reports('a', 200).await;
    service.get(token, "/trails/acme").await.expect(200);
    assert!(!is_silent(&service).await);

    hand.set_back(DAY + HOUR);
    reports('a', 200).await;
    assert!(reports('b', 201).await.contains("new snapshot 2"));
    reports('b', 200).await;
    is_in_order(&service.database, 2, 0).await;
    // What is recorded lies ahead of the clock, so nothing confirms what runs now.
    assert!(is_silent(&service).await);

    hand.set_back(Duration::ZERO);
    assert!(is_silent(&service).await);
    service.get(token, "/trails/acme").await.expect(401);
    reports('b', 200).await;
    assert!(!is_silent(&service).await);
    assert!(reports('c', 201).await.contains("new snapshot 3"));
    // Nobody can tell that from a day of silence.
    is_in_order(&service.database, 3, 1).await;

    hand.set_back(DAY);
    service.get(token, "/trails/acme").await.expect(200);
    reports('c', 200).await;
    assert!(reports('d', 201).await.contains("new snapshot 4"));
    reports('d', 200).await;
    is_in_order(&service.database, 4, 1).await;
    assert!(is_silent(&service).await);
    service.stop().await;
}

on_both!(a_clock_that_is_set_leaves_what_is_recorded_in_order);

/// The clock of programs that are told of it.
struct Faked {
    library: String,
    file: PathBuf,
}

impl Faked {
    fn new(folder: &Path) -> Self {
        let library =
            std::env::var("SUPERCARGO_TEST_FAKETIME").expect("SUPERCARGO_TEST_FAKETIME=…/libfaketime.so.1");
        let faked = Self { library, file: folder.join("clock") };
        faked.set("+0");
        faked
    }

    /// By how much it is another than the system's.
    fn set(&self, by: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, by).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    fn variables(&self) -> [(&'static str, &str); 4] {
        [
            ("LD_PRELOAD", &self.library),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
    }
}

const STEPS: [&str; 4] = ["-1h", "+1d", "-1d", "+0"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs libfaketime: SUPERCARGO_TEST_FAKETIME=…/libfaketime.so.1"]
async fn an_agent_reports_as_before_whatever_its_clock_is_set_to() {
    let (cluster, gate, folder) = (Cluster::start(), Gate::alone(), tempfile::tempdir().unwrap());
    let clock = Faked::new(folder.path());
    cluster.add(running("shop", "web").image("registry.example.com/web:1", 'a'));
    let starting = Starting::between(&cluster, &gate);
    let daemon = clock.variables().into_iter().fold(starting, |s, (name, value)| s.env(name, value)).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    for (n, step) in STEPS.into_iter().enumerate() {
        clock.set(step);
        cluster.add(running("shop", &format!("web-{n}")).image("registry.example.com/web:1", 'a'));
        holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
        // Heartbeats go on, and nothing has become too old to be vouched for.
        let before = gate.accepted(PROD.name).len();
        eventually("two heartbeats", async || gate.accepted(PROD.name).len() >= before + 2).await;
        assert!(daemon.is_ready().await);
    }
    let shown = daemon.metric("supercargo_agent_last_accepted_timestamp_seconds", "").await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - shown).abs() < 600.0, "{shown} is not about {now}");
    let said = daemon.stop().await;
    assert!(
        !said.iter().any(|line| line.contains("withheld") || line.contains(": not reported")),
        "{said:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs libfaketime: SUPERCARGO_TEST_FAKETIME=…/libfaketime.so.1"]
async fn a_service_keeps_its_records_in_order_whatever_its_clock_is_set_to() {
    let (database, folder) = (Database::sqlite(), folder(&bootstrap(1, "")));
    let clock = Faked::new(folder.path());
    let mut command = process::command(&folder, &database.url());
    command.envs(clock.variables());
    let serve = Process::run(command, folder);
    let put = async |digit| {
        let url = format!("{}/api/v2/environments/acme/prod/report/K8S", serve.base);
        let put = process::client().put(url).bearer_auth(ADMIN).header("Content-Type", "application/json");
        Answer::of(put.body(with(digit))).await
    };
    put('0').await.expect(201);
    for (step, digit) in STEPS.into_iter().zip('1'..) {
        clock.set(step);
        put(digit).await.expect(201);
        put(digit).await.expect(200);
    }
    is_in_order(&database, 5, 1).await;
    let list = process::client().get(format!("{}/api/v2/trails/acme", serve.base)).bearer_auth(READER);
    Answer::of(list).await.expect(200);
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().0, Some(0));
}
