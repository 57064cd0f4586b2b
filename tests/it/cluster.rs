//! The one shot against an API server that answers as recorded, or as it should not.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fake::kube::{PROTOBUF, User, fixture, kubeconfig, page_of, parameters, protobuf, recorded};
use crate::fake::pki::Authority;
use crate::fake::pods::{Message, list, pod};
use crate::fake::{Reply, Seen, Server};
use crate::program::{Outcome, Program, once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// An API server that misbehaves must not lead to a report.
#[track_caller]
fn nothing_is_sent(api: &Server, words: &[&str]) -> Outcome {
    let endpoint = Server::start(|_| Reply::json(200, r#""ok""#));
    let outcome =
        once().args(["--environment", "prod", "--timeout", "1s"]).cluster(api).service(&endpoint).run();
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
fn a_token_over_tls_is_sent_to_the_server_that_the_authority_vouches_for() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), |seen| {
        match seen.headers.get("authorization").map(http::HeaderValue::as_bytes) {
            Some(b"Bearer cluster-token") => recorded(seen),
            _ => protobuf(401, fixture("status-401.pb")),
        }
    });
    let with = |token| kubeconfig(&api.url(), Some(&authority.pem()), &User::Token(token));
    let outcome = once().args(DRY).kubeconfig(&with("cluster-token")).run();
    outcome.says(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());

    let refused = once().args(DRY).kubeconfig(&with("another")).run();
    refused.says(8, &["answered with 401 Unauthorized: Unauthorized", "hint: the API server does not know"]);
    assert_eq!(refused.stdout, "");
}

#[test]
fn a_client_certificate_is_shown_to_the_server_that_asks_for_one() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let api = Server::start_tls(authority.server(Some(&clients)), recorded);
    let alice = clients.client("alice");
    let with = |user: &User<'_>| kubeconfig(&api.url(), Some(&authority.pem()), user);
    let outcome = once().args(DRY).kubeconfig(&with(&User::Certificate(&alice))).run();
    outcome.says(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());

    once().args(DRY).kubeconfig(&with(&User::Nobody)).run().says(8, &["got no answer"]);
}

#[test]
fn a_certificate_that_nobody_vouches_for_ends_it_at_once() {
    let api = Server::start_tls(Authority::new().server(None), recorded);
    let stranger = Authority::new().pem();
    let outcome = once().args(DRY).kubeconfig(&kubeconfig(&api.url(), Some(&stranger), &User::Nobody)).run();
    outcome.says(8, &["certificate", "hint: check the certificate authority"]);
    assert!(!outcome.stderr.contains("trying again"), "{outcome:#?}");
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

#[test]
fn one_odd_pod_in_two_hundred_leaves_the_other_199() {
    let digest = "ab".repeat(32);
    let odd: [(&str, Message, &str); 6] = [
        (
            "not UTF-8",
            Message::default().message(1, &Message::default().bytes(1, b"\xff\xfe")),
            "cannot be read",
        ),
        ("no protobuf", Message::default().bytes(1, b"\x0f\x0f\x0f"), "cannot be read"),
        ("no name", pod("shop", "", "web", "a", &digest, 0), "\"shop/\" has no name or no creation time"),
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

/// A cluster of two namespaces with a pod each, one without pods, and none other; a Role in each.
fn namespaced(seen: &Seen) -> Reply {
    let pod_in = |namespace| pod(namespace, "web-1", "web", "reg.io/web:1", &"ab".repeat(32), 0);
    match seen.path.as_str() {
        "/api/v1/namespaces/shop/pods" => protobuf(200, list(&[pod_in("shop")], "")),
        "/api/v1/namespaces/pay/pods" => protobuf(200, list(&[pod_in("pay")], "")),
        "/api/v1/namespaces/empty/pods"
        | "/api/v1/namespaces/nope/pods"
        | "/api/v1/namespaces/secret/pods" => protobuf(200, list(&[], "")),
        "/api/v1/namespaces/empty" => protobuf(200, Message::default().in_envelope("Namespace")),
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
fn the_proxy_of_the_environment_is_used_unless_no_proxy_names_the_cluster() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    // No proxy that would do CONNECT: it is enough to see who was asked.
    let proxy = Server::start(|_| Reply::text(502, "no way"));
    let with = |program: Program| {
        program
            .args(DRY)
            .args(["--timeout", "1s"])
            .kubeconfig(&kubeconfig(&api.url(), Some(&authority.pem()), &User::Nobody))
            .env("HTTPS_PROXY", &proxy.url().replace("http://", "http://user:pr0xy-pass@"))
    };
    let through = with(once()).run();
    through.says(8, &["got no answer"]);
    assert!(!through.stderr.contains("pr0xy-pass"), "{through:#?}");
    assert_eq!(proxy.seen()[0].method, "CONNECT");
    assert!(proxy.seen()[0].headers.contains_key("proxy-authorization"));
    assert!(api.seen().is_empty());

    for no_proxy in ["example.com,127.0.0.0/8", "*"] {
        with(once()).env("NO_PROXY", no_proxy).run().says(0, &[]);
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_named() {
    for (program, words) in [
        (once(), &["no cluster is configured", "--kubeconfig", "~/.kube/config"][..]),
        (once().args(["--context", "x"]), &["--context \"x\" needs a kubeconfig"]),
        (once().args(["--kubeconfig", "missing"]), &["kubeconfig cannot be used", "missing"]),
        (once().kubeconfig("{"), &["kubeconfig cannot be used"]),
        (
            once()
                .kubeconfig(&kubeconfig("https://127.0.0.1", None, &User::Nobody))
                .args(["--context", "other"]),
            &["other"],
        ),
        (once().env("KUBECONFIG", "missing-too"), &["kubeconfig cannot be used"]),
    ] {
        program.args(DRY).run().says(2, words);
    }
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
fn a_json_list_whose_continue_token_cannot_be_read_is_no_complete_list() {
    let api = Server::start(|_| {
        Reply::json(200, r#"{"kind": "PodList", "metadata": {"continue": 5}, "items": []}"#)
    });
    nothing_is_sent(&api, &["its metadata cannot be read", "expected a string"]);
    let api = Server::start(|seen| {
        let mut list: serde_json::Value = serde_json::from_slice(&fixture("pod-list.json")).unwrap();
        list["metadata"] = serde_json::Value::Null;
        assert!(!parameters(seen).contains_key("continue"));
        Reply::json(200, list.to_string())
    });
    assert_eq!(once().args(DRY).cluster(&api).run().says(0, &[]).stdout, recorded_report());
}

#[test]
fn a_kubeconfig_is_found_where_kubectl_finds_it() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url(), None, &User::Nobody);
    once().args(DRY).file("config", &config).env("KUBECONFIG", "config").run().says(0, &["20 artifacts"]);
    once().args(DRY).file(".kube/config", &config).run().says(0, &["20 artifacts"]);
    let unused = kubeconfig("http://127.0.0.1:1", None, &User::Nobody);
    once().args(DRY).file(".kube/config", &unused).kubeconfig(&config).run().says(0, &["20 artifacts"]);
}

#[test]
fn a_no_proxy_that_cannot_be_read_is_named() {
    let config = kubeconfig("https://127.0.0.1:1", None, &User::Nobody);
    let program = once().args(DRY).kubeconfig(&config).env("HTTPS_PROXY", "http://127.0.0.1:1");
    program.env("NO_PROXY", "localhost,").run().says(2, &["NO_PROXY", "empty entry"]);
}

#[test]
fn a_server_that_speaks_no_tls_is_told_from_one_that_is_not_trusted() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url().replace("http:", "https:"), None, &User::Nobody);
    once().args(DRY).kubeconfig(&config).run().says(8, &["does not speak TLS; is it plain http?"]);
}

#[test]
fn what_was_left_out_is_named_where_details_are_asked_for() {
    let outcome = once().args(DRY).args(["-v"]).recorded_pods().run();
    outcome.says(
        0,
        &[
            "left out: the pod zoo/pending, not started",
            "left out: a container of zoo/half-pulled, not started",
        ],
    );
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
fn a_kubeconfig_that_kube_would_stumble_over_is_refused_or_mended() {
    let api = Server::start(recorded);
    let with = |token: &str| kubeconfig(&api.url(), None, &User::Token(token));
    once().args(DRY).kubeconfig(&with("t0ken\n")).run().says(0, &[]);
    assert_eq!(api.seen()[0].headers["authorization"], "Bearer t0ken");
    let split = once().args(DRY).kubeconfig(&with("t0k\nen")).run();
    split.says(2, &["its token holds what a header cannot carry"]);
    assert!(!split.stderr.contains("t0k"), "{split:#?}");
    let no_scheme = kubeconfig("127.0.0.1:6443", None, &User::Nobody);
    once()
        .args(DRY)
        .kubeconfig(&no_scheme)
        .run()
        .says(2, &["its server is no URL that begins with https or http"]);
    let list = once().args(DRY).file("config", kubeconfig(&api.url(), None, &User::Nobody));
    list.env("KUBECONFIG", "missing:config").run().says(0, &["20 artifacts"]);
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
fn what_kubectl_writes_into_kubeconfigs_is_understood() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url(), None, &User::Nobody);
    let unset = config.replace(r#""current-context":"test""#, r#""current-context":"""#);
    assert_ne!(config, unset);
    let program = || once().args(DRY).file("config", &config).file("unset", &unset);
    program().env("KUBECONFIG", "unset:config").run().says(0, &["20 artifacts"]);
    program().env("KUBECONFIG", "unset").run().says(2, &["no current-context"]);
    program().file(".kube/config", &config).env("KUBECONFIG", ":").run().says(0, &["20 artifacts"]);

    let with_file = config.replace(r#""user":{}"#, r#""user":{"tokenFile":"token"}"#);
    assert_ne!(config, with_file);
    program().kubeconfig(&with_file).file("token", "t0ken-of-file\n").run().says(0, &["20 artifacts"]);
    assert_eq!(api.seen().last().unwrap().headers["authorization"], "Bearer t0ken-of-file");
}
