//! The one place where requests leave and answers are checked.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::body::{Progress, ReportBody};
use super::error::{Error, Request};
use super::token::Token;
use super::{BaseUrl, TokenSource};
use crate::domain::model::OrganizationName;
use crate::domain::outcome::{Class, class};
use crate::domain::report::Report;
use crate::domain::visible::{Visible, shortened};

/// The largest answer to a write that is read, in bytes.
const MOST_WRITE_ANSWER: usize = 64 * 1024;

/// How much of a text that is not the service's own is shown, in characters.
const SHOWN: usize = 160;

/// How much of a message of the service is shown, in characters.
const SHOWN_MESSAGE: usize = 2_000;

/// What the client needs to know.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where the service is.
    pub base_url: BaseUrl,
    /// On whose behalf.
    pub organization: OrganizationName,
    /// Where the token comes from.
    pub token: TokenSource,
    /// A PEM bundle of authorities that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// How long the service may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Until a connection stands.
    pub connect: Duration,
    /// While an upload does not move, and from its end to the answer.
    pub stall: Duration,
    /// For reading the whole of an answer's body.
    pub answer: Duration,
}

impl Default for Patience {
    /// 10 s, 60 s, 60 s.
    fn default() -> Self {
        let minute = Duration::from_mins(1);
        Self { connect: Duration::from_secs(10), stall: minute, answer: minute }
    }
}

/// The client cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The file of `--ca-file` cannot be read.
    #[error("the CA file \"{}\" (--ca-file) cannot be read", Visible(&.0.display().to_string()))]
    CaFile(PathBuf, #[source] io::Error),
    /// It holds no certificates.
    #[error("the CA file \"{}\" (--ca-file) holds no certificate in PEM", Visible(&.0.display().to_string()))]
    NoCertificate(PathBuf),
    /// The TLS library refuses what it was given.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
}

/// A client of the service, for one organization.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    setup: Setup,
    patience: Patience,
}

/// A success.
pub(super) struct Success {
    pub(super) status: StatusCode,
    /// `Null` where there was no body.
    pub(super) body: Value,
}

impl Client {
    /// Sets up the client. No connection is made yet.
    ///
    /// # Errors
    ///
    /// [`SetupError`] where the CA file cannot be used.
    pub fn new(setup: Setup, patience: Patience) -> Result<Self, SetupError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("supercargo/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(patience.connect)
            .http1_only();
        if setup.base_url.is_plain_http() {
            builder = builder.no_proxy();
        }
        if let Some(path) = &setup.ca_file {
            builder = builder.tls_certs_merge(certificates(path)?);
        }
        let http = builder.build().map_err(SetupError::Client)?;
        Ok(Self { http, setup, patience })
    }

    /// The organization that this client speaks for.
    #[must_use]
    pub fn organization(&self) -> &OrganizationName {
        &self.setup.organization
    }

    /// What to do about an error, where that is known.
    #[must_use]
    pub fn hint(&self, error: &Error) -> Option<String> {
        let Error::Answered { status, .. } = error else { return None };
        let Setup { token, organization, base_url, .. } = &self.setup;
        match status.as_u16() {
            401 | 403 => Some(format!(
                "the token comes from {token}; check that it belongs to the organization \"{organization}\" and may do this"
            )),
            404 => Some(format!(
                "check the base URL {base_url} and the organization \"{organization}\"; some services want an environment or flow to be created there first"
            )),
            _ => None,
        }
    }

    /// PUTs a report under these path segments.
    pub(super) async fn put_report(&self, segments: &[&str], report: &Report) -> Result<Success, Error> {
        let request = Request { method: http::Method::PUT, url: self.setup.base_url.operation(segments) };
        let token = self.setup.token.read().map_err(Error::Token)?;
        let progress = Progress::new();
        let body = reqwest::Body::wrap(ReportBody::new(report, progress.clone()));
        let mut message = self
            .http
            .request(request.method.clone(), request.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        if let Some(bearer) = token.header() {
            message = message.header(AUTHORIZATION, bearer);
        }
        let stalled = || Error::Stalled { request: request.clone(), after: self.patience.stall };
        let answer = tokio::select! {
            answer = message.send() => answer,
            () = progress.stalled(self.patience.stall) => return Err(stalled()),
        };
        let answer = answer.map_err(|e| unreachable(&request, e))?;
        timeout(self.patience.answer, check(&request, &token, answer)).await.map_err(|_| stalled())?
    }
}

/// Reads an answer to a write: a success is any 2xx with no body or with JSON (interface, operations
/// 5 and 7, which leave the rest open).
async fn check(request: &Request, token: &Token, mut answer: reqwest::Response) -> Result<Success, Error> {
    let status = answer.status();
    let header = |name| text(answer.headers(), &name).map(|value| shown(token, &value, SHOWN));
    let (location, retry_after, content_type) = (header(LOCATION), header(RETRY_AFTER), header(CONTENT_TYPE));
    let foreign = |saw| Error::Foreign { request: request.clone(), saw };
    if status.is_redirection() {
        let to = location.unwrap_or_else(|| "nowhere".into());
        return Err(foreign(format!("{status}, a redirect to {to}, which is not followed")));
    }
    let mut body = Vec::new();
    let mut is_whole = true;
    loop {
        match answer.chunk().await {
            Ok(None) => break,
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            // The text of an error matters less than its status.
            Err(_) if !status.is_success() => break,
            Err(error) => return Err(unreachable(request, error)),
        }
        if body.len() > MOST_WRITE_ANSWER {
            is_whole = false;
            break;
        }
    }
    let json: Option<Value> =
        if body.is_empty() { Some(Value::Null) } else { serde_json::from_slice(&body).ok() };
    match (class(status.as_u16()), json) {
        (Class::Success, _) if !is_whole => Err(foreign(format!("{status} with a body of more than 64 KiB"))),
        (Class::Success, Some(body)) => Ok(Success { status, body }),
        (Class::Success | Class::Foreign, _) => {
            let kind = content_type.unwrap_or_else(|| "no Content-Type".into());
            let start = shown(token, &String::from_utf8_lossy(&body), SHOWN);
            Err(foreign(format!("{status} with {kind}, which begins \"{start}\"")))
        }
        (_, json) => {
            let message = json.as_ref().and_then(message).unwrap_or_else(|| match body.as_slice() {
                [] => "without a message".to_owned(),
                text => String::from_utf8_lossy(text).into_owned(),
            });
            let message = shown(token, &message, SHOWN_MESSAGE);
            Err(Error::Answered { request: request.clone(), status, message, retry_after })
        }
    }
}

/// `message`, with `errors` behind it where there are any.
fn message(body: &Value) -> Option<String> {
    let message = body.get("message").and_then(Value::as_str)?;
    Some(match body.get("errors") {
        None | Some(Value::Null) => message.to_owned(),
        Some(errors) => format!("{message} {errors}"),
    })
}

/// A text from outside, without the token and fit for a terminal.
fn shown(token: &Token, text: &str, limit: usize) -> String {
    let text = token.redacted(text.trim());
    Visible(&shortened(&text, limit)).to_string()
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn unreachable(request: &Request, error: reqwest::Error) -> Error {
    // The request names the URL already.
    Error::Unreachable { request: request.clone(), source: error.without_url() }
}

fn certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, SetupError> {
    let pem = std::fs::read(path).map_err(|e| SetupError::CaFile(path.to_owned(), e))?;
    match reqwest::Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(SetupError::NoCertificate(path.to_owned())),
    }
}
