//! Conversion of the recorded pods to artifacts. Each pod has one peculiarity.

use std::collections::BTreeMap;

use agent::cluster::{PodsFile, Unreadable};
use agent::live::collapse::{Counting, collapse};
use agent::live::pod::PodView;

use crate::fake::kube::fixture_path;

#[test]
fn recorded_pods_convert_to_the_expected_artifacts() {
    let mut artifacts = BTreeMap::new();
    let mut insert = |pod: Result<PodView, Unreadable>| {
        let pod = pod.unwrap();
        let name = pod.name.clone();
        let collapsed = collapse(pod.clone(), Counting::All, &[]);
        let artifact = match &collapsed.workload {
            Ok(workload) => serde_json::json!({
                "podName": pod.name,
                "namespace": pod.namespace,
                "digests": workload.digests,
                "creationTimestamp": pod.created_at,
                "owners": workload.owners,
            }),
            Err(skip) => format!("left out: {skip:?}").into(),
        };
        let left_out = collapsed.skipped.iter().map(|(reason, n)| format!("{n} {reason:?}"));
        artifacts.insert(
            name,
            serde_json::json!({
                "artifact": artifact,
                "containersLeftOut": left_out.collect::<Vec<_>>(),
                "configDigests": collapsed.config_digests(),
            }),
        );
    };
    PodsFile::Path(fixture_path("pod-list.json")).read(&mut insert).unwrap();
    assert_eq!(artifacts.len(), 26);
    insta::assert_json_snapshot!(artifacts);
}
