//! The one shot against an API server that answers as recorded, or as it should not.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fake::kube::{PROTOBUF, User, fixture, kubeconfig, page_of, parameters, protobuf, recorded};
use crate::fake::pods::{Message, list, pod};
use crate::fake::{Reply, Seen, Server};
use crate::program::{Outcome, once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// An API server that misbehaves must not lead to a report.
#[track_caller]
fn nothing_is_sent(api: &Server, words: &[&str]) -> Outcome {
    let endpoint = Server::start(|_| Reply::json(200, r#""ok""#));
    let outcome =
        once().args(["--environment", "prod", "--timeout", "2s"]).cluster(api).service(&endpoint).run();
    outcome.says(8, words);
    assert!(endpoint.seen().is_empty(), "a report was sent");
    outcome
}

#[test]
fn recorded_protobuf_in_pages_gives_the_same_bytes_as_recorded_json_from_a_file() {
    let api = Server::start(recorded);
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.says(0, &["prod: 20 artifacts printed, not sent", "4 pods ended", "2 pods not started"]);
    assert_eq!(outcome.stdout, recorded_report());

    let seen = api.seen();
    assert_eq!(seen.len(), 3);
    for request in &seen {
        assert_eq!(request.method, "GET");
        assert_eq!(parameters(request)["limit"], "500");
        assert!(!parameters(request).contains_key("resourceVersion"), "a list must be consistent");
        assert_eq!(request.headers["accept-encoding"], "identity");
        assert!(request.headers["accept"].to_str().unwrap().starts_with(PROTOBUF));
        assert!(request.headers["user-agent"].to_str().unwrap().starts_with("supercargo/"));
    }
}

#[test]
fn a_server_that_has_only_json_gives_the_same_bytes() {
    let api =
        Server::start(|seen| Reply::json(200, fixture(&format!("pod-list-page-{}.json", page_of(seen)))));
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.says(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());
}

#[test]
fn an_error_of_the_api_server_is_explained_and_nothing_is_reported() {
    let forbidden = "list pods at the cluster scope) was answered with 403 Forbidden: pods is forbidden: User \"nobody\" cannot list resource";
    let cases: [(u16, fn() -> Reply, &[&str]); 7] = [
        (
            401,
            || protobuf(401, fixture("status-401.pb")),
            &["401 Unauthorized: Unauthorized", "token expired?"],
        ),
        (
            403,
            || protobuf(403, fixture("status-403.pb")),
            &[forbidden, "grant \"list\" on \"pods\" by a ClusterRole"],
        ),
        (403, || Reply::json(403, fixture("status-403.json")), &[forbidden]),
        (
            404,
            || protobuf(404, fixture("status-404.pb")),
            &["404 Not Found", "is this the URL of a Kubernetes API server?"],
        ),
        (
            406,
            || Reply::json(406, fixture("status-406.json")),
            &["406 Not Acceptable", "Available representations"],
        ),
        (302, || Reply::text(302, "").with("location", "https://login.example.com"), &["302 Found"]),
        (
            200,
            || Reply::text(200, "<html>\x1b[31mlogin"),
            &["neither Kubernetes protobuf nor JSON", "<html>\\u{1b}[31mlogin"],
        ),
    ];
    for (status, reply, words) in cases {
        let api = Server::start(move |_| reply());
        nothing_is_sent(&api, words);
        assert_eq!(api.seen().len(), 1, "{status} is not tried again");
    }
}

#[test]
fn an_overloaded_server_is_asked_again_and_in_the_end_nothing_is_reported() {
    let overloaded =
        || Reply::text(429, "Too many requests, please try again later.").with("retry-after", "0");
    let api = Server::start(move |_| overloaded());
    nothing_is_sent(
        &api,
        &["gave up after", "429 Too Many Requests: Too many requests, please try again later."],
    );

    let tries = AtomicUsize::new(0);
    let api = Server::start(move |seen| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => overloaded(),
        _ => recorded(seen),
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.says(0, &["warning: GET http://127.0.0.1", "429", "trying again in "]);
    assert_eq!(outcome.stdout, recorded_report());
}

#[test]
fn a_list_that_fails_on_a_later_page_fails_whole() {
    let page = |n: usize| fixture(&format!("pod-list-page-{n}.pb"));
    let cut = move |at: usize| Reply::Cut(200, vec![("content-type", PROTOBUF.into())], page(3).into(), at);
    let failures: [(&str, Box<dyn Fn() -> Reply + Send + Sync>); 5] = [
        ("500 Internal Server Error", Box::new(|| Reply::text(500, "etcd is away"))),
        ("403 Forbidden", Box::new(|| protobuf(403, fixture("status-403.pb")))),
        ("broke off", Box::new(move || cut(3000))),
        // The connection says that all is well; only the list itself shows that part of it is missing.
        ("ends in the middle of the list", Box::new(move || protobuf(200, page(3)[..3000].to_vec()))),
        ("it holds a \"Status\"", Box::new(|| protobuf(200, fixture("status-404.pb")))),
    ];
    for (says, failure) in failures {
        let api = Server::start(move |seen| if page_of(seen) == 3 { failure() } else { recorded(seen) });
        nothing_is_sent(&api, &[says]);
        assert!(api.seen().len() >= 3, "{says}");
    }
}

#[test]
fn a_list_that_broke_off_is_read_again_from_its_first_page() {
    let tries = AtomicUsize::new(0);
    let api = Server::start(move |seen| {
        if page_of(seen) == 2 && tries.fetch_add(1, Ordering::Relaxed) == 0 {
            let page = fixture("pod-list-page-2.pb");
            return Reply::Cut(200, vec![("content-type", PROTOBUF.into())], page.into(), 5000);
        }
        recorded(seen)
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.says(0, &["broke off", "trying again"]);
    assert_eq!(outcome.stdout, recorded_report());
    assert_eq!(api.seen().iter().map(page_of).collect::<Vec<_>>(), [1, 2, 1, 2, 3]);
}

#[test]
fn an_expired_continue_token_begins_the_list_again_and_the_inconsistent_one_is_never_used() {
    let expire = |times: usize| {
        let left = AtomicUsize::new(times);
        move |seen: &Seen| {
            let is_page_2 = parameters(seen).contains_key("continue") && page_of(seen) == 2;
            if is_page_2
                && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
            {
                return protobuf(410, fixture("status-410-continue.pb"));
            }
            if !seen.query.contains("limit") {
                return protobuf(200, fixture("pod-list.pb"));
            }
            recorded(seen)
        }
    };
    let queries = |api: &Server| {
        let of = |seen: &Seen| match (seen.query.contains("limit"), seen.query.contains("continue")) {
            (true, true) => "next",
            (true, false) => "first",
            _ => "whole",
        };
        api.seen().iter().map(of).collect::<Vec<_>>()
    };
    let api = Server::start(expire(1));
    let outcome = once().args(DRY).cluster(&api).run();
    assert_eq!(outcome.says(0, &[]).stdout, recorded_report());
    assert_eq!(queries(&api), ["first", "next", "first", "next", "next"]);

    let api = Server::start(expire(2));
    let outcome = once().args(DRY).cluster(&api).run();
    assert_eq!(outcome.says(0, &[]).stdout, recorded_report());
    assert_eq!(queries(&api), ["first", "next", "first", "next", "whole"]);
}

#[test]
fn a_server_that_is_not_there_or_says_nothing_is_waited_for_until_the_timeout() {
    let gone = Server::start(recorded);
    let url = gone.url();
    drop(gone);
    let refused = kubeconfig(&url, None, &User::Nobody);
    let outcome = once().args(DRY).args(["--timeout", "1s"]).kubeconfig(&refused).run();
    outcome.says(8, &["got no answer", "refused"]);

    let silent = Server::start(|_| Reply::Stall);
    nothing_is_sent(&silent, &["was not done in "]);
    let stalls = Server::start(|_| {
        Reply::StallAfter(200, vec![("content-type", PROTOBUF.into())], fixture("pod-list.pb").into(), 20_000)
    });
    nothing_is_sent(&stalls, &["was not done in "]);
}

/// An API server checks of few texts that they are UTF-8 where a pod is sent to it in protobuf, and its JSON
/// has U+FFFD in their place.
#[test]
fn nobody_hides_a_pod_by_text_that_is_not_utf_8() {
    let digest = "ab".repeat(32);
    let of = |name| pod("shop", name, "web", "reg.io/web:1", &digest, 0);
    let owner = Message::default().text(1, "Job").bytes(3, b"a\xffb").text(4, "u").text(5, "batch/v1");
    let debug = Message::default().message(1, &Message::default().text(1, "dbg").bytes(2, b"reg.io/\xff"));
    let pods = [
        // Repeated fields add up, and messages are merged.
        of("by-owner").message(1, &Message::default().message(13, &owner)),
        of("by-image").message(2, &Message::default().message(34, &debug)),
        of("by-status").message(3, &Message::default().message(13, &Message::default().bytes(1, b"\xc3"))),
        of("plain"),
    ];
    let api = Server::start(move |_| protobuf(200, list(&pods, "")));
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.says(0, &["prod: 4 artifacts printed"]);
    assert!(outcome.stdout.contains("\"name\":\"a\u{fffd}b\""), "{}", outcome.stdout);
}

#[test]
fn one_odd_pod_in_two_hundred_leaves_the_other_199() {
    let digest = "ab".repeat(32);
    let odd: [(&str, Message, &str); 6] = [
        (
            "a name that is not UTF-8 and nothing else",
            Message::default().message(1, &Message::default().bytes(1, b"\xff\xfe")),
            "cannot be read",
        ),
        ("no protobuf", Message::default().bytes(1, b"\x0f\x0f\x0f"), "cannot be read"),
        ("no name", pod("shop", "", "web", "a", &digest, 0), "\"shop/\" has no name"),
        ("no digest", pod("shop", "odd", "web", "a", "xyz", 0), "1 pod without a SHA-256 digest"),
        ("nothing", Message::default(), "\"/\" has no namespace"),
        (
            "half a digest",
            pod("shop", "odd", "web", "образ", &digest[..63], 0),
            "1 pod without a SHA-256 digest",
        ),
    ];
    for (what, odd, says) in odd {
        let mut pods: Vec<_> = (0..199)
            .map(|n| pod("shop", &format!("web-{n:03}"), "web", "reg.io/web:1", &digest, 100))
            .collect();
        pods.insert(77, odd);
        let body = list(&pods, "");
        let api = Server::start(move |_| protobuf(200, body.clone()));
        let outcome = once().args(DRY).cluster(&api).run();
        outcome.says(0, &["prod: 199 artifacts", says]);
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["artifacts"].as_array().unwrap().len(), 199, "{what}");
    }
}

#[test]
fn pods_that_cannot_be_read_are_named_once_however_often_the_list_begins_again() {
    let odd = Message::default().bytes(1, b"\xff\xff\xff");
    let good = pod("shop", "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0);
    let left = AtomicUsize::new(2);
    let api = Server::start(move |seen| {
        let is_next = parameters(seen).contains_key("continue");
        if is_next && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            return protobuf(410, fixture("status-410-continue.pb"));
        }
        protobuf(200, list([&odd, &odd, &good], if seen.query.contains("limit") { "next" } else { "" }))
    });
    let outcome = once().args(DRY).cluster(&api).run();
    outcome.says(0, &["1 artifact "]);
    assert_eq!(outcome.stderr.matches("cannot be read").count(), 2, "{outcome:#?}");
}

#[test]
fn an_environment_whose_pods_cannot_be_read_is_not_empty() {
    let api = Server::start(|_| protobuf(200, list([&Message::default().bytes(1, b"\xff\xff\xff")], "")));
    for options in [&[][..], &["--allow-empty"]] {
        let outcome = once().args(DRY).args(options.iter().copied()).cluster(&api).run();
        outcome.says(8, &["it has no artifact, and 1 of the listed pods"]);
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn list_without_usable_metadata_is_rejected() {
    for (metadata, words) in [
        (r#"{"continue": 5}"#, &["its metadata cannot be read", "expected a string"][..]),
        ("null", &["the list has no resourceVersion"]),
    ] {
        let list = format!(r#"{{"kind": "PodList", "metadata": {metadata}, "items": []}}"#);
        let api = Server::start(move |_| Reply::json(200, list.clone()));
        nothing_is_sent(&api, words);
        assert_eq!(api.seen().len(), 1);
    }
}

#[test]
fn what_was_left_out_is_named_where_details_are_asked_for() {
    let outcome = once().args(DRY).args(["-v"]).recorded_pods().run();
    outcome.says(
        0,
        &[
            "left out: the pod zoo/pending, not started",
            "left out: 1 container of zoo/half-pulled, not started",
        ],
    );
}
