//! Sends all requests, and checks their responses.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::body::{self, Progress, ReportBody};
use super::error::{Error, ServiceRequest};
use super::response::{MAX_READ_RESPONSE_BYTES, MAX_WRITE_RESPONSE_BYTES, Response, Success};
use super::token::{Token, TokenReader};
use super::{BaseUrl, TokenError, TokenSource};
use model::OrganizationName;
use model::reporter::{CLUSTER_HEADER, EXCLUDED_HEADER};
use runtime::certificate_authorities::{self, BundleError};
use runtime::files::{quoted, read_up_to};
use runtime::proxy::is_turned_off;

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Maximum size of a CA file, in bytes.
const MAX_CA_BYTES: u64 = 16 * 1024 * 1024;

/// The configuration of a client.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The base URL of the service.
    pub base_url: BaseUrl,
    /// The organization of all requests.
    pub organization: OrganizationName,
    /// The source of the token.
    pub token: TokenSource,
    /// A PEM bundle of certificate authorities that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The command in `User-Agent`.
    pub command: &'static str,
}

/// Timeouts of requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestTimeouts {
    /// For reading the token file, after which the last token is used, or for requesting an ID token.
    pub token_file: Duration,
    /// To connect.
    pub connect: Duration,
    /// For an upload without progress, and from its end to the response.
    pub stall: Duration,
    /// For the body of a response to a write, and for a read as a whole.
    pub response: Duration,
    /// For the body of an error response.
    pub error_body: Duration,
}

impl Default for RequestTimeouts {
    fn default() -> Self {
        Self::scaled(1)
    }
}

impl RequestTimeouts {
    /// The default timeouts, divided by `divisor`.
    #[must_use]
    pub fn scaled(divisor: u32) -> Self {
        let seconds = |seconds| Duration::from_secs(seconds) / divisor;
        Self {
            token_file: seconds(10),
            connect: seconds(10),
            stall: seconds(60),
            response: seconds(60),
            error_body: seconds(2),
        }
    }
}

/// A failure to set up the client.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The CA file is not readable.
    #[error("failed to read the CA file {} (--ca-file)", quoted(.0))]
    CaFile(PathBuf, #[source] io::Error),
    /// The CA file has no valid certificates.
    #[error("the CA file {} (--ca-file) {}", quoted(.0), .1)]
    Authorities(PathBuf, BundleError),
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The TLS library rejects the configuration.
    #[error("failed to set up the HTTP client; if this system has no certificate authorities, set --ca-file")]
    Client(#[source] reqwest::Error),
}

/// A client of the service, for one organization.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    pub(super) base_url: BaseUrl,
    pub(super) organization: OrganizationName,
    pub(super) token: Arc<TokenReader>,
    timeouts: RequestTimeouts,
    /// The identity of the cluster that reports are about.
    cluster: Option<HeaderValue>,
}

impl Client {
    /// Sets up the client. No connection is made yet.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError`] if the CA file or the token is missing or invalid.
    pub fn new(setup: Setup, timeouts: RequestTimeouts) -> Result<Self, SetupError> {
        let Setup { base_url, organization, token, ca_file, command } = setup;
        let http = http_client(base_url.is_plain_http(), ca_file.as_deref(), &timeouts, command)?;
        let issuer = match &token {
            TokenSource::Github(url, _) => {
                http_client(url.scheme() == "http", ca_file.as_deref(), &timeouts, command)?
            }
            _ => http.clone(),
        };
        let token = Arc::new(TokenReader::open(token, issuer)?);
        Ok(Self { http, base_url, organization, token, timeouts, cluster: None })
    }

    /// Adds the identity of the cluster to reports.
    #[must_use]
    pub fn with_cluster(self, identity: &str) -> Self {
        Self { cluster: HeaderValue::from_str(identity).ok(), ..self }
    }

    /// The organization of all requests.
    #[must_use]
    pub fn organization(&self) -> &OrganizationName {
        &self.organization
    }

    /// The base URL of the service.
    #[must_use]
    pub fn base_url(&self) -> &BaseUrl {
        &self.base_url
    }

    /// How often the token file had another token than before.
    #[must_use]
    pub fn token_rotations(&self) -> u64 {
        self.token.rotations()
    }

    /// A request to a path, whose second segment is the organization: `path` omits it.
    pub(super) fn request(&self, method: Method, path: &[&str]) -> ServiceRequest {
        let mut segments = path.to_vec();
        segments.insert(path.len().min(1), self.organization.as_str());
        ServiceRequest { method, url: Box::new(self.base_url.operation(&segments)) }
    }

    async fn token(&self) -> Result<Token, Error> {
        self.token.read(self.timeouts.token_file).await.map_err(Error::Token)
    }

    /// Sends a report.
    pub(super) async fn put_report(
        &self,
        request: ServiceRequest,
        report: &impl ReportBody,
    ) -> Result<Success, Error> {
        let token = self.token().await?;
        let progress = Progress::new(report.content_length());
        let body = reqwest::Body::wrap(body::report(report, progress.clone()));
        let mut builder = self.builder(&request, &token).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(cluster) = &self.cluster {
            builder = builder.header(CLUSTER_HEADER, cluster);
        }
        let excluded = report.excluded_pods();
        if excluded > 0 {
            builder = builder.header(EXCLUDED_HEADER, excluded);
        }
        self.upload(request, builder, &token, &progress).await
    }

    /// Sends a form with a file; `progress` is the file's.
    pub(super) async fn post_form(
        &self,
        request: ServiceRequest,
        idempotency_key: String,
        form: Form,
        progress: &Progress,
    ) -> Result<Success, Error> {
        let token = self.token().await?;
        let builder = self.builder(&request, &token).header(IDEMPOTENCY_KEY, idempotency_key).multipart(form);
        self.upload(request, builder, &token, progress).await
    }

    /// Sends a body of any size. Times out only without progress.
    async fn upload(
        &self,
        request: ServiceRequest,
        builder: RequestBuilder,
        token: &Token,
        progress: &Progress,
    ) -> Result<Success, Error> {
        let timed_out = |after| Error::TimedOut { request: request.clone(), after };
        let response = tokio::select! {
            response = builder.send() => response,
            () = progress.stalled(self.timeouts.stall) => return Err(timed_out(self.timeouts.stall)),
        };
        let response = response.map_err(|e| unreachable(&request, e))?;
        let read = Response::read(response, MAX_WRITE_RESPONSE_BYTES, self.timeouts.error_body);
        let response =
            timeout(self.timeouts.response, read).await.map_err(|_| timed_out(self.timeouts.response))?;
        let response = response.map_err(|e| broken_off(&request, e))?;
        response.classify(&request, token, progress.upload_state())
    }

    /// Sends a request, with a small JSON body if any, and parses the response.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        request: ServiceRequest,
        body: Option<&Value>,
        expected: &[StatusCode],
    ) -> Result<T, Error> {
        let token = self.token().await?;
        let mut builder = self.builder(&request, &token).header(ACCEPT, "application/json");
        if let Some(body) = body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        self.read(&request, builder).await?.classify_json(&request, &token, expected)
    }

    /// Sends a request without a body, and returns the file in the response, with its Content-Disposition and Repr-Digest.
    pub(super) async fn download(&self, request: ServiceRequest) -> Result<(String, String, Vec<u8>), Error> {
        let token = self.token().await?;
        self.read(&request, self.builder(&request, &token)).await?.classify_file(&request, &token)
    }

    async fn read(&self, request: &ServiceRequest, builder: RequestBuilder) -> Result<Response, Error> {
        let exchange = async {
            let response = builder.send().await.map_err(|e| unreachable(request, e))?;
            let read = Response::read(response, MAX_READ_RESPONSE_BYTES, self.timeouts.error_body);
            read.await.map_err(|e| broken_off(request, e))
        };
        let after = self.timeouts.response;
        let timed_out = |_| Error::TimedOut { request: request.clone(), after };
        timeout(after, exchange).await.map_err(timed_out)?
    }

    fn builder(&self, request: &ServiceRequest, token: &Token) -> RequestBuilder {
        let builder = self.http.request(request.method.clone(), (*request.url).clone());
        builder.header(AUTHORIZATION, token.header())
    }
}

/// A client for one server. It follows no redirect, which would send the token elsewhere.
fn http_client(
    is_plain_http: bool,
    ca_file: Option<&Path>,
    timeouts: &RequestTimeouts,
    command: &str,
) -> Result<reqwest::Client, SetupError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(format!("supercargo/{} ({command})", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(timeouts.connect)
        .http1_only();
    if is_turned_off() {
        builder = builder.no_proxy();
    }
    if is_plain_http {
        // Does not load certificate authorities, which an image may not have.
        builder = builder.no_proxy().tls_certs_only([]);
    }
    if let Some(path) = ca_file {
        builder = builder.tls_certs_merge(certificates(path)?);
    }
    builder.build().map_err(SetupError::Client)
}

fn broken_off(request: &ServiceRequest, error: reqwest::Error) -> Error {
    Error::BrokenOff { request: request.clone(), source: error.without_url() }
}

fn unreachable(request: &ServiceRequest, error: reqwest::Error) -> Error {
    // The request already shows the URL.
    Error::Unreachable { request: request.clone(), source: error.without_url() }
}

fn certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, SetupError> {
    let pem = read_up_to(MAX_CA_BYTES, path).map_err(|e| SetupError::CaFile(path.to_owned(), e))?;
    let authorities =
        certificate_authorities::read(&pem).map_err(|e| SetupError::Authorities(path.to_owned(), e))?;
    let authorities = authorities.iter().map(|authority| reqwest::Certificate::from_der(authority));
    authorities.collect::<Result<_, _>>().map_err(SetupError::Client)
}
