//! The HTTP server: unknown paths, OpenAPI document, metrics, probes, connection limit and graceful shutdown.

use std::time::Duration;

use reqwest::Method;
use runtime::listener::Bounds;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

#[cfg(target_os = "linux")]
use crate::idle_connections::assert_probe_is_answered_beside_idle_connections;
use crate::service::report;
use crate::service::support::test_service::{Options, eventually};
use crate::service::{ADMIN, Database, READER, Response, TestService, pod};

async fn unknown_path_gets_404_as_json(database: Database) {
    let service = TestService::start(database).await;
    for path in [
        "/",
        "/api/v2",
        "/api/v2/",
        "/api/v1/trails/acme",
        "/api/v2/trails",
        "/api/v2/trails/acme/x/y/z",
        "/api/v2/repos/acme/live-artifacts/",
        "//",
    ] {
        let response =
            Response::from_request(service.http.get(format!("{}{path}", service.base))).await.expect(404);
        assert!(response.json()["message"].as_str().unwrap().contains("/api/v2"), "{path}: {response:?}");
    }
    for (method, path, allowed) in [
        (Method::POST, "/trails/acme", "GET,HEAD"),
        (Method::DELETE, "/environments/acme/prod/report/K8S", "PUT"),
        (Method::DELETE, "/attestations/acme/cart/trail/t/junit", "POST,GET,HEAD"),
        (Method::from_bytes(b"BREW").unwrap(), "/trails/acme", "GET,HEAD"),
    ] {
        let response = Response::from_request(service.request(method, ADMIN, path)).await.expect(405);
        assert_eq!(response.headers["allow"], allowed, "{path}");
        response.json();
    }
    let encoded = format!("{}/api/v2/trails/%ff", service.base);
    Response::from_request(service.http.get(encoded).bearer_auth(READER)).await.expect(400);
}

async fn openapi_document_needs_no_token_and_says_that_operations_do(database: Database) {
    let service = TestService::start(database).await;
    let url = format!("{}/api/v2/openapi.json", service.base);
    let document: Value = Response::from_request(service.http.get(url)).await.expect(200).json();
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            assert_eq!(operation["security"], serde_json::json!([{"token": []}]), "{path}");
        }
    }
}

async fn requests_are_counted_by_route_without_names(database: Database) {
    let service = TestService::start(database).await;
    service.report(ADMIN, "prod", report(&[pod("secret-pod", "i", 'a')])).await.expect(201);
    service.get(READER, "/trails/acme").await.expect(200);
    service.get(READER, "/repos/acme/live-artifacts/acme/secret-repo").await.expect(404);
    Response::from_request(service.http.get(format!("{}/secret-path", service.base))).await.expect(404);
    Response::from_request(service.request(
        Method::from_bytes(b"SECRETMETHOD").unwrap(),
        ADMIN,
        "/trails/acme",
    ))
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

async fn probes_distinguish_liveness_from_readiness(database: Database) {
    let service = TestService::start(database).await;
    let probe = |path: &str| Response::from_request(service.http.get(format!("{}{path}", service.admin)));
    for path in ["/livez", "/readyz"] {
        assert_eq!(probe(path).await.expect(200).text, "ok\n");
    }
    let verbose = probe("/readyz?verbose").await.expect(200).text;
    assert_eq!(verbose, "[+]serving ok\n[+]database ok\n[+]bootstrap ok\nreadyz check passed\n");
    assert_eq!(probe("/elsewhere").await.status, 404);
    // The listener of the API serves no metrics.
    Response::from_request(service.http.get(format!("{}/metrics", service.base))).await.expect(404);
}

async fn unavailable_database_gives_503_and_unready_until_it_recovers(database: Database) {
    let service = TestService::start(database).await;
    let probe = |path: &str| Response::from_request(service.http.get(format!("{}{path}", service.admin)));
    service.database.set_reachable(false).await;
    for path in ["/trails/acme", "/attestations/acme/cart", "/repos/acme/live-artifacts/acme/cart"] {
        let response = service.get(READER, path).await.expect(503);
        assert_eq!(response.headers["retry-after"], "5");
    }
    service.report(ADMIN, "prod", report(&[])).await.expect(503);
    service.attest(ADMIN, "cart", "t", crate::service::form(&serde_json::json!({}))).await.expect(503);
    let unready = probe("/readyz").await;
    assert_eq!(unready.status, 503);
    assert!(unready.text.contains("[-]database failed: "), "{unready:?}");
    probe("/livez").await.expect(200);
    service.database.set_reachable(true).await;
    eventually("the service is ready", async || probe("/readyz").await.status == 200).await;
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
}

async fn request_in_progress_completes_during_shutdown(database: Database) {
    let service = TestService::start(database).await;
    let stream = TcpStream::connect(service.host()).await.unwrap();
    assert_report_completes_during_shutdown(service, stream).await;
}

/// Starts a report on this connection, shuts the service down and expects the report to be recorded.
pub async fn assert_report_completes_during_shutdown(
    service: TestService,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) {
    let body = report(&[pod("p", "i", 'a')]);
    let head = format!(
        "PUT /api/v2/environments/acme/prod/report/K8S?create=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\
         Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The service requests the body, so it handles this request.
    let mut response = [0; 25];
    stream.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 100 Continue\r\n\r\n");
    service.start_shutdown();
    // New connections are rejected and the service is unready.
    eventually("new connections are rejected", async || TcpStream::connect(service.host()).await.is_err())
        .await;
    let unready = Response::from_request(service.http.get(format!("{}/readyz", service.admin))).await;
    assert!(unready.status == 503 && unready.text.contains("[-]serving failed: shutting down"));
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 201"), "{rest}");
    let database = service.stop().await;
    assert_eq!(database.rows("SELECT pod FROM pod_runs").await, ["p"]);
}

async fn stalled_request_does_not_delay_shutdown(database: Database) {
    let bounds = Bounds { drain: Duration::from_millis(50), ..Bounds::default() };
    let service = TestService::start_with(database, Options { bounds, ..Options::default() }).await;
    let mut stream = TcpStream::connect(service.host()).await.unwrap();
    let head = format!(
        "PUT /api/v2/environments/acme/prod/report/K8S HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\
         Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 25]).await.unwrap();
    service.stop().await;
}

#[cfg(target_os = "linux")]
async fn probe_is_answered_beside_idle_connections(database: Database) {
    let service = TestService::start(database).await;
    let admin = service.admin.strip_prefix("http://").unwrap().parse().unwrap();
    assert_probe_is_answered_beside_idle_connections(admin).await;
}

crate::service::on_both!(unavailable_database_gives_503_and_unready_until_it_recovers);

crate::service::on_sqlite!(
    unknown_path_gets_404_as_json,
    openapi_document_needs_no_token_and_says_that_operations_do,
    requests_are_counted_by_route_without_names,
    probes_distinguish_liveness_from_readiness,
    request_in_progress_completes_during_shutdown,
    stalled_request_does_not_delay_shutdown,
    #[cfg(target_os = "linux")]
    probe_is_answered_beside_idle_connections,
);
