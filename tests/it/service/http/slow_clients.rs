//! Clients that send slowly, read slowly, or disconnect early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Method;
use runtime::listener::Bounds;
use serde_json::json;
use service::{Delivery, Limits, Pace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::service::report;
use crate::service::support::test_service::{Options, eventually};
use crate::service::{ADMIN, Database, READER, REPORTER, Response, STRANGER, TestService, form, pod};

const REPORT: &str = "/environments/acme/prod/report/K8S?create=true";

async fn client_that_sends_slowly_is_timed_out(database: Database) {
    let pace = Pace { grace: Duration::from_millis(300), bytes_per_second: 1024 };
    let bounds = Bounds {
        headers: Duration::from_millis(300),
        linger: Duration::from_millis(100),
        ..Bounds::default()
    };
    let options = Options { limits: Limits { pace, ..Limits::default() }, bounds, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let host = service.host().to_owned();
    let attest = "/api/v2/attestations/acme/cart/trail/t/junit";
    for head in [
        format!("PUT /api/v2{REPORT} HTTP/1.1\r\nContent-Type: application/json\r\n"),
        format!("POST {attest} HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"),
    ] {
        let mut stream = TcpStream::connect(&host).await.unwrap();
        let head =
            format!("{head}Host: x\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: 100000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let dripping = tokio::spawn(async move {
            while writing.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let mut response = [0; 12];
        reading.read_exact(&mut response).await.unwrap();
        assert_eq!(&response, b"HTTP/1.1 408");
        dripping.abort();
    }
    // Incomplete headers time out.
    let mut stream = TcpStream::connect(&host).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    assert!(!String::from_utf8_lossy(&response).contains("200"), "{response:?}");
    service.get(READER, "/trails/acme").await.expect(200);
}

async fn announced_bodies_reserve_no_memory(database: Database) {
    // One organization may use half: enough for one report at a time.
    let limits = Limits { inbound_kibibytes: 2 * 1024, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let host = service.host();
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "PUT /api/v2{REPORT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\nExpect: 100-continue\r\n\
             Content-Type: application/json\r\nContent-Length: 60000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 25]).await.unwrap();
        stream.write_all(b"{").await.unwrap();
        slow.push(stream);
    }
    service.report(REPORTER, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    // Received bytes count against the limit.
    let large = report(&[pod("p", "i", 'a')]) + &" ".repeat(2 * 1024 * 1024);
    service.report(REPORTER, "prod", large).await.expect(503);
    drop(slow);
    service.report(REPORTER, "prod", report(&[pod("q", "i", 'a')])).await.expect(200);
}

async fn unread_responses_of_one_organization_use_at_most_half_of_the_memory(database: Database) {
    const LIST: &str = "/attestations/acme/cart?per_page=500";
    // One organization may use half: enough for one such response, which exceeds all socket buffers.
    let limits = Limits { outbound_kibibytes: 1024, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let unit = |n: usize| {
        let user_data = json!({"d": "d".repeat(60_000), "n": n});
        form(&json!({"attestation_name": "unit", "user_data": user_data, "junit_results": []}))
    };
    for n in 0..200 {
        service.attest(ADMIN, "cart", "t", unit(n)).await.expect(201);
    }
    for n in 0..2 {
        let path = "/attestations/stranger/cart/trail/t/junit";
        let request = service.request(Method::POST, STRANGER, path);
        Response::from_request(request.multipart(unit(n))).await.expect(201);
    }
    let mut slow = TcpStream::connect(service.base.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!("GET /api/v2{LIST} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n");
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.read_exact(&mut [0; 15]).await.unwrap();
    let rejected = service.get(READER, LIST).await;
    assert_eq!(rejected.status, 503);
    assert!(rejected.text.contains("too many responses are waiting to be read"), "{}", rejected.text);
    // Large responses of others pass, and small ones. The end of a connection frees its memory.
    service.get(STRANGER, "/attestations/stranger/cart").await.expect(200);
    service.get(READER, "/trails/acme").await.expect(200);
    drop(slow);
    eventually("the memory is free again", async || service.get(READER, LIST).await.status == 200).await;
}

async fn client_that_is_still_sending_receives_the_rejection(database: Database) {
    let service = TestService::start(database).await;
    for _ in 0..10 {
        let guessed = "guessed-0123456789abcdef0123456";
        service.report(guessed, "prod", vec![b' '; 20 * 1024 * 1024]).await.expect(401);
        service.report(READER, "prod", vec![b' '; 20 * 1024 * 1024]).await.expect(403);
    }
}

async fn unauthorized_request_is_rejected_before_its_body_is_read(database: Database) {
    let service = TestService::start(database).await;
    for (token, status) in [("guessed-0123456789abcdef0123456", "401"), (READER, "403")] {
        // No byte of the body is sent.
        let request = format!(
            "PUT /api/v2{REPORT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
        );
        let host = service.host();
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = [0; 12];
        stream.read_exact(&mut response).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&response), format!("HTTP/1.1 {status}"));
    }
}

async fn disconnecting_clients_leave_the_service_consistent(database: Database) {
    // Requests of clients that have left still run, and the others wait for them.
    let limits = Limits { permit_timeout: Duration::from_mins(1), ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let mut requests = tokio::task::JoinSet::new();
    for n in 0..400_u64 {
        let (http, base) = (service.http.clone(), service.base.clone());
        requests.spawn(async move {
            let request = if n % 2 == 0 {
                http.get(format!("{base}/api/v2/trails/acme"))
            } else {
                let mut pod = pod("p", "i", 'a');
                pod["digests"]["i"] = json!(format!("{n:064x}"));
                let put =
                    http.put(format!("{base}/api/v2{REPORT}")).header("Content-Type", "application/json");
                put.body(report(&[pod]))
            };
            let _ = request.bearer_auth(ADMIN).timeout(Duration::from_micros(n * 997 % 9_000)).send().await;
        });
        if n % 16 == 0 {
            while requests.join_next().await.is_some() {}
        }
    }
    while requests.join_next().await.is_some() {}
    for n in 0..40 {
        service.get(READER, "/trails/acme").await.expect(200);
        let mut pod = pod("p", "i", 'a');
        pod["digests"]["i"] = json!(format!("{:064x}", 1_000_000 + n));
        service.report(REPORTER, "prod", report(&[pod])).await.expect(201);
    }
    let numbers = "SELECT CAST(COUNT(*) - MAX(s.snapshot) AS TEXT) FROM snapshots s";
    assert_eq!(service.database.rows(numbers).await, ["0"]);
}

/// Regression test: a connection whose BEGIN was cancelled returned to the pool with an open transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn client_disconnect_during_begin_leaves_no_open_transaction() {
    let database = Database::postgres().await;
    let (url, proxy_task) = proxy_with_slow_begin(&database.direct_url()).await;
    // Background tasks must not open transactions: their slow BEGIN would look like a leak.
    let hour = Duration::from_hours(1);
    let delivery = Delivery { interval: hour, ..Delivery::default() };
    let limits = Limits { evaluation_interval: hour, delivery, ..Limits::default() };
    let options = Options { database_url: Some(url), limits, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    // A request may time out before the service reads it. Only completed requests count.
    let answered =
        "supercargo_http_requests_total{route=\"/api/v2/trails/{org}\",method=\"GET\",status=\"200\"} ";
    eventually("three requests of disconnected clients complete", async || {
        let request =
            service.request(Method::GET, READER, "/trails/acme").timeout(Duration::from_millis(200));
        assert!(request.send().await.unwrap_err().is_timeout());
        let metrics = service.metrics().await;
        let count = metrics.lines().find_map(|line| line.strip_prefix(answered)?.parse::<u32>().ok());
        count.is_some_and(|count| count >= 3)
    })
    .await;
    let open = "SELECT query FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    let is_closed = async || service.database.rows(open).await.is_empty();
    // `idle_in_transaction_session_timeout` would end a leaked transaction after a minute.
    let closed =
        tokio::time::timeout(Duration::from_secs(30), eventually("no transaction is open", is_closed));
    closed.await.expect("a transaction was left open");
    service.stop().await;
    proxy_task.abort();
}

/// A proxy to the database that delays the response to each BEGIN by 600 ms.
async fn proxy_with_slow_begin(url: &str) -> (String, tokio::task::JoinHandle<()>) {
    // Without TLS, so that the proxy can detect BEGIN.
    let mut url: url::Url =
        format!("{url}{}sslmode=disable", if url.contains('?') { '&' } else { '?' }).parse().unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432));
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(proxy.local_addr().unwrap().port())).unwrap();
    let proxy_task = tokio::spawn(async move {
        while let Ok((near, _)) = proxy.accept().await {
            let far = TcpStream::connect(&server).await.unwrap();
            let ((mut from_near, mut to_near), (mut from_far, mut to_far)) =
                (near.into_split(), far.into_split());
            let begins = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&begins);
            tokio::spawn(async move {
                let mut part = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = from_near.read(&mut part).await {
                    seen.fetch_or(part[..read].windows(5).any(|word| word == b"BEGIN"), Ordering::SeqCst);
                    to_far.write_all(&part[..read]).await.unwrap();
                }
            });
            tokio::spawn(async move {
                let mut part = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = from_far.read(&mut part).await {
                    if begins.swap(false, Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(600)).await;
                    }
                    if to_near.write_all(&part[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url.to_string(), proxy_task)
}

async fn aborted_requests_record_nothing(database: Database) {
    let service = TestService::start(database).await;
    let host = service.host();
    for length in [0, 10, 1_000] {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "PUT /api/v2{REPORT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\
             Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{}",
            " ".repeat(length)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        drop(stream);
    }
    for bytes in [&b"\0\0\0\0"[..], b"GET", b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        assert!(!String::from_utf8_lossy(&response).starts_with("HTTP/1.1 2"), "{bytes:?}");
    }
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
}

crate::service::on_both!(disconnecting_clients_leave_the_service_consistent);

crate::service::on_sqlite!(
    client_that_sends_slowly_is_timed_out,
    announced_bodies_reserve_no_memory,
    unread_responses_of_one_organization_use_at_most_half_of_the_memory,
    client_that_is_still_sending_receives_the_rejection,
    unauthorized_request_is_rejected_before_its_body_is_read,
    aborted_requests_record_nothing,
);
