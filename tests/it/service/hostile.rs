//! Bodies and clients that mean no good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use reqwest::Method;
use serde_json::{Value, json};
use supercargo::process::listener::Bounds;
use supercargo::service::{Pace, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::running::{Options, eventually};
use super::{ADMIN, Answer, Database, READER, REPORTER, Running, digest, form, pod, report};

/// Sends bytes as they are to the host of a URL, and reads until the other side closes.
pub async fn raw(url: &str, bytes: &[u8]) -> String {
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// POSTs an attestation to a URL whose path is sent as it stands.
pub async fn raw_post(url: &str, token: &str, data: &Value) -> String {
    let path = url.splitn(4, '/').nth(3).unwrap();
    let body =
        format!("--x\r\nContent-Disposition: form-data; name=\"data_json\"\r\n\r\n{data}\r\n--x--\r\n");
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    raw(url, request.as_bytes()).await
}

const REPORT: &str = "/environments/acme/prod/report/K8S";

async fn a_report_that_is_wrong_is_refused_and_says_where(database: Database) {
    let service = Running::start(database).await;
    let with = |field: &str, value: Value| {
        let mut pod = pod("p", "i", 'a');
        pod[field] = value;
        report(&[super::pod("first", "i", 'a'), pod])
    };
    let good = report(&[pod("p", "i", 'a')]);
    for (body, field, words) in [
        (with("podName", json!("")), "artifacts[1].podName", "1 to 255"),
        (with("podName", json!("x".repeat(256))), "artifacts[1].podName", "1 to 255"),
        (with("podName", json!("a\nb")), "artifacts[1].podName", "control character"),
        (with("namespace", json!(null)), "artifacts[1].namespace", "expected a string"),
        (with("creationTimestamp", json!(-1)), "artifacts[1].creationTimestamp", "1970 and 9999"),
        (
            with("creationTimestamp", json!(253_402_300_800_i64)),
            "artifacts[1].creationTimestamp",
            "1970 and 9999",
        ),
        (with("creationTimestamp", json!(1e300)), "artifacts[1].creationTimestamp", "1970 and 9999"),
        (with("creationTimestamp", json!("2026-01-01")), "artifacts[1].creationTimestamp", "expected f64"),
        (with("digests", json!(null)), "artifacts[1].digests", "object of image names"),
        (with("digests", json!({"i": "abc"})), "artifacts[1].digests.i", "64 lowercase hex"),
        (with("digests", json!({"i": digest('A')})), "artifacts[1].digests.i", "64 lowercase hex"),
        (with("digests", json!({"a\0b": digest('a')})), "artifacts[1].digests.a\\u{0}b", "NUL"),
        (with("owners", json!({})), "artifacts[1].owners", "expected a sequence"),
        (
            with("owners", json!([{"controller": "yes"}])),
            "artifacts[1].owners[0].controller",
            "expected a boolean",
        ),
        (good.replace("K8S", "ECS"), "type", "unknown variant"),
        (
            good.replace("\"podName\":\"p\"", "\"podName\":\"p\",\"podName\":\"q\""),
            "artifacts[0]",
            "duplicate field",
        ),
    ] {
        service.report(REPORTER, "prod", body).await.blames(field, words);
    }
    let twice = format!("{{\"i\":\"{0}\",\"i\":\"{0}\"}}", digest('a'));
    let twice = good.replace(&format!("{{\"i\":\"{}\"}}", digest('a')), &twice);
    service.report(REPORTER, "prod", twice).await.blames("artifacts[0].digests", "there twice");
    for body in
        ["", "{", "[]", "[\"K8S\",[]]", "null", "{}", "\"x\"", "{\"artifacts\":[NaN]}", "{\"artifacts\":[]}x"]
    {
        service.report(REPORTER, "prod", body).await.expect(400);
    }
    // However deep it is: an array is no report, and what is passed over is not even kept.
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for wrong in [deep.clone(), good.replace("\"owners\":[]", &format!("\"owners\":{deep}"))] {
        assert_ne!(wrong, good);
        service.report(REPORTER, "prod", wrong).await.expect(400);
    }
    let mut latin = good.clone().into_bytes();
    let place = latin.windows(3).position(|w| w == b"\"p\"").unwrap();
    latin[place + 1] = 0xe9;
    service.report(REPORTER, "prod", latin).await.expect(400);
    let request = service.request(Method::PUT, REPORTER, REPORT).header("Content-Type", "text/plain");
    Answer::of(request.body(good.clone())).await.expect(415);
    // Nothing of all that was recorded.
    assert_eq!(service.database.rows("SELECT name FROM environments").await, [] as [&str; 0]);
    service.report(REPORTER, "prod", good.clone()).await.expect(201);
    let passed_over = good.replace("\"type\"", &format!("\"x\":{deep},\"type\""));
    service.report(REPORTER, "prod", passed_over).await.expect(200);
}

async fn what_the_public_service_s_reporter_sends_is_taken(database: Database) {
    let service = Running::start(database).await;
    let mut first = pod("p", "i", 'a');
    first["owners"] = json!(null);
    first["creationTimestamp"] = json!(1_790_000_000.0);
    let mut second = pod("q", "i", 'a');
    second.as_object_mut().unwrap().remove("owners");
    second["nodeName"] = json!("node-1");
    let body = json!({"artifacts": [first, second]}).to_string();
    service.report(REPORTER, "prod", body).await.expect(201);
    assert_eq!(service.database.rows("SELECT pod FROM pod_runs ORDER BY pod").await, ["p", "q"]);
}

async fn markup_and_sql_are_text_wherever_they_stand(database: Database) {
    let service = Running::start(database).await;
    let evil = "'; DROP TABLE pod_runs; -- <script>alert(1)</script> \" \\ %s $1 ?1 🚢";
    let mut pod = pod(evil, evil, 'a');
    pod["namespace"] = json!(evil);
    pod["owners"] = json!([{"apiVersion": evil, "kind": evil, "name": evil, "uid": evil}]);
    service.report(ADMIN, "prod", report(&[pod.clone()])).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod])).await.expect(200);
    let data = json!({
        "attestation_name": evil, "description": evil, "origin_url": evil, "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": evil, "failures": 0, "errors": 0, "total": 1}],
        "git_commit_info": {"message": evil, "author": evil, "branch": evil, "url": evil},
        "repo_info": {"name": "acme/<cart>'--", "url": evil, "id": evil, "description": evil},
        "user_data": {evil: evil}, "annotations": {evil: evil}, "external_urls": {evil: evil},
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    assert_eq!(listed["data"][0]["attestation_name"], evil);
    assert_eq!(listed["data"][0]["user_data"][evil], evil);
    let live = service.read("/repos/acme/live-artifacts/acme/%3Ccart%3E'--").await;
    assert_eq!(live["live_artifacts"][0]["artifact_name"], evil);
    let filtered = service.read("/trails/acme?flow_tag=a='%20OR%201=1--").await;
    assert_eq!(filtered["data"], json!([]));
    let kept = service.database.rows("SELECT pod, namespace FROM pod_runs").await;
    assert_eq!(kept, [format!("{evil}|{evil}")]);
}

async fn a_body_over_the_limit_is_413_announced_or_not(database: Database) {
    let service = Running::start(database).await;
    let large = vec![b' '; 65 * 1024 * 1024];
    service.report(REPORTER, "prod", large.clone()).await.expect(413);
    // Without a length, the limit is met while reading.
    let chunks =
        large.chunks(1 << 20).map(|chunk| Ok::<_, std::io::Error>(Frame::data(Bytes::from(chunk.to_vec()))));
    let body = StreamBody::new(futures_util::stream::iter(chunks.collect::<Vec<_>>()));
    service.report(REPORTER, "prod", reqwest::Body::wrap(body)).await.expect(413);
    let policy = Policy { report: 100, ..Policy::default() };
    let database = service.stop().await;
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
    let mut body = report(&[]);
    body.push_str(&" ".repeat(100 - body.len()));
    service.report(REPORTER, "prod", body.clone()).await.expect(201);
    service.report(REPORTER, "prod", body + " ").await.expect(413);
}

async fn a_million_pods_are_over_the_limit_and_a_hundred_thousand_are_kept(database: Database) {
    let service = Running::start(database).await;
    let body = |pods: usize| {
        let pod = |n| {
            format!("{{\"podName\":\"{n}\",\"namespace\":\"n\",\"digests\":{{}},\"creationTimestamp\":1}}")
        };
        format!("{{\"artifacts\":[{}]}}", (0..pods).map(pod).collect::<Vec<_>>().join(","))
    };
    service.report(REPORTER, "prod", body(1_000_000)).await.expect(413);
    service.report(REPORTER, "prod", body(100_000)).await.expect(201);
    service.report(REPORTER, "prod", body(99_999)).await.expect(200);
    let pods = "SELECT CAST(COUNT(*) AS TEXT) FROM pod_runs WHERE ended_at IS NULL";
    assert_eq!(service.database.rows(pods).await, ["99999"]);
}

async fn ten_thousand_images_in_one_pod_are_kept(database: Database) {
    let service = Running::start(database).await;
    let mut pod = pod("p", "i", 'a');
    let digests: serde_json::Map<_, _> =
        (0..10_000).map(|n| (format!("i{n}"), json!(format!("{n:064x}")))).collect();
    pod["digests"] = Value::Object(digests);
    service.report(REPORTER, "prod", report(&[pod])).await.expect(201);
    let artifacts = "SELECT CAST(COUNT(*) AS TEXT) FROM artifact_runs WHERE ended_at IS NULL";
    assert_eq!(service.database.rows(artifacts).await, ["10000"]);
}

async fn a_report_counts_by_what_it_takes_to_record_it(database: Database) {
    // An organization may have half.
    let policy = Policy { inbound_kibibytes: 2 * 1024, ..Policy::default() };
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
    let images = |images: usize| {
        let mut pod = pod("p", "i", 'a');
        let digests = (0..images).map(|n| (format!("i{n}"), json!(format!("{n:064x}"))));
        pod["digests"] = Value::Object(digests.collect());
        report(&[pod])
    };
    let many = images(400);
    assert!(many.len() < 40_000);
    let refused = service.report(REPORTER, "prod", many).await;
    assert_eq!(refused.status, 413);
    assert!(refused.text.contains("too many pods and images"), "{}", refused.text);
    service.report(REPORTER, "prod", images(300)).await.expect(201);
    // What was taken is given back, whatever came of it.
    for n in 301..310 {
        service.report(REPORTER, "prod", images(n)).await.expect(201);
    }
}

async fn headers_take_no_more_than_their_bound(database: Database) {
    let service = Running::start(database).await;
    for (size, status) in [(40_000, 200), (200_000, 431)] {
        let head = format!(
            "GET /api/v2/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {}",
            "a".repeat(size)
        );
        let answer = raw(&service.base, format!("{head}\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{size}: {answer:.100}");
    }
}

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
async fn a_client_that_leaves_while_a_transaction_begins_leaves_none_open() {
    let database = Database::postgres().await;
    let (url, proxying) = slow_to_begin(&database.url()).await;
    let options = Options { database_url: Some(url), ..Options::default() };
    let service = Running::start_with(database, options).await;
    for _ in 0..3 {
        let leaving =
            service.request(Method::GET, READER, "/trails/acme").timeout(Duration::from_millis(200));
        assert!(leaving.send().await.unwrap_err().is_timeout());
    }
    let free = "supercargo_database_connections{state=\"used\"} 0";
    eventually("all is done", async || service.metrics().await.contains(free)).await;
    let open = "SELECT query FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(service.database.rows(open).await, [] as [&str; 0]);
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

async fn a_form_that_never_begins_is_not_searched_again_and_again(database: Database) {
    let service = Running::start(database).await;
    // Nine megabytes before the first boundary, in pieces of a few bytes at their end.
    let path = "/api/v2/attestations/acme/cart/trail/t/junit";
    let host = service.host();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\
         Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9010000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'-'; 9_000_000]).await.unwrap();
    for _ in 0..1_000 {
        stream.write_all(b"0123456789").await.unwrap();
        stream.flush().await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
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

super::on_both!(
    a_report_that_is_wrong_is_refused_and_says_where,
    what_the_public_service_s_reporter_sends_is_taken,
    markup_and_sql_are_text_wherever_they_stand,
    a_body_over_the_limit_is_413_announced_or_not,
    a_million_pods_are_over_the_limit_and_a_hundred_thousand_are_kept,
    ten_thousand_images_in_one_pod_are_kept,
    a_report_counts_by_what_it_takes_to_record_it,
    headers_take_no_more_than_their_bound,
    a_client_that_sends_a_byte_at_a_time_is_timed_out,
    those_who_only_announce_a_body_take_nothing_from_others,
    answers_that_nobody_reads_take_no_more_memory_than_their_bound,
    a_refusal_is_read_even_by_a_client_that_is_still_sending,
    who_may_not_is_told_before_the_body_is_read,
    clients_that_leave_at_any_moment_leave_nothing_broken_behind,
    a_form_that_never_begins_is_not_searched_again_and_again,
    requests_that_break_off_record_nothing_and_harm_nobody,
);
