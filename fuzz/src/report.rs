//! K8S reports as the service reads them, and as the agent writes them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::assert_printable;
use agent::live::live_set::LiveSet;
use agent::live::report::Report;
use client::ReportBody;
use model::{Artifact, Fingerprint};
use rules::snapshot::report::{K8sReport, NormalizedReport};
use service::fuzzing;

/// The body of a report.
pub fn report(bytes: &[u8]) {
    let reported = fuzzing::report(bytes);
    // Both parsers accept the same reports, except for invalid UTF-8 in ignored values.
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    let is_valid = is_object && serde_json::from_slice::<K8sReport<'_>>(bytes).is_ok();
    assert!(reported.is_ok() == is_valid || std::str::from_utf8(bytes).is_err(), "{reported:?}");
    let reported = match reported {
        Ok(reported) => reported,
        Err(rejection) => {
            assert_eq!(rejection.status, 400, "{rejection:?}");
            assert_printable(&rejection.text);
            assert!(rejection.text.len() < 4_000, "{rejection:?}");
            return;
        }
    };
    let again = fuzzing::report(reordered(&reported).to_string().as_bytes());
    let again = again.unwrap_or_else(|rejection| panic!("{rejection:?}: {}", reordered(&reported)));
    assert_eq!(again.hash, reported.hash, "the hash does not depend on the order");
    assert_eq!(again, reported);

    // Ignored values of a report may contain invalid UTF-8.
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    let artifacts = body["artifacts"].as_array().map_or(&[][..], Vec::as_slice);
    let sent =
        artifacts.iter().filter_map(|artifact| artifact["digests"].as_object()).flat_map(|d| d.values());
    let sent: BTreeSet<Fingerprint> = sent.filter_map(|digest| digest.as_str()?.parse().ok()).collect();
    let known = reported.artifacts();
    assert_eq!(known.keys().copied().collect::<BTreeSet<_>>(), sent, "digests of the report");
    for (artifact, is) in known {
        let is_valid = !is.name.is_empty() && is.pods > 0 && !is.namespaces.is_empty();
        assert!(is_valid, "{artifact}: {is:?}");
    }
}

/// The service accepts the report of a live set and its departed pods.
pub(super) fn assert_accepted(live_set: &LiveSet, departed: Vec<Artifact>) {
    let report = Report::new(live_set.snapshot(0, departed));
    let body: Vec<u8> = report.chunks().flatten().collect();
    assert_eq!(body.len() as u64, report.content_length());
    match fuzzing::report(&body) {
        Ok(reported) => assert!(reported.pods.len() <= report.len()),
        Err(rejection) => panic!("{rejection:?}: {}", String::from_utf8_lossy(&body)),
    }
}

/// The same report with pods and keys in another order.
fn reordered(reported: &NormalizedReport) -> Value {
    let artifacts = reported.pods.iter().rev().map(|pod| {
        let workload = &reported.workloads[&pod.workload];
        let digests: serde_json::Map<_, _> =
            workload.digests.iter().map(|(name, digest)| (name.to_owned(), json!(digest))).collect();
        let owners: Value = serde_json::from_str(workload.owners.as_str()).expect("owners are JSON");
        json!({
            "podName": pod.name, "owners": owners, "namespace": pod.namespace,
            "digests": digests, "creationTimestamp": pod.created_at, "unknown": [1],
        })
    });
    json!({ "artifacts": artifacts.collect::<Vec<_>>(), "unknown": {} })
}
