//! Operations that read environments, snapshots and events.

use std::time::Duration;

use serde_json::{Value, json};
use service::Limits;

use crate::service::bootstrap;
use crate::service::report;
use crate::service::{
    ADMIN, ATTESTER, Database, Options, READER, REPORTER, STRANGER, TestService, digest, form, pod,
};

const POLICY: &str =
    "    environments:\n      - {name: prod, policy: {attestations: [{flow: cart, name: unit}]}}\n";

async fn with_policy(database: Database) -> TestService {
    let options = Options { bootstrap: bootstrap(1, POLICY), ..Options::default() };
    TestService::start_with(database, options).await
}

/// Reports pods with these digits, several pods of one artifact if a digit repeats.
async fn run(service: &TestService, environment: &str, digits: &str) {
    let pods: Vec<_> = digits
        .chars()
        .enumerate()
        .map(|(n, digit)| pod(&format!("p-{n}"), &format!("cart:{digit}"), digit))
        .collect();
    let response = service.report(ADMIN, environment, report(&pods)).await;
    assert!(response.status.is_success(), "{response:?}");
}

async fn attest(service: &TestService, digit: char, failures: u32) {
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest(digit),
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
        "git_commit_info": {"sha1": "4".repeat(40)},
        "repo_info": {"name": "acme/cart", "provider": "github", "url": "https://github.com/acme/cart", "id": "1"},
    });
    service.attest(ATTESTER, "cart", "build-1", form(&data)).await.expect(201);
}

/// The numbers of a list of snapshots.
async fn numbers(service: &TestService, query: &str) -> Vec<i64> {
    let listed = service.read(&format!("/snapshots/acme/prod{query}")).await;
    listed.as_array().unwrap().iter().map(|snapshot| snapshot["index"].as_i64().unwrap()).collect()
}

async fn microseconds(service: &TestService, select: &str) -> i64 {
    service.database.rows(&format!("SELECT CAST({select} AS TEXT) FROM environments LIMIT 1")).await[0]
        .parse()
        .unwrap()
}

/// A time as an expression.
fn at(micros: i64) -> String {
    let at = jiff::Timestamp::from_microsecond(micros).unwrap();
    format!("@{at}")
}

async fn snapshot_is_found_by_number_distance_and_time(database: Database) {
    let service = with_policy(database).await;
    attest(&service, 'a', 0).await;
    for digits in ["aa", "ab", "b"] {
        run(&service, "prod", digits).await;
    }
    let received = microseconds(&service, "(SELECT received_at FROM snapshots WHERE snapshot = 2)").await;
    for (expression, number) in [
        ("-1", 3),
        ("-3", 1),
        ("2", 2),
        ("%232", 2),
        ("~0", 3),
        ("~2", 1),
        ("@%7Bnow%7D", 3),
        ("@now", 3),
        (&at(received), 2),
        (&at(received - 1), 1),
    ] {
        let snapshot = service.read(&format!("/snapshots/acme/prod/{expression}")).await;
        assert_eq!(
            (&snapshot["index"], &snapshot["is_latest"]),
            (&json!(number), &json!(number == 3)),
            "{expression}"
        );
        assert_eq!(snapshot["warning"], json!(null), "{expression}");
    }
    let first = service.read("/snapshots/acme/prod/1").await;
    assert_eq!((&first["compliant"], &first["compliance"]), (&json!(true), &json!("COMPLIANT")));
    let [artifact] = first["artifacts"].as_array().unwrap().as_slice() else { panic!("{first}") };
    assert_eq!(artifact["annotation"], json!({"type": "started-compliant", "was": 0, "now": 2}));
    assert_eq!(artifact["creationTimestamp"], json!([1_790_000_000, 1_790_000_000]));
    let pod = json!({"namespace": "shop", "creationTimestamp": 1_790_000_000, "owners": [], "owner": null});
    assert_eq!(artifact["pods"], json!({"p-0": pod, "p-1": pod}));
    assert_eq!(
        [&artifact["name"], &artifact["flow_name"], &artifact["git_commit"]],
        [&json!("cart:a"), &json!("cart"), &json!("4".repeat(40))]
    );
    assert_eq!(artifact["flows"][0]["trail_name"], "build-1");
    let second = service.read("/snapshots/acme/prod/2").await;
    assert_eq!((&second["compliant"], &second["compliance"]), (&json!(false), &json!("NON-COMPLIANT")));
    assert_eq!(second["artifact_compliance_count"], json!({"true": 1, "false": 1, "null": 0}));
    assert_eq!(second["artifacts"][0]["annotation"]["type"], "unchanged");
    assert_eq!(
        second["artifacts"][1]["reasons_for_incompliance"],
        json!(["environment:prod v1: unit of the flow cart is missing"])
    );
    assert_eq!(second["artifacts"][1]["git_commit"], json!(null));

    for (path, status, message) in [
        ("prod/4", 404, "snapshot #4 of environment \"prod\" not found: it has 3 snapshots, #1 to #3"),
        ("prod/~9", 404, "snapshot ~9 of environment \"prod\" not found: it has 3 snapshots, #1 to #3"),
        ("prod/@2020-01-01", 404, "No data: the first report was received at"),
        ("prod/@2999-01-01", 404, "in the future"),
        ("nowhere/-1", 404, "environment nowhere not found"),
        ("prod/%23", 400, ""),
        ("prod/@soon", 400, ""),
    ] {
        let response = service.get(READER, &format!("/snapshots/acme/{path}")).await.expect(status);
        let json = response.json();
        assert!(json["message"].as_str().unwrap().contains(message), "{path}: {json}");
    }
    let empty = service.request(reqwest::Method::PUT, ADMIN, "/environments/acme");
    let empty = empty
        .header("Content-Type", "application/json")
        .body(json!({"name": "new", "type": "K8S", "description": ""}).to_string());
    crate::service::Response::from_request(empty).await.expect(201);
    let response = service.get(READER, "/snapshots/acme/new/-1").await.expect(404);
    assert!(response.text.contains("has no snapshot: it was never reported"), "{response:?}");
    assert_eq!(service.read("/snapshots/acme/new").await, json!([]));
    assert_eq!(service.read("/environments/acme/new/events").await, json!([]));
}

async fn pods_of_one_name_in_two_namespaces_are_both_listed(database: Database) {
    let service = TestService::start(database).await;
    let mut other = pod("p", "cart:a", 'a');
    other["namespace"] = json!("test");
    let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7d9f8b6c5d", "controller": true}]);
    other["owners"] = owners.clone();
    service.report(ADMIN, "prod", report(&[pod("p", "cart:a", 'a'), other])).await.expect(201);
    let snapshot = service.read("/snapshots/acme/prod/-1").await;
    let pods = &snapshot["artifacts"][0]["pods"];
    assert_eq!((&pods["p"]["namespace"], &pods["test/p"]["namespace"]), (&json!("shop"), &json!("test")));
    assert_eq!(pods["test/p"]["owners"], owners);
    assert_eq!(pods["test/p"]["owner"], json!({"kind": "Deployment", "name": "cart", "is_inferred": true}));
    assert_eq!(pods["p"]["owner"], json!(null));
    // Without a policy.
    assert_eq!((&snapshot["compliant"], &snapshot["compliance"]), (&json!(false), &json!("UNKNOWN")));
}

async fn large_snapshot_is_complete(database: Database) {
    let service = TestService::start(database).await;
    let pods: Vec<_> =
        (0..5_000).map(|n| pod(&format!("p-{n}"), "i", if n < 9 { 'a' } else { 'b' })).collect();
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    for (path, pointer) in [
        ("/snapshots/acme/prod/-1", "/artifacts/1/pods"),
        ("/env-diff/acme?snappish1=prod&snappish2=prod", "/not-changed/artifacts/1/pods"),
    ] {
        let response = service.get(READER, path).await.expect(200);
        assert_eq!(response.headers["content-length"], response.text.len().to_string(), "{path}");
        let pods = response.json().pointer(pointer).unwrap().clone();
        assert_eq!(
            pods.as_array().map_or_else(|| pods.as_object().unwrap().len(), Vec::len),
            4_991,
            "{path}"
        );
    }
}

async fn snapshots_are_listed_by_page_and_interval(database: Database) {
    let service = with_policy(database).await;
    for digits in ["a", "b", "c", "d"] {
        run(&service, "prod", digits).await;
    }
    for (query, expected) in [
        ("", &[4, 3, 2, 1][..]),
        ("?page=1&per_page=15&interval=&reverse=false", &[4, 3, 2, 1]),
        ("?reverse=true", &[1, 2, 3, 4]),
        ("?per_page=3&page=2", &[1]),
        ("?per_page=3&page=2&reverse=true", &[4]),
        ("?page=3", &[]),
        ("?interval=2..3", &[3, 2]),
        ("?interval=3..2", &[3, 2]),
        ("?interval=~1..NOW", &[4, 3]),
        ("?interval=~1..", &[4, 3]),
        ("?interval=..2&reverse=true", &[2, 3, 4]),
        ("?interval=2", &[2]),
        ("?interval=9..12", &[]),
    ] {
        assert_eq!(numbers(&service, query).await, expected, "{query}");
    }
    let listed = service.read("/snapshots/acme/prod").await;
    let (latest, first) = (&listed[0], &listed[3]);
    assert_eq!((&latest["to"], &latest["compliance"]), (&json!(0), &json!("NON-COMPLIANT")));
    assert_eq!(
        (&first["compliant"], &first["gaps"], &first["earlier_removed"]),
        (&json!(false), &json!([]), &json!(false))
    );
    assert_eq!(first["to"], listed[2]["from"]);
    for (query, parameter) in
        [("?interval=2..x", "interval"), ("?interval=@2w", "interval"), ("?reverse=1", "reverse")]
    {
        let response = service.get(READER, &format!("/snapshots/acme/prod{query}")).await;
        response.assert_field_error(parameter, "");
    }
}

/// Type, snapshot, artifact and description of each event.
async fn events(service: &TestService, query: &str) -> Vec<String> {
    let listed = service.read(&format!("/environments/acme/prod/events{query}")).await;
    let text = |event: &Value| {
        let [kind, artifact, description] =
            ["type", "artifact_name", "description"].map(|name| event[name].as_str().unwrap());
        format!("{} {kind} {artifact}: {description}", event["snapshot_index"])
    };
    listed.as_array().unwrap().iter().map(text).collect()
}

async fn events_are_listed_by_page_interval_time_and_repository(database: Database) {
    let service = with_policy(database).await;
    attest(&service, 'a', 0).await;
    for digits in ["a", "aaab", "b"] {
        run(&service, "prod", digits).await;
    }
    let all = events(&service, "").await;
    assert_eq!(
        all,
        [
            "3 exited cart:a: 3 instances stopped running (from 3 to 0)",
            "2 environment-non-compliant : the environment became non-compliant: 1 artifact is not compliant",
            "2 changed cart:a: 2 instances started running (from 1 to 3)",
            "2 started-non-compliant cart:b: 1 instance started running (from 0 to 1)",
            "1 environment-compliant : the environment became compliant",
            "1 started-compliant cart:a: 1 instance started running (from 0 to 1)",
        ]
    );
    let mut reversed = events(&service, "?reverse=true").await;
    reversed.reverse();
    assert_eq!(reversed, all);
    for per_page in [1, 2, 4] {
        let mut pages = Vec::new();
        for page in 1..=7 {
            pages.extend(events(&service, &format!("?page={page}&per_page={per_page}")).await);
        }
        assert_eq!(pages, all, "{per_page}");
    }
    let second = microseconds(&service, "(SELECT received_at FROM snapshots WHERE snapshot = 2)").await;
    let micros = format!("{}.{:06}", second / 1_000_000, second % 1_000_000);
    for (query, expected) in [
        ("?interval=2".to_owned(), &all[1..4]),
        ("?interval=1..2".to_owned(), &all[1..]),
        ("?interval=~1..NOW".to_owned(), &all[..4]),
        ("?start=2&end=2".to_owned(), &all[1..4]),
        (format!("?start_ts={micros}"), &all[..4]),
        (format!("?end_ts={micros}"), &all[1..]),
        ("?start=1hour&end=NOW".to_owned(), &all),
        ("?end=1hour".to_owned(), &[]),
        ("?interval=7..9".to_owned(), &[]),
        ("?repo_name=acme%2Fcart&interval=2".to_owned(), &all[2..3]),
    ] {
        assert_eq!(events(&service, &query).await, expected, "{query}");
    }
    let listed = service.read("/environments/acme/prod/events?interval=1").await;
    assert_eq!((&listed[1]["pipeline"], &listed[1]["sha256"]), (&json!("cart"), &json!(digest('a'))));
    for (query, parameter) in
        [("start=9", "start"), ("end=soon", "end"), ("start_ts=-1", "start_ts"), ("end_ts=NaN", "end_ts")]
    {
        let response = service.get(READER, &format!("/environments/acme/prod/events?{query}")).await;
        response.assert_field_error(parameter, "expected");
    }
    service.get(READER, "/environments/acme/prod/events?repo_name=acme/none").await.expect(404);
}

async fn events_of_a_repository_fill_their_pages(database: Database) {
    let service = with_policy(database).await;
    attest(&service, 'a', 0).await;
    for digits in ["a", "ab", "abc", "abcd", "bcd"] {
        run(&service, "prod", digits).await;
    }
    let filtered =
        async |page: u32| events(&service, &format!("?repo_name=acme/cart&per_page=1&page={page}")).await;
    assert_eq!(filtered(1).await, ["5 exited cart:a: 1 instance stopped running (from 1 to 0)"]);
    assert_eq!(filtered(2).await, ["1 started-compliant cart:a: 1 instance started running (from 0 to 1)"]);
    assert_eq!(filtered(3).await, [""; 0]);
}

async fn gaps_silence_and_removed_history_are_said(database: Database) {
    let limits = Limits { silent_after: Duration::from_micros(1), ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    for digits in ["a", "a", "b"] {
        run(&service, "prod", digits).await;
    }
    let gap = microseconds(&service, "(SELECT MIN(from_at) FROM gaps)").await;
    let at_gap = service.read(&format!("/snapshots/acme/prod/{}", at(gap + 1))).await;
    assert!(at_gap["warning"].as_str().unwrap().starts_with("Gap: no reports from"), "{at_gap}");
    assert_eq!(at_gap["compliance"], "UNKNOWN");
    let latest = service.read("/snapshots/acme/prod/-1").await;
    assert!(latest["warning"].as_str().unwrap().starts_with("No reports since"), "{latest}");
    let listed = service.read("/snapshots/acme/prod").await;
    assert_eq!(listed[1]["gaps"].as_array().unwrap().len(), 2, "{listed}");
    assert_ne!(listed[0]["to"], 0, "silent: {listed}");
    for query in ["", "?reverse=true"] {
        let mut all = events(&service, query).await;
        if !query.is_empty() {
            all.reverse();
        }
        let kinds: Vec<_> = all.iter().map(|event| event.split(' ').nth(1).unwrap()).collect();
        let changed = ["exited", "started-non-compliant"];
        assert_eq!(
            kinds,
            [&["silent"][..], &changed, &["gap", "gap", "started-non-compliant"]].concat(),
            "{all:?}"
        );
        let mut pages = Vec::new();
        for page in 1..=4 {
            let query = if query.is_empty() { "?" } else { "?reverse=true&" };
            pages.extend(events(&service, &format!("{query}page={page}&per_page=1")).await);
        }
        let gaps = pages.iter().filter(|event| event.contains(" gap ")).count();
        assert_eq!((pages.len(), gaps), (all.len(), 2), "{pages:?}");
    }
    let diff = service.read("/env-diff/acme?snappish1=prod%231&snappish2=prod").await;
    assert!(diff["snappish2"]["warning"].as_str().unwrap().starts_with("No reports since"), "{diff}");

    // As the retention leaves the rows.
    let second = microseconds(&service, "(SELECT received_at FROM snapshots WHERE snapshot = 2)").await;
    for statement in [
        "DELETE FROM snapshots WHERE snapshot = 1".to_owned(),
        format!("DELETE FROM events WHERE occurred_at < {second}"),
        format!("DELETE FROM gaps WHERE to_at < {second}"),
        format!("UPDATE environments SET horizon_at = {second}"),
    ] {
        service.database.execute(&statement).await;
    }
    assert_eq!(service.read("/snapshots/acme/prod").await[0]["earlier_removed"], true);
    assert!(events(&service, "").await.last().unwrap().contains("removed : events before"));
    for path in ["/snapshots/acme/prod/1", "/snapshots/acme/prod/~1", "/snapshots/acme/prod?interval=1"] {
        let response = service.get(READER, path).await.expect(404);
        assert!(response.text.contains("removed by retention"), "{path}: {response:?}");
    }
}

async fn snapshots_are_compared_within_and_across_environments(database: Database) {
    let service = with_policy(database).await;
    attest(&service, 'b', 0).await;
    run(&service, "prod", "aab").await;
    run(&service, "prod", "bbc").await;
    run(&service, "stage", "bb").await;
    let names = |diff: &Value, part: &str| -> Vec<String> {
        let artifacts = diff[part]["artifacts"].as_array().unwrap();
        artifacts.iter().map(|artifact| artifact["name"].as_str().unwrap().to_owned()).collect()
    };
    let diff = service.read("/env-diff/acme?snappish1=prod~1&snappish2=prod").await;
    assert_eq!(names(&diff, "snappish1"), ["cart:a"]);
    assert_eq!(names(&diff, "snappish2"), ["cart:c"]);
    assert_eq!(names(&diff, "changed"), ["cart:b"]);
    assert_eq!(names(&diff, "not-changed"), [""; 0]);
    assert_eq!(
        (&diff["snappish1"]["snapshot_id"], &diff["snappish2"]["snapshot_id"]),
        (&json!("prod#1"), &json!("prod#2"))
    );
    let changed = &diff["changed"]["artifacts"][0];
    assert_eq!((&changed["s1_instance_count"], &changed["s2_instance_count"]), (&json!(1), &json!(2)));
    assert_eq!(
        (&changed["flow"], &changed["most_recent_timestamp"]),
        (&json!("cart"), &json!(1_790_000_000))
    );
    let gone = &diff["snappish1"]["artifacts"][0];
    assert_eq!((&gone["instance_count"], &gone["pods"]), (&json!(2), &json!(["p-0", "p-1"])));
    let diff = service.read("/env-diff/acme?snappish1=prod%232&snappish2=stage%40%7Bnow%7D").await;
    assert_eq!(
        (names(&diff, "not-changed"), names(&diff, "snappish1")),
        (vec!["cart:b".to_owned()], vec!["cart:c".to_owned()])
    );
    for query in ["snappish1=prod", "snappish1=prod%23x&snappish2=prod", "snappish1=prod&snappish2=a/b"] {
        service.get(READER, &format!("/env-diff/acme?{query}")).await.expect(400);
    }
    service.get(READER, "/env-diff/acme?snappish1=prod&snappish2=nowhere").await.expect(404);
}

async fn environments_are_filtered_sorted_and_paged(database: Database) {
    let service = with_policy(database).await;
    for name in ["Stage", "prod", "alpha"] {
        run(&service, name, "a").await;
    }
    let names = async |query: &str| -> Vec<String> {
        let listed = service.read(&format!("/environments/acme{query}")).await;
        let listed = listed.get("environments").unwrap_or(&listed);
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("", &["Stage", "alpha", "prod"][..]),
        ("?name=STA", &["Stage"]),
        ("?type=K8S&type=ECS", &["Stage", "alpha", "prod"]),
        ("?type=azure-apps", &[]),
        ("?tag=team", &[]),
        ("?space_id=1", &[]),
        ("?sort=name&sort_direction=desc", &["prod", "alpha", "Stage"]),
        ("?sort=last_changed_at", &["Stage", "prod", "alpha"]),
        ("?page=2&per_page=2", &["prod"]),
        ("?page=9", &[]),
    ] {
        assert_eq!(names(query).await, expected, "{query}");
    }
    let page = service.read("/environments/acme?per_page=2").await;
    assert_eq!(
        [&page["page"], &page["per_page"], &page["total_pages"], &page["total_count"]],
        [&json!(1), &json!(2), &json!(2), &json!(3)]
    );
    assert_eq!(service.read("/environments/acme/prod").await["state"], json!(false));
    for (query, parameter) in
        [("type=k8s", "type"), ("sort=age", "sort"), ("sort_direction=up", "sort_direction")]
    {
        let response = service.get(READER, &format!("/environments/acme?{query}")).await;
        response.assert_field_error(parameter, "unknown variant");
    }
}

async fn reading_needs_the_role_and_the_organization(database: Database) {
    let service = with_policy(database).await;
    run(&service, "prod", "a").await;
    run(&service, "stage", "a").await;
    for path in
        ["/environments/acme", "/snapshots/acme/prod", "/environments/acme/prod/events", "/env-diff/acme"]
    {
        service.get(REPORTER, path).await.expect(403);
        service.get(STRANGER, path).await.expect(403);
    }
    service.get(REPORTER, "/snapshots/acme/prod/-1").await.expect(200);
    service.get(REPORTER, "/snapshots/acme/stage/-1").await.expect(403);
    service.get(STRANGER, "/snapshots/acme/prod/-1").await.expect(403);
    service.get(STRANGER, "/snapshots/stranger/prod/-1").await.expect(404);
}

crate::service::on_both! {
    snapshot_is_found_by_number_distance_and_time,
    snapshots_are_listed_by_page_and_interval,
    events_are_listed_by_page_interval_time_and_repository,
    events_of_a_repository_fill_their_pages,
    gaps_silence_and_removed_history_are_said,
    snapshots_are_compared_within_and_across_environments,
    environments_are_filtered_sorted_and_paged,
}

crate::service::on_sqlite! {
    large_snapshot_is_complete,
    pods_of_one_name_in_two_namespaces_are_both_listed,
    reading_needs_the_role_and_the_organization,
}
