//! What can go wrong between supercargo and an API server, in words for the person who set it up.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use crate::domain::outcome::{Class, Failure, class};
use crate::domain::visible::Visible;
use crate::process::causes;

/// A request to the API server, as a person would write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Scheme, host and path, without credentials and query.
    pub(super) url: String,
    /// The RBAC verb that allows it.
    pub(super) verb: &'static str,
    /// The resource.
    pub(super) resource: &'static str,
    /// The namespace that it concerns; `None` for the whole cluster.
    pub(super) namespace: Option<String>,
}

/// What lies beneath an error.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A request to an API server that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no answer.
    #[error("{request} got no answer")]
    Unreachable {
        /// What was asked.
        request: Request,
        /// Why.
        #[source]
        source: Cause,
    },
    /// There are no credentials to send, as where a credential plugin fails.
    #[error("no credentials could be had for {request}: {why}")]
    Credentials {
        /// What was to be asked.
        request: Request,
        /// Why, without what a plugin wrote.
        why: String,
    },
    /// The server was silent for too long.
    #[error("{request} was met with silence for {after:?}")]
    Silent {
        /// What was asked.
        request: Request,
        /// How long was waited.
        after: Duration,
    },
    /// The answer ended before its end.
    #[error("the answer to {request} broke off")]
    BrokenOff {
        /// What was asked.
        request: Request,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The answer is an error.
    #[error("{request} was answered with {status}: {}", Visible(message))]
    Answered {
        /// What was asked.
        request: Request,
        /// The status code.
        status: StatusCode,
        /// The message of the `Status`, or the first words of the text.
        message: String,
        /// The Retry-After header.
        retry_after: Option<String>,
    },
    /// The answer is a success, but no list of pods.
    #[error("the answer to {request} is no list of pods: {}", Visible(problem))]
    Garbled {
        /// What was asked.
        request: Request,
        /// What is wrong with it.
        problem: String,
    },
}

impl Failure for Error {
    fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => !causes::is_tls(&**source),
            Self::Silent { .. } | Self::BrokenOff { .. } => true,
            // A continue token that expires again and again: 410 is Gone, yet a new list may do.
            Self::Answered { status, .. } => {
                *status == StatusCode::GONE || class(status.as_u16()) == Class::Transient
            }
            Self::Credentials { .. } | Self::Garbled { .. } => false,
        }
    }

    fn retry_after(&self) -> Option<&str> {
        match self {
            Self::Answered { retry_after, .. } => retry_after.as_deref(),
            _ => None,
        }
    }
}

impl Error {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let Self::Answered { request, status, .. } = self else {
            return match self {
                Self::Unreachable { source, .. } if causes::is_tls(&**source) => {
                    Some("check the certificate authority and the server name in the kubeconfig".into())
                }
                _ => None,
            };
        };
        let Request { verb, resource, namespace, .. } = request;
        match (status.as_u16(), namespace) {
            (401, _) => Some("the API server does not know these credentials; has the token expired?".into()),
            (403, Some(namespace)) => {
                Some(format!("grant \"{verb}\" on \"{resource}\" by a Role in the namespace \"{namespace}\""))
            }
            (403, None) => Some(format!(
                "grant \"{verb}\" on \"{resource}\" by a ClusterRole, or name the namespaces to report: a Role in each is enough"
            )),
            (404, _) => Some("is this the URL of a Kubernetes API server?".into()),
            (406, _) => Some(
                "this server speaks neither Kubernetes protobuf nor JSON; is there a proxy in between?"
                    .into(),
            ),
            _ => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {} ({} {} ", self.url, self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, "in the namespace \"{namespace}\")"),
            None => write!(f, "at the cluster scope)"),
        }
    }
}
