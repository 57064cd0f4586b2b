//! Mail through a real mail server on loopback (`mail_server.py`).

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use model::retry::Backoff;
use serde_json::Value;
use service::{Delivery, Limits};
use tempfile::TempDir;

use crate::fake::pki::Authority;
use crate::service::report;
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{Database, READER, REPORTER, TestService, digest, pod};

const PASSWORD: &str = "mail-s3cret";

/// A mail server that is stopped on drop.
struct MailServer {
    port: u16,
    received: Arc<Mutex<Vec<Value>>>,
    child: Child,
    stdin: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
    authority: Authority,
    _folder: TempDir,
}

impl MailServer {
    fn start() -> Self {
        let python = std::env::var("SUPERCARGO_TEST_PYTHON").expect("SUPERCARGO_TEST_PYTHON");
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let identity = authority.host("localhost");
        let files = [("certificate", identity.certificate), ("key", identity.key)];
        let [certificate, key] = files.map(|(name, content)| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        });
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/service/environments/mail_server.py");
        let mut command = Command::new(python);
        command.arg(script).args([certificate, key]).env("MAIL_PASSWORD", PASSWORD);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let received = Arc::<Mutex<Vec<Value>>>::default();
        let messages = Arc::clone(&received);
        let reader = std::thread::spawn(move || {
            for line in lines {
                messages.lock().unwrap().push(serde_json::from_str(&line.unwrap()).unwrap());
            }
        });
        let stdin = child.stdin.take();
        Self { port, received, child, stdin, reader: Some(reader), authority, _folder: folder }
    }

    fn received(&self) -> Vec<Value> {
        self.received.lock().unwrap().clone()
    }

    /// Starts a service that sends mail to `recipients` through this server.
    async fn start_service(&self, database: Database, recipients: &str, password: &str) -> TestService {
        let organizations = bootstrap(
            1,
            &format!(
                "    environments: [{{name: prod, policy: {{approval: true}}}}]
    actions:
      - {{number: 1, name: mail, environments: [\"*\"], triggers: [ON_NON_COMPLIANT_ENV],
          targets: [{{name: ops, type: EMAIL, recipients: [{recipients}]}}]}}"
            ),
        );
        let port = self.port;
        let bootstrap = format!(
            "authorities: ca.pem
smtp: {{host: localhost, port: {port}, from: \"supercargo <from@example.com>\", username: supercargo,
       password: {{file: password}}}}
{organizations}"
        );
        let backoff = Backoff {
            initial: Duration::from_millis(50),
            max: Duration::from_millis(50),
            ..Backoff::default()
        };
        let limits = Limits { delivery: Delivery { backoff, ..Delivery::default() }, ..Limits::default() };
        let files = vec![("ca.pem", self.authority.pem()), ("password", password.to_owned())];
        let allowed_internal = &["127.0.0.0/8"][..];
        let options = Options { limits, bootstrap, allowed_internal, files, ..Options::default() };
        TestService::start_with(database, options).await
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd: SUPERCARGO_TEST_PYTHON=python3"]
async fn mail_is_sent_over_tls_without_header_injection() {
    let server = MailServer::start();
    let service = server.start_service(Database::sqlite(), "ops@example.com", PASSWORD).await;
    let pod = pod("p", "web:1\r\nBcc: all@example.com", 'a');
    service.report(REPORTER, "prod", report(&[pod])).await.expect(201);
    eventually("the mail arrives", async || !server.received().is_empty()).await;
    let [mail] = &server.received()[..] else { panic!("{:?}", server.received()) };
    assert_eq!((&mail["from"], &mail["to"][0]), (&"from@example.com".into(), &"ops@example.com".into()));
    let text = mail["text"].as_str().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    // Without the line breaks of quoted-printable (RFC 2045, section 6.7).
    let body = body.replace("=\r\n", "");
    for line in [
        "Subject: prod (acme) is non-compliant: 1 artifact",
        "To: ops@example.com",
        "Message-ID: <",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=utf-8",
        "Auto-Submitted: auto-generated",
    ] {
        assert!(head.contains(line), "{text}");
    }
    assert!(!head.contains("Bcc"), "{text}");
    assert!(body.contains(&digest('a')[..12]) && body.contains("not approved"), "{text}");
    let is_sent = async || service.read("/actions/acme/1").await["is_failing"] == false;
    eventually("the delivery is recorded", is_sent).await;
    let action = service.get(READER, "/actions/acme/1").await.json();
    assert_eq!(action["targets"][0]["recipients"], serde_json::json!(["ops@example.com"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd: SUPERCARGO_TEST_PYTHON=python3"]
async fn rejected_mail_is_retried_and_password_is_redacted() {
    for (recipient, password, status) in [
        ("refused@example.com", PASSWORD, "550"),
        ("rejected@example.com", PASSWORD, "554"),
        ("ops@example.com", "wrong-s3cret", "535"),
    ] {
        let server = MailServer::start();
        let service = server.start_service(Database::sqlite(), recipient, password).await;
        service.report(REPORTER, "prod", report(&[pod("p", "web:1", 'a')])).await.expect(201);
        let error = "SELECT last_error FROM notifications WHERE attempts > 1";
        eventually("the mail is retried", async || !service.database.rows(error).await.is_empty()).await;
        let error = service.database.rows(error).await.concat();
        assert!(error.contains(status) && !error.contains(password), "{error}");
        assert!(server.received().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd: SUPERCARGO_TEST_PYTHON=python3"]
async fn refused_recipient_is_named_and_does_not_stop_the_others() {
    let server = MailServer::start();
    let recipients = "ops@example.com, refused@example.com, kim@example.com";
    let service = server.start_service(Database::sqlite(), recipients, PASSWORD).await;
    service.report(REPORTER, "prod", report(&[pod("p", "web:1", 'a')])).await.expect(201);
    let target = async || service.read("/actions/acme/1").await["targets"][0].clone();
    eventually("the delivery is recorded", async || target().await["last_success_at"].is_number()).await;
    eventually("the mail is read", async || !server.received().is_empty()).await;
    let [mail] = &server.received()[..] else { panic!("{:?}", server.received()) };
    assert_eq!(mail["to"], serde_json::json!(["ops@example.com", "kim@example.com"]));
    assert_eq!(service.read("/actions/acme/1").await["is_failing"], true);
    let error = target().await["last_error"].to_string();
    assert!(error.contains("refused refused@example.com: ") && error.contains("550"), "{error}");
    assert!(!error.contains("ops@") && !error.contains("kim@"), "{error}");
    let attempts = "SELECT CAST(attempts AS TEXT) FROM notifications WHERE sent_at IS NOT NULL";
    assert_eq!(service.database.rows(attempts).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd: SUPERCARGO_TEST_PYTHON=python3"]
async fn deferred_recipient_gets_the_mail_later_and_the_others_get_it_once() {
    let server = MailServer::start();
    let recipients = "ops@example.com, later@example.com, refused@example.com";
    let service = server.start_service(Database::sqlite(), recipients, PASSWORD).await;
    service.report(REPORTER, "prod", report(&[pod("p", "web:1", 'a')])).await.expect(201);
    let waiting = "SELECT last_error FROM notifications WHERE sent_at IS NULL AND last_error IS NOT NULL";
    eventually("one waits", async || !service.database.rows(waiting).await.is_empty()).await;
    let target = &service.read("/actions/acme/1").await["targets"][0];
    let error = target["last_error"].to_string();
    for refused in ["later@example.com: ", "450", "refused@example.com: ", "550"] {
        assert!(error.contains(refused), "{error}");
    }
    let sent = "SELECT last_error FROM notifications WHERE sent_at IS NOT NULL";
    eventually("all have it", async || !service.database.rows(sent).await.is_empty()).await;
    eventually("both mails are read", async || server.received().len() > 1).await;
    let received = server.received();
    let to: Vec<_> = received.iter().map(|mail| mail["to"][0].as_str().unwrap()).collect();
    assert_eq!(to, ["ops@example.com", "later@example.com"], "{received:?}");
    let error = service.database.rows(sent).await.concat();
    assert!(error.contains("refused@example.com: ") && !error.contains("later@"), "{error}");
}
