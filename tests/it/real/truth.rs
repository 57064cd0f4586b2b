//! What has to be reported of a namespace: read from the API server's JSON, by other rules than the
//! program's own. Those that a test writes, with one container each, need no others.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Namespace;
use crate::daemon::gate::Gate;
use crate::daemon::reported::{Reported, difference};
use crate::daemon::{eventually, eventually_or};

/// The pods of these namespaces that run.
pub async fn running(namespaces: &[&Namespace]) -> BTreeSet<Reported> {
    let mut pods = BTreeSet::new();
    for namespace in namespaces {
        let list = namespace.get("pods").await;
        pods.extend(list["items"].as_array().unwrap().iter().filter_map(reported));
    }
    pods
}

fn reported(pod: &Value) -> Option<Reported> {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    if ["Succeeded", "Failed"].contains(&status["phase"].as_str()?) {
        return None;
    }
    let container = &status["containerStatuses"][0];
    let (_, digest) = container["imageID"].as_str()?.split_once("@sha256:")?;
    let created: jiff::Timestamp = metadata["creationTimestamp"].as_str()?.parse().unwrap();
    Some(Reported {
        namespace: metadata["namespace"].as_str()?.to_owned(),
        name: metadata["name"].as_str()?.to_owned(),
        created: created.as_second(),
        digests: BTreeMap::from([(container["image"].as_str()?.to_owned(), digest.to_owned())]),
    })
}

/// Sooner or later the last report that was accepted, and the service, where there is one, hold what runs
/// in these namespaces now, and nothing else.
pub async fn holds(gate: &Gate, environment: &str, namespaces: &[&Namespace]) {
    let expected = running(namespaces).await;
    let difference_now = || match gate.last_accepted(environment) {
        Some(report) => difference(&report.pods, &expected),
        None => Some("no report was accepted".to_owned()),
    };
    let is_told = async || difference_now().is_none();
    eventually_or("the last accepted report", is_told, || difference_now().unwrap_or_default()).await;
    if gate.has_service() {
        let is_held = async || gate.what_it_holds(environment).await == expected;
        eventually("the service holds what runs", is_held).await;
    }
}
