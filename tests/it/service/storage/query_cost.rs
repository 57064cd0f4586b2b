//! The cost of queries about the present does not grow with ended rows. The tests count the steps of SQLite's
//! virtual machine (<https://sqlite.org/c3ref/progress_handler.html>), which do not depend on the load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Fingerprint, Page, TemplateBody, Timestamp};
use rules::environment_status::ReportedArtifact;
use rules::policy::{Needs, Policy, PolicyVersion};
use serde_json::json;
use store::environments::reports::IfLocked;
use store::flows::FlowFilter;
use store::packages::PackageName;
use store::quotas::Created;
use store::search::{MAX_SCANNED, SearchText};
use store::trails::Filter;
use store::{DatabaseTimeouts, DatabaseUrl, Store, Transaction};

use crate::service::report;
use crate::service::{ADMIN, Database, TestService, digest, form, pod};

/// More rows than a search scans.
const ENDED_ROWS: i64 = MAX_SCANNED + 1_000;

/// Steps of SQLite per call of the progress handler.
const STEPS_PER_CALLBACK: i32 = 100;

/// Inserts rows that ended long ago, numbered from `from` to `to`.
async fn insert_ended_rows(database: &Database, from: i64, to: i64) {
    let n = format!("WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})");
    let (hash, prod) = ("unhex(printf('%064x', i))", "(SELECT id FROM environments)");
    let package = package("i");
    for insert in [
        format!("workloads (organization, hash, digests, owners) {n} SELECT 'acme', {hash}, '{{}}', '[]' FROM n"),
        format!(
            "pod_runs (organization, id, environment, namespace, pod, created_at, workload, reported_by, started_at,
                       ended_at)
             {n} SELECT 'acme', randomblob(16), {prod}, 'shop', 'often', i, {hash}, 'agent', i, i + 1 FROM n"
        ),
        format!(
            "artifact_runs (organization, environment, fingerprint, first_snapshot, last_snapshot, name, pods, namespaces,
                            started_at, ended_at)
             {n} SELECT 'acme', {prod}, {hash}, -i, -i, 'often', 1, '[]', i, i + 1 FROM n"
        ),
        format!(
            "verdicts (organization, environment, fingerprint, from_at, until_at, compliance, is_allowed, reasons)
             {n} SELECT 'acme', {prod}, {hash}, i, i + 1, 'COMPLIANT', FALSE, '[]' FROM n"
        ),
        format!(
            "snapshots (organization, environment, snapshot, received_at, reported_by, report_hash, confirmed_at,
                        superseded_at)
             {n} SELECT 'acme', {prod}, i - 1000000, i, 'agent', {hash}, i, i + 1 FROM n"
        ),
        format!("gaps (organization, environment, from_at, to_at) {n} SELECT 'acme', {prod}, i * 2, i * 2 + 1 FROM n"),
        format!(
            "events (id, organization, environment, kind, occurred_at, content)
             {n} SELECT randomblob(16), 'acme', {prod}, 'ON_SCALED_ARTIFACT', i, '{{}}' FROM n"
        ),
        format!(
            "notifications (organization, id, event, environment, kind, target, created_at, priority, merged_events,
                            due_at, attempts, sent_at)
             {n} SELECT 'acme', randomblob(16), (SELECT id FROM events), {prod}, 'ON_SCALED_ARTIFACT',
                        (SELECT id FROM targets), i, 1, 0, i, 1, i FROM n"
        ),
        format!("audit (id, organization, at, actor, change) {n} SELECT randomblob(16), 'acme', i, 'ci', '' FROM n"),
        format!("attachments (organization, sha256, content, created_at) {n} SELECT 'acme', {hash}, x'00', i FROM n"),
        // A version of the package in each.
        format!("bills (organization, id, sha256, format) {n} SELECT 'acme', substr({hash}, 17), {hash}, '' FROM n"),
        format!(
            "packages (organization, id, purl_type, namespace, name, version, purl)
             {n} SELECT 'acme', {package}, 'npm', '', 'cart', i, '' FROM n"
        ),
        format!("bill_packages (organization, bill, package) {n} SELECT 'acme', substr({hash}, 17), {package} FROM n"),
        format!(
            "provenance (organization, repository, fingerprint, flow, reported_by, recorded_at, priority)
             {n} SELECT 'acme', (SELECT id FROM repositories), {hash}, 'cart', 'ci', i, 0 FROM n"
        ),
        format!(
            "trails (id, organization, flow, name, created_at, last_modified_at, created_by)
             {n} SELECT substr({hash}, 17), 'acme', 'cart', 'gone-' || i, i, i, 'ci' FROM n"
        ),
        format!(
            "attestations (id, organization, flow, trail, name, kind, targets, created_at, reported_by, schema_version,
                           has_verdict, is_compliant, results, description, origin_url, user_data, annotations,
                           external_urls, other_fields)
             {n} SELECT substr({hash}, 17), 'acme', 'cart', substr({hash}, 17), 'unit', 'junit', '[]', i, 'ci', 1, TRUE,
                        TRUE, '[]', '', '', '{{}}', '{{}}', '{{}}', '{{}}' FROM n"
        ),
        format!(
            "image_indexes (id, organization, fingerprint, flow, reported_by, created_at)
             {n} SELECT randomblob(16), 'acme', {hash}, 'cart', 'ci', i FROM n"
        ),
        // The same manifest in the index of each build.
        format!(
            "image_manifests (organization, image_index, fingerprint, platform, flow, created_at, is_recent)
             {n} SELECT 'acme', {hash}, unhex('{}'), 'linux/amd64', 'cart', i, i < 17 FROM n",
            digest('a')
        ),
        format!(
            "attested_artifacts (organization, fingerprint, attestation, trail)
             {n} SELECT 'acme', {hash}, substr({hash}, 17), substr({hash}, 17) FROM n"
        ),
        format!(
            "latest_attestations (organization, fingerprint, flow, name, attestation, created_at, is_compliant, kind, trail)
             {n} SELECT 'acme', {hash}, 'cart', 'unit', substr({hash}, 17), i, TRUE, 'junit', substr({hash}, 17) FROM n"
        ),
        format!(
            "flow_artifacts (organization, flow, fingerprint, created_at, modified_at)
             {n} SELECT 'acme', 'cart', {hash}, i, i FROM n"
        ),
    ] {
        database.execute(&format!("INSERT INTO {insert}")).await;
    }
}

/// The identifier of a version of the package `cart`.
fn package(version: &str) -> String {
    let name = Fingerprint::from_content(b"cart").to_string();
    format!("unhex('{}' || printf('%020x', {version}))", &name[..12])
}

/// Counts the steps from now on.
async fn count_steps(transaction: &mut Transaction) -> Arc<AtomicU64> {
    let steps = Arc::new(AtomicU64::new(0));
    let Transaction::Sqlite(connection) = transaction else { panic!("expected SQLite") };
    // The first statement of a connection also reads the schema.
    sqlx::query("SELECT 1 FROM sqlite_schema LIMIT 1").execute(&mut **connection).await.unwrap();
    let count = Arc::clone(&steps);
    connection.lock_handle().await.unwrap().set_progress_handler(STEPS_PER_CALLBACK, move || {
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    steps
}

/// The steps of each query.
#[expect(clippy::too_many_lines, reason = "one line per query")]
async fn steps(store: &Store) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    let now = Timestamp::from_micros(i64::MAX / 2);
    let artifact = Fingerprint::from_hex(&digest('a')).unwrap();
    let mut writing = store.write().await.unwrap();
    let prod = store::environments::reports::lock(&mut writing.of("acme"), "prod", IfLocked::Wait)
        .await
        .unwrap()
        .unwrap();
    drop(writing);
    let snapshots =
        store::environments::timeline::snapshots(&mut store.read().await.unwrap().of("acme"), prod.id, 1, 1)
            .await
            .unwrap();
    let repository =
        store::artifacts::live::repositories(&mut store.read().await.unwrap().of("acme"), "acme/cart")
            .await
            .unwrap()[0]
            .id;
    macro_rules! count {
        ($($name:literal: $begin:ident, |$tenant:ident| $query:expr;)+) => {$({
            let mut transaction = store.$begin().await.unwrap();
            let steps = count_steps(&mut transaction).await;
            let $tenant = &mut transaction.of("acme");
            let _ = $query.await.unwrap();
            all.push(($name, steps.load(Ordering::Relaxed)));
        })+};
    }
    let started = Timestamp::from_micros(i64::MAX / 4);
    let one = || [artifact].into_iter().collect::<std::collections::BTreeSet<_>>();
    let version = PolicyVersion { name: "rules".to_owned(), version: 1 };
    let policy = Policy::parse(version, RULES).unwrap();
    let needs = Needs::new([&policy]);
    let trail = sqlx::types::Uuid::nil();
    let build = store::trails::writes::stored(&mut store.read().await.unwrap().of("acme"), "cart", "build-7")
        .await
        .unwrap()
        .unwrap()
        .id;
    let everywhere = sqlx::types::Uuid::nil()..=sqlx::types::Uuid::max();
    let is =
        ReportedArtifact { name: "shop/cart:2".to_owned(), pods: 1, namespaces: vec!["shop".to_owned()] };
    let named = || [(artifact, &is)].into_iter().collect();
    let (absent, ended) = (SearchText::new("nowhere"), SearchText::new("often"));
    let cart = PackageName::new("cart");
    let found =
        store::packages::containing(&mut store.read().await.unwrap().of("acme"), None, &cart).await.unwrap();
    assert_eq!(found.packages.values().map(BTreeSet::len).collect::<Vec<_>>(), [1]);
    let of_artifact = Filter { fingerprint: Some(artifact), ..Filter::default() };
    count! {
        "running artifacts with verdicts": read, |t| store::policies::verdicts::running_artifacts(t, prod.id);
        "running pods": read, |t| store::environments::runs::running_pods(t, prod.id);
        "end an artifact": write, |t| store::environments::runs::end_artifacts(t, prod.id, &one(), 1, now);
        "scale an artifact": write, |t| store::environments::runs::change_artifacts(t, prod.id, &named());
        "environments of an attested artifact": read, |t| store::policies::verdicts::governed_artifacts(t, &one(), &everywhere, 10_000);
        "evidence": read, |t| store::policies::evidence::read(t, &one(), &needs);
        "indexes of an artifact": read, |t| store::image_indexes::listed_manifests(t, &one());
        "policies": read, |t| store::policies::of_environment(t, ["prod"]);
        "allow-list": read, |t| store::policies::evidence::allow_lists(t, ["prod"], &one());
        "artifacts of a trail": read, |t| store::policies::evidence::artifacts_of_trail(t, trail, 1_000);
        "environments that are due": read, |t| store::policies::evaluation_queue::due_organizations(t.tx, Timestamp::from_micros(0));
        "live artifacts": read, |t| store::artifacts::live::list(t, repository);
        "commits of live artifacts": read, |t| store::artifacts::live::built(t, repository, one());
        "trails of an artifact": read,
            |t| store::trails::list(t, of_artifact, Page::default(), |_, _| String::new(), now);
        "page: environment": read, |t| store::environments::overview(t, "prod");
        "page: cards": read, |t| store::environments::by_id(t, &[prod.id]);
        "page: totals": read, |t| store::environments::running_totals(t, [prod.id]);
        "page: running pods": read, |t| store::environments::contents::pod_groups(t, prod.id, None, "");
        "page: earlier pods": read, |t| store::environments::contents::pod_groups(t, prod.id, Some(started), "");
        "page: earlier snapshot": read, |t| store::environments::contents::history(t, prod.id, Timestamp::from_micros(5));
        "page: earlier verdicts": read, |t| store::environments::contents::verdicts(t, prod.id, Some(started));
        "page: first snapshot": read, |t| store::environments::timeline::available_snapshots(t, prod.id);
        "page: snapshots": read, |t| store::environments::timeline::snapshots(t, prod.id, 1, 1);
        "page: changes": read, |t| store::environments::timeline::changes(t, prod.id, &snapshots, 10);
        "page: scalings": read, |t| store::environments::timeline::scalings(t, prod.id, 1, 1, 10);
        "page: comparison": read, |t| store::environments::contents::pods(t, prod.id, started);
        "page: names of an artifact": read, |t| store::artifacts::image_names(t, artifact);
        "page: current runs": read, |t| store::artifacts::current_runs(t, artifact);
        "page: past runs": read, |t| store::artifacts::past_runs(t, artifact);
        "page: sources": read, |t| store::provenance::sources(t, artifact);
        "page: attestations of an artifact": read, |t| store::attestations::lists::of_artifact(t, artifact);
        "retention: history": write,
            |t| store::retention::remove_before(t, prod.id, Timestamp::from_micros(0), Timestamp::from_micros(0));
        "retention: workloads": write, |t| store::retention::remove_orphaned_workloads(t, &[artifact]);
        "retention: sweep": read, |t| store::retention::workloads_after(t, None);
        "retention: attachments": read, |t| store::retention::expired_attachments(t, Timestamp::from_micros(0));
        "retention: audit log": write, |t| store::retention::remove_audit(t, Timestamp::from_micros(0), Timestamp::from_micros(0));
        "retention: notifications": write, |t| store::retention::remove_notifications(t, Timestamp::from_micros(0));
        "digests in use": read, |t| store::artifacts::digests::list(t, None, None, 1_000);
        "packages: of what runs": read, |t| store::packages::containing(t, None, &cart);
        "packages: where it runs": read, |t| store::packages::runs(t, None);
        "search: a digest": read, |t| store::search::artifacts(t, artifact, artifact);
        "search: an image by its name": read, |t| store::search::images(t, &ended);
        "search: a pod by its name": read, |t| store::search::pods(t, &ended);
        "search: images": read, |t| store::search::images(t, &absent);
        "search: pods": read, |t| store::search::pods(t, &absent);
        "search: trails": read, |t| store::search::trails(t, &absent, &[]);
        "search: flows": read, |t| store::search::flows(t, &absent);
        "search: commits": read, |t| store::search::artifacts_of_commit(t, "0123456", None);
        "flows": read, |t| store::flows::list(t, FlowFilter::Part(""), Some(Page::default()));
        "number of flows": read, |t| store::flows::count(t, FlowFilter::Name("cart"));
        "artifacts of a flow": read, |t| store::artifacts::flows::of_flow(t, "cart", Page::default());
        "artifacts of a repository": read, |t| store::artifacts::flows::built_from(t, &[repository], Page::default());
        "last deployment of a flow": read, |t| store::artifacts::flows::last_deployment(t, "cart");
        "flows of artifacts": read, |t| store::artifacts::flows::of_artifacts(t, &one(), None);
        "known artifacts": read, |t| store::artifacts::flows::known(t, &one());
        "reports of a trail": read, |t| store::artifacts::reported::of_trail(t, build);
        "attestations of a trail": read, |t| store::attestations::lists::of_trail(t, build);
        "attestations by name": read, |t| store::attestations::details::named_in_trail(t, build, "app.unit");
        "attestations of an artifact by name": read,
            |t| store::attestations::details::named_of_artifact(t, "cart", artifact, "unit");
        "tags of environments": read, |t| store::tags::of_environments(t, None);
        "search: commits in a flow": read, |t| store::search::artifacts_of_commit(t, "0123456", Some("cart"));
        "search: trails of commits": read, |t| store::search::trails_of_commit(t, "0123456");
    }
    all
}

#[tokio::test]
async fn queries_do_not_scan_ended_rows() {
    let service = TestService::start(Database::sqlite()).await;
    let attested = json!({
        "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
        "repo_info": {"name": "acme/cart"},
    });
    service.attest(ADMIN, "cart", "build-7", form(&attested)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("cart-1", "shop/cart:1", 'a')])).await.expect(201);
    let database = service.stop().await;
    let file = format!("X'{}'", digest('f'));
    for statement in [
        format!(
            "INSERT INTO attachments (organization, sha256, content, created_at) VALUES ('acme', {file}, x'00', 1)"
        ),
        format!(
            "INSERT INTO bills (organization, id, sha256, format) VALUES ('acme', substr({file}, 17), {file}, '')"
        ),
        format!(
            "INSERT INTO bill_packages (organization, bill, package) VALUES ('acme', substr({file}, 17), {})",
            package("0")
        ),
        format!("UPDATE latest_attestations SET attachment = substr({file}, 17)"),
    ] {
        database.execute(&statement).await;
    }
    let target = "INSERT INTO targets (id, organization, action, name, kind, content, created_at)
                  VALUES (randomblob(16), 'acme', 1, 'ops', 'WEBHOOK', '{}', 1)";
    database.execute(target).await;
    let url: DatabaseUrl = database.url().parse().unwrap();
    let mut counted = Vec::new();
    for to in [ENDED_ROWS, 2 * ENDED_ROWS] {
        insert_ended_rows(&database, to - ENDED_ROWS + 1, to).await;
        let store = Store::open(&url, DatabaseTimeouts::default()).await.unwrap();
        counted.push(Box::pin(steps(&store)).await);
        store.close().await;
    }
    assert_eq!(grown(&counted), [""; 0], "steps / {STEPS_PER_CALLBACK} with twice as many ended rows");
}

/// The policy of [`steps`] and of [`steps_of_trails`].
const RULES: &str =
    "{_schema: x/v1, artifacts: {trail-compliance: {required: true}, approval: {not_author: true},
                       attestations: [{name: unit, type: junit, min_tests: 1, if: '${{ exists(flow) }}'}]}}";

/// Inserts trails with an attestation and a report of the artifact, superseded attestations and reports of other artifacts
/// in its trail `build-7`, and versions of the template, numbered from `from` to `to`.
async fn insert_trails(database: &Database, from: i64, to: i64) {
    let n = format!("WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})");
    let (own, other) =
        ("substr(unhex(printf('%064x', i)), 17)", "substr(unhex(printf('%064x', 1000000 + i)), 17)");
    let (artifact, trail) = (format!("X'{}'", digest('a')), "(SELECT id FROM trails WHERE name = 'build-7')");
    let attestation = |id: &str, trail: &str, superseded_by: &str| {
        format!(
            "attestations (id, organization, flow, trail, name, kind, targets, created_at, reported_by, schema_version,
                           has_verdict, is_compliant, results, description, origin_url, user_data, annotations,
                           external_urls, other_fields, superseded_by)
             {n} SELECT {id}, 'acme', 'cart', {trail}, 'unit', 'junit', '[]', i, 'ci', 1, TRUE, TRUE, '[]', '', '', '{{}}',
                        '{{}}', '{{}}', '{{}}', {superseded_by} FROM n"
        )
    };
    let content = json!({"fingerprint": digest('a'), "filename": "cart"});
    let report = |id: &str, trail: &str, artifact: &str| {
        format!(
            "reported_artifacts (id, organization, flow, trail, fingerprint, name, template_name, created_at, reported_by,
                                 content)
             {n} SELECT {id}, 'acme', 'cart', {trail}, {artifact}, 'cart', 'app', i, 'ci', '{content}' FROM n"
        )
    };
    let attested = |artifact: &str, attestation: &str, trail: &str| {
        format!(
            "attested_artifacts (organization, fingerprint, attestation, trail)
             {n} SELECT 'acme', {artifact}, {attestation}, {trail} FROM n"
        )
    };
    let another = "unhex(printf('%064x', i))";
    for insert in [
        format!(
            "trails (id, organization, flow, name, created_at, last_modified_at, created_by)
             {n} SELECT {own}, 'acme', 'cart', 'of-' || i, i, i, 'ci' FROM n"
        ),
        attestation(own, own, "NULL"),
        attested(&artifact, own, own),
        report(own, own, &artifact),
        attestation(other, trail, own),
        attested(another, other, trail),
        report(other, trail, another),
        format!(
            "flow_templates (id, organization, flow, version, content, sha256, created_at, closed_at)
             {n} SELECT {own}, 'acme', 'cart', i, '{{}}', {another}, i, i FROM n"
        ),
    ] {
        database.execute(&format!("INSERT INTO {insert}")).await;
    }
    let latest = format!(
        "UPDATE flow_artifacts SET report = substr(unhex(printf('%064x', {to})), 17) WHERE fingerprint = {artifact}"
    );
    database.execute(&latest).await;
}

/// The steps of the queries of an evaluation of the artifact, and of what pages show of its flows.
async fn steps_of_trails(store: &Store) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    let one = || [Fingerprint::from_hex(&digest('a')).unwrap()].into();
    let policy = Policy::parse(PolicyVersion { name: "rules".to_owned(), version: 1 }, RULES).unwrap();
    let needs = Needs::new([&policy]);
    let template: TemplateBody =
        serde_json::from_value(json!({"attestations": [], "artifacts": []})).unwrap();
    let now = Timestamp::from_micros(i64::MAX / 2);
    let trail = store::trails::writes::stored(&mut store.read().await.unwrap().of("acme"), "cart", "build-7")
        .await
        .unwrap()
        .unwrap()
        .id;
    macro_rules! count {
        ($($name:literal: $begin:ident, |$tenant:ident| $query:expr;)+) => {$({
            let mut transaction = store.$begin().await.unwrap();
            let steps = count_steps(&mut transaction).await;
            let $tenant = &mut transaction.of("acme");
            let _ = $query.await.unwrap();
            all.push(($name, steps.load(Ordering::Relaxed)));
        })+};
    }
    count! {
        "evidence": read, |t| store::policies::evidence::read(t, &one(), &needs);
        "compliance of a trail": read, |t| store::trails::compliance::read(t, &[trail].into());
        "known artifacts": read, |t| store::artifacts::flows::known(t, &one());
        "commits of the latest attestations": read, |t| store::artifacts::flows::attested_commits(t, &one());
        "current template": read, |t| store::flows::open_template_id(t, "cart");
        "version of a template": write, |t| store::flows::template_version(t, "cart", &template, now);
    }
    all
}

#[tokio::test]
async fn evaluation_does_not_read_all_trails_and_attestations_of_an_artifact() {
    const TRAILS: i64 = 3_000;
    let service = TestService::start(Database::sqlite()).await;
    let attested = json!({
        "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
        "git_commit_info": {"sha1": "0123456789012345678901234567890123456789", "author": "Kim <kim@example.com>"},
    });
    service.attest(ADMIN, "cart", "build-7", form(&attested)).await.expect(201);
    let database = service.stop().await;
    let url: DatabaseUrl = database.url().parse().unwrap();
    let mut counted = Vec::new();
    for to in [TRAILS, 2 * TRAILS] {
        insert_trails(&database, to - TRAILS + 1, to).await;
        let store = Store::open(&url, DatabaseTimeouts::default()).await.unwrap();
        counted.push(Box::pin(steps_of_trails(&store)).await);
        store.close().await;
    }
    assert_eq!(grown(&counted), [""; 0], "steps / {STEPS_PER_CALLBACK} with twice as many trails");
}

/// The queries that take more steps in the second count.
fn grown(counted: &[Vec<(&'static str, u64)>]) -> Vec<String> {
    let pairs = counted[0].iter().zip(&counted[1]);
    pairs
        .filter(|((_, before), (_, after))| *after > before + before / 20 + 10)
        .map(|((name, before), (_, after))| format!("{name}: from {before} to {after}"))
        .collect()
}

/// PostgreSQL estimates how many rows end after a time, and may read the whole table instead.
#[tokio::test]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn search_on_postgresql_reads_only_the_latest_rows() {
    let service = TestService::start(Database::postgres().await).await;
    service.report(ADMIN, "prod", report(&[pod("cart-1", "shop/cart:1", 'a')])).await.expect(201);
    let database = service.stop().await;
    let (n, prod) = (format!("generate_series(1, {}) i", 10 * MAX_SCANNED), "(SELECT id FROM environments)");
    for insert in [
        format!(
            "pod_runs (organization, id, environment, namespace, pod, created_at, workload, reported_by, started_at,
                       ended_at)
             SELECT 'acme', gen_random_uuid(), {prod}, 'shop', 'often', i, (SELECT hash FROM workloads), 'agent', i, i + 1
             FROM {n}"
        ),
        format!(
            "artifact_runs (organization, environment, fingerprint, first_snapshot, last_snapshot, name, pods, namespaces,
                            started_at, ended_at)
             SELECT 'acme', {prod}, sha256(i::text::bytea), -i, -i, 'often', 1, '[]', i, i + 1 FROM {n}"
        ),
    ] {
        database.execute(&format!("INSERT INTO {insert}")).await;
    }
    database.execute("ANALYZE").await;
    let store = Store::open(&database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let mut transaction = store.read().await.unwrap();
    let absent = SearchText::new("nowhere");
    assert!(store::search::images(&mut transaction.of("acme"), &absent).await.unwrap().listed.is_empty());
    assert!(store::search::pods(&mut transaction.of("acme"), &absent).await.unwrap().listed.is_empty());
    let Transaction::Postgres(connection) = &mut transaction else { panic!("expected PostgreSQL") };
    let read = "SELECT relname::text, COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0)
                FROM pg_stat_xact_user_tables WHERE relname IN ('artifact_runs', 'pod_runs')";
    let read: Vec<(String, i64)> = sqlx::query_as(read).fetch_all(&mut **connection).await.unwrap();
    assert!(read.len() == 2 && read.iter().all(|(_, rows)| *rows <= MAX_SCANNED + 10), "{read:?}");
}

/// A report must not wait for the statistics of the rows that another one just inserted.
#[tokio::test]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn report_on_postgresql_reads_only_its_environment_without_statistics() {
    const ROWS: usize = 20_000;
    let service = TestService::start(Database::postgres().await).await;
    // Statistics of the first rows only.
    service.report(ADMIN, "large", report(&[pod("cart-1", "shop/cart:1", 'a')])).await.expect(201);
    service.report(ADMIN, "small", report(&[pod("cart-1", "shop/cart:1", 'b')])).await.expect(201);
    let database = service.stop().await;
    database.execute("ANALYZE").await;
    let large = "(SELECT id FROM environments WHERE name = 'large')";
    let (n, hash) = (format!("generate_series(1, {ROWS}) i"), "sha256(i::text::bytea)");
    for insert in [
        format!("workloads (organization, hash, digests, owners) SELECT 'acme', {hash}, '{{}}', '[]' FROM {n}"),
        format!(
            "pod_runs (organization, id, environment, namespace, pod, created_at, workload, reported_by, started_at)
             SELECT 'acme', gen_random_uuid(), {large}, 'shop', 'p-' || i, i, {hash}, 'agent', i FROM {n}"
        ),
        format!(
            "artifact_runs (organization, environment, fingerprint, first_snapshot, name, pods, namespaces, started_at)
             SELECT 'acme', {large}, {hash}, 1, 'image', 1, '[]', i FROM {n}"
        ),
        format!(
            "verdicts (organization, environment, fingerprint, from_at, compliance, is_allowed, reasons)
             SELECT 'acme', {large}, {hash}, i, 'COMPLIANT', FALSE, '[]' FROM {n}"
        ),
    ] {
        database.execute(&format!("INSERT INTO {insert}")).await;
    }
    let store = Store::open(&database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let mut transaction = store.write().await.unwrap();
    let tenant = &mut transaction.of("acme");
    let small = store::environments::reports::lock(tenant, "small", IfLocked::Wait).await.unwrap().unwrap();
    let artifacts = [Fingerprint::from_hex(&digest('b')).unwrap()].into();
    assert_eq!(store::policies::verdicts::running_artifacts(tenant, small.id).await.unwrap().len(), 1);
    let pods = store::environments::runs::running_pods(tenant, small.id).await.unwrap();
    let now = Timestamp::from_micros(i64::MAX / 2);
    store::environments::runs::end_artifacts(tenant, small.id, &artifacts, 1, now).await.unwrap();
    let ended: Vec<_> = pods.into_values().collect();
    assert_eq!(ended.len(), 1);
    store::environments::runs::end_pods(tenant, small.id, ended, now).await.unwrap();
    store::environments::contents::pod_groups(tenant, small.id, None, "").await.unwrap();
    let Transaction::Postgres(connection) = &mut transaction else { panic!("expected PostgreSQL") };
    let read = "SELECT relname::text, COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0)
                FROM pg_stat_xact_user_tables
                WHERE relname IN ('artifact_runs', 'pod_runs', 'verdicts', 'workloads')";
    let read: Vec<(String, i64)> = sqlx::query_as(read).fetch_all(&mut **connection).await.unwrap();
    assert!(read.len() == 4 && read.iter().all(|(_, rows)| *rows <= 50), "{read:?}");
}

/// PostgreSQL assumes that organizations and repositories are independent, and expects few artifacts of a repository.
#[tokio::test]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn live_artifacts_on_postgresql_do_not_read_all_artifacts_of_the_repository() {
    const RUNNING: usize = 50;
    let service = TestService::start(Database::postgres().await).await;
    let mut running = pod("cart-1", "shop/cart:1", 'a');
    let digests = (1..=RUNNING).map(|n| (format!("i{n}"), json!(format!("{n:064x}"))));
    running["digests"] = digests.collect();
    service.report(ADMIN, "prod", report(&[running])).await.expect(201);
    let database = service.stop().await;
    for insert in [
        "organizations (name, created_at) SELECT 'other-' || i, 1 FROM generate_series(1, 99) i",
        "repositories (id, organization, provider, name, is_url_of_owner, flow, reported_by, created_at)
         SELECT gen_random_uuid(), name, 'github', 'acme/cart', FALSE, 'cart', 'ci', 1 FROM organizations",
        "provenance (organization, repository, fingerprint, flow, reported_by, recorded_at, priority)
         SELECT organization, id, decode(lpad(to_hex(i), 64, '0'), 'hex'), 'cart', 'ci', i, 0
         FROM repositories, generate_series(1, 2000) i",
    ] {
        database.execute(&format!("INSERT INTO {insert}")).await;
    }
    database.execute("ANALYZE").await;
    let store = Store::open(&database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let mut transaction = store.read().await.unwrap();
    let tenant = &mut transaction.of("acme");
    let repository = store::artifacts::live::repositories(tenant, "acme/cart").await.unwrap()[0].id;
    let live = store::artifacts::live::list(tenant, repository).await.unwrap();
    let artifacts = live.iter().map(|artifact| artifact.fingerprint).collect();
    assert_eq!(store::artifacts::live::built(tenant, repository, artifacts).await.unwrap().len(), RUNNING);
    let Transaction::Postgres(connection) = &mut transaction else { panic!("expected PostgreSQL") };
    let read = "SELECT COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0)
                FROM pg_stat_xact_user_tables WHERE relname = 'provenance'";
    let read: i64 = sqlx::query_scalar(read).fetch_one(&mut **connection).await.unwrap();
    // The first 1,000 are counted, to select the plan.
    assert!(read <= 1_200, "{read}");
}

#[tokio::test]
async fn limit_of_new_environments_reads_no_older_ones() {
    let service = TestService::start(Database::sqlite()).await;
    let database = service.stop().await;
    let token = Fingerprint::from_content(ADMIN.as_bytes());
    let insert = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ENDED_ROWS})
         INSERT INTO environments (id, organization, name, created_at, created_by_token, snapshot)
         SELECT randomblob(16), 'acme', 'old-' || i, i, X'{token}', 1 FROM n"
    );
    database.execute(&insert).await;
    let store = Store::open(&database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let mut transaction = store.read().await.unwrap();
    // The first statement of a connection reads the schema.
    store::environments::overview(&mut transaction.of("acme"), "old-1").await.unwrap().unwrap();
    let steps = count_steps(&mut transaction).await;
    for (since, created) in [(ENDED_ROWS, None), (0, Some(Timestamp::from_micros(ENDED_ROWS)))] {
        let since = Timestamp::from_micros(since);
        assert_eq!(
            store::quotas::nth_created(&mut transaction.of("acme"), Created::Environments, token, since, 1)
                .await
                .unwrap(),
            created
        );
    }
    assert_eq!(steps.load(Ordering::Relaxed), 0);
    drop(transaction);
    store.close().await;
}

/// `.cargo/config.toml` sets these options.
#[tokio::test]
async fn sqlite_takes_no_lock_for_each_allocation_and_page() {
    let options = Database::sqlite().rows("PRAGMA compile_options").await;
    assert!(options.iter().any(|option| option == "DEFAULT_MEMSTATUS=0"), "{options:?}");
    assert!(!options.iter().any(|option| option == "ENABLE_MEMORY_MANAGEMENT"), "{options:?}");
}
