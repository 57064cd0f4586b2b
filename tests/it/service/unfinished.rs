//! Clients that send slowly, read slowly, or leave before they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use supercargo::process::listener::Bounds;
use supercargo::service::{Delivery, Pace, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::running::{Options, eventually};
use super::{ADMIN, Database, READER, REPORTER, Running, form, pod, report};

const REPORT: &str = "/environments/acme/prod/report/K8S";

async fn a_client_that_sends_a_byte_at_a_time_is_timed_out(database: Database) {
    let pace = Pace { grace: Duration::from_millis(300), bytes_per_second: 1024 };
    let bounds = Bounds {
        headers: Duration::from_millis(300),
        linger: Duration::from_millis(100),
        ..Bounds::default()
    };
    let options = Options { policy: Policy { pace, ..Policy::default() }, bounds, ..Options::default() };
    let service = Running::start_with(database, options).await;
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
        let mut answer = [0; 12];
        reading.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 408");
        dripping.abort();
    }
    // Headers that never end are cut off.
    let mut stream = TcpStream::connect(&host).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("200"), "{answer:?}");
    service.get(READER, "/trails/acme").await.expect(200);
}

async fn those_who_only_announce_a_body_take_nothing_from_others(database: Database) {
    // Room for one report at a time, in the half that is for one organization.
    let policy = Policy { inbound_kibibytes: 2 * 1024, ..Policy::default() };
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
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
    // What is received at once is bounded all the same.
    let large = report(&[pod("p", "i", 'a')]) + &" ".repeat(2 * 1024 * 1024);
    service.report(REPORTER, "prod", large).await.expect(503);
    drop(slow);
    service.report(REPORTER, "prod", report(&[pod("q", "i", 'a')])).await.expect(200);
}

async fn answers_that_nobody_reads_take_no_more_memory_than_their_bound(database: Database) {
    const LIST: &str = "/attestations/acme/cart?per_page=500";
    // Room for one such answer, which no socket's buffers hold.
    let policy = Policy { outbound_kibibytes: 16 * 1024, ..Policy::default() };
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
    for _ in 0..200 {
        let unit =
            json!({"attestation_name": "unit", "user_data": {"d": "d".repeat(60_000)}, "junit_results": []});
        service.attest(ADMIN, "cart", "t", form(&unit)).await.expect(201);
    }
    let mut slow = TcpStream::connect(service.base.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!("GET /api/v2{LIST} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n");
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.read_exact(&mut [0; 15]).await.unwrap();
    let refused = service.get(READER, LIST).await;
    assert_eq!(refused.status, 503);
    assert!(refused.text.contains("too many answers wait to be read"), "{}", refused.text);
    // Small ones are in nobody's way, and what is read makes room.
    service.get(READER, "/trails/acme").await.expect(200);
    drop(slow);
    eventually("there is room again", async || service.get(READER, LIST).await.status == 200).await;
}

async fn a_refusal_is_read_even_by_a_client_that_is_still_sending(database: Database) {
    let service = Running::start(database).await;
    for _ in 0..10 {
        let guessed = "guessed-0123456789abcdef0123456";
        service.report(guessed, "prod", vec![b' '; 20 * 1024 * 1024]).await.expect(401);
        service.report(READER, "prod", vec![b' '; 20 * 1024 * 1024]).await.expect(403);
    }
}

async fn who_may_not_is_told_before_the_body_is_read(database: Database) {
    let service = Running::start(database).await;
    for (token, status) in [("guessed-0123456789abcdef0123456", "401"), (READER, "403")] {
        // Not one byte of the body is ever sent.
        let request = format!(
            "PUT /api/v2{REPORT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
        );
        let host = service.host();
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
    }
}

async fn clients_that_leave_at_any_moment_leave_nothing_broken_behind(database: Database) {
    let service = Running::start(database).await;
    let mut leaving = tokio::task::JoinSet::new();
    for n in 0..400_u64 {
        let (http, base) = (service.http.clone(), service.base.clone());
        leaving.spawn(async move {
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
            while leaving.join_next().await.is_some() {}
        }
    }
    while leaving.join_next().await.is_some() {}
    for n in 0..40 {
        service.get(READER, "/trails/acme").await.expect(200);
        let mut pod = pod("p", "i", 'a');
        pod["digests"]["i"] = json!(format!("{:064x}", 1_000_000 + n));
        service.report(REPORTER, "prod", report(&[pod])).await.expect(201);
    }
    let numbers = "SELECT CAST(COUNT(*) - MAX(s.snapshot) AS TEXT) FROM snapshots s";
    assert_eq!(service.database.rows(numbers).await, ["0"]);
}

/// A connection that was given up before its BEGIN was answered once went back to the pool with the
/// transaction open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn client_disconnect_during_begin_leaves_no_open_transaction() {
    let database = Database::postgres().await;
    let (url, proxying) = slow_to_begin(&database.url()).await;
    // No task in the background opens a transaction meanwhile: its BEGIN is as slow, and would look like a leak.
    let hour = Duration::from_hours(1);
    let delivery = Delivery { interval: hour, ..Delivery::default() };
    let policy = Policy { expiry_interval: hour, delivery, ..Policy::default() };
    let options = Options { database_url: Some(url), policy, ..Options::default() };
    let service = Running::start_with(database, options).await;
    // A request may time out before the service reads it, and counts only once it was answered.
    let answered =
        "supercargo_http_requests_total{route=\"/api/v2/trails/{org}\",method=\"GET\",status=\"200\"} ";
    eventually("three requests whose clients left are answered", async || {
        let leaving =
            service.request(Method::GET, READER, "/trails/acme").timeout(Duration::from_millis(200));
        assert!(leaving.send().await.unwrap_err().is_timeout());
        let metrics = service.metrics().await;
        let count = metrics.lines().find_map(|line| line.strip_prefix(answered)?.parse::<u32>().ok());
        count.is_some_and(|count| count >= 3)
    })
    .await;
    let open = "SELECT query FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    let is_closed = async || service.database.rows(open).await.is_empty();
    // A leaked one would be ended by `idle_in_transaction_session_timeout`, after a minute.
    let closed =
        tokio::time::timeout(Duration::from_secs(30), eventually("no transaction is open", is_closed));
    closed.await.expect("a transaction was left open");
    service.stop().await;
    proxying.abort();
}

/// A way to a database on which the answer to each BEGIN takes most of a second.
async fn slow_to_begin(url: &str) -> (String, tokio::task::JoinHandle<()>) {
    // In the clear, so that BEGIN can be seen.
    let mut url: url::Url =
        format!("{url}{}sslmode=disable", if url.contains('?') { '&' } else { '?' }).parse().unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432));
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(proxy.local_addr().unwrap().port())).unwrap();
    let proxying = tokio::spawn(async move {
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
    (url.to_string(), proxying)
}

async fn requests_that_break_off_record_nothing_and_harm_nobody(database: Database) {
    let service = Running::start(database).await;
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
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 2"), "{bytes:?}");
    }
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
}

super::on_both!(clients_that_leave_at_any_moment_leave_nothing_broken_behind);

super::on_sqlite!(
    a_client_that_sends_a_byte_at_a_time_is_timed_out,
    those_who_only_announce_a_body_take_nothing_from_others,
    answers_that_nobody_reads_take_no_more_memory_than_their_bound,
    a_refusal_is_read_even_by_a_client_that_is_still_sending,
    who_may_not_is_told_before_the_body_is_read,
    requests_that_break_off_record_nothing_and_harm_nobody,
);
