//! What can go wrong between supercargo and an API server, in words for the person who set it up.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use crate::domain::escape::{Visible, shortened};
use crate::domain::model::NamespaceName;
use crate::domain::retry::{Class, Retryable, class};
use crate::process::error_causes;

/// How much is shown of what a server says, in characters.
const SHOWN: usize = 2_000;

/// A request to the API server, as a person would write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Scheme, host and path, without credentials and query.
    pub(super) url: String,
    /// What must be allowed for it.
    pub(super) right: Right,
}

/// What RBAC must grant (Kubernetes documentation, "Using RBAC Authorization").
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Right {
    /// To list pods, in one namespace or at the cluster scope.
    ListPods(Option<NamespaceName>),
    /// To watch them. A streaming list is a watch.
    WatchPods(Option<NamespaceName>),
    /// To get this namespace.
    GetNamespace(NamespaceName),
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
    /// A watch came to its end before it led anywhere.
    #[error("the answer to {request} ended and brought nothing new; is there a proxy in between?")]
    Ended {
        /// What was asked.
        request: Request,
    },
    /// The answer is an error.
    #[error("{request} was answered with {status}: {}", Visible(&shortened(message, SHOWN)))]
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
    /// The answer is a success, but not what was asked for.
    #[error("the answer to {request} is not what was asked for: {}", Visible(&shortened(problem, SHOWN)))]
    Garbled {
        /// What was asked.
        request: Request,
        /// What is wrong with it.
        problem: String,
    },
}

impl Retryable for Error {
    fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => error_causes::tls(&**source).is_none(),
            Self::Silent { .. } | Self::BrokenOff { .. } | Self::Ended { .. } => true,
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
        match self {
            Self::Unreachable { source, .. } => {
                let trust = "check the certificate authority and the server name in the kubeconfig";
                error_causes::tls(&**source).map(|tls| tls.hint(trust))
            }
            Self::Answered { request, status, .. } => Some(match status.as_u16() {
                401 => "the API server does not know these credentials; has the token expired?".into(),
                403 => request.right.hint(),
                404 => "is this the URL of a Kubernetes API server?".into(),
                406 => {
                    "this server speaks neither Kubernetes protobuf nor JSON; is there a proxy in between?"
                        .into()
                }
                _ => return None,
            }),
            _ => None,
        }
    }
}

impl Right {
    fn hint(&self) -> String {
        let pods = |verb: &str, namespace: &Option<NamespaceName>| match namespace {
            None => format!(
                "grant \"{verb}\" on \"pods\" by a ClusterRole, or name the namespaces to report: a Role in each is enough"
            ),
            Some(namespace) => {
                format!("grant \"{verb}\" on \"pods\" by a Role in the namespace \"{namespace}\"")
            }
        };
        match self {
            Self::ListPods(namespace) => pods("list", namespace),
            Self::WatchPods(namespace) => pods("watch", namespace),
            Self::GetNamespace(namespace) => {
                format!("grant \"get\" on \"namespaces\" by a Role in the namespace \"{namespace}\"")
            }
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {} ", self.url)?;
        match &self.right {
            Right::ListPods(None) => write!(f, "(list pods at the cluster scope)"),
            Right::ListPods(Some(namespace)) => write!(f, "(list pods in the namespace \"{namespace}\")"),
            Right::WatchPods(None) => write!(f, "(watch pods at the cluster scope)"),
            Right::WatchPods(Some(namespace)) => write!(f, "(watch pods in the namespace \"{namespace}\")"),
            Right::GetNamespace(namespace) => write!(f, "(get the namespace \"{namespace}\")"),
        }
    }
}
