//! What is asked about reads what runs, however much ended long ago: SQLite counts the steps of its programs
//! (<https://sqlite.org/c3ref/progress_handler.html>), which a busy machine does not change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use supercargo::domain::model::{Fingerprint, Page, Timestamp};
use supercargo::store::search::{LATEST, Words};
use supercargo::store::trails::Filter;
use supercargo::store::{DatabaseUrl, Patience, Store, Transaction};

use super::{ADMIN, Database, Running, digest, form, pod, report};

/// More than a search looks through.
const MUCH: i64 = LATEST + 1_000;

/// How many steps are counted as one.
const TOGETHER: i32 = 100;

/// What ended long ago, between two numbers.
async fn ended(database: &Database, (from, to): (i64, i64)) {
    let n = format!("WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})");
    let (hash, prod) = ("unhex(printf('%064x', i))", "(SELECT id FROM environments)");
    for insert in [
        format!("workloads (organization, hash, digests, owners) {n} SELECT 'acme', {hash}, '{{}}', '[]' FROM n"),
        format!(
            "pod_runs (id, environment, namespace, pod, created_at, workload, started_at, ended_at)
             {n} SELECT randomblob(16), {prod}, 'shop', 'often', i, {hash}, i, i + 1 FROM n"
        ),
        format!(
            "artifact_runs (environment, fingerprint, first_snapshot, last_snapshot, organization, name, started_at,
                            ended_at)
             {n} SELECT {prod}, {hash}, -i, -i, 'acme', 'often', i, i + 1 FROM n"
        ),
        format!(
            "verdicts (environment, fingerprint, from_at, until_at, compliance, is_allowed, reasons)
             {n} SELECT {prod}, {hash}, i, i + 1, 'COMPLIANT', FALSE, '[]' FROM n"
        ),
        format!(
            "snapshots (environment, snapshot, received_at, reported_by, report_hash, confirmed_at, superseded_at)
             {n} SELECT {prod}, i - 1000000, i, 'agent', {hash}, i, i + 1 FROM n"
        ),
        format!("gaps (environment, from_at, to_at) {n} SELECT {prod}, i * 2, i * 2 + 1 FROM n"),
        format!(
            "events (id, organization, environment, kind, occurred_at, content)
             {n} SELECT randomblob(16), 'acme', {prod}, 'ON_SCALED_ARTIFACT', i, '{{}}' FROM n"
        ),
        format!(
            "provenance (organization, repository, fingerprint, recorded_at)
             {n} SELECT 'acme', (SELECT id FROM repositories), {hash}, i FROM n"
        ),
        format!(
            "trails (id, organization, flow, name, created_at, last_modified_at, created_by)
             {n} SELECT substr({hash}, 17), 'acme', 'cart', 'gone-' || i, i, i, 'ci' FROM n"
        ),
        format!(
            "attestations (id, organization, flow, trail, name, kind, targets, created_at, reported_by, schema_version,
                           is_compliant, results, description, origin_url, user_data, annotations, external_urls)
             {n} SELECT substr({hash}, 17), 'acme', 'cart', substr({hash}, 17), 'unit', 'junit', '[]', i, 'ci', 1, TRUE,
                        '[]', '', '', '{{}}', '{{}}', '{{}}' FROM n"
        ),
        format!(
            "attested_artifacts (organization, fingerprint, attestation, trail)
             {n} SELECT 'acme', {hash}, substr({hash}, 17), substr({hash}, 17) FROM n"
        ),
    ] {
        database.execute(&format!("INSERT INTO {insert}")).await;
    }
}

/// Counts the steps of what is done from now on.
async fn counter(transaction: &mut Transaction) -> Arc<AtomicU64> {
    let steps = Arc::new(AtomicU64::new(0));
    let Transaction::Sqlite(connection) = transaction else { panic!("SQLite alone counts") };
    let count = Arc::clone(&steps);
    connection.lock_handle().await.unwrap().set_progress_handler(TOGETHER, move || {
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    steps
}

/// The steps that each question takes.
async fn steps(store: &Store) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    let now = Timestamp::from_micros(i64::MAX / 2);
    let artifact = Fingerprint::from_hex(&digest('a')).unwrap();
    let mut writing = store.write().await.unwrap();
    let prod = writing.environment("acme", "prod", now).await.unwrap();
    drop(writing);
    let repository = store.read().await.unwrap().repositories("acme", "acme/cart").await.unwrap()[0].id;
    macro_rules! count {
        ($($what:literal: $begin:ident, |$transaction:ident| $ask:expr;)+) => {$({
            let mut $transaction = store.$begin().await.unwrap();
            let steps = counter(&mut $transaction).await;
            let _ = $ask.await.unwrap();
            all.push(($what, steps.load(Ordering::Relaxed)));
        })+};
    }
    let started = Timestamp::from_micros(i64::MAX / 4);
    let one = || [artifact].into_iter().collect::<std::collections::BTreeSet<_>>();
    let named = || [(artifact, ("shop/cart:2", 1))].into_iter().collect();
    let (words, moving) = (Words::new("nowhere"), Words::new("often"));
    count! {
        "what runs, with its verdicts": read, |t| t.standing(prod.id);
        "the pods that run": read, |t| t.running_pods(prod.id);
        "an artifact ends": write, |t| t.end_artifacts(prod.id, &one(), 1, now);
        "an artifact is scaled": write, |t| t.change_artifacts(prod.id, &named());
        "environments to judge": read, |t| t.judged_environments("acme", one().into_iter());
        "live artifacts": read, |t| t.live("acme", repository);
        "where they were built": read, |t| t.built("acme", repository, one());
        "trails of an artifact": read,
            |t| t.trails("acme", Filter { fingerprint: Some(artifact), ..Filter::default() }, Page::default());
        "page: environment": read, |t| t.one_of_overview("acme", "prod");
        "page: what runs": read, |t| t.ran("acme", prod.id, None, "");
        "page: what ran": read, |t| t.ran("acme", prod.id, Some(started), "");
        "page: the snapshot of then": read, |t| t.around(prod.id, Timestamp::from_micros(5));
        "page: verdicts of then": read, |t| t.verdicts(prod.id, Some(started));
        "page: first snapshot": read, |t| t.kept_snapshots(prod.id);
        "page: snapshots": read, |t| t.snapshots(prod.id, (1, 1));
        "page: changes": read, |t| t.changes(prod.id, (1, 1), (started, now), 10);
        "page: scaled": read, |t| t.scalings(prod.id, (1, 1), 10);
        "page: comparison": read, |t| t.ran_at_either("acme", prod.id, (started, now));
        "page: names of an artifact": read, |t| t.names("acme", artifact);
        "page: where it runs": read, |t| t.runs_now("acme", artifact);
        "page: where it ran": read, |t| t.ran_before("acme", artifact);
        "page: where it was built": read, |t| t.sources("acme", artifact);
        "page: its attestations": read, |t| t.attestations_of_artifact("acme", artifact);
        "search: a digest": read, |t| t.find_artifacts("acme", artifact, artifact);
        "search: an image by its name": read, |t| t.find_images("acme", &moving);
        "search: a pod by its name": read, |t| t.find_pods("acme", &moving);
        "search: images": read, |t| t.find_images("acme", &words);
        "search: pods": read, |t| t.find_pods("acme", &words);
        "search: trails": read, |t| t.find_trails("acme", &words);
        "search: flows": read, |t| t.find_flows("acme", &words);
        "search: commits": read, |t| t.find_built("acme", "0123456");
        "search: trails of commits": read, |t| t.find_trails_of("acme", "0123456");
    }
    all
}

#[tokio::test]
async fn nothing_that_is_asked_goes_through_what_ended_long_ago() {
    let service = Running::start(Database::sqlite()).await;
    let attested = json!({
        "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
        "repo_info": {"name": "acme/cart"},
    });
    service.attest(ADMIN, "cart", "build-7", form(&attested)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("cart-1", "shop/cart:1", 'a')])).await.expect(201);
    let database = service.stop().await;
    let url: DatabaseUrl = database.url().parse().unwrap();
    let mut counted = Vec::new();
    for to in [MUCH, 2 * MUCH] {
        ended(&database, (to - MUCH + 1, to)).await;
        let store = Store::open(&url, Patience::default()).await.unwrap();
        counted.push(steps(&store).await);
        store.close().await;
    }
    let grown: Vec<_> = counted[0]
        .iter()
        .zip(&counted[1])
        .filter(|((_, before), (_, after))| *after > before + before / 20 + 10)
        .map(|((what, before), (_, after))| format!("{what}: from {before} to {after}"))
        .collect();
    assert!(grown.is_empty(), "hundreds of steps, with twice as much that ended: {grown:#?}");
}
