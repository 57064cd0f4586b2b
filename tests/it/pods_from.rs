//! `--pods-from`: output of kubectl, other input, and rejected files.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fake::kube::{fixture, fixture_path};
use crate::program::{Outcome, once, recorded_report};

fn from_stdin(bytes: impl Into<Vec<u8>>) -> Outcome {
    // A debug build needs most of the default timeout for large input on a busy machine.
    let args = ["--dry-run", "--environment", "x", "--pods-from", "-", "--timeout", "10m"];
    once().args(args).stdin(bytes).run()
}

fn recorded() -> Value {
    serde_json::from_slice(&fixture("pod-list.json")).unwrap()
}

/// The format of `kubectl get pods -A -o json`: a `List` whose items have `apiVersion` and `kind`.
fn as_kubectl_prints() -> Value {
    let mut list = recorded();
    for item in list["items"].as_array_mut().unwrap() {
        item["apiVersion"] = "v1".into();
        item["kind"] = "Pod".into();
    }
    let items = list["items"].take();
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// YAML as kubectl writes it, a few hundred bytes per pod.
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
fn file_and_standard_input_give_the_same_report() {
    let expected = recorded_report();
    assert!(expected.ends_with("}]}\n") && expected.lines().count() == 1);
    assert_eq!(from_stdin(fixture("pod-list.json")).expect(0, &[]).stdout, expected);
    assert_eq!(from_stdin(as_kubectl_prints().to_string()).expect(0, &[]).stdout, expected);
    assert_eq!(from_stdin(serde_json::to_string_pretty(&as_kubectl_prints()).unwrap()).stdout, expected);
}

#[test]
fn both_images_of_120_containers_and_another_one_are_reported() {
    let (a, b) = ("ab".repeat(32), "cd".repeat(32));
    let status = |name: String, image: &str, digest: &str| json!({"name": name, "image": format!("{image}:1"), "imageID": format!("{image}@sha256:{digest}")});
    let many = (0..120).map(|n| status(format!("worker-{n:03}"), "reg.io/a", &a));
    let statuses: Vec<_> = many.chain([status("z".to_owned(), "reg.io/b", &b)]).collect();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2026-11-21T10:30:28Z"},
        "status": {"phase": "Running", "containerStatuses": statuses},
    });
    let outcome = from_stdin(pod.to_string());
    outcome.expect(0, &["1 pod printed"]);
    let digests = format!(r#""digests":{{"reg.io/a:1":"{a}","reg.io/b:1":"{b}"}}"#);
    assert!(outcome.stdout.contains(&digests) && !outcome.stderr.contains("left out"), "{outcome:#?}");
}

#[test]
fn annotated_pod_of_a_file_is_excluded_only_with_the_option() {
    let mut list = as_kubectl_prints();
    let items = list["items"].as_array_mut().unwrap();
    let reported: Value = serde_json::from_str(&recorded_report()).unwrap();
    let name = &reported["artifacts"][0]["podName"];
    let item = items.iter_mut().find(|item| item["metadata"]["name"] == *name).unwrap();
    item["metadata"]["annotations"] = json!({"note": null, "supercargo.dev/exclude": "true"});
    let file = list.to_string();
    assert_eq!(from_stdin(file.as_str()).expect(0, &[]).stdout, recorded_report());
    let yaml =
        yaml(3).replacen("annotations:\n", "annotations:\n      supercargo.dev/exclude: \"true\"\n", 1);
    for (file, artifacts) in [(file, 19), (yaml, 2)] {
        let args = [
            "--dry-run",
            "--environment",
            "x",
            "--pods-from",
            "-",
            "--timeout",
            "10m",
            "--allow-exclusion",
            "-v",
        ];
        let outcome = once().args(args).stdin(file).run();
        outcome.expect(0, &["1 pod excluded", ", excluded", &format!("x: {artifacts} pods printed")]);
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["artifacts"].as_array().unwrap().len(), artifacts);
    }
}

#[test]
fn kubectl_output_gives_the_same_report_as_the_api_server() {
    let recorded = recorded_report();
    for (file, pod) in [("../kubectl/pods.json", "meshed-5f6b-k2x9p"), ("../kubectl/pods.yaml", "bare-pod")] {
        let outcome = from_stdin(fixture(file));
        let report = &outcome.expect(0, &["1 pod ", "1 pod ended"]).stdout;
        let artifact = report.strip_prefix(r#"{"type":"K8S","artifacts":["#).unwrap();
        let artifact = artifact.strip_suffix("]}\n").unwrap();
        assert!(artifact.starts_with(&format!(r#"{{"podName":"{pod}","#)), "{file}: {artifact}");
        assert!(recorded.contains(artifact), "{file}: {artifact}");
    }
}

#[test]
fn example_has_eleven_artifacts() {
    let example = format!("{}/examples/pods.json", env!("CARGO_MANIFEST_DIR"));
    let outcome = once().args(["--dry-run", "--environment", "demo", "--pods-from", &example]).run();
    outcome.expect(0, &["demo: 11 pods", "1 pod ended", "1 pod not started"]);
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn yaml_gives_the_same_report_as_json() {
    let pods = serde_json::to_string(&as_kubectl_prints()).unwrap();
    // JSON is YAML; a leading comment selects the YAML parser.
    assert_eq!(from_stdin(format!("# pods\n{pods}")).expect(0, &[]).stdout, recorded_report());

    let outcome = from_stdin(yaml(2));
    let report: Value = serde_json::from_str(&outcome.expect(0, &["2 pods"]).stdout).unwrap();
    let artifact = json!({
        "podName": "web-00001", "namespace": "shop", "digests": {"docker.io/library/web:1.4": "ab".repeat(32)},
        "creationTimestamp": 1_795_257_028, "owners": [],
    });
    assert_eq!(report["artifacts"][1], artifact);
}

#[test]
fn yaml_of_five_thousand_pods_is_read() {
    from_stdin(yaml(5_000)).expect(0, &["5000 pods"]);
}

#[test]
fn single_pod_is_read_in_json_and_yaml() {
    let pod = &as_kubectl_prints()["items"][0];
    assert_eq!(pod["metadata"]["name"], "bare-pod");
    let outcome = from_stdin(pod.to_string());
    outcome.expect(0, &["1 pod "]);
    assert_eq!(from_stdin(format!("---\n{pod}")).expect(0, &[]).stdout, outcome.stdout);
}

#[test]
fn byte_order_marks_crlf_and_utf_16_are_read() {
    let pods = as_kubectl_prints().to_string();
    let marked = [b"\xef\xbb\xbf", pods.as_bytes()].concat();
    assert_eq!(from_stdin(marked).expect(0, &[]).stdout, recorded_report());
    assert_eq!(from_stdin(format!(" \n\t{pods}\r\n")).expect(0, &[]).stdout, recorded_report());
    let utf16: Vec<u8> =
        "\u{feff}".encode_utf16().chain(pods.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(from_stdin(utf16).expect(0, &[]).stdout, recorded_report());
}

#[test]
fn file_without_pods_is_rejected_with_its_name_and_position() {
    let truncated = &fixture("pod-list.json")[..20_000];
    let mut mixed = as_kubectl_prints();
    mixed["items"][3] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
    let mut unnamed = as_kubectl_prints();
    unnamed["items"][4].as_object_mut().unwrap().remove("kind");
    let open = r#"{"kind": "List", "items": ["#;
    let status = fixture("statuses/403.json");
    for (bytes, texts) in [
        (&b""[..], &["standard input is empty", "kubectl get pods"][..]),
        (b" \n\n", &["is empty"]),
        (truncated, &["invalid JSON in ", "EOF", "line 1 column"]),
        (b"<!DOCTYPE html><html>", &["expected JSON or YAML, got HTML or XML"]),
        (
            br#"{"apiVersion": "apps/v1", "kind": "Deployment"}"#,
            &["got a Deployment", "expected a List, a PodList or a Pod"],
        ),
        (br#"{"apiVersion": "apps/v1", "kind": "DeploymentList", "items": []}"#, &["got a DeploymentList"]),
        (br#"{"items": []}"#, &["no \"kind\""]),
        (br#"{"kind": "List"}"#, &["expected \"items\" in the List"]),
        (br#"{"kind": "List", "items": {"a": 1}}"#, &["a list of pods", "line 1"]),
        (br#"{"kind": 7}"#, &["no \"kind\""]),
        (b"[]", &["a List, a PodList or a Pod"]),
        (b"hello", &["a List, a PodList or a Pod"]),
        (b"NAME  READY\nweb-1 1/1\n", &["standard input"]),
        (b"a: [", &["invalid YAML in ", "line"]),
        (b"a: &a [1]\nb: \xff", &["invalid YAML in "]),
        (mixed.to_string().as_bytes(), &["expected a Pod, got items[3]: a Deployment, \"shop/web\""]),
        (unnamed.to_string().as_bytes(), &["in items[4], got no \"kind\""]),
        (format!("{open}{}", "[".repeat(10_000)).as_bytes(), &["invalid JSON in ", "EOF"]),
        (format!("x: {}", "[".repeat(10_000)).as_bytes(), &["invalid YAML in "]),
        (b"kind: List\nitems: []\n---\nkind: List\nitems: []\n", &["expected one document, got several"]),
        (b"a: &a [1]\nkind: List\nitems: *a\n", &["invalid YAML in "]),
        (br#"{"kind": "List", "items": [], "items": []}"#, &["duplicate field `items`"]),
        (
            br#"{"kind": "PodList", "metadata": {"continue": "x"}, "items": []}"#,
            &["one page of a longer list", "metadata.continue"],
        ),
        (&status, &["got an error of an API server: pods is forbidden"]),
        (b"{\"kind\": \"x\x1b\"}", &["invalid JSON in "]),
        (br#"{"kind": "x\u001b[31m"}"#, &["x\\u{1b}[31m"]),
    ] {
        let outcome = from_stdin(bytes);
        outcome.expect(2, &["standard input"]).expect(2, texts);
        assert_eq!(outcome.stdout, "");
    }
    let missing = once().args(["--dry-run", "--environment", "x", "--pods-from", "none.json"]).run();
    missing.expect(2, &["failed to read \"none.json\"", "No such file"]);
    let folder = once().args(["--dry-run", "--environment", "x", "--pods-from", "."]).run();
    folder.expect(2, &["failed to read \".\""]);
}

#[test]
fn unreadable_pod_is_logged_with_item_and_field_and_others_are_reported() {
    for (pointer, value, expected_text) in [
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
        outcome.expect(0, &["items[1] of standard input, a Pod", expected_text, "19 pods"]);
        assert_eq!(
            from_stdin(format!("# YAML\n{list}")).expect(0, &["items[1]", "19 pods"]).stdout,
            outcome.stdout
        );
    }
}

#[test]
fn null_lists_count_as_empty() {
    let mut list = as_kubectl_prints();
    for key in ["/metadata/ownerReferences", "/spec/initContainers", "/status/ephemeralContainerStatuses"] {
        let (parent, name) = key.rsplit_once('/').unwrap();
        for item in list["items"].as_array_mut().unwrap() {
            item.pointer_mut(parent).unwrap().as_object_mut().unwrap().entry(name).or_insert(Value::Null);
        }
    }
    assert_eq!(from_stdin(list.to_string()).expect(0, &[]).stdout, recorded_report());
}

#[test]
fn file_without_pods_needs_allow_empty() {
    let empty = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;
    for file in [empty, r#"{"kind": "PodList", "items": null}"#, "kind: List\nitems: []\n"] {
        let outcome = from_stdin(file);
        outcome.expect(8, &["\"x\" not reported: no pods in any namespace", "hint: ", "--allow-empty"]);
        assert_eq!(outcome.stdout, "");
    }
    let program = || once().args(["--dry-run", "--environment", "x", "--pods-from", "-"]);
    let outcome = program().args(["--allow-empty"]).stdin(empty).run();
    assert_eq!(outcome.expect(0, &["x: 0 pods"]).stdout, "{\"type\":\"K8S\",\"artifacts\":[]}\n");
    let misspelt = program().args(["--namespace", "zo"]).stdin(fixture("pod-list.json")).run();
    misspelt.expect(8, &["the file has no pods in the namespace \"zo\" (--pods-from standard input)"]);
    let named =
        once().args(["--dry-run", "--environment", "x", "--pods-from", "e.json"]).file("e.json", empty);
    named.run().expect(8, &["no pods in any namespace (--pods-from \"e.json\")"]);
}

#[test]
fn duplicate_pod_is_reported_once_and_logged() {
    let mut list = as_kubectl_prints();
    let again = list["items"][0].clone();
    list["items"].as_array_mut().unwrap().push(again);
    let outcome = from_stdin(list.to_string());
    assert_eq!(outcome.expect(0, &["\"zoo/bare-pod\" more than once"]).stdout, recorded_report());
}

#[test]
fn pod_order_in_a_file_does_not_change_the_report() {
    let mut list = as_kubectl_prints();
    list["items"].as_array_mut().unwrap().reverse();
    assert_eq!(from_stdin(list.to_string()).expect(0, &[]).stdout, recorded_report());
}

#[test]
fn containers_app_reports_only_app_containers() {
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
    let report = &outcome.expect(0, &["19 pods"]).stdout;
    for (image, expected) in [
        ("shop/cart", true),
        ("istio/proxyv2", false),
        ("library/busybox", false),
        ("library/alpine", false),
        ("shop/migrate", false),
    ] {
        assert_eq!(report.contains(image), expected, "{image}");
    }
}

#[test]
fn open_pipe_fails_at_the_timeout() {
    let outcome = once()
        .args(["--dry-run", "--environment", "x", "--pods-from", "-", "--timeout", "1s"])
        .hold_stdin()
        .run();
    outcome.expect(2, &["reading standard input timed out after 1.0 s (--timeout)"]);
}

#[test]
fn unparsable_item_does_not_affect_other_items() {
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
        from_stdin(list).expect(0, &["items[0] of standard input", "1 pod "]);
    }
}

#[test]
fn pod_without_a_creation_time_is_logged_and_not_counted_as_empty() {
    let mut pod = as_kubectl_prints()["items"][0].clone();
    pod["metadata"]["creationTimestamp"] = Value::Null;
    for options in [&[][..], &["--allow-empty"]] {
        let program = once()
            .args(["--dry-run", "--environment", "x", "--pods-from", "-"])
            .args(options.iter().copied());
        let outcome = program.stdin(pod.to_string()).run();
        outcome.expect(
            8,
            &["\"zoo/bare-pod\" has no creation time or an invalid name", "no artifacts; 1 listed pods"],
        );
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn unquoted_yaml_scalar_is_text() {
    let yaml = yaml(1).replace("tier: \"yes\"", "commit: 12e4567\n      other: 1e400\n      more: 0x1p-2");
    from_stdin(yaml).expect(0, &["1 pod "]);
}

#[test]
fn name_that_yaml_parses_as_a_number_is_rejected() {
    // kubectl does not quote this name; as a float it overflows, and the text is lost.
    let both = yaml(2).replace("name: web-00001", "name: 12e4567");
    let outcome = from_stdin(both);
    outcome.expect(0, &["\"shop/\" has no name", "1 pod "]);
    let unquoted = yaml(1).replace("namespace: shop", "namespace: n");
    assert!(from_stdin(unquoted).expect(0, &[]).stdout.contains(r#""namespace":"n""#));
}

#[test]
fn private_key_as_input_is_not_printed() {
    let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END PRIVATE KEY-----\n";
    let program = once().args(["--dry-run", "--environment", "x", "--pods-from", "-"]).stdin(key);
    let outcome = program.run();
    outcome.expect(2, &["invalid type: text, expected a List, a PodList or a Pod"]);
    assert!(!outcome.stderr.contains("c2Vj"), "{outcome:#?}");
}
