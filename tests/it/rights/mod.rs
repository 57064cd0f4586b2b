//! Rights: what the agent asks of an API server, as its authorizer sees it, and what manifests grant.
//!
//! `asked` runs the agent through whatever makes it ask for something else, and keeps the requests;
//! `manifest` reads who runs the agent how, and with which rights; `granted` holds the two together. A
//! request that no right covers fails, and so does a right that no request needs.

mod asked;
mod granted;
mod manifest;

use std::collections::BTreeSet;
use std::fmt;

use asked::{How, asked};

use crate::fake::Seen;
use crate::fake::kube::parameters;

/// A request, in the words of access rules. As Kubernetes has it, a request for the namespace `x` is in
/// the namespace `x`, so that a Role there can grant it (k8s.io/apiserver, `RequestInfoFactory`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    verb: &'static str,
    group: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
}

impl Need {
    fn of(seen: &Seen) -> Self {
        let segments: Vec<_> = seen.path.trim_matches('/').split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => panic!("{} is no resource", seen.path),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace] => (Some(*namespace), rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (resource, name) = match rest {
            [resource] => (*resource, None),
            [resource, name] => (*resource, Some(*name)),
            _ => panic!("{} is not known here", seen.path),
        };
        let is_watch = matches!(parameters(seen).get("watch").map(String::as_str), Some("1" | "true"));
        let verb = match (seen.method.as_str(), name) {
            // A list that is streamed is a watch.
            ("GET", _) if is_watch => "watch",
            ("GET", Some(_)) => "get",
            ("GET", None) => "list",
            (method, _) => panic!("the agent changes nothing: {method} {}", seen.path),
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

fn shown(needs: &BTreeSet<Need>) -> Vec<String> {
    needs.iter().map(Need::to_string).collect()
}

/// Each kind of selection, and all that it makes the agent ask for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_selection_asks_for_this_and_for_nothing_else() {
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
    for (environments, expected) in [
        ("[{name: a}]", &CLUSTER[..]),
        ("[{name: a, namespacesRegex: ['^shop$']}]", &CLUSTER),
        ("[{name: a, excludeNamespaces: [shop]}]", &CLUSTER),
        ("[{name: a, excludeNamespacesRegex: ['^kube-']}, {name: b, namespacesRegex: [pay]}]", &CLUSTER),
        ("[{name: a, namespaces: [shop]}]", &SHOP),
        // Only what is named, and nothing besides, is listed namespace by namespace.
        ("[{name: a, namespaces: [shop], excludeNamespaces: [pay]}]", &NAMED),
        ("[{name: a, namespaces: [shop, pay]}]", &BOTH),
        ("[{name: a, namespaces: [shop]}, {name: b, namespaces: [shop, pay]}]", &BOTH),
        ("[{name: a, namespaces: [shop]}, {name: b}]", &NAMED),
        ("[{name: a, namespaces: [shop], namespacesRegex: ['^pay']}]", &NAMED),
        // Where emptiness is allowed, nobody asks whether the namespace is there.
        ("[{name: a, namespaces: [shop], allowEmpty: true}]", &SHOP[1..]),
    ] {
        let environments = format!("environments: {environments}");
        let watching = asked(&How::config(&environments)).await;
        assert_eq!(shown(&watching), expected, "{environments}");
        // The one shot needs the same but for the watch.
        let once = asked(&How::config(&environments).once()).await;
        let expected: Vec<_> = expected.iter().filter(|need| !need.starts_with("watch ")).collect();
        assert_eq!(shown(&once).iter().collect::<Vec<_>>(), expected, "{environments}");
    }
}
