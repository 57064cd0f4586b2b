//! What can go wrong between supercargo and the service.

use std::fmt;
use std::time::Duration;

use http::{Method, StatusCode};
use url::Url;

use super::TokenError;
use crate::domain::escape::Visible;
use crate::domain::model::Page;
use crate::domain::retry::{Class, Retryable, class};
use crate::process::error_causes;

/// A request to the service, as a person would write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub(super) method: Method,
    pub(super) url: Box<Url>,
}

/// A request to the service that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no token to send.
    #[error("no token can be sent to the service")]
    Token(#[source] TokenError),
    /// No answer came.
    #[error("{request} got no answer")]
    Unreachable {
        /// What was asked.
        request: Request,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// An answer began, and ended before its end.
    #[error("the answer to {request} broke off")]
    BrokenOff {
        /// What was asked.
        request: Request,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// Nothing moved for too long.
    #[error("{request} did not move for {after:?}")]
    Stalled {
        /// What was asked.
        request: Request,
        /// How long was waited.
        after: Duration,
    },
    /// The service answered with an error.
    #[error("{request} was answered with {status}: {message}")]
    Answered {
        /// What was asked.
        request: Request,
        /// The status code.
        status: StatusCode,
        /// The service's message, fit for a terminal and without the token.
        message: String,
        /// The Retry-After header.
        retry_after: Option<String>,
        /// How far the service's clock is away from this machine's, where that is far.
        apart: Option<Duration>,
    },
    /// What answered is not the service.
    #[error("{request} was not answered by the compliance service: {saw}")]
    Foreign {
        /// What was asked.
        request: Request,
        /// What came instead.
        saw: String,
    },
}

impl Request {
    /// The request for this page.
    pub(super) fn page(self, page: Page) -> Self {
        self.with("page", &page.number().to_string()).with("per_page", &page.size().to_string())
    }

    /// The request with one more query parameter.
    pub(super) fn with(mut self, parameter: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(parameter, value);
        self
    }
}

impl Error {
    /// Whether what came over plain http is no HTTP.
    pub(super) fn is_no_http(&self) -> bool {
        matches!(self, Self::Unreachable { request, source }
            if request.url.scheme() == "http" && error_causes::is_no_http(source))
    }

    /// What the service's answer means for the request; `None` where there was none of it. An attestation
    /// that does not go with what is recorded will not do so later either, which a report may.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Answered { request, status: StatusCode::CONFLICT, .. }
                if request.method == Method::POST =>
            {
                Some(Class::Refused)
            }
            Self::Answered { status, .. } => Some(class(status.as_u16())),
            _ => None,
        }
    }
}

impl Retryable for Error {
    fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => error_causes::tls(source).is_none() && !self.is_no_http(),
            Self::BrokenOff { .. } | Self::Stalled { .. } => true,
            Self::Answered { .. } => self.class() == Some(Class::Transient),
            Self::Token(_) | Self::Foreign { .. } => false,
        }
    }

    fn retry_after(&self) -> Option<&str> {
        match self {
            Self::Answered { retry_after, .. } => retry_after.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, Visible(self.url.as_str()))
    }
}
