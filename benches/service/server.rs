//! `supercargo serve` as a process, and its clients.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::cluster::{FLOW, attestation};
use super::database::Database;
use super::process::{Process, program};

/// Artifacts of an attestation before a measurement.
const MAX_ATTESTED: usize = 500;

/// The service closes connections that are idle for 30 s, which a client that is not polled does not notice.
const MAX_IDLE: Duration = Duration::from_secs(20);

/// An organization of the bootstrap file.
pub(super) struct Organization {
    name: String,
    /// Names of its tokens of role admin; [`token`] returns their text.
    tokens: Vec<String>,
    /// Further keys in YAML, indented by four spaces.
    settings: String,
}

impl Organization {
    /// An organization with one token, which has its name.
    pub(super) fn new(name: &str, settings: impl Into<String>) -> Self {
        Self { name: name.to_owned(), tokens: vec![name.to_owned()], settings: settings.into() }
    }

    pub(super) fn with_tokens(mut self, tokens: impl IntoIterator<Item = String>) -> Self {
        self.tokens.extend(tokens);
        self
    }
}

/// A running service, killed on drop.
pub(super) struct Server {
    pub(super) process: Process,
    pub(super) address: String,
    _folder: TempDir,
}

impl Server {
    pub(super) fn start(database: &Database, organizations: &[Organization]) -> Self {
        Self::start_with(database, organizations, &[])
    }

    /// Starts a service with further arguments.
    pub(super) fn start_with(
        database: &Database,
        organizations: &[Organization],
        arguments: &[String],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut bootstrap = "generation: 1\norganizations:\n".to_owned();
        for Organization { name, tokens, settings } in organizations {
            writeln!(bootstrap, "  - name: {name}\n    tokens:").unwrap();
            for token in tokens {
                writeln!(bootstrap, "      - {{name: {token}, role: admin, variable: TOKEN_{token}}}")
                    .unwrap();
            }
            bootstrap.push_str(settings);
        }
        std::fs::write(folder.path().join("bootstrap.yaml"), bootstrap).unwrap();
        let tokens = organizations.iter().flat_map(|organization| &organization.tokens);
        let mut command = program();
        command
            .env("SUPERCARGO_DATABASE", &database.url)
            .envs(tokens.map(|name| (format!("TOKEN_{name}"), token(name))))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--bootstrap"])
            .arg(folder.path().join("bootstrap.yaml"))
            .args(arguments);
        let mut process = Process::start(&mut command);
        let address = process.address("serving on http");
        Self { process, address, _folder: folder }
    }

    /// Connects with the token of an organization.
    pub(super) fn connect(&self, organization: &str) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sender = runtime.block_on(connect(&self.address));
        let (organization, address) = (organization.to_owned(), self.address.clone());
        Client { organization, address, sender, used: Instant::now(), runtime }
    }
}

async fn connect(address: &str) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Text of the token with this name.
fn token(name: &str) -> String {
    format!("{name:0>64}")
}

/// A report with the token of this name.
pub(super) fn report_request(
    organization: &str,
    environment: &str,
    token_name: &str,
    body: Vec<u8>,
) -> Request<Full<Bytes>> {
    Request::put(format!("/api/v2/environments/{organization}/{environment}/report/K8S?create=true"))
        .header(HOST, "localhost")
        .header(AUTHORIZATION, format!("Bearer {}", token(token_name)))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

/// A client of an organization, with a persistent connection.
pub(super) struct Client {
    organization: String,
    address: String,
    sender: SendRequest<Full<Bytes>>,
    used: Instant,
    runtime: Runtime,
}

pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) milliseconds: f64,
}

impl Response {
    /// Returns the milliseconds of a response with this status.
    pub(super) fn expect(&self, status: u16) -> f64 {
        assert_eq!(self.status, status);
        self.milliseconds
    }
}

impl Client {
    pub(super) fn get(&mut self, path: &str) -> Response {
        let request = Request::get(format!("/api/v2/{path}"))
            .header(HOST, "localhost")
            .header(AUTHORIZATION, format!("Bearer {}", token(&self.organization)));
        self.send(request.body(Full::default()).unwrap())
    }

    pub(super) fn report(&mut self, environment: &str, body: Vec<u8>) -> Response {
        self.send(report_request(&self.organization, environment, &self.organization, body))
    }

    /// Attests artifacts on a new trail.
    pub(super) fn attest(&mut self, passes: bool, artifacts: impl IntoIterator<Item = u64>) -> Response {
        let data = attestation(passes, artifacts);
        let body =
            format!("--x\r\nContent-Disposition: form-data; name=\"data_json\"\r\n\r\n{data}\r\n--x--\r\n");
        let (organization, trail) = (&self.organization, fastrand::u64(..));
        let request =
            Request::post(format!("/api/v2/attestations/{organization}/{FLOW}/trail/{trail}/junit"))
                .header(HOST, "localhost")
                .header(AUTHORIZATION, format!("Bearer {}", token(organization)))
                .header(CONTENT_TYPE, "multipart/form-data; boundary=x");
        self.send(request.body(Full::new(body.into())).unwrap())
    }

    /// Attests artifacts, before the measurement.
    pub(super) fn attest_all(&mut self, artifacts: impl IntoIterator<Item = u64>) {
        let artifacts: Vec<u64> = artifacts.into_iter().collect();
        for artifacts in artifacts.chunks(MAX_ATTESTED) {
            self.attest(true, artifacts.iter().copied()).expect(201);
        }
    }

    fn send(&mut self, request: Request<Full<Bytes>>) -> Response {
        self.runtime.block_on(async {
            if self.used.elapsed() > MAX_IDLE || self.sender.ready().await.is_err() {
                self.sender = connect(&self.address).await;
            }
            let begin = Instant::now();
            let response = self.sender.send_request(request).await.unwrap();
            let status = response.status();
            response.into_body().collect().await.unwrap();
            self.used = Instant::now();
            Response { status, milliseconds: begin.elapsed().as_secs_f64() * 1e3 }
        })
    }
}
