//! Two replicas on one database, either of which is killed at any time: each event is there once, and each
//! notification arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::process::{Process, client, command, report_once};
use super::running::{eventually, folder};
use super::{Database, bootstrap};
use crate::fake::{Reply, Server};

const ACTION: &str = "    actions:
      - {number: 1, name: ops, environments: [\"*\"], triggers: [ON_STARTED_ARTIFACT, ON_EXITED_ARTIFACT],
         targets: [{name: ops, type: WEBHOOK, url: {file: ops.url}, secrets: [{file: secret}]}]}";

fn start(database: &Database, receiver: &Server) -> Process {
    let folder = folder(&bootstrap(1, ACTION));
    std::fs::write(folder.path().join("ops.url"), receiver.url()).unwrap();
    std::fs::write(folder.path().join("secret"), "whsec-0123456789abcdef0123456789").unwrap();
    let mut command = command(&folder, &database.url());
    command.args(["--allow-internal", "127.0.0.1/32"]);
    Process::run(command, folder)
}

/// The artifact of each notification that arrived, with its trigger, and how often it did, by identifier.
fn arrived(receiver: &Server) -> BTreeMap<String, (String, usize)> {
    let mut arrived: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for seen in receiver.seen() {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        let (id, trigger) = (body["id"].as_str().unwrap(), body["trigger"].as_str().unwrap());
        let what = format!("{trigger} {}", body["artifacts"][0]["fingerprint"].as_str().unwrap());
        let known = arrived.entry(id.to_owned()).or_insert_with(|| (what.clone(), 0));
        assert_eq!(known.0, what, "one identifier, two notifications");
        known.1 += 1;
    }
    arrived
}

async fn each_event_arrives_though_either_is_killed(database: Database) {
    // Now and then it takes a notification and does not say so: who sent it is killed meanwhile.
    let asked = AtomicUsize::new(0);
    let receiver = Server::start(move |_| match asked.fetch_add(1, Ordering::Relaxed) % 16 {
        3 => Reply::Stall,
        _ => Reply::text(204, ""),
    });
    let mut replicas = [start(&database, &receiver), start(&database, &receiver)];
    let (http, mut acknowledged) = (client(), BTreeSet::new());
    let mut unique = 1;
    for round in 0..6 {
        // While one is killed, both are told.
        let killed = round % 2;
        for n in 0..8 {
            if n == 5 {
                replicas[killed].child.kill().unwrap();
            }
            if report_once(&http, &replicas[n % 2].base, unique).await.is_ok_and(|answer| answer.0 == 201) {
                acknowledged.insert(format!("{unique:064x}"));
            }
            unique += 1;
        }
        replicas[killed] = start(&database, &receiver);
    }
    assert!(acknowledged.len() > 30, "{}", acknowledged.len());
    // What a killed one had in hand comes back after 30 seconds.
    let open = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE sent_at IS NULL";
    eventually("all arrive", async || database.rows(open).await == ["0"]).await;

    let arrived = arrived(&receiver);
    let recorded = database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM notifications").await;
    assert_eq!(recorded, [arrived.len().to_string()]);
    // Each artifact started once, and each but the last exited once; whatever was acknowledged is there.
    let told: BTreeSet<&str> = arrived.values().map(|(what, _)| what.as_str()).collect();
    assert_eq!(told.len(), arrived.len(), "an event was told under two identifiers");
    let (started, exited): (Vec<&str>, Vec<&str>) = told.iter().partition(|what| what.contains("STARTED"));
    assert_eq!(started.len(), exited.len() + 1);
    for artifact in &acknowledged {
        assert!(told.contains(format!("ON_STARTED_ARTIFACT {artifact}").as_str()), "{artifact}");
    }
    // Those that a killed one had in hand arrived more than once, under one identifier.
    assert!(arrived.values().any(|(_, times)| *times > 1), "nothing was killed in the middle");
}

super::on_both!(each_event_arrives_though_either_is_killed);
