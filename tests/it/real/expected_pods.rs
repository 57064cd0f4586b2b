//! The expected report of a namespace, from the API server's JSON. A simpler implementation than the program's, for pods
//! with one container.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::daemon::support::gate::Gate;
use crate::daemon::support::reported_pod::{ReportedPod, difference};
use crate::daemon::{eventually, eventually_or};
use crate::real::Namespace;

/// The running pods of these namespaces.
pub async fn running(namespaces: &[&Namespace]) -> BTreeSet<ReportedPod> {
    let mut pods = BTreeSet::new();
    for namespace in namespaces {
        let list = namespace.get("pods").await;
        pods.extend(list["items"].as_array().unwrap().iter().filter_map(reported));
    }
    pods
}

fn reported(pod: &Value) -> Option<ReportedPod> {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    if ["Succeeded", "Failed"].contains(&status["phase"].as_str()?) {
        return None;
    }
    let container = &status["containerStatuses"][0];
    let (_, digest) = container["imageID"].as_str()?.split_once("@sha256:")?;
    let created: jiff::Timestamp = metadata["creationTimestamp"].as_str()?.parse().unwrap();
    Some(ReportedPod {
        namespace: metadata["namespace"].as_str()?.to_owned(),
        name: metadata["name"].as_str()?.to_owned(),
        created: created.as_second(),
        digests: BTreeMap::from([(container["image"].as_str()?.to_owned(), digest.to_owned())]),
    })
}

/// Waits until the last accepted report, and the service if there is one, contain exactly the running pods.
pub async fn wait_until_reported(gate: &Gate, environment: &str, namespaces: &[&Namespace]) {
    let expected = running(namespaces).await;
    let difference_now = || match gate.last_accepted(environment) {
        Some(report) => difference(&report.pods, &expected),
        None => Some("no report was accepted".to_owned()),
    };
    let is_reported = async || difference_now().is_none();
    eventually_or("the last accepted report", is_reported, || difference_now().unwrap_or_default()).await;
    if gate.has_service() {
        let is_stored = async || gate.stored_running_pods(environment).await == expected;
        eventually("the service stores the running pods", is_stored).await;
    }
}
