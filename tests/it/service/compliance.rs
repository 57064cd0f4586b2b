//! Verdicts and events: whatever changes what an environment's compliance rests on changes how it stands, and
//! is told once.

use serde_json::{Value, json};
use supercargo::service::Policy;

use super::running::{Options, bootstrap, eventually};
use super::{ADMIN, ATTESTER, Database, REPORTER, Running, digest, form, pod, report};

/// What environments and flows of `acme` declare.
fn declared(generation: i64, prod: &str, approvals: &str) -> String {
    let more = format!(
        "    environments: [{{name: prod, {prod}}}]
    flows: [{{name: cart, approvals: [{approvals}]}}]"
    );
    bootstrap(generation, &more)
}

const UNIT: &str = "policy: {attestations: [{flow: cart, name: unit}]}";

fn options(bootstrap: String) -> Options {
    Options { bootstrap, ..Options::default() }
}

/// Attests the artifact of this digit, from the repository `acme/cart`.
async fn attest(service: &Running, flow: &str, name: &str, digit: char, failures: u32) {
    let data = json!({
        "attestation_name": name, "artifact_fingerprint": digest(digit), "repo_info": {"name": "acme/cart"},
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    service.attest(ADMIN, flow, "t", form(&data)).await.expect(201);
}

/// What happened so far, in order.
async fn events(service: &Running) -> Vec<String> {
    service.database.rows("SELECT kind FROM events ORDER BY occurred_at, id").await
}

/// What happened after the first `seen` events, which it counts on.
async fn since(service: &Running, seen: &mut usize) -> Vec<String> {
    let mut events = events(service).await;
    let new = events.split_off(*seen);
    *seen += new.len();
    new
}

/// The compliance of each live artifact of `acme/cart`.
async fn compliance(service: &Running) -> Vec<String> {
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let artifacts = live["live_artifacts"].as_array().unwrap().iter();
    artifacts.map(|artifact| artifact["compliance"].as_str().unwrap().to_owned()).collect()
}

async fn each_cause_is_told_once_and_shown_at_once(database: Database) {
    let service = Running::start_with(database, options(declared(1, UNIT, ""))).await;
    let mut seen = 0;
    // Another flow's attestation of that name makes it known, and is not the one.
    attest(&service, "web", "unit", 'a', 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(since(&service, &mut seen).await, ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV"]);
    assert_eq!(compliance(&service).await, ["NON-COMPLIANT"]);
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(since(&service, &mut seen).await, ["ON_COMPLIANT_ENV"]);
    assert_eq!(compliance(&service).await, ["COMPLIANT"]);
    // The same report, and what is not required, are told to nobody.
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(200);
    attest(&service, "cart", "lint", 'a', 1).await;
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(since(&service, &mut seen).await, Vec::<String>::new());
    // A later failure counts.
    attest(&service, "cart", "unit", 'a', 1).await;
    assert_eq!(since(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    let allowed = format!("{UNIT}, allowed: [{{artifact: {}, reason: audit, author: kim}}]", digest('a'));
    service.reload(&declared(2, &allowed, "")).await;
    assert_eq!(since(&service, &mut seen).await, ["ON_ALLOWED_ARTIFACT", "ON_COMPLIANT_ENV"]);
    assert_eq!(compliance(&service).await, ["COMPLIANT"]);
    let two = [pod("p", "cart:1", 'a'), pod("q", "cart:1", 'a')];
    service.report(REPORTER, "prod", report(&two)).await.expect(200);
    assert_eq!(since(&service, &mut seen).await, ["ON_SCALED_ARTIFACT"]);
    service.reload(&declared(3, UNIT, "")).await;
    assert_eq!(since(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    service.reload(&declared(4, "silentAfter: 1h", "")).await;
    assert_eq!(since(&service, &mut seen).await, Vec::<String>::new());
    assert_eq!(compliance(&service).await, ["UNKNOWN"]);
    service.reload(&declared(5, UNIT, "")).await;
    assert_eq!(since(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    assert_eq!(since(&service, &mut seen).await, ["ON_EXITED_ARTIFACT", "ON_COMPLIANT_ENV"]);
    // How it stood is kept with each snapshot.
    let kept = "SELECT s.compliance FROM snapshots s ORDER BY s.snapshot";
    assert_eq!(service.database.rows(kept).await, ["NON-COMPLIANT", "COMPLIANT"]);
    let verdicts = "SELECT compliance FROM verdicts ORDER BY from_at";
    let words =
        ["NON-COMPLIANT", "COMPLIANT", "NON-COMPLIANT", "COMPLIANT", "NON-COMPLIANT", "NON-COMPLIANT"];
    assert_eq!(service.database.rows(verdicts).await, words);
}

async fn an_approval_is_for_its_environment_or_for_any(database: Database) {
    let policy = "policy: {approval: true}";
    let approval = |number: i64, place: &str, state: &str| {
        format!(
            "{{number: {number}, artifact: {}, base: {}, name: cart, state: {state}, {place}
              approvals: [{{by: kim, at: 2026-09-01T12:00:00Z}}]}}",
            digest('a'),
            digest('b')
        )
    };
    let (other, pending) = (approval(1, "environment: test,", "APPROVED"), approval(2, "", "PENDING"));
    let both = format!("{other}, {pending}");
    let service = Running::start_with(database, options(declared(1, policy, &both))).await;
    let mut seen = 0;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(since(&service, &mut seen).await, ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV"]);
    service.reload(&declared(2, policy, &format!("{other}, {}", approval(2, "", "APPROVED")))).await;
    assert_eq!(since(&service, &mut seen).await, ["ON_COMPLIANT_ENV"]);
    // Taken out is withdrawn.
    service.reload(&declared(3, policy, &other)).await;
    assert_eq!(since(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    let withdrawn = service.read("/approvals/acme/cart/2").await;
    assert_eq!((&withdrawn["state"], &withdrawn["environment"]), (&json!("UNAPPROVED"), &Value::Null));
    service
        .reload(&declared(4, policy, &format!("{other}, {}", approval(3, "environment: prod,", "APPROVED"))))
        .await;
    assert_eq!(since(&service, &mut seen).await, ["ON_COMPLIANT_ENV"]);
}

async fn an_entry_of_the_allow_list_ends_by_itself(database: Database) {
    const EXPIRE: [&str; 2] = [
        "UPDATE allowances SET expires_at = expires_at - 3600000000",
        "UPDATE environments SET compliant_until = compliant_until - 3600000000",
    ];
    let in_an_hour = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let allowed = format!(
        "{UNIT}, allowed: [{{artifact: {}, reason: r, author: kim, expires: {in_an_hour}}}]",
        digest('a')
    );
    let policy = Policy { expiry_interval: std::time::Duration::from_millis(20), ..Policy::default() };
    let service =
        Running::start_with(database, Options { policy, ..options(declared(1, &allowed, "")) }).await;
    attest(&service, "web", "unit", 'a', 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let before = ["ON_STARTED_ARTIFACT", "ON_ALLOWED_ARTIFACT", "ON_COMPLIANT_ENV"];
    assert_eq!(events(&service).await, before);
    // Moves the expiry back by one hour.
    for statement in EXPIRE {
        service.database.execute(statement).await;
    }
    eventually("its end", async || {
        events(&service).await.last().is_some_and(|event| event == "ON_NON_COMPLIANT_ENV")
    })
    .await;
    assert_eq!(compliance(&service).await, ["NON-COMPLIANT"]);
    assert_eq!(events(&service).await.len(), 4);
}

async fn a_silent_environment_is_never_shown_as_compliant(database: Database) {
    let service = Running::start_with(database, options(declared(1, UNIT, ""))).await;
    attest(&service, "cart", "unit", 'a', 0).await;
    attest(&service, "cart", "unit", 'b', 1).await;
    let pods = [pod("p", "cart:1", 'a'), pod("q", "cart:2", 'b')];
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    assert_eq!(compliance(&service).await, ["COMPLIANT", "NON-COMPLIANT"]);
    service.database.execute("UPDATE environments SET last_report_at = last_report_at - 200000000").await;
    assert_eq!(compliance(&service).await, ["UNKNOWN", "NON-COMPLIANT"]);
}

async fn what_runs_in_many_environments_is_judged_in_each_by_its_own_policy_and_allow_list(
    database: Database,
) {
    const STAND: &str = "SELECT name || ' ' || compliance FROM environments ORDER BY name";
    // Unit tests are required everywhere, a scan in each third, and each fifth allows it whatever was attested.
    let declared = |generation| {
        let environments: Vec<_> = (0..50)
            .map(|n| {
                let scan = if n % 3 == 0 { ", {flow: cart, name: scan}" } else { "" };
                let entry = format!("{{artifact: {}, reason: audit, author: kim}}", digest('a'));
                let allowed = if n % 5 == 0 { entry.as_str() } else { "" };
                let policy = format!("{{attestations: [{{flow: cart, name: unit}}{scan}]}}");
                format!("{{name: e-{n:02}, policy: {policy}, allowed: [{allowed}]}}")
            })
            .collect();
        bootstrap(generation, &format!("    environments: [{}]", environments.join(", ")))
    };
    let service = Running::start_with(database, options(bootstrap(1, ""))).await;
    for n in 0..50 {
        service.report(ADMIN, &format!("e-{n:02}"), report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    }
    let stand = |passes: &dyn Fn(usize) -> bool| -> Vec<String> {
        let word = |n| if passes(n) { "COMPLIANT" } else { "NON-COMPLIANT" };
        (0..50).map(|n| format!("e-{n:02} {}", word(n))).collect()
    };
    service.reload(&declared(2)).await;
    assert_eq!(service.database.rows(STAND).await, stand(&|n| n % 5 == 0));
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(service.database.rows(STAND).await, stand(&|n| n % 5 == 0 || n % 3 != 0));
    attest(&service, "cart", "scan", 'a', 0).await;
    assert_eq!(service.database.rows(STAND).await, stand(&|_| true));
    attest(&service, "cart", "unit", 'a', 1).await;
    assert_eq!(service.database.rows(STAND).await, stand(&|n| n % 5 == 0));
    // One verdict holds for each, and each change was told of the environment that it was in.
    let open = "SELECT COUNT(*) || '' FROM verdicts WHERE until_at IS NULL";
    assert_eq!(service.database.rows(open).await, ["50"]);
    let told = "SELECT e.name || ' ' || COUNT(*) FROM events v JOIN environments e ON e.id = v.environment
                WHERE v.kind IN ('ON_COMPLIANT_ENV', 'ON_NON_COMPLIANT_ENV') GROUP BY e.name ORDER BY e.name";
    let times = |n| if n % 5 == 0 { 1 } else { 3 };
    let expected: Vec<_> = (0..50).map(|n| format!("e-{n:02} {}", times(n))).collect();
    assert_eq!(service.database.rows(told).await, expected);
}

async fn environments_in_which_too_much_runs_to_be_judged_together_are_judged_all_the_same(
    database: Database,
) {
    let declared =
        format!("    environments: [{{name: big, {UNIT}}}, {{name: next, {UNIT}}}, {{name: last, {UNIT}}}]");
    let service = Running::start_with(database, options(bootstrap(1, &declared))).await;
    let mut large = pod("p", "i", 'a');
    let images = (0..10_001).map(|n| (format!("i{n}"), json!(format!("{n:064x}"))));
    large["digests"] = Value::Object(images.chain([("cart:1".to_owned(), json!(digest('a')))]).collect());
    service.report(ADMIN, "big", report(&[large])).await.expect(201);
    for name in ["next", "last"] {
        service.report(ADMIN, name, report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    }
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(compliance(&service).await, ["COMPLIANT"; 3]);
    let standings = "SELECT name || ' ' || compliance FROM environments ORDER BY name";
    let expected = ["big NON-COMPLIANT", "last COMPLIANT", "next COMPLIANT"];
    assert_eq!(service.database.rows(standings).await, expected);
}

async fn a_token_of_one_flow_changes_nothing_of_another_s_verdict(database: Database) {
    let service = Running::start_with(database, options(declared(1, UNIT, ""))).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "all", "total": 1, "failures": 0, "errors": 0}],
    });
    service.attest(ATTESTER, "web", "t", form(&data)).await.expect(403);
    assert_eq!(events(&service).await, ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV"]);
    service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
    assert_eq!(events(&service).await.len(), 3);
}

super::on_both!(
    each_cause_is_told_once_and_shown_at_once,
    an_approval_is_for_its_environment_or_for_any,
    an_entry_of_the_allow_list_ends_by_itself,
    a_silent_environment_is_never_shown_as_compliant,
    environments_in_which_too_much_runs_to_be_judged_together_are_judged_all_the_same,
    what_runs_in_many_environments_is_judged_in_each_by_its_own_policy_and_allow_list,
    a_token_of_one_flow_changes_nothing_of_another_s_verdict,
);
