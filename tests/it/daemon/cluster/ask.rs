//! What a request asks of the cluster.

use std::collections::HashMap;
use std::time::Instant;

use super::wire::Status;
use crate::fake::Seen;
use crate::fake::kube::parameters;

/// A request that was understood.
#[derive(Debug, Clone)]
pub struct Ask {
    pub what: What,
    /// Of this namespace, or of the cluster.
    pub namespace: Option<String>,
    pub at: Instant,
    pub token: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The whole list.
    List,
    /// A page of the list; `after` is a continue token.
    Page { limit: usize, after: Option<String> },
    /// A list as events, and then events.
    StreamingList { bookmarks: bool, timeout: Option<u64> },
    /// The events after a resourceVersion.
    Watch { after: u64, bookmarks: bool, timeout: Option<u64> },
    /// Whether the namespace exists.
    Namespace,
}

impl Ask {
    /// What a request asks, or why it is not understood. What this server does not know, it refuses; a
    /// real one would ignore it.
    pub fn of(seen: &Seen) -> Result<Self, Status> {
        let segments: Vec<_> = seen.path.trim_matches('/').split('/').collect();
        let mut given = parameters(seen);
        let (what, namespace) = match segments.as_slice() {
            ["api", "v1", "pods"] => (pods(&mut given)?, None),
            ["api", "v1", "namespaces", name, "pods"] => (pods(&mut given)?, Some((*name).to_owned())),
            ["api", "v1", "namespaces", name] => (What::Namespace, Some((*name).to_owned())),
            _ => return Err(Status::not_found(&seen.path, "the path")),
        };
        if seen.method != "GET" {
            return Err(Status::bad_request(&format!("{} is not what this server knows", seen.method)));
        }
        if let Some(name) = given.keys().next() {
            return Err(Status::bad_request(&format!("{name} is not a parameter that is known here")));
        }
        let token = seen.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
        Ok(Self { what, namespace, at: Instant::now(), token })
    }

    pub fn is_watch(&self) -> bool {
        matches!(self.what, What::Watch { .. })
    }

    pub fn is_streaming_list(&self) -> bool {
        matches!(self.what, What::StreamingList { .. })
    }

    /// Any but a streaming one.
    pub fn is_list(&self) -> bool {
        matches!(self.what, What::List | What::Page { .. })
    }

    pub fn is_later_page(&self) -> bool {
        matches!(self.what, What::Page { after: Some(_), .. })
    }

    /// It asks for a list, whole or in part, or for events.
    pub fn is_about_pods(&self) -> bool {
        self.what != What::Namespace
    }

    /// In the words of the access rules.
    pub fn verb_and_resource(&self) -> (&'static str, &'static str) {
        match self.what {
            What::List | What::Page { .. } => ("list", "pods"),
            What::StreamingList { .. } | What::Watch { .. } => ("watch", "pods"),
            What::Namespace => ("get", "namespaces"),
        }
    }
}

fn pods(given: &mut HashMap<String, String>) -> Result<What, Status> {
    let is = |value: Option<String>| matches!(value.as_deref(), Some("1" | "true"));
    let number = |name: &str, value: Option<String>| match value {
        None => Ok(None),
        Some(text) => {
            let number = text.parse::<u64>().map_err(|_| Status::bad_request(&format!("{name}={text}")));
            number.map(Some)
        }
    };
    let after = number("resourceVersion", given.remove("resourceVersion"))?;
    let matching = given.remove("resourceVersionMatch");
    if !is(given.remove("watch")) {
        return match (after, matching.as_deref(), number("limit", given.remove("limit"))?) {
            (None, None, Some(limit)) if limit > 0 => {
                let limit = usize::try_from(limit).unwrap();
                Ok(What::Page { limit, after: given.remove("continue") })
            }
            (None, None, None) => Ok(What::List),
            _ => Err(Status::bad_request("only consistent lists are known here")),
        };
    }
    let bookmarks = is(given.remove("allowWatchBookmarks"));
    let timeout = number("timeoutSeconds", given.remove("timeoutSeconds"))?;
    match (is(given.remove("sendInitialEvents")), matching.as_deref(), after) {
        (true, Some("NotOlderThan"), None) => Ok(What::StreamingList { bookmarks, timeout }),
        (true, Some("NotOlderThan"), Some(_)) => {
            Err(Status::bad_request("only consistent streaming lists are known here"))
        }
        (true, ..) => Err(Status::invalid("resourceVersionMatch", "sendInitialEvents requires NotOlderThan")),
        (false, Some(_), _) => Err(Status::invalid(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        (false, None, Some(after)) if after > 0 => Ok(What::Watch { after, bookmarks, timeout }),
        (false, None, _) => Err(Status::bad_request("a watch without a resourceVersion misses events")),
    }
}
