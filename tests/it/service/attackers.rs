//! What one stolen token, one tenant or one address can take from all others: a part, and never all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
#[cfg(target_os = "linux")]
use supercargo::process::listener::Bounds;
use supercargo::service::{Delivery, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::browser::Browser;
use super::running::{Options, bootstrap, eventually};
use super::{ADMIN, Answer, Database, READER, REPORTER, Running, STRANGER, digest, form, pod, report};
use crate::fake::{Reply, Server};

fn host(service: &Running) -> &str {
    service.base.strip_prefix("http://").unwrap()
}

/// A request on a connection of its own, which takes in next to nothing of what it does not read.
async fn asks(service: &Running, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut stream = socket.connect(host(service).parse().unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The status of the answer that comes.
async fn status(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.unwrap();
    String::from_utf8_lossy(&line[9..]).into_owned()
}

/// A request for far more than what sockets hold.
fn list() -> String {
    format!(
        "GET /api/v2/attestations/acme/cart?per_page=500 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READER}\r\n\r\n"
    )
}

/// As many as one token may have, who read nothing but the head: half of the connections to the database are for one.
async fn slow_readers(service: &Running) -> Vec<TcpStream> {
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut stream = asks(service, &list()).await;
        assert_eq!(status(&mut stream).await, "200");
        slow.push(stream);
    }
    slow
}

async fn who_reads_slowly_holds_up_their_own_token_alone(database: Database) {
    let service = Running::start(database).await;
    // Far more than what sockets hold, so that the service has the rest.
    let data = json!({
        "attestation_name": "unit", "junit_results": [], "user_data": {"text": "x".repeat(65_000)},
    });
    for _ in 0..200 {
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    let mut slow = slow_readers(&service).await;
    let request = service.request(Method::GET, READER, "/trails/acme");
    let next = tokio::spawn(Answer::of(request));
    for _ in 0..50 {
        service.get(ADMIN, "/trails/acme").await.expect(200);
    }
    assert!(!next.is_finished(), "it waits for the others of its token");
    slow.pop();
    next.await.unwrap().expect(200);
    // An answer that is read is whole.
    let mut stream = asks(&service, &list().replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).await;
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole).await.unwrap();
    let start = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&whole[..start]).to_lowercase();
    assert!(head.contains(&format!("content-length: {}\r\n", whole.len() - start)), "{head}");
    let listed: Value = serde_json::from_slice(&whole[start..]).unwrap();
    assert_eq!(listed["data"].as_array().unwrap().len(), 200);
}

/// A service in which nobody waits for long, and whose list of attestations is large.
async fn with_large_answers(database: Database) -> Running {
    let policy = Policy { turn: Duration::from_millis(50), ..Options::default().policy };
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
    let data = json!({
        "attestation_name": "unit", "junit_results": [], "user_data": {"text": "x".repeat(65_000)},
    });
    for _ in 0..200 {
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    service
}

async fn a_token_that_has_too_many_answers_under_way_is_told_to_wait(database: Database) {
    let service = with_large_answers(database).await;
    let _slow = slow_readers(&service).await;
    let answer = service.get(READER, "/trails/acme").await.expect(503);
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
    assert!(answer.text.contains("this token has as many answers under way"), "{answer:?}");
}

async fn the_tokens_of_one_tenant_leave_some_of_the_answers_to_others(database: Database) {
    let service = with_large_answers(database).await;
    // All that one token has, and what its organization has beyond that.
    let _slow = slow_readers(&service).await;
    let mut another = asks(&service, &list().replace(READER, ADMIN)).await;
    assert_eq!(status(&mut another).await, "200");
    let answer = service.get(ADMIN, "/trails/acme").await.expect(503);
    assert!(answer.text.contains("this organization has as many answers under way"), "{answer:?}");
    service.get(STRANGER, "/trails/stranger").await.expect(200);
}

/// On SQLite nobody who reads or confirms waits for a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn while_one_tenant_waits_for_the_database_with_all_that_it_may_others_read_report_and_look() {
    let service = Arc::new(Running::start(Database::postgres().await).await);
    let body = report(&[pod("p", "image", 'a')]);
    service.report(REPORTER, "prod", body.clone()).await.expect(201);
    let theirs = "/environments/stranger/prod/report/K8S";
    let report_theirs = || {
        let request = service.request(Method::PUT, STRANGER, theirs);
        Answer::of(request.header("Content-Type", "application/json").body(body.clone()))
    };
    report_theirs().await.expect(201);
    let data = json!({"attestation_name": "unit", "junit_results": []});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    let mut lookers = Vec::new();
    for token in [READER, ADMIN] {
        lookers.push(Browser::signed_in(&service, token).await.cookie.clone().unwrap());
    }
    let mut locking = PgConnection::connect(&service.database.url()).await.unwrap();
    let mut lock = locking.begin().await.unwrap();
    for sql in [
        "LOCK TABLE attestations IN ACCESS EXCLUSIVE MODE",
        "SELECT 1 FROM environments WHERE organization = 'acme' FOR UPDATE",
    ] {
        sqlx::query(sql).execute(&mut *lock).await.unwrap();
    }
    let mut waiting = JoinSet::new();
    for n in 0..40 {
        let (service, body, cookie) = (Arc::clone(&service), body.clone(), lookers[n % 2].clone());
        waiting.spawn(async move {
            let token = if n % 2 == 0 { READER } else { ADMIN };
            let page = format!("{}/ui/acme/flows/cart/trails/t", service.base);
            tokio::join!(
                service.get(token, "/attestations/acme/cart"),
                Answer::of(service.http.get(page).header("Cookie", cookie)),
                service.report(REPORTER, "prod", body),
            )
        });
    }
    // Two thirds of eight connections for lists, two for pages, and half of eight others for heartbeats.
    let waiting_there = "SELECT CAST(COUNT(*) AS TEXT) FROM pg_stat_activity
                         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("as many wait as may", async || service.database.rows(waiting_there).await == ["11"]).await;
    report_theirs().await.expect(200);
    service.get(STRANGER, "/organizations/stranger/environments_notifications").await.expect(200);
    assert_eq!(stranger.get("/ui/stranger/actions").await.status, 200);
    lock.rollback().await.unwrap();
    waiting.join_all().await;
}

async fn whoever_asks_for_pages_without_end_leaves_some_to_others(database: Database) {
    let service = Arc::new(Running::start(database).await);
    let pods: Vec<_> = (0..2_000).map(|n| pod(&format!("p{n}"), "image", 'a')).collect();
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    let many = Browser::signed_in(&service, READER).await.cookie.clone().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let mut asking = JoinSet::new();
    for _ in 0..60 {
        let request =
            service.http.get(format!("{}/ui/acme/environments/prod", service.base)).header("Cookie", &many);
        let done = Arc::clone(&done);
        asking.spawn(async move {
            // Who asks for so many may wait too long for some.
            let answer = Answer::of(request).await;
            assert!(answer.status == 200 || answer.status == 503, "{answer:?}");
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    let mut other = Browser::signed_in(&service, ADMIN).await;
    eventually("the first come", async || done.load(Ordering::SeqCst) > 0).await;
    assert_eq!(other.get("/ui/acme/environments/prod").await.status, 200);
    assert!(done.load(Ordering::SeqCst) < 50, "it waited for all {}", done.load(Ordering::SeqCst));
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
}

async fn one_tenant_s_reports_do_not_stand_between_others_and_the_database(database: Database) {
    let service = Arc::new(Running::start(database).await);
    let done = Arc::new(AtomicUsize::new(0));
    let mut reporting = JoinSet::new();
    for n in 0..40 {
        let (service, done) = (Arc::clone(&service), Arc::clone(&done));
        reporting.spawn(async move {
            let pods: Vec<_> = (0..300).map(|m| pod(&format!("p{n}-{m}"), "image", 'a')).collect();
            // One environment, whose reports wait for each other, and may wait too long.
            let path = "/environments/stranger/prod/report/K8S";
            let request =
                service.request(Method::PUT, STRANGER, path).header("Content-Type", "application/json");
            let answer = Answer::of(request.body(report(&pods))).await;
            assert!(answer.status.is_success() || answer.status == 503, "{answer:?}");
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    eventually("the first come", async || done.load(Ordering::SeqCst) > 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    assert!(done.load(Ordering::SeqCst) < 30, "it waited for all {}", done.load(Ordering::SeqCst));
    while let Some(done) = reporting.join_next().await {
        done.unwrap();
    }
}

async fn one_tenant_s_slow_bodies_leave_half_of_the_memory_to_others(database: Database) {
    let policy = Policy { inbound_kibibytes: 1024, ..Policy::default() };
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
    let head = format!(
        "PUT /api/v2/environments/stranger/prod/report/K8S HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {STRANGER}\r\n\
         Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    );
    let half = " ".repeat(500 * 1024);
    let mut slow = asks(&service, &head).await;
    slow.write_all(half.as_bytes()).await.unwrap();
    let mut slower = asks(&service, &head).await;
    slower.write_all(half.as_bytes()).await.unwrap();
    // There is room for one of them.
    let refused = tokio::select! {
        refused = status(&mut slow) => refused,
        refused = status(&mut slower) => refused,
    };
    assert_eq!(refused, "503");
    let large = report(&[pod("p", "i", 'a')]) + &half;
    service.report(REPORTER, "prod", large).await.expect(201);
}

async fn one_token_has_a_hundred_sessions_at_a_time(database: Database) {
    let service = Running::start(database).await;
    let mut first = Browser::signed_in(&service, READER).await;
    let mut second = Browser::signed_in(&service, READER).await;
    let mut other = Browser::signed_in(&service, ADMIN).await;
    for _ in 0..99 {
        Browser::signed_in(&service, READER).await;
    }
    assert_eq!(first.get("/ui/acme").await.status, 303);
    assert_eq!(second.get("/ui/acme").await.status, 200);
    assert_eq!(other.get("/ui/acme").await.status, 200);
    assert_eq!(service.database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM sessions").await, ["101"]);
}

/// Loopback is one address elsewhere.
#[cfg(target_os = "linux")]
async fn one_address_takes_half_of_the_connections_at_most(database: Database) {
    let bounds = Bounds { connections: 8, ..Options::default().bounds };
    let service = Running::start_with(database, Options { bounds, ..Options::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        let mut stream = asks(&service, "GET /ui/style.css HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(status(&mut stream).await, "200");
        idle.push(stream);
    }
    for _ in 0..20 {
        let mut more = TcpStream::connect(host(&service)).await.unwrap();
        let closed = tokio::time::timeout(Duration::from_mins(1), more.read_u8()).await;
        assert!(closed.expect("it is closed").is_err());
    }
    let elsewhere =
        reqwest::Client::builder().no_proxy().local_address(Some([127, 0, 0, 2].into())).build().unwrap();
    let request = elsewhere.get(format!("{}/api/v2/trails/acme", service.base)).bearer_auth(READER);
    Answer::of(request).await.expect(200);
    // A place that is given back is there for the next.
    idle.clear();
    eventually("it may connect again", async || {
        let request = service.http.get(format!("{}/api/v2/trails/acme", service.base)).bearer_auth(READER);
        request.send().await.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
}

async fn one_tenant_s_slow_receivers_leave_half_of_the_sending_to_others(database: Database) {
    let (slow, lively) = (Server::start(|_| Reply::Stall), Server::start(|_| Reply::text(200, "")));
    let action = |targets: &str| {
        format!(
            "    actions: [{{number: 1, name: a, environments: [prod], triggers: [ON_STARTED_ARTIFACT], targets: [{targets}]}}]"
        )
    };
    let target = |n: usize, file: &str| {
        format!("{{name: t{n}, type: SLACK, url: {{file: {file}}}, channel: {{name: c}}}}")
    };
    let targets: Vec<_> = (0..8).map(|n| target(n, "slow")).collect();
    let file = bootstrap(1, &action(&targets.join(", "))) + &action(&target(0, "lively")) + "\n";
    let delivery = Delivery {
        at_once: 4,
        timeout: Duration::from_mins(10),
        lease: Duration::from_mins(20),
        interval: Duration::from_millis(20),
        ..Delivery::default()
    };
    let options = Options {
        policy: Policy { delivery, ..Options::default().policy },
        bootstrap: file,
        allowed_internal: &["127.0.0.1/32"],
        files: vec![("slow", slow.url()), ("lively", lively.url())],
        ..Options::default()
    };
    let service = Running::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    eventually("as many are sent as may be", async || slow.seen().len() >= 2).await;
    let path = "/environments/stranger/prod/report/K8S";
    let request = service.request(Method::PUT, STRANGER, path).header("Content-Type", "application/json");
    Answer::of(request.body(report(&[pod("p", "image", 'a')]))).await.expect(201);
    eventually("the other tenant's arrives", async || lively.seen().len() == 1).await;
    assert_eq!(slow.seen().len(), 2);
}

async fn what_is_another_s_is_refused_alike_wherever_its_name_stands(database: Database) {
    let more = "    flows: [{name: cart}]
    actions: [{number: 1, name: a, environments: [test], triggers: [ON_STARTED_ARTIFACT],
               targets: [{name: t, type: SLACK, url: {file: url}, channel: {name: c}}]}]";
    let files = vec![("url", "https://hooks.example.com/x".to_owned())];
    let options = Options { bootstrap: bootstrap(1, more), files, ..Options::default() };
    let service = Running::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let data = json!({
        "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
        "repo_info": {"name": "acme/cart"},
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    let attestation = listed["data"][0]["attestation_id"].as_str().unwrap();
    let a = digest('a');
    // Below another organization, whether that is there or not: one answer.
    let refusal = service.get(STRANGER, "/trails/nobody").await.expect(403).text;
    for path in [
        "/trails/acme".to_owned(),
        "/trails/acme?per_page=0".to_owned(),
        "/attestations/acme/cart".to_owned(),
        "/attestations/acme/nothing".to_owned(),
        "/attestations/acme/-x".to_owned(),
        "/organizations/acme/environments_notifications".to_owned(),
        "/repos/acme/live-artifacts/acme/cart".to_owned(),
        "/approvals/acme/cart/1".to_owned(),
        "/approvals/acme/cart/x".to_owned(),
        format!("/artifacts/acme/cart/{a}/approvals"),
        "/actions/acme/1".to_owned(),
        "/actions/acme/99".to_owned(),
    ] {
        assert_eq!(service.get(STRANGER, &path).await.expect(403).text, refusal, "{path}");
    }
    // Below one's own, what is another's is what is not there.
    for (theirs, nobody_s) in [
        ("/attestations/stranger/cart".to_owned(), "/attestations/stranger/nothing".to_owned()),
        ("/approvals/stranger/cart/1".to_owned(), "/approvals/stranger/nothing/1".to_owned()),
        ("/actions/stranger/1".to_owned(), "/actions/stranger/2".to_owned()),
        (
            "/repos/stranger/live-artifacts/acme/cart".to_owned(),
            "/repos/stranger/live-artifacts/acme/nothing".to_owned(),
        ),
        (
            format!("/artifacts/stranger/cart/{a}/approvals"),
            format!("/artifacts/stranger/nothing/{a}/approvals"),
        ),
    ] {
        let (theirs, nobody_s) =
            (service.get(STRANGER, &theirs).await, service.get(STRANGER, &nobody_s).await);
        let told = |answer: Answer| {
            answer.expect(404).text.replace("nothing", "cart").replace("action 2", "action 1")
        };
        assert_eq!(told(theirs), told(nobody_s));
    }
    for query in [format!("fingerprint={a}"), "flow=cart".to_owned(), "flow_tag=a=b".to_owned()] {
        let trails = service.get(STRANGER, &format!("/trails/stranger?{query}")).await.expect(200).json();
        assert_eq!(trails["data"], json!([]), "{query}");
    }
    let mut browser = Browser::signed_in(&service, STRANGER).await;
    for path in [
        format!("/ui/stranger/artifacts/{a}"),
        "/ui/stranger/environments/prod".to_owned(),
        "/ui/stranger/environments/prod/timeline".to_owned(),
        "/ui/stranger/environments/prod/compare?from=1&to=1".to_owned(),
        "/ui/stranger/flows/cart/trails/t".to_owned(),
        format!("/ui/stranger/flows/cart/trails/t/attestations/{attestation}"),
        "/ui/stranger/actions/1".to_owned(),
    ] {
        assert_eq!(browser.get(&path).await.status, 404, "{path}");
    }
    // Even where one's own trail has the same name.
    let path = "/attestations/stranger/cart/trail/t/junit";
    Answer::of(service.request(Method::POST, STRANGER, path).multipart(form(&data))).await.expect(201);
    assert_eq!(browser.get("/ui/stranger/flows/cart/trails/t").await.status, 200);
    let theirs = format!("/ui/stranger/flows/cart/trails/t/attestations/{attestation}");
    assert_eq!(browser.get(&theirs).await.status, 404);
    // What one attests changes nothing of another's.
    assert_eq!(service.read("/attestations/acme/cart").await["pagination"]["total"], 1);
}

super::on_both!(
    who_reads_slowly_holds_up_their_own_token_alone,
    one_tenant_s_reports_do_not_stand_between_others_and_the_database,
    one_token_has_a_hundred_sessions_at_a_time,
);

super::on_sqlite!(
    a_token_that_has_too_many_answers_under_way_is_told_to_wait,
    the_tokens_of_one_tenant_leave_some_of_the_answers_to_others,
    whoever_asks_for_pages_without_end_leaves_some_to_others,
    one_tenant_s_slow_bodies_leave_half_of_the_memory_to_others,
    #[cfg(target_os = "linux")]
    one_address_takes_half_of_the_connections_at_most,
    one_tenant_s_slow_receivers_leave_half_of_the_sending_to_others,
    what_is_another_s_is_refused_alike_wherever_its_name_stands,
);
