//! Two replicas on one database that are killed at any time: each event is recorded once and delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use crate::fake::{Reply, Server};
use crate::service::Database;
use crate::service::bootstrap;
use crate::service::support::process::{Process, client, command, report_once};
use crate::service::support::test_service::{eventually, folder};

const ACTION: &str = "    actions:
      - {number: 1, name: ops, environments: [\"*\"], triggers: [ON_STARTED_ARTIFACT, ON_EXITED_ARTIFACT],
         targets: [{name: ops, type: WEBHOOK, url: {file: ops.url}, secrets: [{file: secret}]}]}";

fn start(database: &Database, receiver: &Server) -> Process {
    start_with(database, receiver, ACTION)
}

/// Starts a replica with this part of the bootstrap file.
fn start_with(database: &Database, receiver: &Server, organization: &str) -> Process {
    let folder = folder(&bootstrap(1, organization));
    std::fs::write(folder.path().join("ops.url"), receiver.url()).unwrap();
    std::fs::write(folder.path().join("secret"), "whsec-0123456789abcdef0123456789").unwrap();
    let mut command = command(&folder, &database.url());
    command.args(["--allow-internal", "127.0.0.1/32"]);
    Process::run(command, folder)
}

/// A received notification.
struct Delivery {
    event: String,
    merged_events: i64,
    times: usize,
}

/// The trigger and artifact of an event.
fn event(content: &Value) -> String {
    let fingerprint = content["artifacts"][0]["fingerprint"].as_str().unwrap();
    format!("{} {fingerprint}", content["trigger"].as_str().unwrap())
}

/// Received notifications by identifier.
fn deliveries(receiver: &Server) -> BTreeMap<String, Delivery> {
    let mut deliveries = BTreeMap::new();
    for seen in receiver.requests() {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        let (event, merged_events) = (event(&body), body["merged_events"].as_i64().unwrap());
        let id = body["id"].as_str().unwrap().to_owned();
        let known =
            deliveries.entry(id).or_insert(Delivery { event: event.clone(), merged_events, times: 0 });
        let both = [(&known.event, known.merged_events), (&event, merged_events)];
        assert_eq!(both[0], both[1], "one identifier, two notifications");
        known.times += 1;
    }
    deliveries
}

async fn each_event_is_delivered_while_replicas_are_killed(database: Database) {
    // The receiver stalls some responses, so that replicas are killed during a delivery. It stops after the last kill,
    // since each delivery that times out delays the next attempt.
    let (requests, has_stalls) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(true)));
    let stalls = Arc::clone(&has_stalls);
    let receiver = Server::start(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 16 {
        3 if stalls.load(Ordering::Relaxed) => Reply::Stall,
        _ => Reply::text(204, ""),
    });
    let mut replicas = [start(&database, &receiver), start(&database, &receiver)];
    let (http, mut acknowledged) = (client(), BTreeSet::new());
    let mut unique = 1;
    for round in 0..6 {
        // Both replicas get reports while one is killed.
        let killed = round % 2;
        for n in 0..8 {
            if n == 5 {
                replicas[killed].child.kill().unwrap();
            }
            if report_once(&http, &replicas[n % 2].base, unique).await.is_ok_and(|response| response.0 == 201)
            {
                acknowledged.insert(format!("{unique:064x}"));
            }
            unique += 1;
        }
        replicas[killed] = start(&database, &receiver);
    }
    has_stalls.store(false, Ordering::Relaxed);
    assert!(acknowledged.len() > 30, "{}", acknowledged.len());
    // Leases of a killed replica expire after 30 seconds.
    let open = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE sent_at IS NULL";
    eventually("all are delivered", async || database.rows(open).await == ["0"]).await;

    let deliveries = deliveries(&receiver);
    let recorded = database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM notifications").await;
    assert_eq!(recorded, [deliveries.len().to_string()]);
    // Each event was delivered or merged once.
    let contents = database.rows("SELECT content FROM events").await;
    let events: BTreeSet<_> =
        contents.iter().map(|content| event(&serde_json::from_str(content).unwrap())).collect();
    assert_eq!(events.len(), contents.len(), "an event was recorded twice");
    assert!(deliveries.values().all(|delivery| events.contains(&delivery.event)));
    let delivered: i64 = deliveries.values().map(|delivery| 1 + delivery.merged_events).sum();
    assert_eq!(delivered, i64::try_from(events.len()).unwrap());
    // Each artifact started once, and each but the last exited once. No acknowledged report is missing.
    let (started, exited): (Vec<_>, Vec<_>) = events.iter().partition(|event| event.contains("STARTED"));
    assert_eq!(started.len(), exited.len() + 1);
    for artifact in &acknowledged {
        assert!(events.contains(&format!("ON_STARTED_ARTIFACT {artifact}")), "{artifact}");
    }
    // Deliveries of a killed replica were repeated with the same identifier.
    assert!(
        deliveries.values().any(|delivery| delivery.times > 1),
        "no replica was killed during a delivery"
    );
}

async fn each_queued_environment_is_evaluated_once_while_replicas_are_killed(database: Database) {
    const ENVIRONMENTS: usize = 200;
    let receiver = Server::start(|_| Reply::text(204, ""));
    let declared: Vec<_> =
        (1..=ENVIRONMENTS).map(|n| format!("{{name: copy-{n}, policy: {{approval: true}}}}")).collect();
    let declared = format!("    environments: [{}]", declared.join(", "));
    let mut replicas = [0, 1].map(|_| start_with(&database, &receiver, &declared));
    report_once(&client(), &replicas[0].base, 1).await.unwrap();
    // The declared environments run the same artifacts as the reported one, and were never evaluated.
    for statement in [
        "INSERT INTO artifact_runs (organization, environment, fingerprint, first_snapshot, name, pods, namespaces, started_at)
         SELECT r.organization, e.id, r.fingerprint, 1, r.name, r.pods, r.namespaces, r.started_at
         FROM artifact_runs r, environments e WHERE e.name LIKE 'copy-%'",
        "UPDATE environments SET snapshot = 1, last_report_at = created_at, evaluate_at = 1 WHERE name LIKE 'copy-%'",
    ] {
        database.execute(statement).await;
    }
    let count = async |from: &str| -> usize {
        database.rows(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {from}")).await[0].parse().unwrap()
    };
    // Each replica is killed while it evaluates.
    for (killed, evaluated) in [(0, ENVIRONMENTS / 4), (1, ENVIRONMENTS / 2)] {
        let verdicts = async || count("verdicts").await;
        eventually("some environments are evaluated", async || verdicts().await >= evaluated).await;
        replicas[killed].child.kill().unwrap();
        replicas[killed] = start_with(&database, &receiver, &declared);
    }
    let unevaluated = "environments WHERE snapshot > 0 AND evaluated_at IS NULL";
    eventually("all are evaluated", async || count(unevaluated).await == 0).await;
    eventually("the queue is empty", async || count("evaluation_queue").await == 0).await;
    assert_eq!(count("environments WHERE compliance = 'NON-COMPLIANT'").await, ENVIRONMENTS);
    assert_eq!(count("verdicts WHERE compliance = 'NON-COMPLIANT'").await, ENVIRONMENTS);
    assert_eq!(count("events WHERE kind = 'ON_NON_COMPLIANT_ENV'").await, ENVIRONMENTS);
}

crate::service::on_both!(
    each_event_is_delivered_while_replicas_are_killed,
    each_queued_environment_is_evaluated_once_while_replicas_are_killed,
);
