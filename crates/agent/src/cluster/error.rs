//! Errors of requests to an API server, with hints for operators.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use model::NamespaceName;
use model::escape::{Escaped, shortened};
use model::retry::{Retryable, StatusClass, classify};
use runtime::error_causes;

/// Maximum length of a server's message in an error, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// A request to the API server; `Display` describes it without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRequest {
    /// Scheme, host and path, without credentials and query.
    pub(super) url: String,
    pub(super) permission: Permission,
}

/// A permission that RBAC must grant (Kubernetes documentation, "Using RBAC Authorization").
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Permission {
    /// `list` or `watch` on pods in a namespace, or at the cluster scope. A streaming list is a watch.
    Pods(&'static str, Option<NamespaceName>),
    /// `list` or `watch`.
    Namespaces(&'static str),
    GetNamespace(String),
    ReadIssuer,
}

pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to {request}")]
    Unreachable {
        request: ClusterRequest,
        #[source]
        source: Cause,
    },
    /// No credentials to send, such as after a failure of a credential plugin.
    #[error("failed to {request}: no credentials: {why}")]
    Credentials {
        request: ClusterRequest,
        /// The cause, without output of a plugin.
        why: String,
    },
    /// The server sent nothing for too long.
    #[error("failed to {request}: timed out after {after:?}")]
    TimedOut {
        request: ClusterRequest,
        /// Time without data.
        after: Duration,
    },
    #[error("failed to {request}: incomplete response")]
    BrokenOff {
        request: ClusterRequest,
        #[source]
        source: Cause,
    },
    #[error("failed to {request}: the watch ended without an event; is there a proxy in between?")]
    EmptyWatch { request: ClusterRequest },
    #[error("failed to {request}: {status}: {}", Escaped(&shortened(message, MAX_MESSAGE_CHARS)))]
    Answered {
        request: ClusterRequest,
        status: StatusCode,
        /// The message of the `Status`, or the start of a text body.
        message: String,
        retry_after: Option<String>,
    },
    /// The response has a success status and an unexpected body.
    #[error("failed to {request}: unexpected response: {}", Escaped(&shortened(problem, MAX_MESSAGE_CHARS)))]
    UnexpectedResponse { request: ClusterRequest, problem: String },
}

impl Retryable for Error {
    fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => error_causes::tls_failure(&**source).is_none(),
            Self::TimedOut { .. } | Self::BrokenOff { .. } | Self::EmptyWatch { .. } => true,
            // 410 Gone: a continue token expired repeatedly. A new list may succeed.
            Self::Answered { status, .. } => {
                *status == StatusCode::GONE || classify(status.as_u16()) == StatusClass::Transient
            }
            Self::Credentials { .. } | Self::UnexpectedResponse { .. } => false,
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
    /// Hint for the operator, if a fix is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { source, .. } => {
                let trust = "check the certificate authority and the server name in the kubeconfig";
                error_causes::tls_failure(&**source).map(|tls| tls.hint(trust))
            }
            Self::Answered { request, status, .. } => Some(match status.as_u16() {
                401 => "the API server rejects these credentials; has the token expired?".into(),
                403 => request.permission.hint(),
                404 => "is this the URL of a Kubernetes API server?".into(),
                406 => {
                    "the server supports neither Kubernetes protobuf nor JSON; is there a proxy in between?"
                        .into()
                }
                _ => return None,
            }),
            _ => None,
        }
    }
}

impl Permission {
    fn hint(&self) -> String {
        match self {
            Self::Pods(verb, None) => format!(
                "grant \"{verb}\" on \"pods\" with a ClusterRole, or name the namespaces to report and grant it with a Role in each"
            ),
            Self::Pods(verb, Some(namespace)) => {
                format!("grant \"{verb}\" on \"pods\" with a Role in namespace \"{namespace}\"")
            }
            Self::Namespaces(verb) => format!("grant \"{verb}\" on \"namespaces\" with a ClusterRole"),
            Self::GetNamespace(namespace) => {
                format!("grant \"get\" on \"namespaces\" with a Role in namespace \"{namespace}\"")
            }
            Self::ReadIssuer => "bind the ClusterRole system:service-account-issuer-discovery".to_owned(),
        }
    }
}

impl fmt::Display for ClusterRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.permission {
            Permission::Pods(verb, None) => write!(f, "{verb} pods at the cluster scope")?,
            Permission::Pods(verb, Some(name)) => write!(f, "{verb} pods in namespace \"{name}\"")?,
            Permission::Namespaces(verb) => write!(f, "{verb} namespaces")?,
            Permission::GetNamespace(name) => write!(f, "get namespace \"{name}\"")?,
            Permission::ReadIssuer => write!(f, "read the issuer of the cluster")?,
        }
        write!(f, ": GET {}", self.url)
    }
}
