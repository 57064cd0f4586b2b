//! A service in the process of the test, and a client for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use runtime::listener::Bounds;
use runtime::tls;
use serde_json::{Value, json};
use service::{Clock, Limits, Service, Setup};
use store::{DatabaseTimeouts, DatabaseUrl};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use crate::daemon::eventually;
use crate::program::{Outcome, supercargo};
use crate::service::{ADMIN, APPROVER, ATTESTER, Database, EXPIRED, READER, REPORTER, STRANGER};

/// The bootstrap file of most tests: their tokens, and `more` below `acme`.
pub fn bootstrap(generation: i64, more: &str) -> String {
    format!(
        "generation: {generation}
organizations:
  - name: acme
    tokens:
      - {{name: admin, role: admin, file: {ADMIN}}}
      - {{name: reader, role: read, file: {READER}}}
      - {{name: reporter, role: report, environments: [prod], create: true, file: {REPORTER}}}
      - {{name: attester, role: attest, flows: [cart], file: {ATTESTER}}}
      - {{name: kim, role: approve, environments: [prod], flows: [cart], file: {APPROVER}}}
      - {{name: expired, role: admin, file: {EXPIRED}, expires: 2020-01-01T00:00:00Z}}
{more}
  - name: stranger
    tokens:
      - {{name: admin, role: admin, file: {STRANGER}}}
"
    )
}

/// A folder with the bootstrap file and one file per token, named like the token.
pub fn folder(bootstrap: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for token in [ADMIN, READER, REPORTER, ATTESTER, APPROVER, STRANGER, EXPIRED] {
        std::fs::write(folder.path().join(token), format!("{token}\n")).unwrap();
    }
    std::fs::write(folder.path().join("bootstrap.yaml"), bootstrap).unwrap();
    folder
}

/// Differences from the default setup.
pub struct Options {
    pub limits: Limits,
    pub bounds: Bounds,
    pub bootstrap: String,
    pub public_url: Option<&'static str>,
    /// Certificate files, and the PEM of the certificate authority for the clients.
    pub tls: Option<(tls::Files, String)>,
    /// Overrides the URL of the database.
    pub database_url: Option<String>,
    /// The URL of a replica.
    pub database_read: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// Internal networks that notifications may be sent to.
    pub allowed_internal: &'static [&'static str],
    /// Networks of proxies.
    pub trusted_proxies: &'static [&'static str],
    /// Creates a one-time sign-in link, as the demo does.
    pub invites: bool,
    pub clock: Clock,
    /// The private key for checkpoints.
    pub signing_key: Option<PathBuf>,
    /// Files beside the bootstrap file.
    pub files: Vec<(&'static str, String)>,
}

impl Options {
    /// With a second task that evaluates due and queued environments at once.
    pub fn evaluating_often() -> Self {
        let mut options = Self::default();
        options.limits.evaluation_interval = Duration::from_millis(20);
        options
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // No rate limit: most tests with invalid tokens check each response.
            // A second task that evaluates environments would make the results of a change visible later than its response,
            // and so would a busy machine.
            limits: Limits {
                invalid_tokens: u32::MAX,
                evaluation_interval: Duration::from_hours(1),
                requested_evaluation: Duration::from_mins(1),
                ..Limits::default()
            },
            bounds: Bounds { linger: Duration::from_millis(500), ..Bounds::default() },
            bootstrap: bootstrap(1, ""),
            public_url: None,
            tls: None,
            database_url: None,
            database_read: None,
            password_file: None,
            allowed_internal: &[],
            trusted_proxies: &[],
            invites: false,
            clock: Clock::default(),
            signing_key: None,
            files: Vec::new(),
        }
    }
}

pub struct TestService {
    pub base: String,
    pub admin: String,
    pub http: reqwest::Client,
    pub database: Database,
    /// One-time sign-in link.
    pub invitation: Option<String>,
    folder: TempDir,
    reload: mpsc::Sender<()>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), service::Ended>>,
}

#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

pub fn setup(database: &Database, folder: &Path, options: &Options) -> Setup {
    let parse = |url: String| -> DatabaseUrl {
        let url: DatabaseUrl = url.parse().unwrap();
        url.with_password_file(options.password_file.clone()).unwrap()
    };
    let networks = |texts: &[&str]| texts.iter().map(|network| network.parse().unwrap()).collect();
    Setup {
        listen: ([127, 0, 0, 1], 0).into(),
        tls: options.tls.as_ref().map(|(files, _)| files.clone()),
        admin_listen: ([127, 0, 0, 1], 0).into(),
        database: parse(options.database_url.clone().unwrap_or_else(|| database.url())),
        database_read: options.database_read.clone().map(parse),
        bootstrap: Some(folder.join("bootstrap.yaml")),
        public_url: options.public_url.map(|url| url.parse().unwrap()),
        limits: options.limits,
        clock: options.clock.clone(),
        signing_key: options.signing_key.clone(),
        bounds: options.bounds,
        timeouts: DatabaseTimeouts { max_connections: 8, ..DatabaseTimeouts::default() },
        allowed_internal: networks(options.allowed_internal),
        trusted_proxies: networks(options.trusted_proxies),
    }
}

/// A client that trusts the certificate authority of the service.
pub fn client(options: &Options) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder().no_proxy().tls_info(true);
    match &options.tls {
        None => builder,
        Some((_, authority)) => {
            builder.tls_certs_only([reqwest::Certificate::from_pem(authority.as_bytes()).unwrap()])
        }
    }
}

impl TestService {
    pub async fn start(database: Database) -> Self {
        Self::start_with(database, Options::default()).await
    }

    pub async fn start_with(database: Database, options: Options) -> Self {
        let folder = folder(&options.bootstrap);
        for (name, content) in &options.files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let service = Service::start(setup(&database, folder.path(), &options)).await.unwrap();
        let (base, admin) = (service.address(), service.admin_address());
        let invitation = options.invites.then(|| service.invite(READER, Duration::from_mins(10)).unwrap());
        let shutdown = CancellationToken::new();
        let (reload, mut reloads) = mpsc::channel(1);
        let task = tokio::spawn(service.run(shutdown.clone(), async move || reloads.recv().await));
        let http = client(&options).build().unwrap();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let (base, admin) = (format!("{scheme}://{base}"), format!("http://{admin}"));
        Self { base, admin, http, database, invitation, folder, reload, shutdown, task }
    }

    /// Starts a service that is told to shut down before it runs, and waits for its end.
    pub async fn start_and_shut_down(database: &Database, options: &Options) {
        let folder = folder(&options.bootstrap);
        for (name, content) in &options.files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let service = Service::start(setup(database, folder.path(), options)).await.unwrap();
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        let (_reload, mut reloads) = mpsc::channel(1);
        service.run(shutdown, async move || reloads.recv().await).await.unwrap();
    }

    /// Shuts the service down and returns its database.
    pub async fn stop(self) -> Database {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
        self.database
    }

    pub fn start_shutdown(&self) {
        self.shutdown.cancel();
    }

    pub fn bootstrap_file(&self) -> PathBuf {
        self.folder.path().join("bootstrap.yaml")
    }

    /// Reloads the bootstrap file and waits for the result.
    pub async fn reload(&self, bootstrap: &str) {
        std::fs::write(self.bootstrap_file(), bootstrap).unwrap();
        let before = self.loads().await;
        self.reload.send(()).await.unwrap();
        eventually("the file is reloaded", async || self.loads().await != before).await;
    }

    /// Counters of bootstrap file loads by outcome.
    async fn loads(&self) -> Vec<String> {
        let loads = |line: &&str| line.starts_with("supercargo_bootstrap_loads_total");
        self.metrics().await.lines().filter(loads).map(str::to_owned).collect()
    }

    pub async fn metrics(&self) -> String {
        let response = self.http.get(format!("{}/metrics", self.admin)).send().await.unwrap();
        response.text().await.unwrap()
    }

    /// Host and port of the API.
    pub fn host(&self) -> &str {
        self.base.split_once("://").unwrap().1
    }

    /// A request below `/api/v2`.
    pub fn request(&self, method: Method, token: &str, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/api/v2{path}", self.base)).bearer_auth(token)
    }

    pub async fn get(&self, token: &str, path: &str) -> Response {
        Response::from_request(self.request(Method::GET, token, path)).await
    }

    /// Sends a GET as the reader, expects 200 and returns the JSON.
    #[track_caller]
    pub fn read(&self, path: &str) -> impl Future<Output = Value> {
        let response = self.get(READER, path);
        async move { response.await.expect(200).json() }
    }

    pub async fn report(&self, token: &str, environment: &str, body: impl Into<reqwest::Body>) -> Response {
        let path = format!("/environments/acme/{environment}/report/K8S?create=true");
        let request = self.request(Method::PUT, token, &path).header("Content-Type", "application/json");
        Response::from_request(request.body(body)).await
    }

    pub async fn attest(&self, token: &str, flow: &str, trail: &str, form: Form) -> Response {
        let path = format!("/attestations/acme/{flow}/trail/{trail}/junit");
        Response::from_request(self.request(Method::POST, token, &path).multipart(form)).await
    }
}

impl TestService {
    /// Runs the program with this service and token. Spaces separate the words of the line.
    pub async fn program(&self, token: &str, line: &str) -> Outcome {
        let program = supercargo().env("SUPERCARGO_BASE_URL", &self.base).env("SUPERCARGO_ORG", "acme");
        let program = program.env("SUPERCARGO_TOKEN", token).args(line.split(' '));
        tokio::task::spawn_blocking(|| program.run()).await.unwrap()
    }
}

impl Response {
    pub async fn from_request(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Self { status, headers, text: response.text().await.unwrap() }
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        if !self.status.is_success() {
            assert!(self.json()["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        }
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json", "{self:?}");
        serde_json::from_str(&self.text).unwrap()
    }

    /// Expects a 400 with this text for this field or parameter.
    #[track_caller]
    pub fn assert_field_error(self, field: &str, text: &str) {
        let response = self.expect(400);
        let json = response.json();
        let why = json["errors"][field].as_str().unwrap_or_else(|| panic!("{field}: {json}"));
        assert!(why.contains(text), "{text}: {json}");
    }
}

/// The digest that consists of this digit.
pub fn digest(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A pod in the namespace `shop` with one image.
pub fn pod(name: &str, image: &str, digit: char) -> Value {
    json!({
        "podName": name, "namespace": "shop", "creationTimestamp": 1_790_000_000,
        "digests": {image: digest(digit)}, "owners": [],
    })
}

pub fn report(pods: &[Value]) -> String {
    json!({"type": "K8S", "artifacts": pods}).to_string()
}

/// The form of operation 5 without an attachment.
pub fn form(data: &Value) -> Form {
    Form::new().part("data_json", Part::text(data.to_string()))
}
