//! The recorded pods, one oddity each, and the artifact that each becomes.

use std::collections::BTreeMap;

use supercargo::cluster::{PodsFile, Unreadable};
use supercargo::domain::live::collapse::{Counting, collapse};
use supercargo::domain::live::pod::PodView;

use crate::fake::kube::fixture_path;

#[test]
fn each_recorded_pod_becomes_the_artifact_that_the_design_says() {
    let mut artifacts = BTreeMap::new();
    let mut take = |pod: Result<PodView, Unreadable>| {
        let pod = pod.unwrap();
        let name = pod.name.clone();
        let collapsed = collapse(pod.clone(), Counting::All, &[]);
        let shown = match &collapsed.workload {
            Ok(workload) => serde_json::json!({
                "podName": pod.name,
                "namespace": pod.namespace,
                "digests": workload.digests,
                "creationTimestamp": pod.created_at,
                "owners": workload.owners,
            }),
            Err(skip) => format!("left out: {skip:?}").into(),
        };
        let left_out = collapsed.skipped.iter().map(|(why, n)| format!("{n} {why:?}"));
        artifacts.insert(
            name,
            serde_json::json!({
                "artifact": shown,
                "containersLeftOut": left_out.collect::<Vec<_>>(),
                "configDigests": collapsed.config_digests(),
            }),
        );
    };
    PodsFile::Path(fixture_path("pod-list.json")).read(&mut take).unwrap();
    assert_eq!(artifacts.len(), 26);
    insta::assert_json_snapshot!(artifacts);
}
