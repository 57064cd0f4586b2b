//! Cost of operations and pages over old rows, from none to those of the option `attestations`.
//!
//! One attestation of a hundred belongs to the measured organization, and the others to 999 others. Ten attestations share a
//! trail and an artifact. All ended pods, and the history of artifacts, belong to the measured environment. The requested
//! data is the same for all numbers of rows.

use std::time::Duration;

use super::explain;
use super::policy::FLOW;
use super::results::{Results, interleave, samples};
use super::tenant::{ENVIRONMENT, Operation, TRAIL, Tenant};
use crate::arguments::{has_argument, option};
use crate::cluster::{COMMIT, digest};
use crate::database::{Attestations, Database, Engine, insert_attestations};
use crate::figures::Figures;
use crate::pages::first_attestation;
use crate::server::{Connection, Organization, Server, bearer, get};

const ORGANIZATION: &str = "measured";

/// Attestations in the largest PostgreSQL database by default. The largest SQLite database has a tenth.
const ATTESTATIONS: u64 = 500_000;

/// Organizations with old rows, in addition to the measured one, and flows of each.
const ORGANIZATIONS: u64 = 999;
const FLOWS: u64 = 20;

/// One trail of this many belongs to the measured organization.
const SHARE: u64 = 100;

/// Attestations of a trail.
const PER_TRAIL: u64 = 10;

/// Trails per statement.
const MAX_TRAILS: u64 = 10_000;

/// Requests per operation or page.
const SAMPLES: u64 = 1_000;

/// Age of the first and of the last old attestation.
const OLDEST: Duration = Duration::from_hours(2 * 365 * 24);
const NEWEST: Duration = Duration::from_hours(30 * 24);

/// Further settings: requests for these are measured too.
const FURTHER_SETTINGS: &str = "    actions:
      - number: 1
        name: hook
        environments: [elsewhere]
        triggers: [ON_STARTED_ARTIFACT]
        targets: [{name: hook, type: WEBHOOK, url: {variable: HOOK}, secrets: [{variable: TOKEN_measured}]}]
    flows:
      - name: builds
        approvals:
          - {number: 1, artifact: FIRST, base: SECOND, name: shop, state: PENDING}
";

struct Variant {
    attestations: u64,
    connection: Connection,
    tenant: Tenant,
    /// Labels and heads of the requests.
    requests: Vec<(&'static str, String)>,
    server: Server,
    database: Database,
}

pub(super) fn measure(engine: &Engine, results: &mut Results<'_>) {
    let most = option("attestations").unwrap_or(ATTESTATIONS);
    let most = if matches!(engine, Engine::Sqlite) { most / 10 } else { most };
    let mut variants = [0, most / 100, most].map(|attestations| Variant::new(engine, attestations));
    for variant in &mut variants {
        // The service closed idle connections and sessions.
        variant.connection = variant.server.connect();
        variant.tenant.sign_in(&mut variant.connection);
    }
    for operation in [Operation::Heartbeat, Operation::ChangedReport, Operation::Attestation] {
        let figures = interleave(&mut variants, samples(SAMPLES), |variant, _| {
            variant.tenant.send(&mut variant.connection, operation).milliseconds
        });
        record(results, &variants, operation.label(), &figures);
    }
    for variant in &mut variants {
        variant.requests = requests(&mut variant.connection, &variant.tenant);
    }
    for n in 0..variants[0].requests.len() {
        let figures = interleave(&mut variants, samples(SAMPLES), |variant, _| {
            variant.connection.send(&variant.requests[n].1, &[]).expect(200).milliseconds
        });
        record(results, &variants, variants[0].requests[n].0, &figures);
    }
    if has_argument("explain") {
        explain::print(&variants[2].database, ORGANIZATION);
    }
}

fn record(results: &mut Results<'_>, variants: &[Variant], label: &str, figures: &[Figures]) {
    let (kind, cost) =
        label.split_once("page: ").map_or((" of operations", label), |(_, page)| (" of pages", page));
    for (variant, figures) in variants.iter().zip(figures) {
        results.add_of(kind, variant.attestations, cost, figures);
    }
    results.goal("serve.rows", figures[2].p99 / figures[0].p99, &format!("{label}, p99"));
}

impl Variant {
    fn new(engine: &Engine, attestations: u64) -> Self {
        let further = FURTHER_SETTINGS.replace("FIRST", &digest(1)).replace("SECOND", &digest(2));
        let database = engine.create();
        let server =
            Server::start(&database, &[Organization::new(ORGANIZATION, Tenant::settings() + &further)]);
        let mut connection = server.connect();
        let tenant = Tenant::set_up(&mut connection, ORGANIZATION);
        if attestations > 0 {
            seed_attestations(&database, attestations);
            seed_history(&database, attestations);
            database.maintain();
        }
        Self { attestations, connection, tenant, requests: vec![], server, database }
    }
}

/// Labels and heads of requests for each operation that reads, and each page.
fn requests(connection: &mut Connection, tenant: &Tenant) -> Vec<(&'static str, String)> {
    let api = |path: String| get(&format!("/api/v2/{path}"), &bearer(ORGANIZATION));
    let page = |path: &str| get(&format!("/ui/{ORGANIZATION}{path}"), &tenant.cookie);
    let environment = |more: &str| page(&format!("/environments/{ENVIRONMENT}{more}"));
    let artifact = Tenant::artifact();
    let trail = format!("/ui/{ORGANIZATION}/flows/{FLOW}/trails/{TRAIL}");
    let attestation = first_attestation(connection, &tenant.cookie, &trail);
    let ago = jiff::Timestamp::now() - Duration::from_millis(100);
    vec![
        ("trails", api(format!("trails/{ORGANIZATION}"))),
        ("trails of a flow", api(format!("trails/{ORGANIZATION}?flow={FLOW}"))),
        ("trails of an artifact", api(format!("trails/{ORGANIZATION}?fingerprint={artifact}"))),
        ("attestations of a flow", api(format!("attestations/{ORGANIZATION}/{FLOW}"))),
        ("live artifacts", api(format!("repos/{ORGANIZATION}/live-artifacts/acme/shop"))),
        ("approval", api(format!("approvals/{ORGANIZATION}/{FLOW}/1"))),
        ("approvals of an artifact", api(format!("artifacts/{ORGANIZATION}/{FLOW}/{artifact}/approvals"))),
        ("action", api(format!("actions/{ORGANIZATION}/1"))),
        ("notifications", api(format!("organizations/{ORGANIZATION}/environments_notifications"))),
        ("page: front", page("")),
        ("page: environment", environment("")),
        ("page: environment a moment ago", environment(&format!("?at={ago}"))),
        ("page: timeline", environment("/timeline")),
        ("page: comparison", environment("/compare?from=1&to=2")),
        ("page: artifact", page(&format!("/artifacts/{artifact}"))),
        ("page: trail", get(&trail, &tenant.cookie)),
        ("page: attestation", get(&attestation, &tenant.cookie)),
        ("page: search of a digest", page(&format!("/search?q={artifact}"))),
        ("page: search of a commit", page(&format!("/search?q={}", &COMMIT[..12]))),
        ("page: search of a word", page("/search?q=nowhere")),
        ("page: actions", page("/actions")),
        ("page: action", page("/actions/1")),
    ]
}

/// Inserts old trails with their attestations and artifacts.
fn seed_attestations(database: &Database, attestations: u64) {
    let now = database.micros_ago(Duration::ZERO);
    let others = database.text("other", "i");
    database.run(&format!(
        "{organizations} INSERT INTO organizations (name, created_at) SELECT {others}, {now} FROM n;
         {organizations} INSERT INTO repositories (id, organization, provider, name, created_at)
         SELECT {repository}, {others}, 'github', 'acme/shop', {now} FROM n;
         {flows} INSERT INTO flows (organization, name, created_at)
         SELECT o.name, {flow}, {now} FROM n CROSS JOIN organizations o;",
        organizations = database.numbers(0, ORGANIZATIONS),
        flows = database.numbers(0, FLOWS),
        repository = database.uuid("1 + i"),
        flow = database.text("flow", "i"),
    ));
    let trails = attestations / PER_TRAIL;
    let step = OLDEST.saturating_sub(NEWEST).as_micros() / u128::from(attestations.max(1));
    let past = database.micros_ago(OLDEST);
    let organization = |trail: &str| {
        let other = database.text("other", &format!("({trail}) % {ORGANIZATIONS}"));
        format!("CASE WHEN ({trail}) % {SHARE} = 0 THEN '{ORGANIZATION}' ELSE {other} END")
    };
    let flow = |trail: &str| database.text("flow", &format!("({trail}) / {SHARE} % {FLOWS}"));
    let id = |trail: &str| database.uuid(&format!("1000000000 + {trail}"));
    let artifact = |trail: &str| database.bytes(&format!("1000000000 + {trail}"));
    let repository = |trail: &str| {
        format!("(SELECT r.id FROM repositories r WHERE r.organization = {})", organization(trail))
    };
    let trail = format!("i / {PER_TRAIL}");
    for from in (0..trails).step_by(usize::try_from(MAX_TRAILS).unwrap()) {
        let to = (from + MAX_TRAILS).min(trails);
        let numbers = database.numbers(from, to);
        database.run(&format!(
            "{numbers} INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by,
                                           git_commit_info)
             SELECT {id}, {organization}, {flow}, {name}, {past} + i * {PER_TRAIL} * {step},
                    {past} + i * {PER_TRAIL} * {step}, 'bench', '{{\"sha1\":\"' || {commit} || '\"}}' FROM n;
             {attestations}
             {numbers} INSERT INTO provenance (organization, repository, fingerprint, commit_sha, recorded_at)
             SELECT {organization}, {repository}, {artifact}, {commit}, {past} + i FROM n;",
            id = id("i"),
            organization = organization("i"),
            flow = flow("i"),
            name = database.text("trail", "i"),
            commit = database.hex("i", 40),
            repository = repository("i"),
            artifact = artifact("i"),
            attestations = insert_attestations(
                &database.numbers(from * PER_TRAIL, to * PER_TRAIL),
                &Attestations {
                    organization: &organization(&trail),
                    flow: &flow(&trail),
                    trail: &id(&trail),
                    id: &database.uuid("100000000000 + i"),
                    name: &database.text("check", &format!("i % {PER_TRAIL}")),
                    artifact: &artifact(&trail),
                    at: &format!("{past} + i * {step}"),
                    repository: &repository(&trail),
                },
            ),
        ));
    }
}

/// Inserts the history of the measured environment: a tenth as many pods as attestations, and a tenth of that of artifacts,
/// verdicts, snapshots and events.
fn seed_history(database: &Database, attestations: u64) {
    let past = database.micros_ago(NEWEST);
    let (id, hash) = (database.uuid("200000000000 + i"), database.bytes("2000000000 + i"));
    let environment = format!(
        "(SELECT id FROM environments WHERE organization = '{ORGANIZATION}' AND name = '{ENVIRONMENT}')"
    );
    database.run(&format!(
        "{all} INSERT INTO workloads (organization, hash, digests, owners)
         SELECT '{ORGANIZATION}', {hash}, '{{}}', '[]' FROM n;
         {all} INSERT INTO pod_runs (id, environment, namespace, pod, created_at, workload, started_at, ended_at)
         SELECT {id}, {environment}, 'team-0001', {pod}, i, {hash}, {past} - i - 1, {past} - i FROM n;
         {some} INSERT INTO snapshots (environment, snapshot, received_at, reported_by, report_hash, confirmed_at,
                                       superseded_at)
         SELECT {environment}, -i, {past} - i - 1, 'bench', {hash}, {past} - i, {past} - i FROM n;
         {some} INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, last_snapshot, organization, name,
                                           started_at, ended_at)
         SELECT {environment}, {hash}, -i, -i, '{ORGANIZATION}', 'registry.example.com/acme/image:1.' || i,
                {past} - i - 1, {past} - i FROM n;
         {some} INSERT INTO verdicts (environment, fingerprint, from_at, until_at, compliance, is_allowed, reasons)
         SELECT {environment}, {hash}, {past} - i - 1, {past} - i, 'COMPLIANT', FALSE, '[]' FROM n;
         {some} INSERT INTO events (id, organization, environment, kind, occurred_at, content)
         SELECT {id}, '{ORGANIZATION}', {environment}, 'ON_STARTED_ARTIFACT', {past} - i, '{{}}' FROM n;",
        all = database.numbers(1, attestations / 10 + 1),
        some = database.numbers(1, attestations / 100 + 1),
        pod = database.text("pod", "i"),
    ));
}
