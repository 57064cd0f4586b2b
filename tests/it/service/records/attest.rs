//! Operation 5: JUnit attestations.

use model::Fingerprint;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use service::Limits;
use sqlx::{Connection, PgConnection};

use crate::service::report;
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, ATTESTER, Database, READER, Response, TestService, digest, form, pod};

fn passing(name: &str) -> Value {
    json!({"attestation_name": name, "junit_results": [{"failures": 0, "errors": 0, "total": 1}]})
}

/// An attestation with every field of the interface.
fn complete() -> Value {
    json!({
        "attestation_name": "unit",
        "junit_results": [{"name": "suite", "failures": 0, "errors": 0, "skipped": 1, "total": 9,
                           "duration": 1.25, "timestamp": 1_790_000_000.5}],
        "origin_url": "https://ci.example.com/1",
        "description": "all of them",
        "artifact_fingerprint": digest('a'),
        "target_artifacts": [digest('b'), "image"],
        "git_commit_info": {"sha1": "c".repeat(40), "message": "m", "author": "A <a@example.com>",
                            "author_username": "a", "branch": "main", "timestamp": 1_789_999_999,
                            "url": null, "parents": ["d".repeat(40)]},
        "repo_info": {"name": "acme/cart", "url": "https://u:s3cret@github.com/acme/cart.git", "id": "7",
                      "description": "The cart"},
        "external_urls": {"ticket": "https://example.com/T-1"},
        "annotations": {"k": "v"},
        "user_data": {"deep": [{"er": null}], "a": 1.5},
    })
}

async fn attestation_is_listed_and_included_in_its_trail(database: Database) {
    let service = TestService::start(database).await;
    let response = service.attest(ATTESTER, "cart", "t-1", form(&complete())).await.expect(201);
    assert_eq!(response.text, "\"Creation Success\"");
    let listed = service.read("/attestations/acme/cart").await;
    let attestation = &listed["data"][0];
    assert_eq!(attestation["attestation_name"], "unit");
    assert_eq!(attestation["attestation_type"], "junit");
    assert_eq!(attestation["is_compliant"], true);
    assert_eq!(attestation["has_audit_package"], false);
    assert_eq!(attestation["reported_by"], "attester");
    assert_eq!(attestation["schema_version"], 1);
    assert_eq!(attestation["user_data"], complete()["user_data"]);
    for field in ["origin_url", "description"] {
        assert_eq!(attestation[field], complete()[field]);
    }
    let trail = &service.read("/trails/acme").await["data"][0];
    assert_eq!(trail["name"], "t-1");
    assert_eq!(trail["created_by"], "attester");
    assert_eq!(trail["flow"], json!({"name": "cart", "tags": {}}));
    let commit = json!({"sha1": "c".repeat(40), "message": "m", "author": "A <a@example.com>",
                        "branch": "main", "timestamp": 1_789_999_999});
    assert_eq!(trail["git_commit_info"], commit);
    assert_eq!(trail["repo_ids"].as_array().unwrap().len(), 1);
    let status = &trail["compliance_status"]["artifacts_statuses"]["image"]["attestations_statuses"][0];
    assert_eq!(status["attestation_id"], attestation["attestation_id"]);
    // Credentials in the URL of the remote are removed.
    let stored = service.database.rows("SELECT url FROM repositories").await;
    assert_eq!(stored, ["https://github.com/acme/cart.git"]);
    // Both artifacts are linked to the repository and the commit.
    service.report(ADMIN, "prod", report(&[pod("p", "i", 'a'), pod("q", "j", 'b')])).await.expect(201);
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let url = format!("https://github.com/acme/cart/commit/{}", "c".repeat(40));
    for artifact in live["_embedded"]["artifacts"].as_array().unwrap() {
        assert_eq!(artifact["commit_sha"], "c".repeat(40));
        assert_eq!(artifact["commit_url"], url);
    }
    assert_eq!(live["live_artifacts"].as_array().unwrap().len(), 2);
}

async fn latest_attestation_of_a_name_counts_and_earlier_ones_stay(database: Database) {
    let service = TestService::start(database).await;
    let mut failing = passing("unit");
    failing["junit_results"][0]["failures"] = json!(1);
    // An attestation of which no test ran.
    let mut skipped = passing("unit");
    skipped["junit_results"][0]["skipped"] = json!(1);
    let mut compliant = Vec::new();
    for data in [&passing("unit"), &skipped, &failing, &passing("unit"), &passing("lint"), &failing] {
        service.attest(ATTESTER, "cart", "t", form(data)).await.expect(201);
        let trail = &service.read("/trails/acme").await["data"][0];
        compliant.push(trail["is_compliant"].as_bool().unwrap());
    }
    assert_eq!(compliant, [true, false, false, true, true, false]);
    let listed = service.read("/attestations/acme/cart").await;
    assert_eq!(listed["pagination"]["total"], 6);
    let trail = &service.read("/trails/acme").await["data"][0];
    let statuses = trail["compliance_status"]["attestations_statuses"].as_array().unwrap();
    assert_eq!(statuses.len(), 2);
    let unit = statuses.iter().find(|status| status["attestation_name"] == "unit").unwrap();
    assert_eq!(unit["attestation_id"], listed["data"][0]["attestation_id"]);
    assert_eq!(unit["overridden_attestation_id"], listed["data"][2]["attestation_id"]);
}

async fn times_of_a_trail_never_go_backwards(database: Database) {
    let service = TestService::start(database).await;
    service.attest(ATTESTER, "cart", "t", form(&passing("unit"))).await.expect(201);
    // Simulates a replica whose clock is a day ahead.
    let ahead = "UPDATE trails SET last_modified_at = last_modified_at + 86400000000";
    service.database.execute(ahead).await;
    let before = service.read("/trails/acme").await["data"][0]["last_modified_at"].as_f64().unwrap();
    service.attest(ATTESTER, "cart", "t", form(&passing("lint"))).await.expect(201);
    let after = service.read("/trails/acme").await["data"][0]["last_modified_at"].clone();
    assert!(after.as_f64().unwrap() > before, "{before} {after}");
    let latest = &service.read("/attestations/acme/cart").await["data"][0];
    assert_eq!(latest["created_at"], after);
}

async fn links_are_http_urls_without_credentials(database: Database) {
    let service = TestService::start(database).await;
    for (digit, given, shown) in [
        ('1', "javascript:alert(1)", None),
        ('2', "https://ci:s3cret@x.example.com/c", Some("https://x.example.com/c")),
    ] {
        let mut data = complete();
        data["artifact_fingerprint"] = json!(digest(digit));
        data["git_commit_info"]["url"] = json!(given);
        data["repo_info"]["url"] = json!("https://u:s3cret@git.example.com/cart");
        data["origin_url"] = json!("https://u:s3cret@ci.example.com/1");
        service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
        service.report(ADMIN, "prod", report(&[pod("p", "i", digit)])).await.expect(201);
        let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
        assert_eq!(live["_embedded"]["artifacts"][0].get("commit_url").and_then(Value::as_str), shown);
    }
    for path in ["/trails/acme", "/attestations/acme/cart"] {
        let response = service.read(path).await.to_string();
        assert!(!response.contains("s3cret"), "{response}");
    }
}

async fn attachment_is_stored_by_hash_and_never_unpacked(database: Database) {
    let service = TestService::start(database).await;
    // Unpacks to ten megabytes, a thousand times its size.
    let bomb: Vec<u8> = {
        let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        packed.extend(std::iter::repeat_n([0xec, 0xc1, 0x01, 0x01], 2_000).flatten());
        packed
    };
    for name in ["one", "two"] {
        let file = Part::bytes(bomb.clone()).file_name("../../results.tar.gz");
        let form = form(&passing(name)).part("attachment_file", file);
        service.attest(ATTESTER, "cart", "t", form).await.expect(201);
    }
    let listed = service.read("/attestations/acme/cart").await;
    for attestation in listed["data"].as_array().unwrap() {
        assert_eq!(attestation["has_audit_package"], true);
    }
    let length = "SELECT CAST(length(content) AS TEXT) FROM attachments";
    assert_eq!(service.database.rows(length).await, [bomb.len().to_string()]);
    let hash = if service.database.is_postgres() {
        "SELECT encode(attachment, 'hex'), attachment_name FROM attestations"
    } else {
        "SELECT lower(hex(attachment)), attachment_name FROM attestations"
    };
    let expected = format!("{}|../../results.tar.gz", Fingerprint::from_content(&bomb));
    assert_eq!(service.database.rows(hash).await, [expected.clone(), expected]);
}

async fn form_parts_come_in_any_order_and_empty_attachment_is_ignored(database: Database) {
    let service = TestService::start(database).await;
    let file = || Part::bytes(b"<testsuite/>".to_vec()).file_name("junit.xml");
    let data = || Part::text(passing("unit").to_string());
    let reversed = Form::new().part("attachment_file", file()).part("data_json", data());
    service.attest(ATTESTER, "cart", "t", reversed).await.expect(201);
    let empty = Form::new().part("data_json", data()).part("attachment_file", Part::text(""));
    service.attest(ATTESTER, "cart", "t", empty).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    let attached: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|a| a["has_audit_package"].clone()).collect();
    assert_eq!(attached, [json!(false), json!(true)]);
}

async fn form_over_a_size_limit_gets_413(database: Database) {
    let limits = Limits { attachment: 1_000, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    for (size, status) in [(1_000, 201), (1_001, 413), (3_000_000, 413)] {
        let form = form(&passing("unit")).part("attachment_file", Part::bytes(vec![b'x'; size]));
        service.attest(ATTESTER, "cart", "t", form).await.expect(status);
    }
    let mut long = passing("unit");
    long["junit_results"][0]["name"] = json!("x".repeat(1024 * 1024));
    service.attest(ATTESTER, "cart", "t", form(&long)).await.expect(413);
    // Lists contain these fields, so their limit is smaller.
    for (field, value) in
        [("description", json!("x".repeat(65_537))), ("user_data", json!({"x": "x".repeat(65_537)}))]
    {
        let mut long = passing("unit");
        long[field] = value;
        service.attest(ATTESTER, "cart", "t", form(&long)).await.assert_field_error(field, "at most 65536");
    }
    let listed = service.read("/attestations/acme/cart").await;
    assert_eq!(listed["pagination"]["total"], 1);
}

async fn invalid_form_is_rejected_with_its_part(database: Database) {
    let service = TestService::start(database).await;
    let data = || Part::text(passing("unit").to_string());
    let file = || Part::bytes(vec![1]);
    let attest = async |form| service.attest(ATTESTER, "cart", "t", form).await;
    attest(Form::new().part("attachment_file", file())).await.assert_field_error("data_json", "missing part");
    attest(Form::new()).await.expect(400);
    attest(Form::new().part("data_json", data()).part("data_json", data()))
        .await
        .assert_field_error("data_json", "twice");
    let twice = Form::new().part("data_json", data());
    attest(twice.part("attachment_file", file()).part("attachment_file", file()))
        .await
        .assert_field_error("attachment_file", "twice");
    attest(Form::new().part("data_json", data()).part("file", file()))
        .await
        .assert_field_error("file", "expected data_json or attachment_file");

    let post = |kind: &str, body: &str| {
        let request = service.request(Method::POST, ATTESTER, "/attestations/acme/cart/trail/t/junit");
        Response::from_request(request.header("Content-Type", kind).body(body.to_owned()))
    };
    for kind in ["application/json", "text/plain", "multipart/mixed; boundary=x"] {
        post(kind, "{}").await.expect(415);
    }
    post("multipart/form-data", "").await.expect(400);
    let body = "--right\r\nContent-Disposition: form-data; name=\"data_json\"\r\n\r\n{}\r\n--right--\r\n";
    post("multipart/form-data; boundary=wrong", body).await.expect(400);
    // The end of the last part is missing.
    post("multipart/form-data; boundary=right", &body[..body.len() - 12]).await.expect(400);
    let headless = "--right\r\n\r\n{}\r\n--right--\r\n";
    post("multipart/form-data; boundary=right", headless).await.expect(400);
    service.get(READER, "/attestations/acme/cart").await.expect(404);
}

async fn invalid_field_is_named(database: Database) {
    let service = TestService::start(database).await;
    for (field, value, named, message) in [
        ("attestation_name", json!(""), "attestation_name", "1 to 255"),
        ("attestation_name", json!("x".repeat(256)), "attestation_name", "1 to 255"),
        ("attestation_name", json!("a\0b"), "attestation_name", "NUL"),
        ("attestation_name", json!(7), "attestation_name", "expected a string"),
        ("junit_results", json!(null), "junit_results", "expected a sequence"),
        (
            "junit_results",
            json!([{"failures": 0, "errors": 0, "total": -1}]),
            "junit_results[0].total",
            "an integer from 0",
        ),
        ("junit_results", json!([{"failures": 0, "errors": 0}]), "junit_results[0]", "total"),
        (
            "junit_results",
            json!([{"failures": 1, "errors": 0, "skipped": 3, "total": 3}]),
            "junit_results[0]",
            "up to the total 3, got 4",
        ),
        ("artifact_fingerprint", json!("sha256:abc"), "artifact_fingerprint", "64 lowercase hex"),
        ("target_artifacts", json!([1]), "target_artifacts[0]", "string"),
        (
            "target_artifacts",
            json!(vec!["web"; 1_001]),
            "target_artifacts",
            "expected at most 1000 artifacts",
        ),
        ("git_commit_info", json!({"sha1": "abc"}), "git_commit_info.sha1", "40 lowercase hex"),
        ("git_commit_info", json!({"timestamp": -5}), "git_commit_info.timestamp", "1970"),
        ("repo_info", json!({"url": "https://github.com/a/b"}), "repo_info", "missing field `name`"),
        ("repo_info", json!({"name": "a/../b"}), "repo_info.name", "relative"),
        (
            "repo_info",
            json!({"name": "a", "provider": "source\nforge"}),
            "repo_info.provider",
            "without control or invisible characters",
        ),
        (
            "repo_info",
            json!({"name": "a", "additional_info": []}),
            "repo_info.additional_info",
            "expected a map",
        ),
        ("external_urls", json!([1]), "external_urls", "expected a map"),
        ("description", json!({}), "description", "expected a string"),
    ] {
        let mut data = passing("unit");
        data[field] = value;
        service.attest(ATTESTER, "cart", "t", form(&data)).await.assert_field_error(named, message);
    }
    for text in ["", "{", "[]", "\"x\"", "{\"attestation_name\": NaN}", &"[".repeat(10_000)] {
        let form = Form::new().part("data_json", Part::text(text.to_owned()));
        service.attest(ATTESTER, "cart", "t", form).await.expect(400);
    }
    let latin = Form::new().part("data_json", Part::bytes(b"{\"attestation_name\": \"\xe9\"}".to_vec()));
    service.attest(ATTESTER, "cart", "t", latin).await.expect(400);
    service.get(READER, "/attestations/acme/cart").await.expect(404);
}

async fn impossible_times_of_results_are_left_out(database: Database) {
    let service = TestService::start(database).await;
    // The year 1 is Go's zero time.
    let times = [("unit", json!(-0.5), json!(-62_135_596_800_i64)), ("other", json!(1e300), json!(1e300))];
    for (name, duration, timestamp) in times {
        let data = json!({"attestation_name": name, "junit_results": [
            {"name": "s", "failures": 0, "errors": 0, "total": 1, "duration": duration, "timestamp": timestamp},
            {"name": "t", "failures": 0, "errors": 0, "total": 2, "duration": 1.5, "timestamp": 1_790_000_000},
        ]});
        service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
        let listed = service.read("/attestations/acme/cart").await;
        assert_eq!(listed["data"][0]["is_compliant"], true, "{listed}");
    }
    let stored = service.database.rows("SELECT CAST(results AS TEXT) FROM attestations").await;
    for results in &stored {
        let results: Value = serde_json::from_str(results).unwrap();
        let times = |n: usize| (results[n].get("duration").cloned(), results[n].get("timestamp").cloned());
        assert_eq!(times(0), (None, None), "{results}");
        assert_eq!(times(1), (Some(json!(1.5)), Some(json!(1_790_000_000))), "{results}");
    }
    assert_eq!(stored.len(), 2);
}

async fn path_names_are_decoded_or_rejected(database: Database) {
    let service = TestService::start(database).await;
    for trail in ["a.b", "%62uild-1", "3f9c~2", "build_7"] {
        service.attest(ADMIN, "cart", trail, form(&passing("unit"))).await.expect(201);
    }
    for trail in
        ["100%25", "%F0%9F%9A%A2", "...", "a%3Fb%23c", "%3Cb%3E", "';--", "a+b", "%20x", "pr%E2%80%AEod"]
    {
        let refused = service.attest(ADMIN, "cart", trail, form(&passing("unit"))).await;
        refused.assert_field_error("trail_name", "expected a letter or digit, then letters, digits");
    }
    let names: std::collections::BTreeSet<_> = service.read("/trails/acme").await["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trail| trail["name"].as_str().unwrap().to_owned())
        .collect();
    let expected = ["a.b", "build-1", "3f9c~2", "build_7"];
    assert_eq!(names, expected.map(str::to_owned).into());
    for (flow, trail, field) in [
        ("cart", "a%2Fb", "trail_name"),
        ("cart", "%2E%2E", "trail_name"),
        ("cart", "a%00", "trail_name"),
        ("-cart", "t", "flow_name"),
        ("c%C3%A4rt", "t", "flow_name"),
    ] {
        let path = format!("{}/api/v2/attestations/acme/{flow}/trail/{trail}/junit", service.base);
        // Sent unparsed: the URL parser of a client would remove `..`.
        let response = crate::service::http::hostile_input::raw_post(&path, ADMIN, &passing("unit")).await;
        assert!(
            response.starts_with("HTTP/1.1 400") && response.contains(field),
            "{flow}/{trail}: {response}"
        );
    }
}

/// PostgreSQL only: SQLite has no such locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn repository_does_not_share_the_verdict_lock_of_an_organization() {
    const OTHER: &str = "other-0123456789abcdef0123456789";
    let more = "  - {name: verdicts, tokens: [{name: admin, role: admin, file: other}]}";
    let options = Options {
        bootstrap: bootstrap(1, more),
        files: vec![("other", OTHER.to_owned())],
        ..Options::default()
    };
    let service = TestService::start_with(Database::postgres().await, options).await;
    // The verdict lock of acme.
    let mut connection = PgConnection::connect(&service.database.direct_url()).await.unwrap();
    let mut locking = connection.begin().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('verdicts/acme', 0))";
    sqlx::query(lock).execute(&mut *locking).await.unwrap();
    let attest = async |organization: &str, token: &str| {
        let data = json!({"attestation_name": "unit", "junit_results": [], "repo_info": {"name": "acme"}});
        let path = format!("/attestations/{organization}/cart/trail/t/junit");
        let request = service.request(Method::POST, token, &path).multipart(form(&data));
        Response::from_request(request).await.expect(201);
    };
    let others = async {
        let waiting =
            "SELECT CAST(COUNT(*) AS TEXT) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        eventually("acme waits", async || service.database.rows(waiting).await == ["1"]).await;
        attest("verdicts", OTHER).await;
        assert_eq!(service.database.rows(waiting).await, ["1"]);
        locking.rollback().await.unwrap();
    };
    tokio::join!(attest("acme", ADMIN), others);
    connection.close().await.unwrap();
}

crate::service::on_both!(
    attestation_is_listed_and_included_in_its_trail,
    latest_attestation_of_a_name_counts_and_earlier_ones_stay,
    times_of_a_trail_never_go_backwards,
    attachment_is_stored_by_hash_and_never_unpacked,
    form_parts_come_in_any_order_and_empty_attachment_is_ignored,
);

crate::service::on_sqlite!(
    links_are_http_urls_without_credentials,
    form_over_a_size_limit_gets_413,
    invalid_form_is_rejected_with_its_part,
    invalid_field_is_named,
    impossible_times_of_results_are_left_out,
    path_names_are_decoded_or_rejected,
);
