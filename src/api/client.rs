//! The one place where requests leave and answers are checked.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::RequestBuilder;
use reqwest::multipart::Form;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::body::{Progress, Upload};
use super::error::{Error, Request};
use super::response::{Answer, MOST_OF_A_READ, MOST_OF_A_WRITE, Success};
use super::token::{Rotating, Token};
use super::{BaseUrl, TokenSource};
use crate::domain::escape::Visible;
use crate::domain::live::report::Report;
use crate::domain::model::{OrganizationName, Provider};
use crate::process::certificate_authorities::{self, Unusable};
use crate::process::error_causes;
use crate::process::files::read_up_to;
use crate::process::proxy::is_turned_off;

/// The largest CA file that is read, in bytes.
const MOST_CA_BYTES: u64 = 16 * 1024 * 1024;

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
    /// For the body of an answer; for a read, for all of it.
    pub answer: Duration,
    /// For the text of an error.
    pub error_text: Duration,
}

impl Default for Patience {
    /// 10 s, 60 s, 60 s, 2 s.
    fn default() -> Self {
        let minute = Duration::from_mins(1);
        Self {
            connect: Duration::from_secs(10),
            stall: minute,
            answer: minute,
            error_text: Duration::from_secs(2),
        }
    }
}

impl Patience {
    /// The same, so many times shorter.
    #[must_use]
    pub fn hastened(self, times: u32) -> Self {
        let Self { connect, stall, answer, error_text } = self;
        Self {
            connect: connect / times,
            stall: stall / times,
            answer: answer / times,
            error_text: error_text / times,
        }
    }
}

/// The client cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The file of `--ca-file` cannot be read.
    #[error("the CA file \"{}\" (--ca-file) cannot be read", Visible(&.0.display().to_string()))]
    CaFile(PathBuf, #[source] io::Error),
    /// It holds no certificates that can be used.
    #[error("the CA file \"{}\" (--ca-file) {}", Visible(&.0.display().to_string()), .1)]
    Authorities(PathBuf, Unusable),
    /// The TLS library refuses what it was given.
    #[error(
        "the HTTP client cannot be set up; where this system has no certificate authorities, give some by --ca-file"
    )]
    Client(#[source] reqwest::Error),
}

/// What a request is about, for who has to find out why it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what its name says, by name or number")]
pub enum About<'a> {
    Organization,
    Environment(&'a str),
    Flow(&'a str),
    Repository(&'a str),
    Approval(&'a str, u64),
    Action(u64),
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organization => f.write_str("organization"),
            Self::Environment(name) => write!(f, "environment \"{}\"", Visible(name)),
            Self::Flow(name) => write!(f, "flow \"{}\"", Visible(name)),
            Self::Repository(name) => write!(f, "repository \"{}\"", Visible(name)),
            Self::Approval(flow, number) => write!(f, "approval {number} of the flow \"{}\"", Visible(flow)),
            Self::Action(number) => write!(f, "action {number}"),
        }
    }
}

/// A client of the service, for one organization.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base_url: BaseUrl,
    organization: OrganizationName,
    token: Arc<Rotating>,
    patience: Patience,
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
        if is_turned_off() {
            builder = builder.no_proxy();
        }
        if setup.base_url.is_plain_http() {
            // No authorities are looked for either: an image without any can still talk to loopback.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        if let Some(path) = &setup.ca_file {
            builder = builder.tls_certs_merge(certificates(path)?);
        }
        let http = builder.build().map_err(SetupError::Client)?;
        let Setup { base_url, organization, token, .. } = setup;
        Ok(Self { http, base_url, organization, token: Arc::new(Rotating::new(token)), patience })
    }

    /// The organization that this client speaks for.
    #[must_use]
    pub fn organization(&self) -> &OrganizationName {
        &self.organization
    }

    /// Where the service is.
    #[must_use]
    pub fn base_url(&self) -> &BaseUrl {
        &self.base_url
    }

    /// How often the token's file held another one than for the request before.
    #[must_use]
    pub fn token_rotations(&self) -> u64 {
        self.token.rotations()
    }

    /// What to do about an error of a request about this, where that is known.
    #[must_use]
    pub fn hint(&self, error: &Error, about: About<'_>) -> Option<String> {
        let Self { organization, base_url, .. } = self;
        match error {
            error if error.is_no_http() => {
                Some("the other side does not speak plain http; is it https?".to_owned())
            }
            Error::Foreign { .. } => {
                Some(format!("check the base URL {base_url}: the service is expected at {base_url}/api/v2"))
            }
            Error::Unreachable { source, .. } => {
                let trust = "check the host name, and give the authority that vouches for it by --ca-file";
                error_causes::tls(source).map(|tls| tls.hint(trust))
            }
            Error::Answered { status, message, apart, .. } => match status.as_u16() {
                401 | 403 => Some(self.not_authorized(*apart)),
                404 => {
                    let check = format!("check the base URL {base_url}");
                    let organization = format!("the organization \"{organization}\"");
                    Some(match about {
                        About::Organization => format!("{check} and {organization}"),
                        About::Environment(_) | About::Flow(_) => format!(
                            "{check}, {organization} and the {about}, which some services want to be created first"
                        ),
                        About::Repository(_) => format!(
                            "{check}, {organization} and the {about}, which is known once something was attested with it: attest junit --repository"
                        ),
                        About::Approval(..) => format!("{check}, {organization} and the {about}"),
                        About::Action(_) => format!(
                            "{check}, {organization} and the number: `supercargo list notifications` shows those that there are"
                        ),
                    })
                }
                413 if matches!(about, About::Flow(_)) => {
                    Some("fewer or smaller files at a time may do".to_owned())
                }
                // The service's word for several repositories of one name.
                400..500
                    if matches!(about, About::Flow(_) | About::Repository(_))
                        && message.contains("provider") =>
                {
                    let providers = Provider::ALL.map(Provider::as_str).join(", ");
                    Some(format!("say whose repository is meant by --provider: {providers}"))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn not_authorized(&self, apart: Option<Duration>) -> String {
        let (token, organization) = (self.token.source(), &self.organization);
        let check = format!(
            "the token comes from {token}; check that it belongs to the organization \"{organization}\" and may do this"
        );
        match apart.map(|apart| apart.as_secs() / 60) {
            None => check,
            Some(minutes) => format!(
                "{check}, and the clock of this machine: the service's is {minutes} minutes away from it"
            ),
        }
    }

    pub(super) fn request(&self, method: Method, segments: &[&str]) -> Request {
        Request { method, url: Box::new(self.base_url.operation(segments)) }
    }

    /// Sends a report.
    pub(super) async fn put_report(&self, request: Request, report: &Report) -> Result<Success, Error> {
        let token = self.token.read().map_err(Error::Token)?;
        let progress = Progress::new(report.content_length());
        let body = reqwest::Body::wrap(Upload::of_report(report, progress.clone()));
        let message = self.message(&request, &token).header(CONTENT_TYPE, "application/json").body(body);
        self.upload(request, message, &token, &progress).await
    }

    /// Sends a form; `progress` is that of a file in it.
    pub(super) async fn post_form(
        &self,
        request: Request,
        form: Form,
        progress: &Progress,
    ) -> Result<Success, Error> {
        let token = self.token.read().map_err(Error::Token)?;
        let message = self.message(&request, &token).multipart(form);
        self.upload(request, message, &token, progress).await
    }

    /// Sends what may be much, for as long as it moves.
    async fn upload(
        &self,
        request: Request,
        message: RequestBuilder,
        token: &Token,
        progress: &Progress,
    ) -> Result<Success, Error> {
        let stalled = || Error::Stalled { request: request.clone(), after: self.patience.stall };
        let answer = tokio::select! {
            answer = message.send() => answer,
            () = progress.stalled(self.patience.stall) => return Err(stalled()),
        };
        let answer = answer.map_err(|e| unreachable(&request, e))?;
        let read = Answer::read(answer, MOST_OF_A_WRITE, self.patience.error_text);
        let answer = timeout(self.patience.answer, read).await.map_err(|_| stalled())?;
        answer.map_err(|e| broken_off(&request, e))?.judge(&request, token, progress.handed())
    }

    /// Reads.
    pub(super) async fn get<T: DeserializeOwned>(&self, request: Request) -> Result<T, Error> {
        let token = self.token.read().map_err(Error::Token)?;
        let message = self.message(&request, &token).header(ACCEPT, "application/json");
        let answer = self.exchange(&request, message, MOST_OF_A_READ, self.patience.answer).await?;
        answer.judge_read(&request, &token)
    }

    fn message(&self, request: &Request, token: &Token) -> RequestBuilder {
        let message = self.http.request(request.method.clone(), (*request.url).clone());
        message.header(AUTHORIZATION, token.header())
    }

    /// Sends a message and reads the answer, all of it within so long.
    async fn exchange(
        &self,
        request: &Request,
        message: RequestBuilder,
        most: usize,
        within: Duration,
    ) -> Result<Answer, Error> {
        let exchanged = async {
            let answer = message.send().await.map_err(|e| unreachable(request, e))?;
            let read = Answer::read(answer, most, self.patience.error_text);
            read.await.map_err(|e| broken_off(request, e))
        };
        let late = |_| Error::Stalled { request: request.clone(), after: within };
        timeout(within, exchanged).await.map_err(late)?
    }
}

fn broken_off(request: &Request, error: reqwest::Error) -> Error {
    Error::BrokenOff { request: request.clone(), source: error.without_url() }
}

fn unreachable(request: &Request, error: reqwest::Error) -> Error {
    // The request names the URL already.
    Error::Unreachable { request: request.clone(), source: error.without_url() }
}

fn certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, SetupError> {
    let pem = read_up_to(MOST_CA_BYTES, path).map_err(|e| SetupError::CaFile(path.to_owned(), e))?;
    let authorities =
        certificate_authorities::read(&pem).map_err(|e| SetupError::Authorities(path.to_owned(), e))?;
    let authorities = authorities.iter().map(|authority| reqwest::Certificate::from_der(authority));
    authorities.collect::<Result<_, _>>().map_err(SetupError::Client)
}
