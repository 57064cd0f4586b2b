//! Sends GET requests to an API server, with timeouts that kube does not have.
//!
//! Called by `list`, `watch`, `namespace` and `issuer`. Asks `credentials` for the credential of each request,
//! translates failures to [`Error`] and redacts credentials.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use super::configuration::{self, Access, ConnectError, Connection};
use super::credentials::{CredentialError, Credentials};
use super::error::{Cause, ClusterRequest, Error, Permission};
use super::read_pause::ReadPause;
use super::status::{self, Encoding};
use super::timeouts::ClusterTimeouts;
use runtime::error_causes;

/// Maximum number of bytes that are read of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;

#[derive(Clone)]
pub struct Cluster {
    url: Uri,
    credentials: Arc<Credentials>,
    timeouts: ClusterTimeouts,
    read_pause: ReadPause,
}

/// A response with a success status; its body is not read yet.
pub(super) struct Response {
    pub(super) encoding: Encoding,
    pub(super) body: Body,
}

impl Cluster {
    /// Reads the configuration and runs its credential plugin. Opens no connection.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] for a missing or invalid configuration, or after `within`.
    pub async fn configure(
        access: Access,
        timeouts: ClusterTimeouts,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        let read_pause = ReadPause::new(timeouts.read_pause);
        let Connection { url, credentials } =
            configuration::connect(access, read_pause.clone(), timeouts, within).await?;
        Ok(Self { url, credentials: Arc::new(credentials), timeouts, read_pause })
    }

    /// The URL of the API server, without credentials.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or("https");
        let host = self.url.host().unwrap_or_default();
        let port = self.url.port().map_or_else(String::new, |port| format!(":{port}"));
        format!("{scheme}://{host}{port}{}", self.url.path().trim_end_matches('/'))
    }

    pub(super) fn request(&self, path: &str, permission: Permission) -> ClusterRequest {
        ClusterRequest { url: format!("{}{path}", self.url()), permission }
    }

    /// Sends a GET request and returns a successful response.
    pub(super) async fn get(
        &self,
        request: ClusterRequest,
        path_and_query: &str,
        accept: &'static str,
    ) -> Result<Response, Error> {
        let credential = self.credentials.next().await.map_err(|error| match error {
            CredentialError::TimedOut(after) => Error::TimedOut { request: request.clone(), after },
            CredentialError::Issue(error) => {
                Error::Credentials { request: request.clone(), why: error_causes::describe(&*error) }
            }
        })?;
        let mut message = http::Request::get(path_and_query)
            .header(ACCEPT, accept)
            .header(ACCEPT_ENCODING, "identity")
            .header(USER_AGENT, concat!("supercargo/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = credential.authorization {
            message = message.header(AUTHORIZATION, authorization);
        }
        let message = message.body(Body::empty());
        // The query contains a continue token or resourceVersion of the server, of any length.
        let message = message.map_err(|error| Error::UnexpectedResponse {
            request: request.clone(),
            problem: format!("its continue token or resourceVersion makes no valid request: {error}"),
        })?;
        let response = timeout(self.timeouts.headers, credential.client.send(message))
            .await
            .map_err(|_| Error::TimedOut { request: request.clone(), after: self.timeouts.headers })?
            .map_err(|error| {
                let source: Cause = match error {
                    // Unwrapped, because kube's error repeats its source.
                    kube::Error::Service(source) => source,
                    other => other.into(),
                };
                if error_causes::is_tls_alert(&*source) {
                    // A server that requires a valid client certificate ends the connection.
                    self.credentials.answered(credential.number, StatusCode::UNAUTHORIZED);
                }
                Error::Unreachable { request: request.clone(), source }
            })?;
        self.credentials.answered(credential.number, response.status());
        let encoding = Encoding::from_headers(response.headers());
        let status = response.status();
        let retry_after = text(response.headers(), RETRY_AFTER);
        let mut body = response.into_body();
        if status == StatusCode::OK {
            return Ok(Response { encoding, body });
        }
        let mut start = Vec::new();
        // The status is sufficient if the body is incomplete or too slow.
        let read = timeout(self.timeouts.error_text, async {
            while start.len() < MAX_ERROR_BYTES
                && let Ok(Some(frame)) = self.frame(&request, &mut body, self.timeouts.error_text).await
            {
                start.extend_from_slice(&frame);
            }
        });
        let _ = read.await;
        let message = status::message(encoding, &start, |text| self.without_secrets(text));
        Err(Error::Answered { message, request, status, retry_after })
    }

    /// Sends a GET request and reads the response, which may be cut off after `max_bytes`.
    pub(super) async fn read(
        &self,
        request: &ClusterRequest,
        path: &str,
        accept: &'static str,
        max_bytes: usize,
    ) -> Result<(Encoding, Vec<u8>), Error> {
        let mut response = self.get(request.clone(), path, accept).await?;
        let mut body = Vec::new();
        while body.len() < max_bytes
            && let Some(frame) = self.frame(request, &mut response.body, self.timeouts.frame).await?
        {
            body.extend_from_slice(&frame);
        }
        Ok((response.encoding, body))
    }

    /// Reads the next bytes of a body within a time; `None` at its end.
    pub(super) async fn frame(
        &self,
        request: &ClusterRequest,
        body: &mut Body,
        within: Duration,
    ) -> Result<Option<Bytes>, Error> {
        let timed_out = |_| Error::TimedOut { request: request.clone(), after: within };
        timeout(within, bytes(request, body)).await.map_err(timed_out)?
    }

    /// Redacts credentials in an error that quotes a response.
    pub(super) fn redacted(&self, error: Error) -> Error {
        match error {
            Error::UnexpectedResponse { request, problem } => {
                Error::UnexpectedResponse { request, problem: self.without_secrets(&problem) }
            }
            other => other,
        }
    }

    /// Redacts credentials in a text from a server, which may echo them.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        self.credentials.without_secrets(text)
    }

    pub(super) fn read_pause(&self) -> &ReadPause {
        &self.read_pause
    }

    pub(super) fn timeouts(&self) -> ClusterTimeouts {
        self.timeouts
    }
}

/// Reads the next bytes of a body; `None` at its end. Cancel safe.
pub(super) async fn bytes(request: &ClusterRequest, body: &mut Body) -> Result<Option<Bytes>, Error> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers are ignored.
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
