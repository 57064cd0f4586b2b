//! Pods from a file: what kubectl prints, and what else people hand in.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fake::kube::{fixture, fixture_path};
use crate::program::{Outcome, once, recorded_report};

fn from_stdin(bytes: impl Into<Vec<u8>>) -> Outcome {
    once().args(["--dry-run", "--environment", "x", "--pods-from", "-"]).stdin(bytes).run()
}

fn recorded() -> Value {
    serde_json::from_slice(&fixture("pod-list.json")).unwrap()
}

/// As `kubectl get pods -A -o json` prints it: a `List` of items that each say what they are.
fn as_kubectl_prints() -> Value {
    let mut list = recorded();
    for item in list["items"].as_array_mut().unwrap() {
        item["apiVersion"] = "v1".into();
        item["kind"] = "Pod".into();
    }
    let items = list["items"].take();
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// A few hundred bytes of YAML a pod, as kubectl writes it.
fn yaml(pods: usize) -> String {
    let mut yaml = String::from("apiVersion: v1\nitems:\n");
    for n in 0..pods {
        write!(
            yaml,
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    creationTimestamp: \"2026-11-21T10:30:28Z\"\n    \
             labels:\n      app: \"1e3\"\n      tier: \"yes\"\n    name: web-{n:05}\n    namespace: shop\n    \
             annotations:\n      note: |\n        several\n        lines\n  spec:\n    containers:\n    - image: web:1.4\n      \
             name: web\n      args: [\"--port\", \"8080\"]\n  status:\n    containerStatuses:\n    - image: web:1.4\n      \
             imageID: docker.io/library/web@sha256:{digest}\n      name: web\n    phase: Running\n",
            digest = "ab".repeat(32)
        )
        .unwrap();
    }
    yaml.push_str("kind: List\nmetadata:\n  resourceVersion: \"\"\n");
    yaml
}

#[test]
fn the_same_file_gives_the_same_bytes_twice_and_from_standard_input() {
    let expected = recorded_report();
    assert!(expected.ends_with("}]}\n") && expected.lines().count() == 1);
    assert_eq!(from_stdin(fixture("pod-list.json")).says(0, &[]).stdout, expected);
    assert_eq!(from_stdin(as_kubectl_prints().to_string()).says(0, &[]).stdout, expected);
    assert_eq!(from_stdin(serde_json::to_string_pretty(&as_kubectl_prints()).unwrap()).stdout, expected);
}

#[test]
fn what_kubectl_printed_gives_what_its_api_server_said() {
    for file in ["../kubectl/pods.json", "../kubectl/pods.yaml"] {
        assert_eq!(from_stdin(fixture(file)).says(0, &[]).stdout, recorded_report(), "{file}");
    }
}

#[test]
fn the_example_is_a_cluster_of_a_dozen_pods_one_of_them_odd() {
    let example = format!("{}/examples/pods.json", env!("CARGO_MANIFEST_DIR"));
    let outcome = once().args(["--dry-run", "--environment", "demo", "--pods-from", &example]).run();
    outcome.says(0, &["demo: 11 artifacts", "1 pod ended", "1 pod not started"]);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn yaml_gives_what_json_gives() {
    let pods = serde_json::to_string(&as_kubectl_prints()).unwrap();
    // JSON is YAML; a leading comment has it read as such.
    assert_eq!(from_stdin(format!("# pods\n{pods}")).says(0, &[]).stdout, recorded_report());

    let outcome = from_stdin(yaml(2));
    let report: Value = serde_json::from_str(&outcome.says(0, &["2 artifacts"]).stdout).unwrap();
    let artifact = json!({
        "podName": "web-00001", "namespace": "shop", "digests": {"docker.io/library/web:1.4": "ab".repeat(32)},
        "creationTimestamp": 1_795_257_028, "owners": [],
    });
    assert_eq!(report["artifacts"][1], artifact);
}

#[test]
fn yaml_of_five_thousand_pods_is_read() {
    from_stdin(yaml(5_000)).says(0, &["5000 artifacts"]);
}

#[test]
fn one_pod_alone_is_read_in_json_and_yaml() {
    let pod = &as_kubectl_prints()["items"][0];
    assert_eq!(pod["metadata"]["name"], "bare-pod");
    let outcome = from_stdin(pod.to_string());
    outcome.says(0, &["1 artifact "]);
    assert_eq!(from_stdin(format!("---\n{pod}")).says(0, &[]).stdout, outcome.stdout);
}

#[test]
fn text_as_other_systems_write_it_is_read() {
    let pods = as_kubectl_prints().to_string();
    let marked = [b"\xef\xbb\xbf", pods.as_bytes()].concat();
    assert_eq!(from_stdin(marked).says(0, &[]).stdout, recorded_report());
    assert_eq!(from_stdin(format!(" \n\t{pods}\r\n")).says(0, &[]).stdout, recorded_report());
    let utf16: Vec<u8> =
        "\u{feff}".encode_utf16().chain(pods.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(from_stdin(utf16).says(0, &[]).stdout, recorded_report());
}

#[test]
fn what_holds_no_pods_is_refused_with_file_and_place() {
    let truncated = &fixture("pod-list.json")[..20_000];
    let mut mixed = as_kubectl_prints();
    mixed["items"][3] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
    let mut unnamed = as_kubectl_prints();
    unnamed["items"][4].as_object_mut().unwrap().remove("kind");
    let open = r#"{"kind": "List", "items": ["#;
    let status = fixture("status-403.json");
    for (bytes, words) in [
        (&b""[..], &["standard input is empty", "kubectl get pods"][..]),
        (b" \n\n", &["is empty"]),
        (truncated, &["cannot be read as JSON", "EOF", "line 1 column"]),
        (b"<!DOCTYPE html><html>", &["like HTML"]),
        (
            br#"{"apiVersion": "apps/v1", "kind": "Deployment"}"#,
            &["it is a Deployment", "a List, a PodList or a Pod"],
        ),
        (br#"{"apiVersion": "apps/v1", "kind": "DeploymentList", "items": []}"#, &["it is a DeploymentList"]),
        (br#"{"items": []}"#, &["no \"kind\""]),
        (br#"{"kind": "List"}"#, &["List without \"items\""]),
        (br#"{"kind": "List", "items": {"a": 1}}"#, &["a list of pods", "line 1"]),
        (br#"{"kind": 7}"#, &["no \"kind\""]),
        (b"[]", &["a List, a PodList or a Pod"]),
        (b"hello", &["a List, a PodList or a Pod"]),
        (b"NAME  READY\nweb-1 1/1\n", &["standard input"]),
        (b"a: [", &["cannot be read as YAML", "line"]),
        (b"a: &a [1]\nb: \xff", &["cannot be read as YAML"]),
        (
            mixed.to_string().as_bytes(),
            &["items[3] is a Deployment, \"shop/web\"", "only pods can be reported"],
        ),
        (unnamed.to_string().as_bytes(), &["items[4] has no \"kind\""]),
        (format!("{open}{}", "[".repeat(10_000)).as_bytes(), &["cannot be read as JSON", "EOF"]),
        (format!("x: {}", "[".repeat(10_000)).as_bytes(), &["cannot be read as YAML"]),
        (b"kind: List\nitems: []\n---\nkind: List\nitems: []\n", &["several documents; one was expected"]),
        (b"a: &a [1]\nkind: List\nitems: *a\n", &["cannot be read as YAML"]),
        (br#"{"kind": "List", "items": [], "items": []}"#, &["duplicate field `items`"]),
        (
            br#"{"kind": "PodList", "metadata": {"continue": "x"}, "items": []}"#,
            &["one page of a longer list", "metadata.continue"],
        ),
        (&status, &["an error that an API server answered: pods is forbidden"]),
        (b"{\"kind\": \"x\x1b\"}", &["cannot be read as JSON"]),
        (br#"{"kind": "x\u001b[31m"}"#, &["x\\u{1b}[31m"]),
    ] {
        let outcome = from_stdin(bytes);
        outcome.says(2, &["standard input"]).says(2, words);
        assert_eq!(outcome.stdout, "");
    }
    let missing = once().args(["--dry-run", "--environment", "x", "--pods-from", "none.json"]).run();
    missing.says(2, &["\"none.json\" cannot be read", "No such file"]);
    let folder = once().args(["--dry-run", "--environment", "x", "--pods-from", "."]).run();
    folder.says(2, &["\".\" cannot be read"]);
}

#[test]
fn a_pod_that_cannot_be_read_is_named_with_item_and_field_and_the_others_are_reported() {
    for (pointer, value, says) in [
        (
            "/status/containerStatuses/0/imageID",
            json!(5),
            "status.containerStatuses[0].imageID: invalid type: integer `5`",
        ),
        (
            "/status/containerStatuses",
            json!("none"),
            "status.containerStatuses: invalid type: string \"none\"",
        ),
        (
            "/metadata/creationTimestamp",
            json!("yesterday"),
            "metadata.creationTimestamp: invalid value: string \"yesterday\", expected a time such as",
        ),
        ("/metadata", json!([1]), "metadata"),
        ("/spec/containers/0", json!(null), "spec.containers[0]"),
    ] {
        let mut list = as_kubectl_prints();
        *list["items"][1].pointer_mut(pointer).unwrap() = value;
        let outcome = from_stdin(list.to_string());
        outcome.says(0, &["items[1] of standard input, a Pod", says, "19 artifacts"]);
        assert_eq!(
            from_stdin(format!("# YAML\n{list}")).says(0, &["items[1]", "19 artifacts"]).stdout,
            outcome.stdout
        );
    }
}

#[test]
fn what_go_writes_as_null_is_nothing() {
    let mut list = as_kubectl_prints();
    for key in ["/metadata/ownerReferences", "/spec/initContainers", "/status/ephemeralContainerStatuses"] {
        let (parent, name) = key.rsplit_once('/').unwrap();
        for item in list["items"].as_array_mut().unwrap() {
            item.pointer_mut(parent).unwrap().as_object_mut().unwrap().entry(name).or_insert(Value::Null);
        }
    }
    assert_eq!(from_stdin(list.to_string()).says(0, &[]).stdout, recorded_report());
}

#[test]
fn a_file_without_pods_is_not_taken_for_an_empty_cluster() {
    let empty = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;
    for file in [empty, r#"{"kind": "PodList", "items": null}"#, "kind: List\nitems: []\n"] {
        let outcome = from_stdin(file);
        outcome.says(8, &["\"x\" is not reported: no pod is in any namespace", "hint: ", "--allow-empty"]);
        assert_eq!(outcome.stdout, "");
    }
    let program = || once().args(["--dry-run", "--environment", "x", "--pods-from", "-"]);
    let outcome = program().args(["--allow-empty"]).stdin(empty).run();
    assert_eq!(outcome.says(0, &["x: 0 artifacts"]).stdout, "{\"type\":\"K8S\",\"artifacts\":[]}\n");
    let misspelt = program().args(["--namespace", "zo"]).stdin(fixture("pod-list.json")).run();
    misspelt.says(8, &["no pod in the file is in the namespace \"zo\" (--pods-from standard input)"]);
    let named =
        once().args(["--dry-run", "--environment", "x", "--pods-from", "e.json"]).file("e.json", empty);
    named.run().says(8, &["no pod is in any namespace (--pods-from \"e.json\")"]);
}

#[test]
fn a_pod_that_stands_twice_is_reported_once_and_named() {
    let mut list = as_kubectl_prints();
    let again = list["items"][0].clone();
    list["items"].as_array_mut().unwrap().push(again);
    let outcome = from_stdin(list.to_string());
    assert_eq!(outcome.says(0, &["\"zoo/bare-pod\" runs more than once"]).stdout, recorded_report());
}

#[test]
fn the_order_in_a_file_does_not_matter() {
    let mut list = as_kubectl_prints();
    list["items"].as_array_mut().unwrap().reverse();
    assert_eq!(from_stdin(list.to_string()).says(0, &[]).stdout, recorded_report());
}

#[test]
fn only_app_containers_are_counted_where_that_is_asked_for() {
    let path = fixture_path("pod-list.json");
    let outcome = once()
        .args([
            "--dry-run",
            "--environment",
            "x",
            "--containers",
            "app",
            "--pods-from",
            path.to_str().unwrap(),
        ])
        .run();
    let report = &outcome.says(0, &["19 artifacts"]).stdout;
    for (image, is_there) in [
        ("shop/cart", true),
        ("istio/proxyv2", false),
        ("library/busybox", false),
        ("library/alpine", false),
        ("shop/migrate", false),
    ] {
        assert_eq!(report.contains(image), is_there, "{image}");
    }
}

#[test]
fn a_pipe_that_nobody_closes_is_not_waited_for_past_the_timeout() {
    let outcome = once()
        .args(["--dry-run", "--environment", "x", "--pods-from", "-", "--timeout", "1s"])
        .hold_stdin()
        .run();
    outcome.says(2, &["standard input did not end in 1.0 s (--timeout)"]);
}

#[test]
fn an_item_that_no_parser_likes_spoils_no_other() {
    let good = as_kubectl_prints()["items"][0].to_string();
    let deep = format!(
        r#"{{"kind": "Pod", "status": {{"containerStatuses": [{}1{}]}}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    for odd in [
        r#"{"kind": "Pod", "status": {"phase": 1e999}}"#,
        r#"{"kind": "Pod", "status": {"phase": "\ud800"}}"#,
        r#"{"kind": 5}"#,
        "7",
        &deep,
    ] {
        let list = format!(r#"{{"kind": "List", "items": [{odd}, {good}]}}"#);
        from_stdin(list).says(0, &["items[0] of standard input", "1 artifact "]);
    }
}

#[test]
fn a_pod_without_a_creation_time_is_named_and_never_taken_for_nothing() {
    let mut pod = as_kubectl_prints()["items"][0].clone();
    pod["metadata"]["creationTimestamp"] = Value::Null;
    for options in [&[][..], &["--allow-empty"]] {
        let program = once()
            .args(["--dry-run", "--environment", "x", "--pods-from", "-"])
            .args(options.iter().copied());
        let outcome = program.stdin(pod.to_string()).run();
        outcome.says(
            8,
            &[
                "\"zoo/bare-pod\" has no creation time, or a name that no pod can have",
                "it has no artifact, and 1 of the listed pods",
            ],
        );
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn yaml_that_kubectl_writes_without_quotes_is_text() {
    let yaml = yaml(1).replace("tier: \"yes\"", "commit: 12e4567\n      other: 1e400\n      more: 0x1p-2");
    from_stdin(yaml).says(0, &["1 artifact "]);
}

#[test]
fn a_name_that_yaml_takes_for_a_number_is_never_another_name() {
    // Too large for a float: kubectl writes it without quotes, and its text is lost.
    let both = yaml(2).replace("name: web-00001", "name: 12e4567");
    let outcome = from_stdin(both);
    outcome.says(0, &["\"shop/\" has no name", "1 artifact "]);
    let words = yaml(1).replace("namespace: shop", "namespace: n");
    assert!(from_stdin(words).says(0, &[]).stdout.contains(r#""namespace":"n""#));
}

#[test]
fn a_key_in_the_place_of_pods_is_not_shown() {
    let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END PRIVATE KEY-----\n";
    let program = once().args(["--dry-run", "--environment", "x", "--pods-from", "-"]).stdin(key);
    let outcome = program.run();
    outcome.says(2, &["invalid type: text, expected a List, a PodList or a Pod"]);
    assert!(!outcome.stderr.contains("c2Vj"), "{outcome:#?}");
}
