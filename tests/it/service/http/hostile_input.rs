//! Malformed, oversized and hostile requests.

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use service::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::service::report;
use crate::service::support::test_service::Options;
use crate::service::{ADMIN, Database, REPORTER, Response, TestService, digest, form, pod};

/// Sends raw bytes to the host of a URL and reads until the connection is closed.
pub async fn raw(url: &str, bytes: &[u8]) -> String {
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

/// Posts an attestation to a URL without normalizing its path.
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

const REPORT: &str = "/environments/acme/prod/report/K8S?create=true";

async fn invalid_report_is_rejected_with_its_field(database: Database) {
    let service = TestService::start(database).await;
    let with = |field: &str, value: Value| {
        let mut pod = pod("p", "i", 'a');
        pod[field] = value;
        report(&[crate::service::pod("first", "i", 'a'), pod])
    };
    let valid = report(&[pod("p", "i", 'a')]);
    for (body, field, message) in [
        (with("podName", json!("")), "artifacts[1].podName", "1 to 255"),
        (with("podName", json!("x".repeat(256))), "artifacts[1].podName", "1 to 255"),
        (with("podName", json!("a\nb")), "artifacts[1].podName", "control or invisible"),
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
        (valid.replace("K8S", "ECS"), "type", "unknown variant"),
        (
            valid.replace("\"podName\":\"p\"", "\"podName\":\"p\",\"podName\":\"q\""),
            "artifacts[0]",
            "duplicate field",
        ),
    ] {
        service.report(REPORTER, "prod", body).await.assert_field_error(field, message);
    }
    let twice = format!("{{\"i\":\"{0}\",\"i\":\"{0}\"}}", digest('a'));
    let twice = valid.replace(&format!("{{\"i\":\"{}\"}}", digest('a')), &twice);
    service
        .report(REPORTER, "prod", twice)
        .await
        .assert_field_error("artifacts[0].digests", "duplicate image");
    for body in
        ["", "{", "[]", "[\"K8S\",[]]", "null", "{}", "\"x\"", "{\"artifacts\":[NaN]}", "{\"artifacts\":[]}x"]
    {
        service.report(REPORTER, "prod", body).await.expect(400);
    }
    // Deep nesting is rejected in known fields and skipped in unknown ones.
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for invalid in [deep.clone(), valid.replace("\"owners\":[]", &format!("\"owners\":{deep}"))] {
        assert_ne!(invalid, valid);
        service.report(REPORTER, "prod", invalid).await.expect(400);
    }
    let mut latin = valid.clone().into_bytes();
    let position = latin.windows(3).position(|w| w == b"\"p\"").unwrap();
    latin[position + 1] = 0xe9;
    service.report(REPORTER, "prod", latin).await.expect(400);
    let request = service.request(Method::PUT, REPORTER, REPORT).header("Content-Type", "text/plain");
    Response::from_request(request.body(valid.clone())).await.expect(415);
    // No rejected report was recorded.
    assert_eq!(service.database.rows("SELECT name FROM environments").await, [] as [&str; 0]);
    service.report(REPORTER, "prod", valid.clone()).await.expect(201);
    let with_unknown_field = valid.replace("\"type\"", &format!("\"x\":{deep},\"type\""));
    service.report(REPORTER, "prod", with_unknown_field).await.expect(200);
}

async fn report_without_optional_fields_is_accepted(database: Database) {
    let service = TestService::start(database).await;
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

async fn markup_and_sql_in_fields_are_plain_text(database: Database) {
    let service = TestService::start(database).await;
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
    let stored = service.database.rows("SELECT pod, namespace FROM pod_runs").await;
    assert_eq!(stored, [format!("{evil}|{evil}")]);
}

async fn name_with_invisible_characters_is_rejected_by_each_operation(database: Database) {
    const BAD: &str = "pr\u{202e}od";
    const ENCODED: &str = "pr%E2%80%AEod";
    let service = TestService::start(database).await;
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    let request = |method, path: &str| service.request(method, ADMIN, path);
    let json = |method, path: &str, body: Value| {
        request(method, path).header("Content-Type", "application/json").body(body.to_string())
    };
    let attest = |trail: &str, data: Value| {
        let path = format!("/attestations/acme/cart/trail/{trail}/junit");
        request(Method::POST, &path).multipart(form(&data))
    };
    let attestation = |change: Value| {
        let mut data = json!({"attestation_name": "unit", "junit_results": []});
        data.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        data
    };
    let policy = Form::new()
        .text("payload", json!({"name": BAD, "type": "env"}).to_string())
        .part("policy_file", Part::text("_schema: x/v1").file_name("p"));
    let pods = [pod(BAD, "i", 'a')];
    let artifact = json!({"fingerprint": digest('a'), "filename": BAD});
    let approval = json!({"artifact_fingerprint": digest('a'), "environment": BAD});
    for (place, request) in [
        ("environment", json(Method::PUT, &REPORT.replace("prod", ENCODED), json!({"artifacts": []}))),
        ("pod", json(Method::PUT, REPORT, serde_json::from_str(&report(&pods)).unwrap())),
        ("new environment", json(Method::PUT, "/environments/acme", json!({"name": BAD, "type": "K8S"}))),
        ("trail", attest(ENCODED, attestation(json!({})))),
        ("attestation", attest("t", attestation(json!({"attestation_name": BAD})))),
        ("target", attest("t", attestation(json!({"target_artifacts": [BAD]})))),
        ("repository", attest("t", attestation(json!({"repo_info": {"name": BAD}})))),
        ("provider", attest("t", attestation(json!({"repo_info": {"name": "a/b", "provider": BAD}})))),
        ("new trail", request(Method::PUT, "/trails/acme/cart").multipart(form(&json!({"name": BAD})))),
        ("new flow", json(Method::PUT, "/flows/acme", json!({"name": BAD, "description": ""}))),
        ("tag", json(Method::PATCH, "/tags/acme/env/prod", json!({"set_tags": {BAD: "x"}}))),
        ("value of a tag", json(Method::PATCH, "/tags/acme/env/prod", json!({"set_tags": {"x": BAD}}))),
        ("token", json(Method::POST, "/tokens/acme", json!({"name": BAD, "role": "read"}))),
        ("policy", request(Method::PUT, "/policies/acme").multipart(policy)),
        ("environment of an approval", json(Method::POST, "/approvals/acme/cart", approval)),
        ("artifact", json(Method::POST, "/artifacts/acme/cart", artifact)),
    ] {
        let refused = Response::from_request(request).await;
        assert_eq!(refused.status, 400, "{place}: {}", refused.text);
        let says = ["control or invisible characters", "letter or digit"];
        assert!(says.iter().any(|text| refused.text.contains(text)), "{place}: {}", refused.text);
        assert!(!refused.text.contains(BAD), "{place}: {}", refused.text);
    }
    assert_eq!(service.database.rows("SELECT name FROM environments").await, ["prod"]);
    assert_eq!(service.database.rows("SELECT name FROM trails").await, [] as [&str; 0]);
}

async fn body_over_the_limit_gets_413_with_or_without_content_length(database: Database) {
    let service = TestService::start(database).await;
    let large = vec![b' '; 65 * 1024 * 1024];
    service.report(REPORTER, "prod", large.clone()).await.expect(413);
    // Without Content-Length, the limit applies while the body is read.
    let chunks =
        large.chunks(1 << 20).map(|chunk| Ok::<_, std::io::Error>(Frame::data(Bytes::from(chunk.to_vec()))));
    let body = StreamBody::new(futures_util::stream::iter(chunks.collect::<Vec<_>>()));
    service.report(REPORTER, "prod", reqwest::Body::wrap(body)).await.expect(413);
    let limits = Limits { report: 100, ..Limits::default() };
    let database = service.stop().await;
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let mut body = report(&[]);
    body.push_str(&" ".repeat(100 - body.len()));
    service.report(REPORTER, "prod", body.clone()).await.expect(201);
    service.report(REPORTER, "prod", body + " ").await.expect(413);
}

async fn report_of_1000000_pods_gets_413_and_100000_are_accepted(database: Database) {
    let service = TestService::start(database).await;
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

async fn pod_with_10000_images_is_accepted(database: Database) {
    let service = TestService::start(database).await;
    let mut pod = pod("p", "i", 'a');
    let digests: serde_json::Map<_, _> =
        (0..10_000).map(|n| (format!("i{n}"), json!(format!("{n:064x}")))).collect();
    pod["digests"] = Value::Object(digests);
    service.report(REPORTER, "prod", report(&[pod])).await.expect(201);
    let artifacts = "SELECT CAST(COUNT(*) AS TEXT) FROM artifact_runs WHERE ended_at IS NULL";
    assert_eq!(service.database.rows(artifacts).await, ["10000"]);
}

async fn memory_of_a_report_includes_the_cost_of_recording(database: Database) {
    // One organization may use half.
    let limits = Limits { inbound_kibibytes: 2 * 1024, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let images = |images: usize| {
        let mut pod = pod("p", "i", 'a');
        let digests = (0..images).map(|n| (format!("i{n}"), json!(format!("{n:064x}"))));
        pod["digests"] = Value::Object(digests.collect());
        report(&[pod])
    };
    let many = images(400);
    assert!(many.len() < 40_000);
    let rejected = service.report(REPORTER, "prod", many).await;
    assert_eq!(rejected.status, 413);
    assert!(rejected.text.contains("too many pods and images"), "{}", rejected.text);
    service.report(REPORTER, "prod", images(300)).await.expect(201);
    // The memory is released after each outcome.
    for n in 301..310 {
        service.report(REPORTER, "prod", images(n)).await.expect(201);
    }
}

async fn headers_over_the_limit_get_431(database: Database) {
    let service = TestService::start(database).await;
    for (size, status) in [(40_000, 200), (200_000, 431)] {
        let head = format!(
            "GET /api/v2/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {}",
            "a".repeat(size)
        );
        let response = raw(&service.base, format!("{head}\r\n\r\n").as_bytes()).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{size}: {response:.100}");
    }
}

async fn form_without_boundary_is_parsed_in_linear_time(database: Database) {
    let service = TestService::start(database).await;
    // Nine megabytes without a boundary, followed by many small pieces.
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
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

async fn request_without_one_valid_host_gets_400(database: Database) {
    let service = TestService::start(database).await;
    for (version, hosts, status) in [
        ("1.1", "", 400),
        ("1.1", "Host: a\r\nHost: a\r\n", 400),
        ("1.1", "Host: \r\n", 400),
        ("1.1", "Host: a b\r\n", 400),
        ("1.1", "Host: a/b\r\n", 400),
        ("1.1", "Host: user@a\r\n", 400),
        ("1.1", "Host: a:8080\r\n", 200),
        ("1.1", "Host: [::1]:8080\r\n", 200),
        ("1.0", "", 200),
    ] {
        let request = format!("GET /api/v2/openapi.json HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
        let response = raw(&service.base, request.as_bytes()).await;
        assert!(response.starts_with(&format!("HTTP/{version} {status}")), "{hosts:?}: {response}");
        assert_eq!(status == 400, response.contains("expected one valid Host header"), "{hosts:?}");
    }
}

crate::service::on_both!(
    markup_and_sql_in_fields_are_plain_text,
    report_of_1000000_pods_gets_413_and_100000_are_accepted,
    pod_with_10000_images_is_accepted,
);

crate::service::on_sqlite!(
    request_without_one_valid_host_gets_400,
    invalid_report_is_rejected_with_its_field,
    report_without_optional_fields_is_accepted,
    name_with_invisible_characters_is_rejected_by_each_operation,
    body_over_the_limit_gets_413_with_or_without_content_length,
    memory_of_a_report_includes_the_cost_of_recording,
    headers_over_the_limit_get_431,
    form_without_boundary_is_parsed_in_linear_time,
);
