//! Parses API requests.

use std::collections::HashMap;
use std::time::Instant;

use crate::daemon::support::cluster::wire::Status;
use crate::fake::Request;
use crate::fake::kube::parameters;

/// A supported request.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// `pods` or `namespaces`.
    pub resource: &'static str,
    pub operation: Operation,
    /// The namespace, or `None` for the whole cluster.
    pub namespace: Option<String>,
    pub at: Instant,
    pub token: Option<String>,
    /// The client certificate, in DER.
    pub certificate: Option<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// The whole list.
    List,
    /// A page of the list after a continue token.
    Page { limit: usize, after: Option<String> },
    /// A list as events, followed by a watch.
    StreamingList { bookmarks: bool, timeout: Option<u64> },
    /// The events after a resourceVersion.
    Watch { after: u64, bookmarks: bool, timeout: Option<u64> },
    /// A lookup of a namespace.
    Namespace,
}

impl ApiRequest {
    /// Rejects unknown parameters, which a real API server ignores.
    pub fn parse(request: &Request) -> Result<Self, Status> {
        let segments: Vec<_> = request.path.trim_matches('/').split('/').collect();
        let mut query = parameters(request);
        let (resource, operation, namespace) = match segments.as_slice() {
            ["api", "v1", "pods"] => ("pods", list_or_watch(&mut query)?, None),
            ["api", "v1", "namespaces"] => ("namespaces", list_or_watch(&mut query)?, None),
            ["api", "v1", "namespaces", name, "pods"] => {
                ("pods", list_or_watch(&mut query)?, Some((*name).to_owned()))
            }
            ["api", "v1", "namespaces", name] => {
                ("namespaces", Operation::Namespace, Some((*name).to_owned()))
            }
            _ => return Err(Status::not_found(&request.path, "the path")),
        };
        if request.method != "GET" {
            return Err(Status::bad_request(&format!("{} is not supported", request.method)));
        }
        if let Some(name) = query.keys().next() {
            return Err(Status::bad_request(&format!("unsupported parameter {name}")));
        }
        let token = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
        let certificate = request.certificate.clone();
        Ok(Self { resource, operation, namespace, at: Instant::now(), token, certificate })
    }

    pub fn is_watch(&self) -> bool {
        matches!(self.operation, Operation::Watch { .. })
    }

    pub fn is_streaming_list(&self) -> bool {
        matches!(self.operation, Operation::StreamingList { .. })
    }

    /// A list that is not streamed.
    pub fn is_list(&self) -> bool {
        matches!(self.operation, Operation::List | Operation::Page { .. })
    }

    pub fn is_later_page(&self) -> bool {
        matches!(self.operation, Operation::Page { after: Some(_), .. })
    }

    /// A list or watch of pods.
    pub fn is_about_pods(&self) -> bool {
        self.resource == "pods"
    }

    /// A list or watch of all namespaces.
    pub fn is_about_labels(&self) -> bool {
        self.resource == "namespaces" && self.operation != Operation::Namespace
    }

    /// Verb and resource for RBAC.
    pub fn verb_and_resource(&self) -> (&'static str, &'static str) {
        let verb = match self.operation {
            Operation::List | Operation::Page { .. } => "list",
            Operation::StreamingList { .. } | Operation::Watch { .. } => "watch",
            Operation::Namespace => "get",
        };
        (verb, self.resource)
    }
}

fn list_or_watch(query: &mut HashMap<String, String>) -> Result<Operation, Status> {
    let is = |value: Option<String>| matches!(value.as_deref(), Some("1" | "true"));
    let number = |name: &str, value: Option<String>| match value {
        None => Ok(None),
        Some(text) => {
            let number = text.parse::<u64>().map_err(|_| Status::bad_request(&format!("{name}={text}")));
            number.map(Some)
        }
    };
    let after = number("resourceVersion", query.remove("resourceVersion"))?;
    let matching = query.remove("resourceVersionMatch");
    if !is(query.remove("watch")) {
        return match (after, matching.as_deref(), number("limit", query.remove("limit"))?) {
            (None, None, Some(limit)) if limit > 0 => {
                let limit = usize::try_from(limit).unwrap();
                Ok(Operation::Page { limit, after: query.remove("continue") })
            }
            (None, None, None) => Ok(Operation::List),
            _ => Err(Status::bad_request("only consistent lists are supported")),
        };
    }
    let bookmarks = is(query.remove("allowWatchBookmarks"));
    let timeout = number("timeoutSeconds", query.remove("timeoutSeconds"))?;
    match (is(query.remove("sendInitialEvents")), matching.as_deref(), after) {
        (true, Some("NotOlderThan"), None) => Ok(Operation::StreamingList { bookmarks, timeout }),
        (true, Some("NotOlderThan"), Some(_)) => {
            Err(Status::bad_request("only consistent streaming lists are supported"))
        }
        (true, ..) => Err(Status::invalid("resourceVersionMatch", "sendInitialEvents requires NotOlderThan")),
        (false, Some(_), _) => Err(Status::invalid(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        (false, None, Some(after)) if after > 0 => Ok(Operation::Watch { after, bookmarks, timeout }),
        (false, None, _) => Err(Status::bad_request("a watch without a resourceVersion misses events")),
    }
}
