//! Permissions: the agent's API requests as the authorizer sees them, compared with the manifests.
//!
//! `requests` runs agents and records their requests, `manifest` reads options and permissions from manifests, and
//! `comparison` compares them. Both missing and unused permissions fail.

mod comparison;
mod manifest;
mod requests;

use std::collections::BTreeSet;
use std::fmt;

use requests::{AgentOptions, requests};

use crate::fake::Request;
use crate::fake::kube::parameters;

/// The permission that a request needs. Kubernetes authorizes a request for the namespace `x` within the namespace `x`, so
/// a Role there can grant it (k8s.io/apiserver, `RequestInfoFactory`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    verb: &'static str,
    group: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
}

impl Need {
    fn from_request(request: &Request) -> Self {
        let segments: Vec<_> = request.path.trim_matches('/').split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => panic!("{} is not a resource path", request.path),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace] => (Some(*namespace), rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (resource, name) = match rest {
            [resource] => (*resource, None),
            [resource, name] => (*resource, Some(*name)),
            _ => panic!("unsupported path {}", request.path),
        };
        let is_watch = matches!(parameters(request).get("watch").map(String::as_str), Some("1" | "true"));
        let verb = match (request.method.as_str(), name) {
            // A streaming list is a watch.
            ("GET", _) if is_watch => "watch",
            ("GET", Some(_)) => "get",
            ("GET", None) => "list",
            (method, _) => panic!("unexpected request: {method} {}", request.path),
        };
        let owned = |text: &str| text.to_owned();
        Self {
            verb,
            group: owned(group),
            resource: owned(resource),
            namespace: namespace.map(owned),
            name: name.map(owned),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => write!(f, " in the cluster"),
        }
    }
}

fn to_strings(needs: &BTreeSet<Need>) -> Vec<String> {
    needs.iter().map(Need::to_string).collect()
}

/// Each kind of selection, with the permissions that it needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selections_need_exactly_these_permissions() {
    const CLUSTER: [&str; 2] = ["list pods in the cluster", "watch pods in the cluster"];
    const SHOP: [&str; 3] = ["get namespaces shop in shop", "list pods in shop", "watch pods in shop"];
    const BOTH: [&str; 6] = [
        "get namespaces pay in pay",
        "get namespaces shop in shop",
        "list pods in pay",
        "list pods in shop",
        "watch pods in pay",
        "watch pods in shop",
    ];
    const NAMED: [&str; 3] =
        ["get namespaces shop in shop", "list pods in the cluster", "watch pods in the cluster"];
    const LABELS: [&str; 4] = [
        "list namespaces in the cluster",
        "list pods in the cluster",
        "watch namespaces in the cluster",
        "watch pods in the cluster",
    ];
    const NAMED_OR_LABELS: [&str; 5] = [
        "get namespaces shop in shop",
        "list namespaces in the cluster",
        "list pods in the cluster",
        "watch namespaces in the cluster",
        "watch pods in the cluster",
    ];
    for (environments, expected) in [
        ("[{name: a}]", &CLUSTER[..]),
        ("[{name: a, namespacesRegex: ['^shop$']}]", &CLUSTER),
        ("[{name: a, excludeNamespaces: [shop]}]", &CLUSTER),
        ("[{name: a, excludeNamespacesRegex: ['^kube-']}, {name: b, namespacesRegex: [pay]}]", &CLUSTER),
        ("[{name: a, namespaces: [shop]}]", &SHOP),
        // Namespaces are listed one by one only if the selection consists of names.
        ("[{name: a, namespaces: [shop], excludeNamespaces: [pay]}]", &NAMED),
        ("[{name: a, namespaces: [shop, pay]}]", &BOTH),
        ("[{name: a, namespaces: [shop]}, {name: b, namespaces: [shop, pay]}]", &BOTH),
        ("[{name: a, namespaces: [shop]}, {name: b}]", &NAMED),
        ("[{name: a, namespaces: [shop], namespacesRegex: ['^pay']}]", &NAMED),
        ("[{name: a, namespaceSelector: team}]", &LABELS),
        ("[{name: a, namespaceSelector: '!team', excludeNamespaces: [pay]}, {name: b}]", &LABELS),
        ("[{name: a, namespaces: [shop], namespaceSelector: team}]", &NAMED_OR_LABELS),
        // With `allowEmpty`, namespaces are not looked up.
        ("[{name: a, namespaces: [shop], allowEmpty: true}]", &SHOP[1..]),
    ] {
        let environments = format!("environments: {environments}");
        let watching = requests(&AgentOptions::config(&environments)).await;
        assert_eq!(to_strings(&watching), expected, "{environments}");
        // `--once` needs the same except watches.
        let once = requests(&AgentOptions::config(&environments).once()).await;
        let expected: Vec<_> = expected.iter().filter(|need| !need.starts_with("watch ")).collect();
        assert_eq!(to_strings(&once).iter().collect::<Vec<_>>(), expected, "{environments}");
    }
}
