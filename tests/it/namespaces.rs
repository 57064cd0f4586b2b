//! Selection of namespaces for lists, and detection of empty environments.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fake::kube::{fixture, protobuf};
use crate::fake::pods::{Message, UNREADABLE, list, metadata_list, namespace, pod};
use crate::fake::{Reply, Request, Server};
use crate::program::{Outcome, once};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// A cluster with Roles in two namespaces with one pod each and in one without pods.
fn namespaced(request: &Request) -> Reply {
    let pod_in = |namespace| pod(namespace, "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0);
    match request.path.as_str() {
        "/api/v1/namespaces/shop/pods" => protobuf(200, list(&[pod_in("shop")], "")),
        "/api/v1/namespaces/pay/pods" => protobuf(200, list(&[pod_in("pay")], "")),
        "/api/v1/namespaces/empty/pods"
        | "/api/v1/namespaces/proxied/pods"
        | "/api/v1/namespaces/nope/pods"
        | "/api/v1/namespaces/secret/pods" => protobuf(200, list(&[], "")),
        "/api/v1/namespaces/empty" => protobuf(200, Message::default().in_envelope("Namespace")),
        "/api/v1/namespaces/proxied" => Reply::json(200, "{\"status\":\"ok\"}"),
        "/api/v1/namespaces/nope" => protobuf(404, fixture("statuses/404.pb")),
        "/api/v1/namespaces" => {
            assert!(request.headers["accept"].to_str().unwrap().contains("as=PartialObjectMetadataList"));
            let labels = [("shop", &["team=a", "env=prod"][..]), ("pay", &["team=b"]), ("empty", &["empty"])];
            protobuf(200, metadata_list(labels.map(|(name, labels)| namespace(name, labels, 301)), 301))
        }
        "/api/v1/pods" => protobuf(200, list(&[pod_in("pay"), pod_in("shop")], "")),
        _ => protobuf(403, fixture("statuses/403.pb")),
    }
}

fn in_namespaces(api: &Server, options: &[&'static str]) -> Outcome {
    once().args(DRY).args(options.iter().copied()).cluster(api).run()
}

fn paths(api: &Server) -> Vec<String> {
    api.requests().into_iter().map(|request| request.path).collect()
}

#[test]
fn named_namespaces_are_listed_one_by_one_and_need_only_roles() {
    let api = Server::start(namespaced);
    let outcome = in_namespaces(&api, &["--namespace", "shop", "--namespace", "pay"]);
    outcome.expect(0, &["2 pods"]);
    assert_eq!(paths(&api), ["/api/v1/namespaces/pay/pods", "/api/v1/namespaces/shop/pods"]);

    let api = Server::start(namespaced);
    for options in
        [["--namespace-regex", "^sh"], ["--exclude-namespace", "pay"], ["--exclude-namespace-regex", "^p"]]
    {
        let outcome = in_namespaces(&api, &options);
        outcome.expect(0, &["1 pod "]);
        assert!(outcome.stdout.contains(r#""namespace":"shop""#) && !outcome.stdout.contains("pay"));
    }
    assert_eq!(paths(&api), ["/api/v1/pods"; 3]);
}

#[test]
fn namespaces_are_selected_by_labels() {
    for (options, namespaces) in [
        (&["--namespace-selector", "team"][..], &["pay", "shop"][..]),
        (&["--namespace-selector", "team in (a,c),env=prod"], &["shop"]),
        (&["--namespace-selector", "!env"], &["pay"]),
        (&["--namespace-selector", "team=b", "--namespace", "shop"], &["pay", "shop"]),
        (&["--namespace-selector", "team", "--exclude-namespace", "shop"], &["pay"]),
    ] {
        let api = Server::start(namespaced);
        let outcome = in_namespaces(&api, options);
        outcome.expect(0, &["prod: "]);
        assert_eq!(paths(&api), ["/api/v1/pods", "/api/v1/namespaces"]);
        let reported: Vec<_> = outcome.stdout.matches(r#""namespace":""#).collect();
        assert_eq!(reported.len(), namespaces.len(), "{options:?}: {outcome:#?}");
        for namespace in namespaces {
            assert!(outcome.stdout.contains(&format!(r#""namespace":"{namespace}""#)), "{outcome:#?}");
        }
    }
    let api = Server::start(namespaced);
    in_namespaces(&api, &["--namespace-selector", "empty"])
        .expect(8, &["no pods in the selected namespaces"]);
}

#[test]
fn forbidden_namespaces_fail_only_environments_by_labels() {
    let api = Server::start(|request| match request.path.as_str() {
        "/api/v1/namespaces" => protobuf(403, fixture("statuses/403.pb")),
        _ => namespaced(request),
    });
    let config = "environments:\n- name: a\n  namespaceSelector: team\n  allowEmpty: true\n- name: b\n";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.expect(
        8,
        &[
            "b: 2 pods",
            "\"a\" not reported: failed to list the labels of namespaces",
            "failed to list namespaces: GET http",
            "403 Forbidden",
            "grant \"list\" on \"namespaces\" with a ClusterRole",
        ],
    );
    assert_eq!(outcome.stdout.lines().count(), 1);
}

#[test]
fn label_selector_that_cannot_apply_is_rejected() {
    let invalid = once().args(DRY).args(["--namespace-selector", "team in a"]).run();
    invalid
        .expect(2, &["invalid label selector \"team in a\": invalid key", "expected requirements such as"]);
    let file = once().args(DRY).args(["--namespace-selector", "team", "--pods-from", "pods.json"]);
    file.run().expect(2, &["environment \"prod\" selects namespaces by labels", "--pods-from"]);
}

#[test]
fn more_than_fifty_named_namespaces_are_rejected_with_a_hint() {
    let api = Server::start(namespaced);
    let many = (0..51).map(|n| format!("ns-{n}")).collect::<Vec<_>>().join(",");
    let outcome = once().args(DRY).args(["--namespace", &many]).cluster(&api).run();
    outcome.expect(
        2,
        &[
            "51 namespaces are named, but the agent watches at most 50",
            "hint: select the namespaces with --namespace-regex",
        ],
    );
    assert!(api.requests().is_empty());
}

#[test]
fn unconfirmed_emptiness_is_an_error_without_allow_empty() {
    for (options, texts) in [
        (
            &["--namespace", "nope", "--namespace", "shop"][..],
            &["the namespace \"nope\" does not exist", "--allow-empty"][..],
        ),
        (
            &["--namespace", "secret"],
            &[
                "its existence cannot be verified",
                "403",
                "grant \"get\" on \"namespaces\" with a Role in namespace \"secret\"",
            ],
        ),
        (&["--namespace", "proxied"], &["its existence cannot be verified", "expected a Namespace"]),
        (&["--namespace", "empty"], &["no pods in the namespace \"empty\"", "--allow-empty"]),
        (&["--namespace-regex", "^nothing"], &["no pods in the selected namespaces"]),
    ] {
        let api = Server::start(namespaced);
        let outcome = in_namespaces(&api, options);
        outcome.expect(8, texts);
        assert_eq!(outcome.stdout, "", "{options:?}");

        let allowed = in_namespaces(&api, &[options, &["--allow-empty"]].concat());
        allowed.expect(0, &["prod: "]);
        assert!(allowed.stdout.starts_with(r#"{"type":"K8S","artifacts":["#), "{allowed:#?}");
    }
    // An empty namespace beside one with a pod.
    let api = Server::start(namespaced);
    in_namespaces(&api, &["--namespace", "empty", "--namespace", "shop"]).expect(0, &["1 pod "]);
}

#[test]
fn environment_with_only_ended_pods_is_confirmed_as_empty() {
    let api = Server::start(|_| {
        let status = Message::default().text(1, "Succeeded");
        let metadata = Message::default().text(1, "job").text(3, "batch");
        protobuf(200, list(&[Message::default().message(1, &metadata).message(3, &status)], ""))
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(0, &["prod: 0 pods", "1 pod ended"]);
    assert_eq!(outcome.stdout, "{\"type\":\"K8S\",\"artifacts\":[]}\n");
}

#[test]
fn environments_are_printed_in_file_order_from_one_list() {
    let config = "environments:\n- name: z-first\n  namespaces: [shop]\n- name: lost\n  namespaces: [nope]\n\
                  - name: a-last\n  excludeNamespaces: [shop]\n- name: meant\n  namespaces: [nothing]\n  allowEmpty: true\n";
    let api = Server::start(namespaced);
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.expect(
        8,
        &[
            "z-first: 1 pod ",
            "a-last: 1 pod ",
            "meant: 0 pods",
            "\"lost\" not reported: the namespace \"nope\" does not exist",
        ],
    );
    let namespaces: Vec<_> =
        outcome.stdout.lines().map(|line| line.contains(r#""namespace":"shop""#)).collect();
    assert_eq!(namespaces, [true, false, false]);
    assert_eq!(paths(&api), ["/api/v1/pods", "/api/v1/namespaces/nope"]);
}

#[test]
fn forbidden_namespace_fails_only_its_environments() {
    let api = Server::start(|request| match request.path.as_str() {
        "/api/v1/namespaces/secret/pods" => protobuf(403, fixture("statuses/403.pb")),
        _ => namespaced(request),
    });
    let config = "environments:\n- name: a\n  namespaces: [secret, shop]\n  allowEmpty: true\n- name: b\n  namespaces: [shop]\n";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.expect(
        8,
        &[
            "b: 1 pod ",
            "\"a\" not reported: failed to list the pods of the namespace \"secret\"",
            "grant \"list\" on \"pods\" with a Role in namespace \"secret\"",
        ],
    );
    assert_eq!(outcome.stdout.lines().count(), 1);
}

#[test]
fn stalled_namespace_does_not_use_up_the_time_of_others() {
    let api = Server::start(|request| match request.path.as_str() {
        "/api/v1/namespaces/hangs/pods" => Reply::Stall,
        _ => namespaced(request),
    });
    let config = "environments:\n- name: a\n  namespaces: [hangs]\n- name: b\n  namespaces: [shop]\n";
    let program = once().args(["--dry-run", "--config", "c.yaml", "--timeout", "4s"]).file("c.yaml", config);
    let outcome = program.cluster(&api).run();
    outcome.expect(8, &["b: 1 pod ", "\"a\" not reported", "namespace \"hangs\"", "timed out after "]);
}

#[test]
fn busy_namespace_among_many_is_retried() {
    let attempts = AtomicUsize::new(0);
    let api = Server::start(move |request| {
        if request.path.ends_with("/ns-00/pods") && attempts.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::text(503, "later");
        }
        let namespace = request.path.split('/').nth(4).unwrap();
        protobuf(200, list(&[pod(namespace, "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0)], ""))
    });
    let many = (0..50).map(|n| format!("ns-{n:02}")).collect::<Vec<_>>().join(",");
    let outcome = once().args(DRY).args(["--namespace", &many]).cluster(&api).run();
    outcome.expect(0, &["50 pods", "retrying"]);
}

#[test]
fn unreadable_pod_elsewhere_does_not_affect_an_allowed_empty_environment() {
    let api = Server::start(|request| match request.path.as_str() {
        "/api/v1/namespaces/bad/pods" => {
            protobuf(200, list([&Message::default().bytes(1, b"\xff\xff\xff")], ""))
        }
        _ => namespaced(request),
    });
    let config = "environments:\n- name: a\n  namespaces: [empty]\n  allowEmpty: true\n- name: b\n  namespaces: [bad]\n  allowEmpty: true\n";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.expect(8, &["a: 0 pods", "\"b\" not reported: no artifacts; 1 listed pods"]);
}

#[test]
fn unreadable_namespace_withholds_only_empty_environments_by_labels() {
    let api = Server::start(|request| match request.path.as_str() {
        "/api/v1/namespaces" => {
            let namespaces = [namespace("pay", &["team=a"], 301), namespace("shop", &[UNREADABLE], 301)];
            protobuf(200, metadata_list(namespaces, 301))
        }
        _ => namespaced(request),
    });
    let config = "environments:
- name: a
  namespaceSelector: team=a
- name: b
  namespaceSelector: team=b
  allowEmpty: true
- name: c
  namespacesRegex: [none]
  allowEmpty: true
- name: d
  namespaceSelector: team=b
  excludeNamespaces: [shop]
  allowEmpty: true
";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    let lines = [
        "labels of an unreadable namespace ignored: a PartialObjectMetadata, \"shop\"",
        "a: 1 pod ",
        "\"b\" not reported: no artifacts; 1 listed pods or namespaces",
        "c: 0 pods",
        "d: 0 pods",
    ];
    outcome.expect(8, &lines);
    assert_eq!(outcome.stdout.lines().count(), 3);
}

#[test]
fn pod_without_a_namespace_counts_for_the_listed_namespace() {
    let api = Server::start(|request| match request.path.as_str() {
        "/api/v1/namespaces/empty/pods" => {
            protobuf(200, list(&[pod("", "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0)], ""))
        }
        _ => namespaced(request),
    });
    let config = "environments:\n- name: a\n  namespaces: [empty]\n  allowEmpty: true\n- name: b\n  namespaces: [shop]\n";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.expect(8, &["\"/web-1\" has no namespace", "b: 1 pod ", "\"a\" not reported: no artifacts"]);
    assert_eq!(outcome.stdout.lines().count(), 1);
}
