//! Invariants of the reports, which hold under every fault.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::daemon::support::cluster::{Cluster, Lifetime};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::reported_pod::{Identity, ReportedPod, difference};
use crate::daemon::{eventually, eventually_or};

/// An expected environment: its name, and the namespaces that it includes.
#[derive(Clone, Copy)]
pub struct ExpectedEnvironment {
    pub name: &'static str,
    pub includes: fn(&str) -> bool,
}

/// The whole cluster.
pub const PROD: ExpectedEnvironment = ExpectedEnvironment { name: "prod", includes: |_| true };

/// Asserts all invariants, of the current report and of all previous ones.
pub async fn assert_no_loss(gate: &Gate, cluster: &Cluster, environment: ExpectedEnvironment) {
    wait_until_all_reported(gate, cluster, environment).await;
    wait_until_in_sync(gate, cluster, environment).await;
    assert_live_pods_reported(gate, cluster, environment);
    assert_reported_pods_existed(gate, cluster, environment);
}

/// Waits until the last accepted report, and the service if there is one, contain exactly the cluster's pods.
pub async fn wait_until_in_sync(gate: &Gate, cluster: &Cluster, environment: ExpectedEnvironment) {
    let difference_now = || {
        let pods = gate.last_accepted(environment.name).map(|report| report.pods);
        match pods {
            Some(pods) => difference(&pods, &cluster.expected_report(environment.includes)),
            None => Some("no report was accepted".to_owned()),
        }
    };
    // Compare only after changes: comparing all pods on every poll would starve the daemon.
    let compared = Cell::new(None);
    let is_reported = async || {
        let now = (gate.accepted_count(environment.name), cluster.revision(), cluster.restores());
        compared.replace(Some(now)) != Some(now) && difference_now().is_none()
    };
    eventually_or("the last accepted report", is_reported, || difference_now().unwrap_or_default()).await;
    if gate.has_service() {
        let expected = async || cluster.expected_report(environment.includes);
        let is_stored = async || gate.stored_running_pods(environment.name).await == expected().await;
        eventually("the service stores the cluster's pods", is_stored).await;
    }
}

/// Waits until every pod that was sent to the agent while it was live is in an accepted report. Pods that departed
/// while no watch was open are exempt, since the agent cannot know them.
pub async fn wait_until_all_reported(gate: &Gate, cluster: &Cluster, environment: ExpectedEnvironment) {
    let missing = || {
        let reported: BTreeSet<Identity> =
            gate.every_accepted_pod(environment.name).iter().map(ReportedPod::identity).collect();
        let is_missing = |lifetime: &Lifetime| {
            lifetime.was_sent && (environment.includes)(&lifetime.pod.0) && !reported.contains(&lifetime.pod)
        };
        cluster.lifetimes().into_iter().filter(is_missing).map(|lifetime| lifetime.pod).collect::<Vec<_>>()
    };
    let details = || format!("never reported: {:#?}", missing());
    eventually_or("all pods are reported", async || missing().is_empty(), details).await;
}

/// Asserts that each reported pod was live with exactly these digests.
pub fn assert_reported_pods_existed(gate: &Gate, cluster: &Cluster, environment: ExpectedEnvironment) {
    let known: BTreeSet<ReportedPod> =
        cluster.lifetimes().into_iter().flat_map(|lifetime| lifetime.versions).collect();
    for (n, report) in gate.reports().iter().enumerate() {
        if report.environment == environment.name {
            let unknown: Vec<_> = report.pods.difference(&known).collect();
            assert!(unknown.is_empty(), "report {n} has {unknown:#?}");
            let other = report.pods.iter().find(|pod| !(environment.includes)(&pod.namespace));
            assert!(other.is_none(), "report {n} has {other:?}");
        }
    }
}

/// Asserts that no report lacks a live pod.
///
/// A report at time T must contain a pod that is live at T, if the pod started before the first list, or if an earlier
/// report contains it. Each process lists all pods before its first report. Valid for one agent at a time: of two
/// concurrent agents, the older may know fewer pods.
pub fn assert_live_pods_reported(gate: &Gate, cluster: &Cluster, environment: ExpectedEnvironment) {
    let Some(first_request) = cluster.first_request() else { return };
    let lifetimes: Vec<_> =
        cluster.lifetimes().into_iter().filter(|lifetime| (environment.includes)(&lifetime.pod.0)).collect();
    let mut first_reported: BTreeMap<Identity, Vec<Instant>> = BTreeMap::new();
    let reports = gate.reports();
    for (n, report) in reports.iter().enumerate().filter(|(_, r)| r.environment == environment.name) {
        if report.body.is_empty() {
            continue;
        }
        let has: BTreeSet<Identity> = report.pods.iter().map(ReportedPod::identity).collect();
        let is_due = |lifetime: &&Lifetime| {
            let was_reported =
                first_reported.get(&lifetime.pod).is_some_and(|at| at.iter().any(|at| *at > lifetime.from));
            let is_live = lifetime.to.is_none_or(|to| to > report.arrived);
            is_live && (lifetime.from < first_request || was_reported) && lifetime.from < report.arrived
        };
        let missing: Vec<_> = lifetimes
            .iter()
            .filter(is_due)
            .map(|lifetime| &lifetime.pod)
            .filter(|pod| !has.contains(*pod))
            .collect();
        assert!(missing.is_empty(), "report {n} of {} lacks {missing:#?}", reports.len());
        for pod in has {
            first_reported.entry(pod).or_default().push(report.arrived);
        }
    }
}
