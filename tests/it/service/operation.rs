//! Running it: listeners, probes, metrics, the document, and an end in order.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use supercargo::process::listener::Bounds;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::running::{Options, eventually};
use super::{ADMIN, Answer, Database, READER, Running, pod, report};

async fn what_is_not_there_is_json_too(database: Database) {
    let service = Running::start(database).await;
    for path in [
        "/",
        "/api/v2",
        "/api/v2/",
        "/api/v1/trails/acme",
        "/api/v2/trails",
        "/api/v2/trails/acme/x",
        "/api/v2/repos/acme/live-artifacts/",
        "//",
    ] {
        let answer = Answer::of(service.http.get(format!("{}{path}", service.base))).await.expect(404);
        assert!(answer.json()["message"].as_str().unwrap().contains("/api/v2"), "{path}: {answer:?}");
    }
    for (method, path, allowed) in [
        (Method::POST, "/trails/acme", "GET,HEAD"),
        (Method::DELETE, "/environments/acme/prod/report/K8S", "PUT"),
        (Method::GET, "/attestations/acme/cart/trail/t/junit", "POST"),
        (Method::from_bytes(b"BREW").unwrap(), "/trails/acme", "GET,HEAD"),
    ] {
        let answer = Answer::of(service.request(method, ADMIN, path)).await.expect(405);
        assert_eq!(answer.headers["allow"], allowed, "{path}");
        answer.json();
    }
    let encoded = format!("{}/api/v2/trails/%ff", service.base);
    Answer::of(service.http.get(encoded).bearer_auth(READER)).await.expect(400);
}

async fn the_document_describes_the_routes_and_needs_no_token(database: Database) {
    let service = Running::start(database).await;
    let url = format!("{}/api/v2/openapi.json", service.base);
    let document: Value = Answer::of(service.http.get(url)).await.expect(200).json();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| (method.clone(), path.clone()))
        })
        .collect();
    let expected = [
        ("get", "/api/v2/actions/{org}/{action_number}"),
        ("get", "/api/v2/approvals/{org}/{flow_name}/{approval_number}"),
        ("get", "/api/v2/artifacts/{org}/{flow_name}/{fingerprint}/approvals"),
        ("get", "/api/v2/attestations/{org}/{flow_name}"),
        ("get", "/api/v2/organizations/{org}/environments_notifications"),
        ("get", "/api/v2/repos/{org}/live-artifacts/{repo_name}"),
        ("get", "/api/v2/trails/{org}"),
        ("post", "/api/v2/attestations/{org}/{flow_name}/trail/{trail_name}/junit"),
        ("put", "/api/v2/environments/{org}/{env_name}/report/K8S"),
    ];
    assert_eq!(described, expected.map(|(method, path)| (method.to_owned(), path.to_owned())).into());
    // Each path that it describes is one that is served: without a token it says so.
    for (method, path) in described {
        let path = path.replace("{org}", "acme").replace("{flow_name}", "cart").replace("{trail_name}", "t");
        let path = path.replace("{env_name}", "prod").replace("{repo_name}", "cart");
        let path = path.replace("{action_number}", "1").replace("{approval_number}", "1");
        let path = path.replace("{fingerprint}", &super::digest('a'));
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        Answer::of(service.http.request(method, format!("{}{path}", service.base))).await.expect(401);
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            assert_eq!(operation["security"], serde_json::json!([{"token": []}]), "{path}");
        }
    }
}

async fn requests_are_counted_by_route_and_never_by_name(database: Database) {
    let service = Running::start(database).await;
    service.report(ADMIN, "prod", report(&[pod("secret-pod", "i", 'a')])).await.expect(201);
    service.get(READER, "/trails/acme").await.expect(200);
    service.get(READER, "/repos/acme/live-artifacts/acme/secret-repo").await.expect(404);
    Answer::of(service.http.get(format!("{}/secret-path", service.base))).await.expect(404);
    Answer::of(service.request(Method::from_bytes(b"SECRETMETHOD").unwrap(), ADMIN, "/trails/acme"))
        .await
        .expect(405);
    let metrics = service.metrics().await;
    for line in [
        "supercargo_http_requests_total{route=\"/api/v2/environments/{org}/{env_name}/report/K8S\",method=\"PUT\",status=\"201\"} 1",
        "supercargo_http_requests_total{route=\"/api/v2/trails/{org}\",method=\"GET\",status=\"200\"} 1",
        "supercargo_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"} 1",
        "supercargo_http_request_duration_seconds_count{route=\"/api/v2/trails/{org}\"} 2",
        "supercargo_reports_total{outcome=\"snapshot\"} 1",
        "supercargo_database_connections{state=\"idle\"}",
        "supercargo_bootstrap_generation 1",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.to_lowercase().contains("secret"), "{metrics}");
}

async fn probes_tell_life_from_readiness(database: Database) {
    let service = Running::start(database).await;
    let probe = |path: &str| Answer::of(service.http.get(format!("{}{path}", service.admin)));
    for path in ["/livez", "/readyz"] {
        assert_eq!(probe(path).await.expect(200).text, "ok\n");
    }
    let verbose = probe("/readyz?verbose").await.expect(200).text;
    assert_eq!(verbose, "[+]serving ok\n[+]database ok\nreadyz check passed\n");
    assert_eq!(probe("/elsewhere").await.status, 404);
    // The API's listener has none of them.
    Answer::of(service.http.get(format!("{}/metrics", service.base))).await.expect(404);
}

async fn a_database_that_goes_away_is_503_and_not_ready_until_it_is_back(database: Database) {
    let service = Running::start(database).await;
    let probe = |path: &str| Answer::of(service.http.get(format!("{}{path}", service.admin)));
    service.database.set_reachable(false).await;
    for path in ["/trails/acme", "/attestations/acme/cart", "/repos/acme/live-artifacts/acme/cart"] {
        let answer = service.get(READER, path).await.expect(503);
        assert_eq!(answer.headers["retry-after"], "5");
    }
    service.report(ADMIN, "prod", report(&[])).await.expect(503);
    service.attest(ADMIN, "cart", "t", super::form(&serde_json::json!({}))).await.expect(503);
    let unready = probe("/readyz").await;
    assert_eq!(unready.status, 503);
    assert!(unready.text.contains("[-]database failed: it "), "{unready:?}");
    probe("/livez").await.expect(200);
    service.database.set_reachable(true).await;
    eventually("it is ready", async || probe("/readyz").await.status == 200).await;
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
}

async fn a_request_under_way_is_finished_when_the_service_stops(database: Database) {
    let service = Running::start(database).await;
    let stream = TcpStream::connect(service.host()).await.unwrap();
    stops_with_a_report_under_way(service, stream).await;
}

/// A report that is under way on this connection when the service stops is answered, and recorded.
pub async fn stops_with_a_report_under_way(
    service: Running,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) {
    let body = report(&[pod("p", "i", 'a')]);
    let head = format!(
        "PUT /api/v2/environments/acme/prod/report/K8S HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\
         Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // It asks for the body, so it is at work on this request.
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    service.begin_to_stop();
    // Nobody else is let in any more, and it says that it is not ready.
    eventually("nobody is let in", async || TcpStream::connect(service.host()).await.is_err()).await;
    let unready = Answer::of(service.http.get(format!("{}/readyz", service.admin))).await;
    assert!(unready.status == 503 && unready.text.contains("[-]serving failed: the service is stopping"));
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 201"), "{rest}");
    let database = service.stop().await;
    assert_eq!(database.rows("SELECT pod FROM pod_runs").await, ["p"]);
}

async fn a_request_that_never_ends_does_not_hold_up_the_end(database: Database) {
    let bounds = Bounds { drain: Duration::from_millis(50), ..Bounds::default() };
    let service = Running::start_with(database, Options { bounds, ..Options::default() }).await;
    let mut stream = TcpStream::connect(service.host()).await.unwrap();
    let head = format!(
        "PUT /api/v2/environments/acme/prod/report/K8S HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\
         Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 25]).await.unwrap();
    service.stop().await;
}

async fn more_connections_than_there_may_be_wait_for_their_turn(database: Database) {
    // One, since one address has but half of more.
    let bounds = Bounds { connections: 1, ..Bounds::default() };
    let service = Running::start_with(database, Options { bounds, ..Options::default() }).await;
    let host = service.host();
    let request =
        format!("GET /api/v2/trails/acme HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READER}\r\n\r\n");
    let mut first = TcpStream::connect(host).await.unwrap();
    first.write_all(request.as_bytes()).await.unwrap();
    first.read_exact(&mut [0; 12]).await.unwrap();
    let mut second = TcpStream::connect(host).await.unwrap();
    second.write_all(request.as_bytes()).await.unwrap();
    let mut first_byte = [0; 1];
    let waiting = tokio::time::timeout(Duration::from_millis(100), second.read_exact(&mut first_byte)).await;
    assert!(waiting.is_err(), "it was served");
    drop(first);
    second.read_exact(&mut first_byte).await.unwrap();
}

super::on_both!(a_database_that_goes_away_is_503_and_not_ready_until_it_is_back);

super::on_sqlite!(
    what_is_not_there_is_json_too,
    the_document_describes_the_routes_and_needs_no_token,
    requests_are_counted_by_route_and_never_by_name,
    probes_tell_life_from_readiness,
    a_request_under_way_is_finished_when_the_service_stops,
    a_request_that_never_ends_does_not_hold_up_the_end,
    more_connections_than_there_may_be_wait_for_their_turn,
);
