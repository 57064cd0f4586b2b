//! Which namespaces are listed, and when an environment is empty.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fake::kube::{fixture, protobuf};
use crate::fake::pods::{Message, list, pod};
use crate::fake::{Reply, Seen, Server};
use crate::program::{Outcome, once};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// A cluster of two namespaces with a pod each, one without pods, and none other; a Role in each.
fn namespaced(seen: &Seen) -> Reply {
    let pod_in = |namespace| pod(namespace, "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0);
    match seen.path.as_str() {
        "/api/v1/namespaces/shop/pods" => protobuf(200, list(&[pod_in("shop")], "")),
        "/api/v1/namespaces/pay/pods" => protobuf(200, list(&[pod_in("pay")], "")),
        "/api/v1/namespaces/empty/pods"
        | "/api/v1/namespaces/proxied/pods"
        | "/api/v1/namespaces/nope/pods"
        | "/api/v1/namespaces/secret/pods" => protobuf(200, list(&[], "")),
        "/api/v1/namespaces/empty" => protobuf(200, Message::default().in_envelope("Namespace")),
        "/api/v1/namespaces/proxied" => Reply::json(200, "{\"status\":\"ok\"}"),
        "/api/v1/namespaces/nope" => protobuf(404, fixture("status-404.pb")),
        "/api/v1/pods" => protobuf(200, list(&[pod_in("pay"), pod_in("shop")], "")),
        _ => protobuf(403, fixture("status-403.pb")),
    }
}

fn in_namespaces(api: &Server, options: &[&'static str]) -> Outcome {
    once().args(DRY).args(options.iter().copied()).cluster(api).run()
}

fn paths(api: &Server) -> Vec<String> {
    api.seen().into_iter().map(|seen| seen.path).collect()
}

#[test]
fn named_namespaces_are_listed_one_by_one_so_that_a_role_in_each_is_enough() {
    let api = Server::start(namespaced);
    let outcome = in_namespaces(&api, &["--namespace", "shop", "--namespace", "pay"]);
    outcome.says(0, &["2 artifacts"]);
    assert_eq!(paths(&api), ["/api/v1/namespaces/pay/pods", "/api/v1/namespaces/shop/pods"]);

    let api = Server::start(namespaced);
    for options in
        [["--namespace-regex", "^sh"], ["--exclude-namespace", "pay"], ["--exclude-namespace-regex", "^p"]]
    {
        let outcome = in_namespaces(&api, &options);
        outcome.says(0, &["1 artifact "]);
        assert!(outcome.stdout.contains(r#""namespace":"shop""#) && !outcome.stdout.contains("pay"));
    }
    assert_eq!(paths(&api), ["/api/v1/pods"; 3]);
}

#[test]
fn more_than_fifty_named_namespaces_are_refused_with_the_way_out() {
    let api = Server::start(namespaced);
    let many = (0..51).map(|n| format!("ns-{n}")).collect::<Vec<_>>().join(",");
    let outcome = once().args(DRY).args(["--namespace", &many]).cluster(&api).run();
    outcome.says(2, &["51 namespaces are named, and at most 50", "hint: select them by --namespace-regex"]);
    assert!(api.seen().is_empty());
}

#[test]
fn emptiness_is_never_a_guess() {
    for (options, words) in [
        (
            &["--namespace", "nope", "--namespace", "shop"][..],
            &["the namespace \"nope\" does not exist", "--allow-empty"][..],
        ),
        (
            &["--namespace", "secret"],
            &[
                "whether it exists cannot be told",
                "403",
                "grant \"get\" on \"namespaces\" by a Role in the namespace \"secret\"",
            ],
        ),
        (&["--namespace", "proxied"], &["whether it exists cannot be told", "it is no Namespace"]),
        (&["--namespace", "empty"], &["no pod is in the namespace \"empty\"", "--allow-empty"]),
        (&["--namespace-regex", "^nothing"], &["no pod is in a namespace that its options select"]),
    ] {
        let api = Server::start(namespaced);
        let outcome = in_namespaces(&api, options);
        outcome.says(8, words);
        assert_eq!(outcome.stdout, "", "{options:?}");

        let allowed = in_namespaces(&api, &[options, &["--allow-empty"]].concat());
        allowed.says(0, &["prod: "]);
        assert!(allowed.stdout.starts_with(r#"{"type":"K8S","artifacts":["#), "{allowed:#?}");
    }
    // A namespace that is there and empty, beside one that is not.
    let api = Server::start(namespaced);
    in_namespaces(&api, &["--namespace", "empty", "--namespace", "shop"]).says(0, &["1 artifact "]);
}

#[test]
fn an_environment_of_ended_pods_is_empty_and_that_is_known() {
    let api = Server::start(|_| {
        let status = Message::default().text(1, "Succeeded");
        let metadata = Message::default().text(1, "job").text(3, "batch");
        protobuf(200, list(&[Message::default().message(1, &metadata).message(3, &status)], ""))
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.says(0, &["prod: 0 artifacts", "1 pod ended"]);
    assert_eq!(outcome.stdout, "{\"type\":\"K8S\",\"artifacts\":[]}\n");
}

#[test]
fn several_environments_come_out_of_one_list_in_the_order_of_the_file() {
    let config = "environments:\n- name: z-first\n  namespaces: [shop]\n- name: lost\n  namespaces: [nope]\n\
                  - name: a-last\n  excludeNamespaces: [shop]\n- name: meant\n  namespaces: [nothing]\n  allowEmpty: true\n";
    let api = Server::start(namespaced);
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.says(
        8,
        &[
            "z-first: 1 artifact ",
            "a-last: 1 artifact ",
            "meant: 0 artifacts",
            "\"lost\" is not reported: the namespace \"nope\" does not exist",
        ],
    );
    let namespaces: Vec<_> =
        outcome.stdout.lines().map(|line| line.contains(r#""namespace":"shop""#)).collect();
    assert_eq!(namespaces, [true, false, false]);
    assert_eq!(paths(&api), ["/api/v1/pods", "/api/v1/namespaces/nope"]);
}

#[test]
fn a_namespace_that_may_not_be_listed_fails_its_environments_and_no_other() {
    let api = Server::start(|seen| match seen.path.as_str() {
        "/api/v1/namespaces/secret/pods" => protobuf(403, fixture("status-403.pb")),
        _ => namespaced(seen),
    });
    let config = "environments:\n- name: a\n  namespaces: [secret, shop]\n  allowEmpty: true\n- name: b\n  namespaces: [shop]\n";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.says(
        8,
        &[
            "b: 1 artifact ",
            "\"a\" is not reported: the pods of the namespace \"secret\" cannot be listed",
            "grant \"list\" on \"pods\" by a Role in the namespace \"secret\"",
        ],
    );
    assert_eq!(outcome.stdout.lines().count(), 1);
}

#[test]
fn a_namespace_that_hangs_leaves_the_others_their_time() {
    let api = Server::start(|seen| match seen.path.as_str() {
        "/api/v1/namespaces/hangs/pods" => Reply::Stall,
        _ => namespaced(seen),
    });
    let config = "environments:\n- name: a\n  namespaces: [hangs]\n- name: b\n  namespaces: [shop]\n";
    let program = once().args(["--dry-run", "--config", "c.yaml", "--timeout", "4s"]).file("c.yaml", config);
    let outcome = program.cluster(&api).run();
    outcome.says(8, &["b: 1 artifact ", "\"a\" is not reported", "namespace \"hangs\"", "was not done in "]);
}

#[test]
fn one_namespace_of_many_that_is_busy_once_is_listed_in_the_end() {
    let tries = AtomicUsize::new(0);
    let api = Server::start(move |seen| {
        if seen.path.ends_with("/ns-00/pods") && tries.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::text(503, "later");
        }
        let namespace = seen.path.split('/').nth(4).unwrap();
        protobuf(200, list(&[pod(namespace, "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0)], ""))
    });
    let many = (0..50).map(|n| format!("ns-{n:02}")).collect::<Vec<_>>().join(",");
    let outcome = once().args(DRY).args(["--namespace", &many]).cluster(&api).run();
    outcome.says(0, &["50 artifacts", "trying again"]);
}

#[test]
fn an_unreadable_pod_elsewhere_does_not_hold_up_an_environment_that_is_empty_on_purpose() {
    let api = Server::start(|seen| match seen.path.as_str() {
        "/api/v1/namespaces/bad/pods" => {
            protobuf(200, list([&Message::default().bytes(1, b"\xff\xff\xff")], ""))
        }
        _ => namespaced(seen),
    });
    let config = "environments:\n- name: a\n  namespaces: [empty]\n  allowEmpty: true\n- name: b\n  namespaces: [bad]\n  allowEmpty: true\n";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome
        .says(8, &["a: 0 artifacts", "\"b\" is not reported: it has no artifact, and 1 of the listed pods"]);
}

#[test]
fn a_pod_without_a_namespace_belongs_to_the_namespace_that_listed_it() {
    let api = Server::start(|seen| match seen.path.as_str() {
        "/api/v1/namespaces/empty/pods" => {
            protobuf(200, list(&[pod("", "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0)], ""))
        }
        _ => namespaced(seen),
    });
    let config = "environments:\n- name: a\n  namespaces: [empty]\n  allowEmpty: true\n- name: b\n  namespaces: [shop]\n";
    let outcome = once().args(["--dry-run", "--config", "c.yaml"]).file("c.yaml", config).cluster(&api).run();
    outcome.says(
        8,
        &["\"/web-1\" has no namespace", "b: 1 artifact ", "\"a\" is not reported: it has no artifact"],
    );
    assert_eq!(outcome.stdout.lines().count(), 1);
}
