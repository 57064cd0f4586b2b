//! What a report says, whatever its spelling.

use super::*;

fn read(json: &str) -> Result<Reported, String> {
    serde_json::from_str::<K8sReport<'_>>(json).map(Reported::new).map_err(|e| e.to_string())
}

fn pod(name: &str, digests: &str) -> String {
    format!(r#"{{"podName":"{name}","namespace":"n","digests":{digests},"creationTimestamp":1}}"#)
}

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

#[test]
fn order_spelling_and_absent_parts_make_no_difference() {
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
fn what_runs_under_which_name_makes_a_difference() {
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
fn a_pod_that_is_there_again_and_again_runs_the_digests_of_all() {
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

#[test]
fn an_artifact_with_several_names_goes_by_the_first() {
    let report = format!(r#"{{"artifacts":[{}]}}"#, pod("p", &format!(r#"{{"y":"{A}","x":"{A}"}}"#)));
    assert_eq!(read(&report).unwrap().artifacts().into_values().collect::<Vec<_>>(), [("x", 1)]);
}

#[test]
fn what_is_wrong_is_refused_with_what_was_expected() {
    for (body, expected) in [
        (r#"{"artifacts":{}}"#.to_owned(), "expected a sequence"),
        (r#"{"type":"K8S"}"#.to_owned(), "missing field `artifacts`"),
        (r#"{"type":"ECS","artifacts":[]}"#.to_owned(), "expected `K8S`"),
        (r#"{"artifacts":[],"artifacts":[]}"#.to_owned(), "duplicate field"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("", "{}")), "1 to 255"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("a\\nb", "{}")), "control character"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", r#"{"x":"ABC"}"#)), "64 lowercase hex digits"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", r#"{"":"A"}"#)), "no image name"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", &format!(r#"{{"x":"{A}","x":"{A}"}}"#))), "there twice"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", "{}").replace(":1}", ":-1}")), "1970 and 9999"),
        (format!(r#"{{"artifacts":[{}]}}"#, pod("p", "{}").replace(":1}", ":NaN}")), "expected value"),
    ] {
        let error = read(&body).unwrap_err();
        assert!(error.contains(expected), "{body}: {error}");
    }
}

proptest::proptest! {
    #[test]
    fn the_order_of_pods_and_digests_does_not_matter(
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
