//! Errors of requests to the service.

use std::fmt;
use std::time::Duration;

use http::{Method, StatusCode};
use url::Url;

use super::TokenError;
use model::escape::Escaped;
use model::retry::{Retryable, StatusClass, classify};
use runtime::error_causes;

/// A request to the service; `Display` shows method and URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRequest {
    pub(super) method: Method,
    pub(super) url: Box<Url>,
}

/// A failed request to the service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No valid token.
    #[error("no valid token for the service")]
    Token(#[source] TokenError),
    /// No response.
    #[error("{request} failed: no response")]
    Unreachable {
        /// The request.
        request: ServiceRequest,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// The response ended early.
    #[error("{request} failed: incomplete response")]
    BrokenOff {
        /// The request.
        request: ServiceRequest,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// No progress, or no response, for too long.
    #[error("{request} failed: timed out after {after:?}")]
    TimedOut {
        /// The request.
        request: ServiceRequest,
        /// The timeout.
        after: Duration,
    },
    /// The service responded with an error.
    #[error("{request} failed: {status}: {message}")]
    Answered {
        /// The request.
        request: ServiceRequest,
        /// The status code.
        status: StatusCode,
        /// The service's message, escaped and without the token.
        message: String,
        /// The names of the invalid fields or parameters, as far as the service names them.
        fields: Box<[String]>,
        /// The Retry-After header.
        retry_after: Option<String>,
        /// The difference between the clocks of the service and this machine, if it is large.
        clock_skew: Option<Duration>,
    },
    /// The response does not come from the service.
    #[error("{request} failed: unexpected response: {response}")]
    UnexpectedResponse {
        /// The request.
        request: ServiceRequest,
        /// A description of the response.
        response: String,
    },
}

impl Error {
    /// Whether the response to a plain http request is not HTTP.
    pub(super) fn is_not_http(&self) -> bool {
        matches!(self, Self::Unreachable { request, source }
            if request.url.scheme() == "http" && error_causes::is_not_http(source))
    }

    /// Whether there was no connection to the server.
    pub(super) fn has_no_connection(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.is_connect())
    }

    /// The class of the response's status; `None` without a response of the service. A conflict is permanent for an
    /// attestation and transient for a report.
    #[must_use]
    pub fn class(&self) -> Option<StatusClass> {
        match self {
            Self::Answered { request, status: StatusCode::CONFLICT, .. }
                if request.method == Method::POST =>
            {
                Some(StatusClass::Rejected)
            }
            Self::Answered { status, .. } => Some(classify(status.as_u16())),
            _ => None,
        }
    }
}

impl Retryable for Error {
    fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => {
                error_causes::tls_failure(source).is_none() && !self.is_not_http()
            }
            Self::BrokenOff { .. } | Self::TimedOut { .. } => true,
            Self::Answered { .. } => self.class() == Some(StatusClass::Transient),
            Self::Token(error) => error.is_transient(),
            Self::UnexpectedResponse { .. } => false,
        }
    }

    fn is_unconnected(&self) -> bool {
        self.has_no_connection()
    }

    fn retry_after(&self) -> Option<&str> {
        match self {
            Self::Answered { retry_after, .. } => retry_after.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for ServiceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, Escaped(self.url.as_str()))
    }
}
