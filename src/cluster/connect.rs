//! One GET to an API server, and no longer a wait than patience allows: kube itself would wait for an
//! answer for ever.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::configuration::{self, Access, Configured, ConnectError, without_secrets};
use super::error::{Cause, Error, Request, Right};
use super::read_pause::ReadPause;
use super::secrets::Secrets;
use super::status::{self, Encoding};
use super::token_file::TokenFile;

/// How much of an error answer is read, in bytes.
const MOST_ERROR_BYTES: usize = 64 * 1024;

/// How long an API server may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Until the headers of an answer.
    pub headers: Duration,
    /// Between two frames of a body.
    pub frame: Duration,
    /// For the text of an error.
    pub error_text: Duration,
    /// Pause after all bytes of a watch that arrived were read. The events that arrive meanwhile are read together.
    pub read_pause: Duration,
}

impl Default for Patience {
    /// 30 s, 60 s, 2 s, 25 ms.
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(30),
            frame: Duration::from_mins(1),
            error_text: Duration::from_secs(2),
            read_pause: Duration::from_millis(25),
        }
    }
}

impl Patience {
    /// The same, so many times shorter.
    #[must_use]
    pub fn hastened(self, times: u32) -> Self {
        let Self { headers, frame, error_text, read_pause } = self;
        Self {
            headers: headers / times,
            frame: frame / times,
            error_text: error_text / times,
            read_pause: read_pause / times,
        }
    }
}

/// A cluster that pods are read from.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    url: Uri,
    token_file: Option<TokenFile>,
    secrets: Secrets,
    /// Where a credential plugin may be run before a request: one such at a time.
    plugin: Option<Arc<Mutex<()>>>,
    patience: Patience,
    read_pause: ReadPause,
}

/// A success: its headers were seen, its body was not.
pub(super) struct Answer {
    pub(super) encoding: Encoding,
    pub(super) body: Body,
}

impl Cluster {
    /// Reads the configuration, and runs its credential plugin. No connection is made yet.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] where there is no configuration, or one that cannot be used `within` this
    /// time.
    pub async fn configure(
        access: Access,
        patience: Patience,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        let read_pause = ReadPause::new(patience.read_pause);
        let Configured { client, url, token_file, secrets, has_plugin } =
            configuration::client(access, read_pause.clone(), within).await?;
        let plugin = has_plugin.then(Arc::default);
        Ok(Self { client, url, token_file, secrets, plugin, patience, read_pause })
    }

    /// Where the API server is, without credentials.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or("https");
        let host = self.url.host().unwrap_or_default();
        let port = self.url.port().map_or_else(String::new, |port| format!(":{port}"));
        format!("{scheme}://{host}{port}{}", self.url.path().trim_end_matches('/'))
    }

    pub(super) fn request(&self, path: &str, right: Right) -> Request {
        Request { url: format!("{}{path}", self.url()), right }
    }

    /// One GET: its answer, where it is a success.
    pub(super) async fn get(
        &self,
        request: Request,
        path_and_query: &str,
        accept: &'static str,
    ) -> Result<Answer, Error> {
        let message = http::Request::get(path_and_query)
            .header(ACCEPT, accept)
            .header(ACCEPT_ENCODING, "identity")
            .header(USER_AGENT, concat!("supercargo/", env!("CARGO_PKG_VERSION")));
        let message = match &self.token_file {
            Some(file) => message.header(AUTHORIZATION, file.header()),
            None => message,
        };
        let message = message.body(Body::empty());
        let unreachable = |source| Error::Unreachable { request: request.clone(), source };
        // It holds what the server said to go on from, which may be longer than any URL.
        let problem = |error| format!("what it said to go on from makes no request: {error}");
        let message =
            message.map_err(|error| Error::Garbled { request: request.clone(), problem: problem(error) })?;
        let response = timeout(self.patience.headers, self.send(message))
            .await
            .map_err(|_| Error::Silent { request: request.clone(), after: self.patience.headers })?
            .map_err(|error| match error {
                kube::Error::Auth(error) => {
                    Error::Credentials { request: request.clone(), why: without_secrets(&error) }
                }
                // kube's own wrapping says nothing that its content does not.
                kube::Error::Service(source) => match source.downcast_ref() {
                    Some(error) => {
                        Error::Credentials { request: request.clone(), why: without_secrets(error) }
                    }
                    None => unreachable(source),
                },
                other => unreachable(other.into()),
            })?;
        let encoding = Encoding::of(response.headers());
        let status = response.status();
        let retry_after = text(response.headers(), RETRY_AFTER);
        let mut body = response.into_body();
        if status == StatusCode::OK {
            return Ok(Answer { encoding, body });
        }
        let mut start = Vec::new();
        // An error whose text breaks off, or takes too long, is still the error that its status says.
        let read = timeout(self.patience.error_text, async {
            while start.len() < MOST_ERROR_BYTES
                && let Ok(Some(frame)) = self.frame(&request, &mut body, self.patience.error_text).await
            {
                start.extend_from_slice(&frame);
            }
        });
        let _ = read.await;
        let message = status::message(encoding, &start, |text| self.without_secrets(text));
        Err(Error::Answered { message, request, status, retry_after })
    }

    /// kube waits for a credential plugin without yielding, so where there is one that happens on a thread
    /// of its own. One that hangs holds up the requests behind it, and nothing else; a server that does not
    /// answer holds up nothing but its request, here too.
    async fn send(&self, message: http::Request<Body>) -> Result<http::Response<Body>, kube::Error> {
        let Some(plugin) = &self.plugin else { return self.client.send(message).await };
        let turn = Arc::clone(plugin).lock_owned().await;
        let (client, runtime, within) = (self.client.clone(), Handle::current(), self.patience.headers);
        let sent = spawn_blocking(move || {
            let sent = runtime.block_on(async { timeout(within, client.send(message)).await });
            drop(turn);
            sent
        });
        let failed = |error: Cause| kube::Error::Service(error);
        match sent.await {
            Ok(sent) => sent.map_err(|late| failed(late.into()))?,
            Err(ended) => Err(failed(ended.into())),
        }
    }

    /// The next bytes of a body, if they come in this time; nothing at its end.
    pub(super) async fn frame(
        &self,
        request: &Request,
        body: &mut Body,
        within: Duration,
    ) -> Result<Option<Bytes>, Error> {
        let silent = |_| Error::Silent { request: request.clone(), after: within };
        timeout(within, bytes(request, body)).await.map_err(silent)?
    }

    /// An error without them, where it says what an answer held that is no answer.
    pub(super) fn cleaned(&self, error: Error) -> Error {
        match error {
            Error::Garbled { request, problem } => {
                Error::Garbled { request, problem: self.without_secrets(&problem) }
            }
            other => other,
        }
    }

    /// A text from outside without the credentials that were sent, should they have been sent back.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let sent = self.token_file.as_ref().map(TokenFile::last);
        self.secrets.redacted(text, sent.as_ref())
    }

    /// The pauses of the connections of watches.
    pub(super) fn read_pause(&self) -> &ReadPause {
        &self.read_pause
    }

    /// How long a list may be silent between two frames.
    pub(super) fn patience(&self) -> Patience {
        self.patience
    }
}

/// The next bytes of a body, whenever they come; nothing at its end. Nothing is lost where it is not
/// waited for.
pub(super) async fn bytes(request: &Request, body: &mut Body) -> Result<Option<Bytes>, Error> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers say nothing that is needed here.
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
            Some(Err(source)) => {
                return Err(Error::BrokenOff { request: request.clone(), source: source.into() });
            }
        }
    }
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
