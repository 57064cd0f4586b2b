//! Changes of the wall clock at runtime. Durations use the monotonic clock, and records stay ordered. The service in
//! the test has an adjustable clock; libfaketime changes the clock of processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;
use service::Clock;

use crate::daemon::support::cluster::{Cluster, pod as running};
use crate::daemon::support::gate::Gate;
use crate::daemon::{DaemonBuilder, PROD, eventually, wait_until_in_sync};
use crate::service::bootstrap;
use crate::service::records::log::log;
use crate::service::report;
use crate::service::support::process::{self, Process};
use crate::service::{
    ADMIN, Database, Options, READER, REPORTER, Response, TestService, digest, folder, form, on_both, pod,
};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// A report of one pod with this digest.
fn report_of(digit: char) -> String {
    report(&[pod(&format!("p-{digit}"), "i", digit)])
}

/// Asserts that records end after their start, snapshots are contiguous, and gaps do not overlap.
async fn assert_ordered(database: &Database, snapshots: usize, gaps: usize) {
    let violations = "
        SELECT 'snapshot ' || CAST(s.snapshot AS TEXT) FROM snapshots s
        LEFT JOIN snapshots n ON n.environment = s.environment AND n.snapshot = s.snapshot + 1
        WHERE s.superseded_at <= s.received_at OR s.confirmed_at < s.received_at OR s.confirmed_at > s.superseded_at
           OR COALESCE(s.superseded_at, 0) <> COALESCE(n.received_at, 0)
        UNION ALL SELECT 'pod ' || pod FROM pod_runs WHERE ended_at <= started_at
        UNION ALL SELECT 'artifact' FROM artifact_runs WHERE ended_at <= started_at
        UNION ALL SELECT 'gap' FROM gaps g WHERE g.to_at <= g.from_at OR EXISTS
          (SELECT 1 FROM gaps o WHERE o.environment = g.environment AND o.from_at > g.from_at AND o.from_at < g.to_at)";
    assert_eq!(database.rows(violations).await, [] as [&str; 0]);
    let count =
        "SELECT CAST(COUNT(*) AS TEXT) FROM snapshots UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM gaps";
    assert_eq!(database.rows(count).await, [snapshots.to_string(), gaps.to_string()]);
}

/// Whether the environment of the live artifact is silent.
async fn is_silent(service: &TestService) -> bool {
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    live["_embedded"]["environments"][0]["is_silent"].as_bool().unwrap_or_else(|| panic!("{live}"))
}

async fn clock_changes_keep_records_ordered(database: Database) {
    let clock = Clock::default();
    let hand = clock.clone();
    hand.set_back(DAY);
    let until = jiff::Timestamp::try_from(SystemTime::now() - HOUR).unwrap();
    let token = "short-0123456789abcdef0123456789";
    let more = format!("      - {{name: short, role: read, file: short, expires: \"{until}\"}}");
    let files = vec![("short", token.to_owned())];
    let options = Options { clock, bootstrap: bootstrap(1, &more), files, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let reports = async |digit, status| {
        let answer = service.report(ADMIN, "prod", report_of(digit)).await.expect(status);
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
    assert_ordered(&service.database, 2, 0).await;
    // The records are ahead of the clock, so no report confirms the current state.
    assert!(is_silent(&service).await);

    hand.set_back(Duration::ZERO);
    assert!(is_silent(&service).await);
    service.get(token, "/trails/acme").await.expect(401);
    reports('b', 200).await;
    assert!(!is_silent(&service).await);
    assert!(reports('c', 201).await.contains("new snapshot 3"));
    // The change of the clock looks like a day without reports.
    assert_ordered(&service.database, 3, 1).await;

    hand.set_back(DAY);
    service.get(token, "/trails/acme").await.expect(200);
    reports('c', 200).await;
    assert!(reports('d', 201).await.contains("new snapshot 4"));
    reports('d', 200).await;
    assert_ordered(&service.database, 4, 1).await;
    assert!(is_silent(&service).await);
    service.stop().await;
}

/// An evaluation is a day ahead of the clock, and the next report is not a heartbeat, since another token sends it.
async fn records_of_an_environment_get_different_times_from_a_clock_behind(database: Database) {
    let clock = Clock::default();
    let hand = clock.clone();
    hand.set_back(DAY);
    let more = "    environments: [{name: prod, policy: {attestations: [{flow: cart, name: unit}]}}]";
    let options = Options { clock, bootstrap: bootstrap(1, more), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let attest = async |failures: u32| {
        let data = json!({
            "attestation_name": "unit", "artifact_fingerprint": digest('a'),
            "junit_results": [{"name": "s", "failures": failures, "errors": 0, "total": 1}],
        });
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    };
    service.report(ADMIN, "prod", report_of('a')).await.expect(201);
    hand.set_back(Duration::ZERO);
    attest(0).await;
    hand.set_back(DAY);
    service.report(REPORTER, "prod", report_of('a')).await.expect(200);
    attest(1).await;
    service.report(REPORTER, "prod", report_of('a')).await.expect(200);
    // The reports were continuous.
    assert_ordered(&service.database, 1, 0).await;
    let times = service.database.rows("SELECT CAST(from_at AS TEXT) FROM verdicts").await;
    assert_eq!(times.iter().collect::<BTreeSet<_>>().len(), 3, "{times:?}");
    log(&service, &["verify"]).await.expect(0, &[]);
}

async fn clock_that_is_set_before_1970_fails_no_request(database: Database) {
    let clock = Clock::default();
    let hand = clock.clone();
    let service = TestService::start_with(database, Options { clock, ..Options::default() }).await;
    hand.set_back(100 * 365 * DAY);
    service.report(ADMIN, "prod", report_of('a')).await.expect(201);
    service.report(ADMIN, "prod", report_of('b')).await.expect(201);
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('b'), "repo_info": {"name": "acme/cart"},
        "junit_results": [{"name": "s", "failures": 0, "errors": 0, "total": 1}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let approve = json!({"artifact_fingerprint": digest('b'), "approvals": [{"state": "APPROVED"}]});
    let request = service.request(Method::POST, ADMIN, "/approvals/acme/cart");
    let request = request.header("Content-Type", "application/json").body(approve.to_string());
    Response::from_request(request).await.expect(201);
    for path in [
        "/trails/acme",
        "/approvals/acme/cart/1",
        "/environments/acme/prod/events",
        "/snapshots/acme/prod/-1",
    ] {
        service.get(READER, path).await.expect(200);
    }
    assert_ordered(&service.database, 2, 0).await;
    log(&service, &["verify"]).await.expect(0, &[]);
}

on_both!(
    clock_changes_keep_records_ordered,
    records_of_an_environment_get_different_times_from_a_clock_behind,
    clock_that_is_set_before_1970_fails_no_request,
);

/// The clock of processes under libfaketime.
struct FakeClock {
    library: String,
    file: PathBuf,
}

impl FakeClock {
    fn new(folder: &Path) -> Self {
        let library =
            std::env::var("SUPERCARGO_TEST_FAKETIME").expect("SUPERCARGO_TEST_FAKETIME=…/libfaketime.so.1");
        let clock = Self { library, file: folder.join("clock") };
        clock.set("+0");
        clock
    }

    /// Sets the offset from the system's clock.
    fn set(&self, offset: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, offset).unwrap();
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
async fn agent_reports_despite_clock_changes() {
    let (cluster, gate, folder) = (Cluster::start(), Gate::without_service(), tempfile::tempdir().unwrap());
    let clock = FakeClock::new(folder.path());
    cluster.add(running("shop", "web").image("registry.example.com/web:1", 'a'));
    let builder = DaemonBuilder::new(&cluster, &gate);
    let daemon = clock.variables().into_iter().fold(builder, |s, (name, value)| s.env(name, value)).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    for (n, step) in STEPS.into_iter().enumerate() {
        clock.set(step);
        cluster.add(running("shop", &format!("web-{n}")).image("registry.example.com/web:1", 'a'));
        wait_until_in_sync(&gate, &cluster, PROD).await;
        // Heartbeats continue, and no watch counts as stale.
        let before = gate.accepted(PROD.name).len();
        eventually("two heartbeats", async || gate.accepted(PROD.name).len() >= before + 2).await;
        assert!(daemon.is_ready().await);
    }
    let timestamp = daemon.metric("supercargo_agent_last_accepted_timestamp_seconds", "").await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - timestamp).abs() < 600.0, "expected about {now}, got {timestamp}");
    let log = daemon.stop().await;
    assert!(
        !log.iter().any(|line| line.contains("withheld")
            || line.contains("report failed")
            || line.contains(": not reported")),
        "{log:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs libfaketime: SUPERCARGO_TEST_FAKETIME=…/libfaketime.so.1"]
async fn service_records_stay_ordered_despite_clock_changes() {
    let (database, folder) = (Database::sqlite(), folder(&bootstrap(1, "")));
    let clock = FakeClock::new(folder.path());
    let mut command = process::command(&folder, &database.url());
    command.envs(clock.variables());
    let serve = Process::run(command, folder);
    let put = async |digit| {
        let url = format!("{}/api/v2/environments/acme/prod/report/K8S?create=true", serve.base);
        let put = process::client().put(url).bearer_auth(ADMIN).header("Content-Type", "application/json");
        Response::from_request(put.body(report_of(digit))).await
    };
    put('0').await.expect(201);
    for (step, digit) in STEPS.into_iter().zip('1'..) {
        clock.set(step);
        put(digit).await.expect(201);
        put(digit).await.expect(200);
    }
    assert_ordered(&database, 5, 1).await;
    let list = process::client().get(format!("{}/api/v2/trails/acme", serve.base)).bearer_auth(READER);
    Response::from_request(list).await.expect(200);
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().0, Some(0));
}

#[test]
#[ignore = "needs libfaketime: SUPERCARGO_TEST_FAKETIME=…/libfaketime.so.1"]
fn service_with_a_clock_before_1970_does_not_start() {
    let (database, folder) = (Database::sqlite(), folder(&bootstrap(1, "")));
    let clock = FakeClock::new(folder.path());
    clock.set("-70y");
    let output = process::command(&folder, &database.url()).envs(clock.variables()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("the clock is before 1970: set it"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}
