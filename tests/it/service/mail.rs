//! Mail, through a real mail server on loopback (`mail_server.py`).

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use supercargo::domain::retry::Backoff;
use supercargo::service::{Delivery, Policy};
use tempfile::TempDir;

use super::running::{Options, bootstrap, eventually};
use super::{Database, READER, REPORTER, Running, digest, pod, report};
use crate::fake::pki::Authority;

const PASSWORD: &str = "mail-s3cret";

/// A mail server, which ends with the test.
struct MailServer {
    port: u16,
    took: Arc<Mutex<Vec<Value>>>,
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
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/service/mail_server.py");
        let mut command = Command::new(python);
        command.arg(script).args([certificate, key]).env("MAIL_PASSWORD", PASSWORD);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let took = Arc::<Mutex<Vec<Value>>>::default();
        let keep = Arc::clone(&took);
        let reader = std::thread::spawn(move || {
            for line in lines {
                keep.lock().unwrap().push(serde_json::from_str(&line.unwrap()).unwrap());
            }
        });
        let stdin = child.stdin.take();
        Self { port, took, child, stdin, reader: Some(reader), authority, _folder: folder }
    }

    fn took(&self) -> Vec<Value> {
        self.took.lock().unwrap().clone()
    }

    /// A service that sends mail through it to `recipient`.
    async fn used_by(&self, database: Database, recipient: &str, password: &str) -> Running {
        let organizations = bootstrap(
            1,
            &format!(
                "    environments: [{{name: prod, policy: {{approval: true}}}}]
    actions:
      - {{number: 1, name: mail, environments: [\"*\"], triggers: [ON_NON_COMPLIANT_ENV],
          targets: [{{name: ops, type: EMAIL, recipients: [{recipient}]}}]}}"
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
            first: Duration::from_millis(50),
            most: Duration::from_millis(50),
            ..Backoff::default()
        };
        let policy = Policy { delivery: Delivery { backoff, ..Delivery::default() }, ..Policy::default() };
        let files = vec![("ca.pem", self.authority.pem()), ("password", password.to_owned())];
        let allowed_internal = &["127.0.0.0/8"][..];
        let options = Options { policy, bootstrap, allowed_internal, files, ..Options::default() };
        Running::start_with(database, options).await
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
async fn a_mail_says_what_happened_over_tls_and_no_name_makes_a_header_of_its_own() {
    let server = MailServer::start();
    let service = server.used_by(Database::sqlite(), "ops@example.com", PASSWORD).await;
    let odd = pod("p", "web:1\r\nBcc: all@example.com", 'a');
    service.report(REPORTER, "prod", report(&[odd])).await.expect(201);
    eventually("the mail arrives", async || !server.took().is_empty()).await;
    let [mail] = &server.took()[..] else { panic!("{:?}", server.took()) };
    assert_eq!((&mail["from"], &mail["to"][0]), (&"from@example.com".into(), &"ops@example.com".into()));
    let text = mail["text"].as_str().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    for line in [
        "Subject: prod (acme) is not compliant: 1 artifact",
        "To: ops@example.com",
        "Message-ID: <",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=utf-8",
        "Auto-Submitted: auto-generated",
    ] {
        assert!(head.contains(line), "{text}");
    }
    assert!(!head.contains("Bcc"), "{text}");
    assert!(body.contains(&digest('a')[..12]) && body.contains("it is not approved"), "{text}");
    let works = async || service.read("/actions/acme/1").await["is_failing"] == false;
    eventually("it is recorded", works).await;
    let action = service.get(READER, "/actions/acme/1").await.json();
    assert_eq!(action["targets"][0]["recipients"], serde_json::json!(["ops@example.com"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd: SUPERCARGO_TEST_PYTHON=python3"]
async fn a_mail_that_is_refused_is_tried_again_and_no_password_is_said() {
    for (recipient, password, word) in
        [("refused@example.com", PASSWORD, "550"), ("ops@example.com", "wrong-s3cret", "535")]
    {
        let server = MailServer::start();
        let service = server.used_by(Database::sqlite(), recipient, password).await;
        service.report(REPORTER, "prod", report(&[pod("p", "web:1", 'a')])).await.expect(201);
        let problem = "SELECT problem FROM notifications WHERE tries > 1";
        eventually("it is tried again", async || !service.database.rows(problem).await.is_empty()).await;
        let problem = service.database.rows(problem).await.concat();
        assert!(problem.contains(word) && !problem.contains(password), "{problem}");
        assert!(server.took().is_empty());
    }
}
