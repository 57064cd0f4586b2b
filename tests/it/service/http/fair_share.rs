//! One organization or address can use only a share of each resource of the service.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use model::{Fingerprint, Timestamp};
use reqwest::Method;
#[cfg(target_os = "linux")]
use serde_json::json;
use service::{Delivery, Limits, Pace};
use sqlx::{Connection, PgConnection, SqliteConnection};
use store::{DatabaseTimeouts, Error, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::fake::{Reply, Server};
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, READER, REPORTER, Response, STRANGER, TestService, digest, form, pod};

fn host(service: &TestService) -> &str {
    service.base.strip_prefix("http://").unwrap()
}

/// Sends a request on a new connection with a small receive buffer.
async fn send_raw(service: &TestService, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut stream = socket.connect(host(service).parse().unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads the status line.
async fn status(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.unwrap();
    String::from_utf8_lossy(&line[9..]).into_owned()
}

/// A list of `acme` that exceeds all socket buffers.
const LARGE_LIST: &str = "/attestations/acme/cart?per_page=500";

async fn responses_that_wait_for_memory_count_as_reads_of_their_organization(database: Database) {
    // Enough for one large list of each organization.
    let (permit_timeout, outbound_kibibytes) = (Duration::from_millis(50), 1024);
    let limits = Limits { permit_timeout, outbound_kibibytes, ..Options::default().limits };
    let service = Arc::new(TestService::start_with(database, Options { limits, ..Options::default() }).await);
    for n in 0..200 {
        let data = json!({
            "attestation_name": "unit", "junit_results": [], "user_data": {"text": "x".repeat(65_000), "n": n},
        });
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    let head =
        format!("GET /api/v2{LARGE_LIST} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READER}\r\n\r\n");
    let mut slow = send_raw(&service, &head).await;
    assert_eq!(status(&mut slow).await, "200");
    let mut waiting = JoinSet::new();
    for _ in 0..10 {
        let service = Arc::clone(&service);
        waiting.spawn(async move { service.get(ADMIN, LARGE_LIST).await });
    }
    let limit = "this organization has reached its limit of concurrent reads";
    let rejected = waiting.join_next().await.unwrap().unwrap().expect(503);
    assert!(rejected.text.contains(limit) && rejected.headers.contains_key("retry-after"), "{rejected:?}");
    service.get(STRANGER, "/trails/stranger").await.expect(200);
    // A third of the eight connections.
    let messages: Vec<_> =
        waiting.join_all().await.into_iter().map(|response| response.expect(503).text).collect();
    assert_eq!(messages.iter().filter(|message| !message.contains(limit)).count(), 2, "{messages:?}");
}

/// PostgreSQL only: on SQLite, reads and heartbeats never wait for a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn organization_blocked_on_locks_does_not_block_others() {
    let service = Arc::new(TestService::start(Database::postgres().await).await);
    let body = report(&[pod("p", "image", 'a')]);
    service.report(REPORTER, "prod", body.clone()).await.expect(201);
    let other_path = "/environments/stranger/prod/report/K8S?create=true";
    let report_other = || {
        let request = service.request(Method::PUT, STRANGER, other_path);
        Response::from_request(request.header("Content-Type", "application/json").body(body.clone()))
    };
    report_other().await.expect(201);
    let data = json!({"attestation_name": "unit", "junit_results": []});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let mut other = Browser::signed_in(&service, STRANGER).await;
    let mut cookies = Vec::new();
    for token in [READER, ADMIN] {
        cookies.push(Browser::signed_in(&service, token).await.cookie.clone().unwrap());
    }
    let mut locking = PgConnection::connect(&service.database.direct_url()).await.unwrap();
    let mut lock = locking.begin().await.unwrap();
    for sql in [
        "LOCK TABLE attestations IN ACCESS EXCLUSIVE MODE",
        "SELECT 1 FROM environments WHERE organization = 'acme' FOR UPDATE",
    ] {
        sqlx::query(sql).execute(&mut *lock).await.unwrap();
    }
    let mut waiting = JoinSet::new();
    for n in 0..40 {
        let (service, body, cookie) = (Arc::clone(&service), body.clone(), cookies[n % 2].clone());
        waiting.spawn(async move {
            let token = if n % 2 == 0 { READER } else { ADMIN };
            let page = format!("{}/ui/acme/flows/cart/trails/t", service.base);
            tokio::join!(
                service.get(token, "/attestations/acme/cart"),
                Response::from_request(service.http.get(page).header("Cookie", cookie)),
                service.report(REPORTER, "prod", body),
            )
        });
    }
    // Two lists or pages wait on read connections, and two heartbeats on the others: a third of eight each.
    let blocked = "SELECT CAST(COUNT(*) AS TEXT) FROM pg_stat_activity
                         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("all permits of the organization wait", async || {
        service.database.rows(blocked).await == ["4"]
    })
    .await;
    report_other().await.expect(200);
    service.get(STRANGER, "/organizations/stranger/environments_notifications").await.expect(200);
    assert_eq!(other.get("/ui/stranger/actions").await.status, 200);
    lock.rollback().await.unwrap();
    waiting.join_all().await;
}

/// One thread for computations, which is busy, and one database connection.
#[test]
fn page_groups_artifacts_on_a_blocking_thread_without_a_connection() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = Options { database_url: Some("sqlite::memory:".to_owned()), ..Options::default() };
        let service = TestService::start_with(Database::sqlite(), options).await;
        service.report(ADMIN, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
        let cookie = Browser::signed_in(&service, READER).await.cookie.clone().unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || ended.recv());
        let page = service.http.get(format!("{}/ui/acme/environments/prod", service.base));
        let page = tokio::spawn(Response::from_request(page.header("Cookie", cookie)));
        for _ in 0..50 {
            service.get(STRANGER, "/trails/stranger").await.expect(200);
        }
        assert!(!page.is_finished(), "the page must wait for the thread");
        end.send(()).unwrap();
        assert_contains(&page.await.unwrap().expect(200).text, &["Running artifacts in prod"]);
        busy.await.unwrap().unwrap();
    });
}

/// Starts to upload a report, without a body.
async fn start_upload(service: &TestService, token: &str, organization: &str) -> TcpStream {
    let head = format!(
        "PUT /api/v2/environments/{organization}/prod/report/K8S?create=true HTTP/1.1\r\nHost: x\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    send_raw(service, &head).await
}

async fn organization_runs_at_most_half_of_all_requests(database: Database) {
    let limits = Limits {
        requests: 2,
        permit_timeout: Duration::from_millis(200),
        pace: Pace { grace: Duration::from_mins(10), ..Pace::default() },
        ..Options::default().limits
    };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let mut first = start_upload(&service, STRANGER, "stranger").await;
    let mut second = start_upload(&service, STRANGER, "stranger").await;
    let rejected = async {
        tokio::select! {
            status = status(&mut first) => status,
            status = status(&mut second) => status,
        }
    };
    let rejected = tokio::time::timeout(Duration::from_secs(30), rejected).await;
    assert_eq!(rejected.expect("both run"), "503");
    let response = service.get(STRANGER, "/trails/stranger").await.expect(503);
    assert!(response.text.contains("this organization has reached its limit of running requests"));
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    // All requests together have a limit too.
    let _third = start_upload(&service, REPORTER, "acme").await;
    let url = format!("{}/api/v2/openapi.json", service.base);
    eventually("both organizations are at their limits", async || {
        let response = Response::from_request(service.http.get(&url)).await;
        let limit = "the service has reached its limit of running requests";
        response.status == 503
            && response.text.contains(limit)
            && response.headers.contains_key("retry-after")
    })
    .await;
}

async fn writers_wait_for_each_other_until_a_deadline(database: Database) {
    let limits = Limits { permit_timeout: Duration::from_millis(50), ..Options::default().limits };
    let service = Arc::new(TestService::start_with(database, Options { limits, ..Options::default() }).await);
    let body = report(&[pod("p", "image", 'a')]);
    service.report(REPORTER, "prod", body.clone()).await.expect(201);
    // Another process holds the write lock, which the first of each pair waits for.
    let mut locking = SqliteConnection::connect(&service.database.url()).await.unwrap();
    let lock = locking.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let (mut attestations, mut heartbeats) = (JoinSet::new(), JoinSet::new());
    for _ in 0..2 {
        let (attesting, reporting, body) = (Arc::clone(&service), Arc::clone(&service), body.clone());
        let data = json!({"attestation_name": "unit", "junit_results": []});
        attestations.spawn(async move { attesting.attest(ADMIN, "cart", "t", form(&data)).await });
        heartbeats.spawn(async move { reporting.report(REPORTER, "prod", body).await });
    }
    for pair in [&mut attestations, &mut heartbeats] {
        let second = pair.join_next().await.unwrap().unwrap().expect(503);
        let limit = "this organization has reached its limit of concurrent writes";
        assert!(second.text.contains(limit), "{second:?}");
        assert!(second.headers.contains_key("retry-after"), "{second:?}");
    }
    lock.rollback().await.unwrap();
    attestations.join_next().await.unwrap().unwrap().expect(201);
    heartbeats.join_next().await.unwrap().unwrap().expect(200);
}

async fn sign_ins_of_an_organization_share_its_writes(database: Database) {
    let limits = Limits { permit_timeout: Duration::from_millis(50), ..Options::default().limits };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let mut locking = SqliteConnection::connect(&service.database.url()).await.unwrap();
    let lock = locking.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let [mut first, mut second] = [0, 1].map(|_| Browser::new(&service));
    let sign_ins = [Box::pin(first.sign_in(READER, "")), Box::pin(second.sign_in(ADMIN, ""))];
    let (rejected, _, mut waiting) = futures_util::future::select_all(sign_ins).await;
    assert_eq!(rejected.status, 503);
    assert!(
        rejected.text.contains("this organization has reached its limit of concurrent writes"),
        "{rejected:?}"
    );
    lock.rollback().await.unwrap();
    assert_eq!(waiting.remove(0).await.status, 303);
}

async fn open(database: &Database, timeouts: DatabaseTimeouts) -> Store {
    Store::open(&database.url().parse().unwrap(), timeouts).await.unwrap()
}

async fn confirm(store: &Store) -> Result<bool, Error> {
    let (hash, now) = (Fingerprint::from_content(b""), Timestamp::from_micros(0));
    store::environments::reports::confirm(store, "acme", "prod", hash, "reporter", now, Duration::ZERO).await
}

async fn heartbeats_and_writers_are_served_in_order_of_arrival(database: Database) {
    let store =
        open(&database, DatabaseTimeouts { lock: Duration::from_secs(2), ..DatabaseTimeouts::default() })
            .await;
    let first = store.write().await.unwrap();
    let mut heartbeat = pin!(confirm(&store));
    assert!(heartbeat.as_mut().now_or_never().is_none());
    let mut next = pin!(store.write());
    assert!(next.as_mut().now_or_never().is_none());
    first.commit().await.unwrap();
    for _ in 0..50 {
        store.read().await.unwrap();
        assert!(next.as_mut().now_or_never().is_none(), "the next writer does not wait for the heartbeat");
    }
    // The transaction of the next writer stays open until the heartbeat is recorded.
    let (heartbeat, next) = tokio::join!(heartbeat, next);
    heartbeat.unwrap();
    // A heartbeat after a dropped transaction waits for its rollback.
    drop(next.unwrap());
    confirm(&store).await.unwrap();
}

async fn wait_in_the_write_queue_ends_after_a_timeout(database: Database) {
    // Long enough to open the database, whose migrations need a connection too.
    let short = Duration::from_secs(2);
    let store =
        open(&database, DatabaseTimeouts { connection: short, lock: short, ..DatabaseTimeouts::default() })
            .await;
    let _writing = store.write().await.unwrap();
    assert!(matches!(store.write().await.err(), Some(Error::Busy(_))));
    assert!(matches!(confirm(&store).await, Err(Error::Busy(_))));
}

async fn tokens_and_sessions_are_found_while_all_read_connections_are_used(database: Database) {
    let timeouts = DatabaseTimeouts {
        max_connections: 2,
        connection: Duration::from_secs(5),
        ..DatabaseTimeouts::default()
    };
    let store = open(&database, timeouts).await;
    let _reading = [store.read().await.unwrap(), store.read().await.unwrap()];
    assert!(store.read().await.is_err());
    let unknown = Fingerprint::from_content(b"");
    assert!(store::tokens::authentication::find(&store, unknown).await.unwrap().is_none());
    assert!(store::tokens::sessions::get(&store, unknown).await.unwrap().is_none());
}

async fn report_flood_of_one_organization_does_not_block_others(database: Database) {
    let service = Arc::new(TestService::start(database).await);
    let done = Arc::new(AtomicUsize::new(0));
    let mut reporting = JoinSet::new();
    for n in 0..40 {
        let (service, done) = (Arc::clone(&service), Arc::clone(&done));
        reporting.spawn(async move {
            let pods: Vec<_> = (0..300).map(|m| pod(&format!("p{n}-{m}"), "image", 'a')).collect();
            // Reports of one environment wait for each other, and some time out.
            let path = "/environments/stranger/prod/report/K8S?create=true";
            let request =
                service.request(Method::PUT, STRANGER, path).header("Content-Type", "application/json");
            let response = Response::from_request(request.body(report(&pods))).await;
            assert!(response.status.is_success() || response.status == 503, "{response:?}");
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    eventually("the first completes", async || done.load(Ordering::SeqCst) > 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    assert!(done.load(Ordering::SeqCst) < 30, "waited for all {}", done.load(Ordering::SeqCst));
    while let Some(done) = reporting.join_next().await {
        done.unwrap();
    }
}

async fn slow_bodies_of_one_organization_use_at_most_half_of_the_memory(database: Database) {
    let limits = Limits { inbound_kibibytes: 1024, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let head = format!(
        "PUT /api/v2/environments/stranger/prod/report/K8S?create=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {STRANGER}\r\n\
         Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    );
    let half = " ".repeat(500 * 1024);
    let mut slow = send_raw(&service, &head).await;
    slow.write_all(half.as_bytes()).await.unwrap();
    let mut slower = send_raw(&service, &head).await;
    slower.write_all(half.as_bytes()).await.unwrap();
    // The memory suffices for one of them.
    let rejected = tokio::select! {
        status = status(&mut slow) => status,
        status = status(&mut slower) => status,
    };
    assert_eq!(rejected, "503");
    let large = report(&[pod("p", "i", 'a')]) + &half;
    service.report(REPORTER, "prod", large).await.expect(201);
}

async fn token_has_at_most_100_sessions(database: Database) {
    let service = TestService::start(database).await;
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

async fn slow_receivers_of_one_organization_use_at_most_half_of_the_senders(database: Database) {
    let (slow, responsive) = (Server::start(|_| Reply::Stall), Server::start(|_| Reply::text(200, "")));
    let action = |targets: &str| {
        format!(
            "    actions: [{{number: 1, name: a, environments: [prod], triggers: [ON_STARTED_ARTIFACT], targets: [{targets}]}}]"
        )
    };
    let target = |n: usize, file: &str| {
        format!("{{name: t{n}, type: SLACK, url: {{file: {file}}}, channel: {{name: c}}}}")
    };
    let targets: Vec<_> = (0..8).map(|n| target(n, "slow")).collect();
    let file = bootstrap(1, &action(&targets.join(", "))) + &action(&target(0, "responsive")) + "\n";
    let delivery = Delivery {
        max_targets: 4,
        timeout: Duration::from_mins(10),
        lease: Duration::from_mins(20),
        interval: Duration::from_millis(20),
        ..Delivery::default()
    };
    let options = Options {
        limits: Limits { delivery, ..Options::default().limits },
        bootstrap: file,
        allowed_internal: &["127.0.0.1/32"],
        files: vec![("slow", slow.url()), ("responsive", responsive.url())],
        ..Options::default()
    };
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    eventually("two notifications are being sent", async || slow.requests().len() >= 2).await;
    let path = "/environments/stranger/prod/report/K8S?create=true";
    let request = service.request(Method::PUT, STRANGER, path).header("Content-Type", "application/json");
    Response::from_request(request.body(report(&[pod("p", "image", 'a')]))).await.expect(201);
    eventually("the notification of the other organization arrives", async || {
        responsive.requests().len() == 1
    })
    .await;
    assert_eq!(slow.requests().len(), 2);
}

async fn receivers_of_all_organizations_share_the_senders(database: Database) {
    let (released, holding) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let most = Arc::new(AtomicUsize::new(0));
    let slow = Server::start({
        let (released, most) = (Arc::clone(&released), Arc::clone(&most));
        move |_| {
            most.fetch_max(holding.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (released, holding) = (Arc::clone(&released), Arc::clone(&holding));
            Reply::Later(Box::pin(async move {
                released.acquire().await.unwrap().forget();
                holding.fetch_sub(1, Ordering::SeqCst);
                Reply::text(200, "")
            }))
        }
    });
    let action = "    actions: [{number: 1, name: a, environments: [prod], triggers: [ON_STARTED_ARTIFACT],
               targets: [{name: t, type: SLACK, url: {file: url}, channel: {name: c}}]}]";
    let delivery = Delivery { max_targets: 1, interval: Duration::from_millis(20), ..Delivery::default() };
    let options = Options {
        limits: Limits { delivery, ..Options::default().limits },
        bootstrap: bootstrap(1, action) + action + "\n",
        allowed_internal: &["127.0.0.1/32"],
        files: vec![("url", slow.url())],
        ..Options::default()
    };
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    eventually("a notification is being sent", async || slow.requests().len() == 1).await;
    let path = "/environments/stranger/prod/report/K8S?create=true";
    let request = service.request(Method::PUT, STRANGER, path).header("Content-Type", "application/json");
    Response::from_request(request.body(report(&[pod("p", "image", 'a')]))).await.expect(201);
    eventually("the other one waits", async || {
        service.metrics().await.contains("supercargo_notifications_waiting 2")
    })
    .await;
    released.add_permits(2);
    eventually("both arrive", async || {
        service.metrics().await.contains("supercargo_notifications_waiting 0")
    })
    .await;
    assert_eq!(slow.requests().len(), 2);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

async fn resources_of_another_organization_look_nonexistent_everywhere(database: Database) {
    let more = "    flows: [{name: cart}]
    actions: [{number: 1, name: a, environments: [test], triggers: [ON_STARTED_ARTIFACT],
               targets: [{name: t, type: SLACK, url: {file: url}, channel: {name: c}}]}]";
    let files = vec![("url", "https://hooks.example.com/x".to_owned())];
    let options = Options { bootstrap: bootstrap(1, more), files, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let data = json!({
        "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
        "repo_info": {"name": "acme/cart"},
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    let attestation = listed["data"][0]["attestation_id"].as_str().unwrap();
    let a = digest('a');
    // Another organization: the same response whether or not it exists.
    let denial = service.get(STRANGER, "/trails/nobody").await.expect(403).text;
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
        assert_eq!(service.get(STRANGER, &path).await.expect(403).text, denial, "{path}");
    }
    // Own organization: resources of another one look nonexistent.
    for (other, missing) in [
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
        ("/trails/stranger?flow=cart".to_owned(), "/trails/stranger?flow=nothing".to_owned()),
        ("/trails/stranger/cart/t".to_owned(), "/trails/stranger/nothing/t".to_owned()),
        ("/flows/stranger/cart".to_owned(), "/flows/stranger/nothing".to_owned()),
        (
            format!("/artifacts/stranger/cart/fingerprint/{a}"),
            format!("/artifacts/stranger/nothing/fingerprint/{a}"),
        ),
    ] {
        let (other, missing) = (service.get(STRANGER, &other).await, service.get(STRANGER, &missing).await);
        let message = |response: Response| {
            response.expect(404).text.replace("nothing", "cart").replace("action 2", "action 1")
        };
        assert_eq!(message(other), message(missing));
    }
    for query in [format!("fingerprint={a}"), "flow_tag=a=b".to_owned()] {
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
    // Even if an own trail has the same name.
    let path = "/attestations/stranger/cart/trail/t/junit";
    Response::from_request(service.request(Method::POST, STRANGER, path).multipart(form(&data)))
        .await
        .expect(201);
    assert_eq!(browser.get("/ui/stranger/flows/cart/trails/t").await.status, 200);
    let other = format!("/ui/stranger/flows/cart/trails/t/attestations/{attestation}");
    assert_eq!(browser.get(&other).await.status, 404);
    // The attestation did not change the other organization.
    assert_eq!(service.read("/attestations/acme/cart").await["pagination"]["total"], 1);
}

crate::service::on_both!(
    report_flood_of_one_organization_does_not_block_others,
    token_has_at_most_100_sessions,
    tokens_and_sessions_are_found_while_all_read_connections_are_used,
);

crate::service::on_sqlite!(
    organization_runs_at_most_half_of_all_requests,
    writers_wait_for_each_other_until_a_deadline,
    sign_ins_of_an_organization_share_its_writes,
    heartbeats_and_writers_are_served_in_order_of_arrival,
    wait_in_the_write_queue_ends_after_a_timeout,
    responses_that_wait_for_memory_count_as_reads_of_their_organization,
    slow_bodies_of_one_organization_use_at_most_half_of_the_memory,
    slow_receivers_of_one_organization_use_at_most_half_of_the_senders,
    receivers_of_all_organizations_share_the_senders,
    resources_of_another_organization_look_nonexistent_everywhere,
);
