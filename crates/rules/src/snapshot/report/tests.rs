use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use agent::live::collapse::Counting;
use agent::live::live_set::LiveSet;
use agent::live::pod::{ContainerKind, ContainerView, Phase, PodView};
use agent::live::report::Report;
use agent::live::selection::Selection;
use client::ReportBody;

fn read(json: &str) -> Result<NormalizedReport, String> {
    let report = NormalizedReport::parse(json.as_bytes());
    let typed = serde_json::from_str::<K8sReport<'_>>(json);
    assert_eq!(report.is_ok(), typed.is_ok(), "{json}");
    typed.map_err(|e| e.to_string())?;
    report.map_err(|e| e.to_string())
}

fn pod(name: &str, digests: &str) -> String {
    format!(r#"{{"podName":"{name}","namespace":"n","digests":{digests},"creationTimestamp":1}}"#)
}

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

#[test]
fn equivalent_bodies_are_normalized_to_equal_reports() {
    let both = format!(r#"{{"x":"{A}","y":"{B}"}}"#);
    let one = format!(r#"{{"artifacts":[{},{}]}}"#, pod("p", &both), pod("q", "{}"));
    let swapped = format!(r#"{{"y":"{B}","\u0078":"{A}"}}"#);
    let other = format!(
        r#"{{"type":"K8S","artifacts":[{},{}],"version":2}}"#,
        pod("q", "{}").replace(r#""creationTimestamp":1"#, r#""creationTimestamp":1.0,"owners":null"#),
        pod("p", &swapped).replace('}', " }"),
    );
    assert_eq!(read(&one).unwrap(), read(&other).unwrap());
    let empty = read(r#"{"artifacts":[]}"#).unwrap();
    assert_ne!(read(&one).unwrap().hash, empty.hash);
}

#[test]
fn pod_name_image_name_and_digest_affect_the_hash() {
    let report = |name: &str, digests: String| {
        read(&format!(r#"{{"artifacts":[{}]}}"#, pod(name, &digests))).unwrap().hash
    };
    let one = report("p", format!(r#"{{"x":"{A}"}}"#));
    for other in [
        report("q", format!(r#"{{"x":"{A}"}}"#)),
        report("p", format!(r#"{{"x":"{B}"}}"#)),
        report("p", format!(r#"{{"y":"{A}"}}"#)),
        report("p", "{}".to_owned()),
    ] {
        assert_ne!(one, other);
    }
}

#[test]
fn duplicates_of_a_pod_are_merged_with_all_digests() {
    let pods: Vec<String> =
        (0..5_000).map(|n| pod("p", &format!(r#"{{"x":"{n:064x}","y":"{A}"}}"#))).collect();
    let mut turned = pods.clone();
    turned.reverse();
    let report = |pods: &[String]| read(&format!(r#"{{"artifacts":[{}]}}"#, pods.join(","))).unwrap();
    let reported = report(&pods);
    assert_eq!(reported, report(&turned));
    assert_eq!(reported.pods.len(), 1);
    assert_eq!(reported.artifacts().len(), 5_001);
    let workload = reported.workloads.values().next().unwrap();
    let names: Vec<_> = workload.digests.iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"y") && names.contains(&&*format!("x@sha256:{:064x}", 7)), "{:?}", names.len());
}

/// The workload of each pod, for pods with these names, owners and digests of an image.
fn workloads(pods: &[(&str, serde_json::Value, &str)]) -> Vec<Workload> {
    let pods: Vec<_> = pods
        .iter()
        .map(|(name, owners, digest)| {
            serde_json::json!({
                "podName": name, "namespace": "n", "creationTimestamp": 1, "owners": owners, "digests": {"x": digest},
            })
        })
        .collect();
    let reported = read(&serde_json::json!({ "artifacts": pods }).to_string()).unwrap();
    reported.pods.iter().map(|pod| reported.workloads[&pod.workload].clone()).collect()
}

fn owners(name: &str) -> serde_json::Value {
    serde_json::json!([{ "kind": "ReplicaSet", "name": name }])
}

#[test]
fn pod_after_another_workload_keeps_its_own_digests_and_owners() {
    let pods = [("a", "x", A), ("b", "x", A), ("c", "x", B), ("d", "y", B), ("e", "x", A)];
    let all: Vec<_> = pods.iter().map(|(pod, owner, digest)| (*pod, owners(owner), *digest)).collect();
    let alone: Vec<_> = all.iter().flat_map(|pod| workloads(std::slice::from_ref(pod))).collect();
    assert_eq!(workloads(&all), alone);
    assert_ne!(alone[0], alone[2]);
    assert_ne!(alone[2], alone[3]);
}

#[test]
fn duplicates_of_a_pod_have_the_first_owners() {
    let duplicates = [("a", serde_json::Value::Null, A), ("a", owners("x"), A), ("a", owners("y"), A)];
    let unowned_next = ("b", serde_json::Value::Null, A);
    let merged = workloads(&[&duplicates[..], &[unowned_next]].concat());
    let alone = workloads(&[("a", owners("x"), A), ("b", serde_json::Value::Null, A)]);
    assert_eq!(merged, alone);
}

#[test]
fn ignored_value_of_an_owner_must_be_utf_8() {
    let body = |text: &[u8]| {
        let [start, end] = [
            &br#"{"artifacts":[{"podName":"p","namespace":"n","digests":{},"owners":[{"x":""#[..],
            b"\"}],\"creationTimestamp\":1}]}",
        ];
        NormalizedReport::parse(&[start, text, end].concat())
    };
    assert!(body("ü".as_bytes()).is_ok());
    assert!(body(b"\xff").unwrap_err().to_string().contains("invalid unicode"));
}

#[test]
fn artifact_with_several_names_has_the_first_name() {
    let report = format!(r#"{{"artifacts":[{}]}}"#, pod("p", &format!(r#"{{"y":"{A}","x":"{A}"}}"#)));
    let reported = read(&report).unwrap();
    let artifacts: Vec<_> = reported.artifacts().into_values().map(|one| (one.name, one.pods)).collect();
    assert_eq!(artifacts, [("x".to_owned(), 1)]);
}

#[test]
fn invalid_report_is_rejected_with_the_expected_value() {
    for (body, expected) in [
        (r#"{"artifacts":{}}"#.to_owned(), "expected a sequence"),
        (r#"{"type":"K8S"}"#.to_owned(), "missing field `artifacts`"),
        (r#"{"type":"ECS","artifacts":[]}"#.to_owned(), "expected `K8S`"),
        (r#"{"artifacts":[],"artifacts":[]}"#.to_owned(), "duplicate field"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("", "{}")), "1 to 255"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("a\\nb", "{}")), "control or invisible"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", r#"{"x":"ABC"}"#)), "64 lowercase hex digits"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", r#"{"":"A"}"#)), "expected an image name"),
        (
            format!(r#"{{"artifacts":[{}]}}"#, pod("p", &format!(r#"{{"x":"{A}","x":"{A}"}}"#))),
            "duplicate image",
        ),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", "{}").replace(":1}", ":-1}")), "1970 and 9999"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", "{}").replace(":1}", ":NaN}")), "expected value"),
    ] {
        let error = read(&body).unwrap_err();
        assert!(error.contains(expected), "{body}: {error}");
    }
}

proptest::proptest! {
    #[test]
    fn order_of_pods_and_digests_does_not_matter(
        pods in proptest::collection::btree_map("[a-c]{1,2}", proptest::collection::btree_set(0_u8..4, 0..4), 0..6),
        seed in 0_usize..24,
    ) {
        let body = |turn: usize| {
            let mut parts: Vec<String> = pods.iter().map(|(name, digests)| {
                let mut pairs: Vec<String> =
                    digests.iter().map(|n| format!(r#""i{n}":"{}""#, format!("{n:x}").repeat(64))).collect();
                let by = turn % pairs.len().max(1);
                pairs.rotate_left(by);
                pod(name, &format!("{{{}}}", pairs.join(",")))
            }).collect();
            let by = turn % parts.len().max(1);
            parts.rotate_left(by);
            format!(r#"{{"artifacts":[{}]}}"#, parts.join(","))
        };
        proptest::prop_assert_eq!(read(&body(0)).unwrap(), read(&body(seed)).unwrap());
    }
}

#[test]
fn duplicate_with_a_pinned_name_loses_no_digest() {
    let one = pod("p", &format!(r#"{{"x":"{A}"}}"#));
    let c = "c".repeat(64);
    let other = pod("p", &format!(r#"{{"x":"{B}","x@sha256:{A}":"{c}"}}"#));
    let reported = read(&format!(r#"{{"artifacts":[{one},{other}]}}"#)).unwrap();
    let merged: Vec<_> = reported.artifacts().into_keys().map(|digest| digest.to_string()).collect();
    assert_eq!(merged, [A, B, &c]);
}

/// Any pod of an API server, and pods with invalid names and times.
fn any_pod() -> impl Strategy<Value = PodView> {
    let text = || prop_oneof![Just("x".to_owned()), Just(String::new()), any::<String>(), "\\PC{0,300}"];
    let name = || prop_oneof![Just("a".to_owned()), Just("b".to_owned()), text()];
    let digest = prop_oneof![Just(A), Just(B), Just("")];
    let image = prop_oneof![Just("x".to_owned()), Just(format!("x@sha256:{A}")), text()];
    let container = (name(), image, digest, text());
    let containers = proptest::collection::vec(container, 0..4);
    let time = prop_oneof![Just(Some(1)), any::<Option<i64>>()];
    (name(), name(), name(), time, containers, text()).prop_map(
        |(namespace, name, uid, created_at, containers, owner)| {
            let containers = containers.into_iter().map(|(name, image, digest, spec_image)| ContainerView {
                kind: ContainerKind::default(),
                name,
                image,
                image_id: digest.to_owned(),
                spec_image,
            });
            let owner = OwnerReference {
                api_version: None,
                kind: Some("".into()),
                name: Some(owner.into()),
                uid: None,
                controller: None,
                block_owner_deletion: Some(false),
            };
            let (containers, owners) = (containers.collect(), vec![owner]);
            PodView {
                namespace,
                name,
                uid,
                created_at,
                phase: Phase::Alive,
                owners,
                containers,
                is_excluded: false,
            }
        },
    )
}

proptest! {
    #[test]
    fn report_of_any_live_set_is_accepted_without_losing_a_digest(
        pods in proptest::collection::vec((any::<bool>(), any_pod()), 0..8),
    ) {
        let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
        live_set.complete(None, |_| ());
        live_set.begin(None);
        live_set.complete(None, |_| ());
        let mut gone = Vec::new();
        for (goes, pod) in pods {
            if goes {
                gone.extend(live_set.remove(None, &pod));
            } else {
                gone.extend(live_set.apply(None, pod).departures);
            }
        }
        let gone = gone.into_iter().map(|departure| departure.artifact).collect();
        let snapshot = live_set.snapshot(0, gone);
        let sent: BTreeSet<_> =
            snapshot.iter().flat_map(|a| a.workload.digests.iter().map(|(_, digest)| digest).collect::<Vec<_>>()).collect();
        let body: Vec<u8> = Report::new(snapshot).chunks().flatten().collect();
        let report = NormalizedReport::parse(&body);
        prop_assert!(report.is_ok(), "{report:?}: {}", String::from_utf8_lossy(&body));
        let kept: BTreeSet<_> = report.unwrap().artifacts().into_keys().collect();
        prop_assert_eq!(kept, sent);
    }
}
