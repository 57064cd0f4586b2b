//! What is sent when something happens: that it arrives, is signed, comes back until it does, and goes nowhere
//! that it must not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use supercargo::domain::retry::Backoff;
use supercargo::service::notify::signature;
use supercargo::service::{Delivery, Policy};

use super::browser::{Browser, shows};
use super::running::{Options, bootstrap, eventually};
use super::{ADMIN, Database, READER, REPORTER, Running, digest, pod, report};
use crate::fake::{Reply, Seen, Server};

const SECRET: &str = "whsec-0123456789abcdef0123456789";
const NEXT_SECRET: &str = "whsec-next-0123456789abcdef01234";

/// One action of `acme` for everything in `prod`, with these targets.
fn action(generation: i64, targets: &str) -> String {
    let triggers = "ON_STARTED_ARTIFACT, ON_EXITED_ARTIFACT, ON_SCALED_ARTIFACT, ON_ALLOWED_ARTIFACT, \
                    ON_NON_COMPLIANT_ENV, ON_COMPLIANT_ENV";
    let more = format!(
        "    environments: [{{name: prod, policy: {{attestations: [{{flow: cart, name: unit}}]}}}}]
    actions: [{{number: 7, name: tell ops, environments: [prod], triggers: [{triggers}], targets: [{targets}]}}]"
    );
    bootstrap(generation, &more)
}

const WEBHOOK: &str = "{name: ops, type: WEBHOOK, url: {file: ops.url}, secrets: [{file: secret}]}";

fn policy() -> Policy {
    let backoff =
        Backoff { first: Duration::from_millis(5), most: Duration::from_millis(20), ..Backoff::default() };
    let interval = Duration::from_millis(20);
    Policy { delivery: Delivery { backoff, interval, ..Delivery::default() }, ..Policy::default() }
}

fn options(targets: &str, files: &[(&'static str, String)]) -> Options {
    let mut files = files.to_vec();
    files.extend([("secret", SECRET.to_owned()), ("next", NEXT_SECRET.to_owned())]);
    let allowed_internal = &["127.0.0.1/32"][..];
    Options { policy: policy(), bootstrap: action(1, targets), allowed_internal, files, ..Options::default() }
}

async fn start(database: Database, receiver: &Server) -> Running {
    let url = format!("{}/hook?key=credential", receiver.url());
    Running::start_with(database, options(WEBHOOK, &[("ops.url", url)])).await
}

/// What arrived, as a receiver that checks the signature reads it.
fn received(receiver: &Server) -> Vec<Value> {
    receiver.seen().iter().map(|seen| verified(seen, SECRET)).collect()
}

fn verified(seen: &Seen, secret: &str) -> Value {
    let header = |name: &str| seen.headers[name].to_str().unwrap().to_owned();
    let (id, signed) = (header(signature::ID), header(signature::SIGNATURE));
    assert!(signature::verify(&secret.to_owned().into(), &signed, &id, &seen.body), "{signed}");
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(body["id"], id);
    body
}

fn triggers(notifications: &[Value]) -> Vec<&str> {
    notifications.iter().map(|notification| notification["trigger"].as_str().unwrap()).collect()
}

/// The action, as the list shows it to this token.
async fn listed(service: &Running, token: &str) -> Value {
    let list = service.get(token, "/organizations/acme/environments_notifications").await.expect(200).json();
    list[0].clone()
}

async fn what_happens_arrives_signed_and_once(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let service = start(database, &receiver).await;
    assert_eq!(listed(&service, READER).await["is_failing"], Value::Null);
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    service.report(ADMIN, "test", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    eventually("four arrive", async || receiver.seen().len() >= 4).await;
    let all = received(&receiver);
    let expected = ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV", "ON_EXITED_ARTIFACT", "ON_COMPLIANT_ENV"];
    assert_eq!(triggers(&all), expected);
    let ids: BTreeSet<_> = all.iter().map(|n| n["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 4);
    let mut ill = all[1].clone();
    assert!(ill["occurred_at"].as_f64().unwrap() > 1.7e9);
    ill["occurred_at"] = json!(0);
    let path = ill["html_url"].as_str().unwrap().strip_prefix(&service.base).unwrap();
    shows(&Browser::looks(&service, path).await, &["<h1><bdi>prod</bdi></h1>"]);
    let reason = "unit of the flow cart is missing";
    let expected = json!({
        "schema_version": 1, "id": ill["id"], "action": {"number": 7, "name": "tell ops"},
        "html_url": ill["html_url"], "trigger": "ON_NON_COMPLIANT_ENV", "occurred_at": 0, "organization": "acme", "environment": "prod",
        "snapshot_index": 1, "compliance": "NON-COMPLIANT", "cause": {"type": "REPORT", "by": "reporter"},
        "artifacts": [{
            "fingerprint": digest('a'), "name": "cart:1", "compliance": "NON-COMPLIANT", "reasons": [reason],
            "pods": 1, "pods_before": 0,
        }],
        "artifacts_total": 1,
    });
    assert_eq!(ill, expected);
    // The example has the same shape.
    ill["id"] = json!("01a2a0f3-6c54-7d10-b0a5-1f6d0c6c2f5e");
    ill["occurred_at"] = json!(1_790_000_000.5);
    ill["html_url"] = json!("https://compliance.example.com/ui/acme/environments/prod");
    super::is_committed("notification.json", &format!("{ill:#}\n"));
    for seen in receiver.seen() {
        assert_eq!((seen.path.as_str(), seen.query.as_str()), ("/hook", "key=credential"));
        assert_eq!(seen.headers["content-type"], "application/json");
    }
    let is_recorded = async || listed(&service, READER).await["is_failing"] == false;
    eventually("that it arrived is shown", is_recorded).await;
    let sent = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE sent_at IS NOT NULL";
    eventually("all are recorded", async || service.database.rows(sent).await == ["4"]).await;
    assert_eq!(receiver.seen().len(), 4);
}

async fn what_does_not_arrive_comes_again_under_the_same_identifier(database: Database) {
    let status = Arc::new(AtomicU16::new(500));
    let answers = Arc::clone(&status);
    let receiver = Server::start(move |_| match answers.load(Ordering::Relaxed) {
        // A redirect is not followed, wherever it leads.
        302 => Reply::text(302, "").with("location", "/elsewhere"),
        0 => Reply::Reset,
        status => Reply::text(status, "no"),
    });
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    for next in [302, 0, 404, 200] {
        let before = receiver.seen().len();
        eventually("it is tried again", async || receiver.seen().len() > before + 2).await;
        assert_eq!(listed(&service, READER).await["is_failing"], true, "{next}");
        status.store(next, Ordering::Relaxed);
    }
    eventually("it works", async || listed(&service, READER).await["is_failing"] == false).await;
    let action = listed(&service, READER).await;
    let at = |field: &str| action[field].as_f64().unwrap();
    assert!(at("last_success_timestamp") > at("last_failure_timestamp"), "{action}");
    let open = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE sent_at IS NULL";
    eventually("both arrive", async || service.database.rows(open).await == ["0"]).await;
    let ids: BTreeSet<_> = received(&receiver).iter().map(|n| n["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert!(receiver.seen().iter().all(|seen| seen.path == "/hook"));
}

async fn what_never_arrives_is_given_up_and_says_why(database: Database) {
    let receiver = Server::start(|_| Reply::text(503, "no"));
    let url = receiver.url();
    let mut options = options(WEBHOOK, &[("ops.url", url)]);
    options.policy.delivery.patience = Duration::from_millis(30);
    let service = Running::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let dropped = "SELECT problem FROM notifications WHERE dropped_at IS NOT NULL";
    let words = ["it answered 503"; 2];
    eventually("both are given up", async || service.database.rows(dropped).await == words).await;
    eventually("it is shown", async || {
        service.metrics().await.contains("supercargo_notifications_waiting 0")
    })
    .await;
}

async fn either_secret_verifies_while_one_takes_the_other_s_place(database: Database) {
    let receiver = Server::start(|_| Reply::text(200, ""));
    let service = start(database, &receiver).await;
    let both = WEBHOOK.replace("[{file: secret}]", "[{file: next}, {file: secret}]");
    service.reload(&action(2, &both)).await;
    assert!(service.metrics().await.contains("supercargo_bootstrap_generation 2"));
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    eventually("both arrive", async || receiver.seen().len() == 2).await;
    for seen in receiver.seen() {
        verified(&seen, SECRET);
        verified(&seen, NEXT_SECRET);
    }
    // Another secret is no change of the action that anybody sees.
    assert_eq!(service.database.rows("SELECT name FROM actions").await, ["tell ops"]);
}

async fn a_target_that_never_answers_holds_up_no_other(database: Database) {
    let (silent, lively) = (Server::start(|_| Reply::Stall), Server::start(|_| Reply::text(200, "")));
    let targets = format!(
        "{}, {{name: chat, type: SLACK, url: {{file: chat.url}}, channel: {{name: \"#ops\"}}}}",
        WEBHOOK.replace("ops.url", "silent.url")
    );
    let files = [("silent.url", silent.url()), ("chat.url", lively.url())];
    let service = Running::start_with(database, options(&targets, &files)).await;
    for digit in ['a', 'b', 'c'] {
        service.report(REPORTER, "prod", report(&[pod("p", "<!here>:1", digit)])).await.expect(201);
    }
    // Three that start, two that exit, and one environment that is not compliant.
    eventually("six arrive", async || lively.seen().len() == 6).await;
    let body: Value = serde_json::from_slice(&lively.seen()[1].body).unwrap();
    let reason = "unit of the flow cart is missing";
    let line = format!("&lt;!here&gt;:1 {}: {reason}", &digest('a')[..12]);
    let text = format!(
        "```\nprod (acme) is not compliant: 1 artifact\n{line}\nsnapshot 1; caused by a report by reporter\n```\n{}/ui/acme/environments/prod",
        service.base
    );
    assert_eq!(body, json!({ "text": text }));
    // One at a time is what the silent one gets.
    assert_eq!(silent.seen().len(), 1);
    let action = listed(&service, READER).await;
    let chat = action["targets"].as_array().unwrap().iter().find(|target| target["type"] == "SLACK").unwrap();
    assert_eq!(chat["context"], json!({"channel_name": "#ops"}));
}

async fn however_much_waits_for_targets_that_never_answer_others_get_theirs(database: Database) {
    let (silent, lively) = (Server::start(|_| Reply::Stall), Server::start(|_| Reply::text(200, "")));
    let named = |name: &str, url: &str| {
        WEBHOOK.replace("name: ops", &format!("name: {name}")).replace("ops.url", url)
    };
    let targets = ["a", "b", "c"].map(|name| named(name, "silent.url")).join(", ");
    let targets = format!("{targets}, {}", named("lively", "lively.url"));
    let files = [("silent.url", silent.url()), ("lively.url", lively.url())];
    let mut options = options(&targets, &files);
    // Fewer at once, in the half that is for one organization, than there are of those that never answer.
    options.policy.delivery.at_once = 4;
    options.policy.delivery.timeout = Duration::from_millis(200);
    let hour = Duration::from_hours(1);
    options.policy.delivery.backoff = Backoff { first: hour, most: hour, ..Backoff::default() };
    let service = Running::start_with(database, options).await;
    for digit in "abcdef".chars() {
        service.report(REPORTER, "prod", report(&[pod("p", "cart:1", digit)])).await.expect(201);
    }
    // Six that start, five that exit, and one environment that is not compliant.
    eventually("all arrive", async || lively.seen().len() == 12).await;
    // Each of them once, and not once for each of the twelve.
    assert!(silent.seen().len() <= 3, "{}", silent.seen().len());
}

async fn a_time_that_a_fast_clock_left_holds_up_nothing(database: Database) {
    let receiver = Server::start(|_| Reply::text(200, ""));
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    let ahead = "UPDATE environments SET judged_at = judged_at + 3600000000, last_report_at = last_report_at + 3600000000";
    service.database.execute(ahead).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let started = async || triggers(&received(&receiver)).contains(&"ON_STARTED_ARTIFACT");
    eventually("it arrives", started).await;
}

async fn nothing_waits_for_an_organization_that_is_closed(database: Database) {
    let receiver = Server::start(|_| Reply::text(500, ""));
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let waits = async || service.metrics().await.contains("supercargo_notifications_waiting 2");
    eventually("two wait", waits).await;
    let whole = bootstrap(2, "");
    let (_, stranger) = whole.split_once("  - name: stranger").unwrap();
    service.reload(&format!("generation: 2\norganizations:\n  - name: stranger{stranger}")).await;
    let over = async || service.metrics().await.contains("supercargo_notifications_waiting 0");
    eventually("none does", over).await;
}

async fn an_internal_address_is_not_connected_to_however_it_is_written(database: Database) {
    let inside = Server::start(|_| Reply::text(200, ""));
    let port = inside.url().rsplit(':').next().unwrap().to_owned();
    let hosts = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0"];
    let names = ["one", "two", "three", "four", "five", "six"];
    let targets =
        names.map(|name| WEBHOOK.replace("name: ops", &format!("name: {name}")).replace("ops.url", name));
    let files: Vec<_> =
        names.into_iter().zip(hosts).map(|(name, host)| (name, format!("http://{host}:{port}/x"))).collect();
    let options = Options { allowed_internal: &[], ..options(&targets.join(", "), &files) };
    let service = Running::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let problems = "SELECT DISTINCT t.name, n.problem FROM notifications n JOIN targets t ON t.id = n.target
                    WHERE n.problem IS NOT NULL";
    eventually("none is connected to", async || service.database.rows(problems).await.len() >= 6).await;
    for problem in service.database.rows(problems).await {
        assert!(problem.contains("is internal"), "{problem}");
    }
    assert!(inside.seen().is_empty());
}

async fn an_address_is_a_credential_that_only_an_admin_sees(database: Database) {
    let receiver = Server::start(|_| Reply::text(200, ""));
    let service = start(database, &receiver).await;
    let webhook = async |token: &str, path: &str| {
        let answer = service.get(token, path).await.expect(200);
        let json = answer.json();
        let action = if json.is_array() { json[0].clone() } else { json };
        action["targets"][0]["webhook"].as_str().unwrap().to_owned()
    };
    for path in ["/organizations/acme/environments_notifications", "/actions/acme/7"] {
        assert_eq!(webhook(ADMIN, path).await, format!("{}/hook?key=credential", receiver.url()));
        assert_eq!(webhook(READER, path).await, receiver.url());
    }
    // Nor is it, or a secret, in the database.
    for table in ["targets", "actions", "audit", "notifications", "events"] {
        let columns = match table {
            "targets" | "events" => "content",
            "audit" => "change",
            "notifications" => "COALESCE(problem, '')",
            _ => "name",
        };
        let rows = service.database.rows(&format!("SELECT {columns} FROM {table}")).await.concat();
        assert!(!rows.contains("credential") && !rows.contains("whsec"), "{table}: {rows}");
    }
}

async fn a_target_that_is_taken_out_gets_nothing_more(database: Database) {
    let receiver = Server::start(|_| Reply::text(500, ""));
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    eventually("it is tried", async || !receiver.seen().is_empty()).await;
    service.reload(&bootstrap(2, "")).await;
    let gone = service.get(READER, "/actions/acme/7").await.expect(404);
    assert!(gone.text.contains("no action 7"), "{}", gone.text);
    eventually("nothing waits", async || {
        service.metrics().await.contains("supercargo_notifications_waiting 0")
    })
    .await;
    // Its number is not given again.
    let said = std::fs::write(service.bootstrap_file(), action(3, WEBHOOK));
    said.unwrap();
    service.reload(&action(3, WEBHOOK)).await;
    service.get(READER, "/actions/acme/7").await.expect(404);
    assert!(service.metrics().await.contains("supercargo_bootstrap_loads_total{outcome=\"failed\"} 1"));
}

#[test]
fn the_committed_schema_is_the_code_s() {
    let schema = format!("{:#}\n", supercargo::service::notify::schema());
    super::is_committed("notification.schema.json", &schema);
}

super::on_both!(
    what_happens_arrives_signed_and_once,
    what_does_not_arrive_comes_again_under_the_same_identifier,
    what_never_arrives_is_given_up_and_says_why,
    however_much_waits_for_targets_that_never_answer_others_get_theirs,
    a_time_that_a_fast_clock_left_holds_up_nothing,
    nothing_waits_for_an_organization_that_is_closed,
    a_target_that_is_taken_out_gets_nothing_more,
);

super::on_sqlite!(
    either_secret_verifies_while_one_takes_the_other_s_place,
    a_target_that_never_answers_holds_up_no_other,
    an_internal_address_is_not_connected_to_however_it_is_written,
    an_address_is_a_credential_that_only_an_admin_sees,
);
