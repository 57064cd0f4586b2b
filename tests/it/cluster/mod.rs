//! `agent --once` against an API server that replays recorded responses or misbehaves.

mod kubeconfig;
mod kubectl;
mod proxies;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fake::kube::{PROTOBUF, User, fixture, kubeconfig, page_of, parameters, protobuf, recorded};
use crate::fake::pods::{Message, list, pod};
use crate::fake::{Reply, Request, Server};
use crate::program::{Outcome, once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// An API server that misbehaves must not lead to a report.
#[track_caller]
fn assert_no_report(api: &Server, texts: &[&str]) -> Outcome {
    let endpoint = Server::start(|_| Reply::json(200, r#""ok""#));
    let outcome =
        once().args(["--environment", "prod", "--timeout", "2s"]).cluster(api).service(&endpoint).run();
    outcome.expect(8, texts);
    assert!(endpoint.requests().is_empty(), "a report was sent");
    outcome
}

#[test]
fn paged_protobuf_list_gives_the_same_report_as_a_json_file() {
    let api = Server::start(recorded);
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(0, &["prod: 20 pods printed, not sent", "4 pods ended", "2 pods not started"]);
    assert_eq!(outcome.stdout, recorded_report());

    let requests = api.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.method, "GET");
        assert_eq!(parameters(request)["limit"], "500");
        assert!(!parameters(request).contains_key("resourceVersion"), "a list must be consistent");
        assert_eq!(request.headers["accept-encoding"], "identity");
        assert!(request.headers["accept"].to_str().unwrap().starts_with(PROTOBUF));
        assert!(request.headers["user-agent"].to_str().unwrap().starts_with("supercargo/"));
    }
}

/// A pod whose containers `app` and `sidecar` mount one image; the first status does not have its digest yet.
#[test]
fn image_of_a_volume_is_reported_once_under_its_reference() {
    let message = Message::default;
    let api = Server::start(move |_| {
        let image = message().text(1, "reg.io/model:1").text(2, "IfNotPresent");
        let model = message().text(1, "model").message(2, &message().message(30, &image));
        let scratch = message().text(1, "tmp").message(2, &message().message(2, &message().text(1, "")));
        let mount = |name| message().text(1, name).text(2, "/mnt").number(3, 1).text(4, "Disabled");
        let image = message().text(1, &format!("reg.io/model@sha256:{}", "cd".repeat(32)));
        let mounted = mount("model").message(5, &message().message(1, &image));
        let status = |name, mount| {
            let id = format!("reg.io/web@sha256:{}", "ab".repeat(32));
            message().text(1, name).text(6, "reg.io/web:1").text(7, &id).message(12, &mount)
        };
        let metadata =
            message().text(1, "web-1").text(3, "shop").message(8, &message().number(1, 1_795_257_028));
        let spec = message().message(1, &model).message(1, &scratch);
        let status = message()
            .text(1, "Running")
            .message(8, &status("app", mount("model")).message(12, &mount("tmp")))
            .message(8, &status("sidecar", mounted));
        let pod = message().message(1, &metadata).message(2, &spec).message(3, &status);
        protobuf(200, list(&[pod], ""))
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(0, &["prod: 1 pod printed"]);
    let web = format!(r#""reg.io/web:1":"{}""#, "ab".repeat(32));
    let model = format!(r#""reg.io/model:1":"{}""#, "cd".repeat(32));
    assert!(!outcome.stderr.contains("left out"), "{outcome:#?}");
    assert!(outcome.stdout.contains(&format!("{{{model},{web}}}")), "{outcome:#?}");
    let outcome = once().args(DRY).args(["--containers", "app"]).cluster(&api).run();
    assert!(outcome.stdout.contains(&format!("{{{web}}}")), "{outcome:#?}");
}

#[test]
fn json_list_gives_the_same_report_as_protobuf() {
    let api = Server::start(|request| {
        Reply::json(200, fixture(&format!("pod-list-page-{}.json", page_of(request))))
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());
}

#[test]
fn api_server_error_is_explained_and_sends_no_report() {
    let forbidden = "/api/v1/pods: 403 Forbidden: pods is forbidden: User \"nobody\" cannot list resource";
    let cases: [(u16, fn() -> Reply, &[&str]); 7] = [
        (
            401,
            || protobuf(401, fixture("statuses/401.pb")),
            &["401 Unauthorized: Unauthorized", "token expired?"],
        ),
        (
            403,
            || protobuf(403, fixture("statuses/403.pb")),
            &[
                forbidden,
                "failed to list pods at the cluster scope: GET http",
                "grant \"list\" on \"pods\" with a ClusterRole",
            ],
        ),
        (403, || Reply::json(403, fixture("statuses/403.json")), &[forbidden]),
        (
            404,
            || protobuf(404, fixture("statuses/404.pb")),
            &["404 Not Found", "is this the URL of a Kubernetes API server?"],
        ),
        (
            406,
            || Reply::json(406, fixture("statuses/406.json")),
            &["406 Not Acceptable", "Available representations"],
        ),
        (302, || Reply::text(302, "").with("location", "https://login.example.com"), &["302 Found"]),
        (
            200,
            || Reply::text(200, "<html>\x1b[31mlogin"),
            &["expected Kubernetes protobuf or JSON", "<html>\\u{1b}[31mlogin"],
        ),
    ];
    for (status, reply, texts) in cases {
        let api = Server::start(move |_| reply());
        assert_no_report(&api, texts);
        assert_eq!(api.requests().len(), 1, "{status} must not be retried");
    }
}

#[test]
fn overloaded_api_server_is_retried_until_the_timeout() {
    let overloaded =
        || Reply::text(429, "Too many requests, please try again later.").with("retry-after", "0");
    let api = Server::start(move |_| overloaded());
    assert_no_report(
        &api,
        &["gave up after", "429 Too Many Requests: Too many requests, please try again later."],
    );

    let attempts = AtomicUsize::new(0);
    let api = Server::start(move |request| match attempts.fetch_add(1, Ordering::Relaxed) {
        0 => overloaded(),
        _ => recorded(request),
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(
        0,
        &["warning: failed to list pods at the cluster scope: GET http://127.0.0.1", "429", "retrying in "],
    );
    assert_eq!(outcome.stdout, recorded_report());
}

#[test]
fn list_fails_if_a_later_page_fails() {
    let page = |n: usize| fixture(&format!("pod-list-page-{n}.pb"));
    let cut = move |at: usize| Reply::Cut(200, vec![("content-type", PROTOBUF.into())], page(3).into(), at);
    let failures: [(&str, Box<dyn Fn() -> Reply + Send + Sync>); 5] = [
        ("500 Internal Server Error", Box::new(|| Reply::text(500, "etcd is away"))),
        ("403 Forbidden", Box::new(|| protobuf(403, fixture("statuses/403.pb")))),
        ("incomplete response", Box::new(move || cut(3000))),
        // A complete HTTP response with a truncated list.
        ("truncated list", Box::new(move || protobuf(200, page(3)[..3000].to_vec()))),
        ("expected a \"PodList\", got a \"Status\"", Box::new(|| protobuf(200, fixture("statuses/404.pb")))),
    ];
    for (expected_text, failure) in failures {
        let api =
            Server::start(move |request| if page_of(request) == 3 { failure() } else { recorded(request) });
        assert_no_report(&api, &[expected_text]);
        assert!(api.requests().len() >= 3, "{expected_text}");
    }
}

#[test]
fn truncated_list_is_retried_from_the_first_page() {
    let attempts = AtomicUsize::new(0);
    let api = Server::start(move |request| {
        if page_of(request) == 2 && attempts.fetch_add(1, Ordering::Relaxed) == 0 {
            let page = fixture("pod-list-page-2.pb");
            return Reply::Cut(200, vec![("content-type", PROTOBUF.into())], page.into(), 5000);
        }
        recorded(request)
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(0, &["incomplete response", "retrying"]);
    assert_eq!(outcome.stdout, recorded_report());
    assert_eq!(api.requests().iter().map(page_of).collect::<Vec<_>>(), [1, 2, 1, 2, 3]);
}

#[test]
fn expired_continue_token_restarts_the_list_and_the_inconsistent_token_is_not_used() {
    let expire = |times: usize| {
        let left = AtomicUsize::new(times);
        move |request: &Request| {
            let is_page_2 = parameters(request).contains_key("continue") && page_of(request) == 2;
            if is_page_2
                && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
            {
                return protobuf(410, fixture("statuses/410-continue.pb"));
            }
            if !request.query.contains("limit") {
                return protobuf(200, fixture("pod-list.pb"));
            }
            recorded(request)
        }
    };
    let queries = |api: &Server| {
        let kind =
            |request: &Request| match (request.query.contains("limit"), request.query.contains("continue")) {
                (true, true) => "next",
                (true, false) => "first",
                _ => "whole",
            };
        api.requests().iter().map(kind).collect::<Vec<_>>()
    };
    let api = Server::start(expire(1));
    let outcome = once().args(DRY).cluster(&api).run();
    assert_eq!(outcome.expect(0, &[]).stdout, recorded_report());
    assert_eq!(queries(&api), ["first", "next", "first", "next", "next"]);

    let api = Server::start(expire(2));
    let outcome = once().args(DRY).cluster(&api).run();
    assert_eq!(outcome.expect(0, &[]).stdout, recorded_report());
    assert_eq!(queries(&api), ["first", "next", "first", "next", "whole"]);
}

#[test]
fn unreachable_or_silent_api_server_fails_at_the_timeout() {
    let stopped = Server::start(recorded);
    let url = stopped.url();
    drop(stopped);
    let refused = kubeconfig(&url, None, &User::Anonymous);
    let outcome = once().args(DRY).args(["--timeout", "1s"]).kubeconfig(&refused).run();
    outcome.expect(8, &["failed to list pods", "Connection refused"]);

    let silent = Server::start(|_| Reply::Stall);
    assert_no_report(&silent, &["timed out after "]);
    let stalls = Server::start(|_| {
        Reply::StallAfter(200, vec![("content-type", PROTOBUF.into())], fixture("pod-list.pb").into(), 20_000)
    });
    assert_no_report(&stalls, &["timed out after "]);
}

/// An API server validates UTF-8 in few fields of a protobuf pod; its JSON replaces invalid bytes by U+FFFD.
#[test]
fn pod_with_invalid_utf_8_is_reported() {
    let digest = "ab".repeat(32);
    let named = |name| pod("shop", name, "web", "reg.io/web:1", &digest, 0);
    let owner = Message::default().text(1, "Job").bytes(3, b"a\xffb").text(4, "u").text(5, "batch/v1");
    let debug = Message::default().message(1, &Message::default().text(1, "dbg").bytes(2, b"reg.io/\xff"));
    let pods = [
        // Protobuf merges repeated occurrences of a message field.
        named("by-owner").message(1, &Message::default().message(13, &owner)),
        named("by-image").message(2, &Message::default().message(34, &debug)),
        named("by-status").message(3, &Message::default().message(13, &Message::default().bytes(1, b"\xc3"))),
        named("plain"),
    ];
    let api = Server::start(move |_| protobuf(200, list(&pods, "")));
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(0, &["prod: 4 pods printed"]);
    assert!(outcome.stdout.contains("\"name\":\"a\u{fffd}b\""), "{}", outcome.stdout);
}

#[test]
fn one_invalid_pod_does_not_affect_199_others() {
    let digest = "ab".repeat(32);
    let odd: [(&str, Message, &str); 6] = [
        (
            "only a name, invalid UTF-8",
            Message::default().message(1, &Message::default().bytes(1, b"\xff\xfe")),
            "unreadable pod left out",
        ),
        ("no protobuf", Message::default().bytes(1, b"\x0f\x0f\x0f"), "unreadable pod left out"),
        ("no name", pod("shop", "", "web", "a", &digest, 0), "\"shop/\" has no name"),
        ("no digest", pod("shop", "odd", "web", "a", "xyz", 0), "1 pod without a SHA-256 digest"),
        ("nothing", Message::default(), "\"/\" has no namespace"),
        (
            "half a digest",
            pod("shop", "odd", "web", "образ", &digest[..63], 0),
            "1 pod without a SHA-256 digest",
        ),
    ];
    for (case, odd, expected_text) in odd {
        let mut pods: Vec<_> = (0..199)
            .map(|n| pod("shop", &format!("web-{n:03}"), "web", "reg.io/web:1", &digest, 100))
            .collect();
        pods.insert(77, odd);
        let body = list(&pods, "");
        let api = Server::start(move |_| protobuf(200, body.clone()));
        let outcome = once().args(DRY).cluster(&api).run();
        outcome.expect(0, &["prod: 199 pods", expected_text]);
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["artifacts"].as_array().unwrap().len(), 199, "{case}");
    }
}

#[test]
fn unreadable_pods_are_logged_once_across_list_restarts() {
    let odd = Message::default().bytes(1, b"\xff\xff\xff");
    let good = pod("shop", "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0);
    let left = AtomicUsize::new(2);
    let api = Server::start(move |request| {
        let is_next = parameters(request).contains_key("continue");
        if is_next && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            return protobuf(410, fixture("statuses/410-continue.pb"));
        }
        protobuf(200, list([&odd, &odd, &good], if request.query.contains("limit") { "next" } else { "" }))
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.expect(0, &["1 pod "]);
    assert_eq!(outcome.stderr.matches("unreadable pod left out").count(), 2, "{outcome:#?}");
}

#[test]
fn environment_with_only_unreadable_pods_is_not_empty() {
    let api = Server::start(|_| protobuf(200, list([&Message::default().bytes(1, b"\xff\xff\xff")], "")));
    for options in [&[][..], &["--allow-empty"]] {
        let outcome = once().args(DRY).args(options.iter().copied()).cluster(&api).run();
        outcome.expect(
            8,
            &["no artifacts; 1 listed pods or namespaces that may belong to the environment cannot be read"],
        );
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn list_without_usable_metadata_is_rejected() {
    let list = r#"{"kind": "PodList", "metadata": {"continue": 5}, "items": []}"#;
    let api = Server::start(move |_| Reply::json(200, list));
    assert_no_report(&api, &["invalid metadata", "expected a string"]);
    assert_eq!(api.requests().len(), 1);
}

#[test]
fn list_without_resource_version_is_reported_if_it_is_not_paged() {
    let whole = fixture("pod-list.json");
    let whole: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    for metadata in
        [serde_json::json!({}), serde_json::json!({"resourceVersion": ""}), serde_json::Value::Null]
    {
        let mut list = whole.clone();
        list["metadata"] = metadata;
        let api = Server::start(move |_| Reply::json(200, list.to_string()));
        let outcome = once().args(DRY).cluster(&api).run();
        assert_eq!(outcome.expect(0, &[]).stdout, recorded_report());
        assert_eq!(api.requests().len(), 1);
    }
}

#[test]
fn pages_without_resource_version_are_rejected() {
    let api = Server::start(|request| {
        let token = if parameters(request).contains_key("continue") { "" } else { "a" };
        let list = serde_json::json!({"kind": "PodList", "metadata": {"continue": token}, "items": []});
        Reply::json(200, list.to_string())
    });
    assert_no_report(&api, &["the pages have no resourceVersion, so they may differ in time"]);
    assert_eq!(api.requests().len(), 2);
}

/// The node has one digest under two names, or the specification already names the next image.
#[test]
fn verbose_output_names_pods_whose_status_has_another_image_name() {
    let digest = "ab".repeat(32);
    let named = |name, image, spec_image| {
        let spec = Message::default().text(1, "app").text(2, spec_image);
        // The first container of a name counts.
        let spec = Message::default().message(2, &Message::default().message(2, &spec));
        let encoded = pod("shop", name, "web", image, &digest, 0).encoded().to_vec();
        Message::from([spec.encoded(), encoded.as_slice()].concat())
    };
    let pods = [
        named("mirrored", "mirror.io/web:1", "reg.io/web:1"),
        named("updated", "reg.io/web:1", "reg.io/web:2"),
    ];
    let api = Server::start(move |_| protobuf(200, list(&pods, "")));
    let outcome = once().args(DRY).args(["-v"]).cluster(&api).run();
    let expected = "pod shop/mirrored: container \"app\" is reported as \"mirror.io/web:1\", as in its status, and not as \"reg.io/web:1\", as in its specification";
    outcome.expect(0, &[expected]);
    assert!(!outcome.stderr.contains("shop/updated: "), "{outcome:#?}");
    assert!(outcome.stdout.contains(&format!(r#"{{"mirror.io/web:1":"{digest}"}}"#)), "{outcome:#?}");
    let quiet = once().args(DRY).cluster(&api).run();
    assert!(!quiet.stderr.contains("shop/mirrored"), "{quiet:#?}");
}

#[test]
fn verbose_output_names_skipped_pods_and_containers() {
    let outcome = once().args(DRY).args(["-v"]).recorded_pods().run();
    outcome.expect(
        0,
        &["left out: pod zoo/pending, not started", "left out: 1 container of zoo/half-pulled, not started"],
    );
}
