//! The agents of an environment: their list, its page and its command.

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::{ADMIN, Database, READER, REPORTER, Response, STRANGER, TestService, pod};

const AGENT: &str = "supercargo/0.1.0 (agent)";
const A: &str = "0c558854-1f14-4c86-ac4c-3f62f048bad0";
const B: &str = "1c558854-1f14-4c86-ac4c-3f62f048bad0";

const PATH: &str = "/environments/acme/prod/agents";
const PAGE: &str = "/ui/acme/environments/prod/agents";

/// Reports pods of `prod` as an agent does.
async fn send(
    service: &TestService,
    token: &str,
    user_agent: &str,
    cluster: &str,
    pods: &[Value],
    status: u16,
) {
    let request = service.request(Method::PUT, token, "/environments/acme/prod/report/K8S?create=true");
    let request = request.header("Content-Type", "application/json").header("User-Agent", user_agent);
    let request = request.header("Supercargo-Cluster", cluster).body(report(pods));
    Response::from_request(request).await.expect(status);
}

/// The listed agents, without times.
async fn listed(service: &TestService) -> Value {
    let mut agents = service.read(PATH).await;
    for agent in agents.as_array_mut().unwrap() {
        let agent = agent.as_object_mut().unwrap();
        let [first, last] = ["first_reported_at", "last_reported_at"]
            .map(|time| agent.remove(time).unwrap().as_f64().unwrap());
        assert!(1.79e9 < first && first <= last, "{first} {last}");
    }
    agents
}

async fn agents_that_overwrite_each_other_are_listed_and_marked(database: Database) {
    let service = TestService::start(database).await;
    let (ours, theirs) = ([pod("p", "cart:1", 'a'), pod("q", "cart:1", 'a')], [pod("other", "cart:2", 'b')]);
    for status in [201, 200, 200] {
        send(&service, REPORTER, AGENT, A, &ours, status).await;
    }
    let mut agent = json!({
        "name": "reporter", "user_agent": AGENT, "cluster": A, "pods": 2, "is_overwritten": false,
    });
    assert_eq!(listed(&service).await, json!([agent]));
    let last = service.read(PATH).await[0]["last_reported_at"].clone();
    assert_eq!(service.read("/environments/acme/prod").await["last_reported_at"], last);
    let page = Browser::read_page(&service, PAGE).await;
    assert_contains(&page, &["<bdi>reporter</bdi>", &format!("<bdi>{AGENT}</bdi>"), A]);
    assert!(!page.contains("overwrit"), "{page}");

    // An upgrade, with the same report.
    let next = "supercargo/0.2.0 (agent)";
    send(&service, REPORTER, next, A, &ours, 200).await;
    agent["user_agent"] = json!(next);
    assert_eq!(listed(&service).await, json!([agent]));

    // Another token takes over, after a heartbeat.
    send(&service, REPORTER, next, A, &ours, 200).await;
    let last = service.read(PATH).await[0]["last_reported_at"].clone();
    send(&service, ADMIN, "curl/8.0", "not a UID", &theirs, 201).await;
    assert_eq!(service.read(PATH).await[1]["last_reported_at"], last);
    let mut other = json!({
        "name": "admin", "user_agent": "curl/8.0", "cluster": null, "pods": 1, "is_overwritten": false,
    });
    assert_eq!(listed(&service).await, json!([other, agent]));
    // The first agent is still there.
    send(&service, REPORTER, next, A, &ours, 201).await;
    send(&service, REPORTER, next, A, &ours, 200).await;
    send(&service, ADMIN, "curl/8.0", "", &theirs, 201).await;
    for agent in [&mut agent, &mut other] {
        agent["is_overwritten"] = json!(true);
    }
    assert_eq!(listed(&service).await, json!([other, agent]));
    let page = Browser::read_page(&service, PAGE).await;
    let marked = "<bdi>reporter</bdi> <span class=\"badge bad\">overwritten</span>";
    assert_contains(&page, &["Several agents overwrite each other", "<bdi>curl/8.0</bdi>", marked]);
    assert_contains(
        &Browser::read_page(&service, "/ui/acme/environments/prod").await,
        &[&format!("href=\"{PAGE}\"")],
    );
    let printed = service.program(READER, "list agents prod").await;
    let lines: Vec<_> = printed.expect(0, &[]).stdout.lines().collect();
    assert!(lines[0].starts_with("NAME      PROGRAM                   CLUSTER"), "{lines:#?}");
    assert!(
        lines[1].starts_with("admin") && lines[2].contains(A) && lines[2].ends_with("true"),
        "{lines:#?}"
    );
}

async fn token_in_two_clusters_is_two_agents_and_pushes_out_no_other(database: Database) {
    let service = TestService::start(database).await;
    let ours = [pod("p", "cart:1", 'a')];
    for (cluster, status) in [(A, 201), (B, 200), (A, 200)] {
        send(&service, REPORTER, AGENT, cluster, &ours, status).await;
    }
    let agents = listed(&service).await;
    let pairs: Vec<_> =
        agents.as_array().unwrap().iter().map(|it| (&it["cluster"], &it["is_overwritten"])).collect();
    assert_eq!(pairs, [(&json!(A), &json!(true)), (&json!(B), &json!(true))]);
    send(&service, ADMIN, "curl/8.0", "", &ours, 200).await;
    for n in 0..20 {
        send(&service, REPORTER, AGENT, &A.replacen("0c", &format!("{n:02}"), 1), &ours, 200).await;
    }
    let agents = listed(&service).await;
    let agents = agents.as_array().unwrap().iter();
    let clusters: Vec<_> = agents.map(|it| it["cluster"].clone()).collect();
    let latest = (10..20).rev().map(|n| json!(A.replacen("0c", &format!("{n:02}"), 1)));
    assert_eq!(clusters, latest.chain([Value::Null]).collect::<Vec<_>>());
    assert_eq!(service.database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM reporters").await, ["11"]);
}

async fn agents_of_another_organization_are_not_found(database: Database) {
    let service = TestService::start(database).await;
    send(&service, REPORTER, AGENT, A, &[], 201).await;
    let theirs = service.request(Method::PUT, STRANGER, "/environments/stranger/prod/report/K8S?create=true");
    let theirs = theirs.header("Content-Type", "application/json").body(report(&[]));
    Response::from_request(theirs).await.expect(201);
    for (token, path, status) in [
        (READER, "/environments/acme/nowhere/agents", 404),
        (READER, "/environments/acme/prod/agents?page=1", 400),
        (REPORTER, PATH, 403),
        (STRANGER, PATH, 403),
    ] {
        service.get(token, path).await.expect(status);
    }
    for (token, path, name) in
        [(READER, PATH, "reporter"), (STRANGER, "/environments/stranger/prod/agents", "admin")]
    {
        let agents = service.get(token, path).await.expect(200).json();
        assert_eq!((agents.as_array().unwrap().len(), &agents[0]["name"]), (1, &json!(name)));
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    assert_eq!(stranger.get(PAGE).await.status, 404);
}

crate::service::on_both!(
    agents_that_overwrite_each_other_are_listed_and_marked,
    token_in_two_clusters_is_two_agents_and_pushes_out_no_other,
    agents_of_another_organization_are_not_found,
);
