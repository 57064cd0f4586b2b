//! What has to be true of the reports, whatever went wrong on the way.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::{eventually, eventually_or};
use crate::daemon::cluster::{Cluster, Life};
use crate::daemon::gate::Gate;
use crate::daemon::reported::{Identity, Reported, difference};

/// An environment: its name, and the namespaces that it takes.
#[derive(Clone, Copy)]
pub struct Environment {
    pub name: &'static str,
    pub takes: fn(&str) -> bool,
}

/// All of the cluster.
pub const PROD: Environment = Environment { name: "prod", takes: |_| true };

/// All of it: what is held now, and what was said of all that ran.
pub async fn nothing_was_lost(gate: &Gate, cluster: &Cluster, environment: Environment) {
    every_pod_was_reported(gate, cluster, environment).await;
    holds_what_the_cluster_holds(gate, cluster, environment).await;
    never_fewer_than_live(gate, cluster, environment);
    nothing_was_invented(gate, cluster, environment);
}

/// Sooner or later the last report that was accepted, and the service, where there is one, hold the pods
/// that the cluster holds, and no others.
pub async fn holds_what_the_cluster_holds(gate: &Gate, cluster: &Cluster, environment: Environment) {
    let difference_now = || {
        let held = gate.last_accepted(environment.name).map(|report| report.pods);
        match held {
            Some(held) => difference(&held, &cluster.expected_report(environment.takes)),
            None => Some("no report was accepted".to_owned()),
        }
    };
    // Comparing all pods at every look would leave the daemon no processor: only when either side has changed.
    let compared = Cell::new(None);
    let told = async || {
        let now = (gate.accepted_so_far(environment.name), cluster.revision(), cluster.restores());
        compared.replace(Some(now)) != Some(now) && difference_now().is_none()
    };
    eventually_or("the last accepted report", told, || difference_now().unwrap_or_default()).await;
    if gate.has_service() {
        let expected = async || cluster.expected_report(environment.takes);
        let held = async || gate.what_it_holds(environment.name).await == expected().await;
        eventually("the service holds what the cluster holds", held).await;
    }
}

/// Every pod that was live, and of which the agent was told while it was, is in a report that was
/// accepted. Told is what was sent whole: nobody can know of what came and went while no watch was open.
pub async fn every_pod_was_reported(gate: &Gate, cluster: &Cluster, environment: Environment) {
    let missing = || {
        let reported: BTreeSet<Identity> =
            gate.every_accepted_pod(environment.name).iter().map(Reported::identity).collect();
        let is_missing =
            |life: &Life| life.was_told && (environment.takes)(&life.pod.0) && !reported.contains(&life.pod);
        cluster.lives().into_iter().filter(is_missing).map(|life| life.pod).collect::<Vec<_>>()
    };
    let why = || format!("never reported: {:#?}", missing());
    eventually_or("every pod is reported", async || missing().is_empty(), why).await;
}

/// Each pod of each report was live once, and ran just that.
pub fn nothing_was_invented(gate: &Gate, cluster: &Cluster, environment: Environment) {
    let known: BTreeSet<Reported> = cluster.lives().into_iter().flat_map(|life| life.versions).collect();
    for (n, report) in gate.reports().iter().enumerate() {
        if report.environment == environment.name {
            let invented: Vec<_> = report.pods.difference(&known).collect();
            assert!(invented.is_empty(), "report {n} has {invented:#?}");
            let other = report.pods.iter().find(|pod| !(environment.takes)(&pod.namespace));
            assert!(other.is_none(), "report {n} has {other:?}");
        }
    }
}

/// No report has fewer pods than were live. A pod has to be in a report that arrives at T if its life
/// goes on at T, and began before pods were first asked for (each process lists them all before its first
/// report), or if a report that arrived before T has it in that same life. This is so for one agent at
/// a time, one after another: of two, the older may know less than the other has reported.
pub fn never_fewer_than_live(gate: &Gate, cluster: &Cluster, environment: Environment) {
    let Some(first_asked) = cluster.first_asked() else { return };
    let lives: Vec<_> = cluster.lives().into_iter().filter(|life| (environment.takes)(&life.pod.0)).collect();
    let mut first_seen: BTreeMap<Identity, Vec<Instant>> = BTreeMap::new();
    let reports = gate.reports();
    for (n, report) in reports.iter().enumerate().filter(|(_, r)| r.environment == environment.name) {
        if report.body.is_empty() {
            continue;
        }
        let has: BTreeSet<Identity> = report.pods.iter().map(Reported::identity).collect();
        let is_due = |life: &&Life| {
            let was_reported =
                first_seen.get(&life.pod).is_some_and(|at| at.iter().any(|at| *at > life.from));
            let goes_on = life.to.is_none_or(|to| to > report.arrived);
            goes_on && (life.from < first_asked || was_reported) && life.from < report.arrived
        };
        let missing: Vec<_> =
            lives.iter().filter(is_due).map(|life| &life.pod).filter(|pod| !has.contains(*pod)).collect();
        assert!(missing.is_empty(), "report {n} of {} lacks {missing:#?}", reports.len());
        for pod in has {
            first_seen.entry(pod).or_default().push(report.arrived);
        }
    }
}

/// All of that.
pub async fn all_holds(gate: &Gate, cluster: &Cluster, environment: Environment) {
    holds_what_the_cluster_holds(gate, cluster, environment).await;
    every_pod_was_reported(gate, cluster, environment).await;
    never_fewer_than_live(gate, cluster, environment);
    nothing_was_invented(gate, cluster, environment);
}
