//! Tests of the fake cluster: against recorded responses of an API server, with a decoder, and with
//! `supercargo agent --once`.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use crate::daemon::support::cluster::decode::{all, at, fields, frames, shape, text, unwrap};
use crate::daemon::support::cluster::responder::token;
use crate::daemon::support::cluster::wire::{self, Bookmark, Status, WATCH};
use crate::daemon::support::cluster::{ApiRequest, Cluster, Fault, Pod, grants, pod};
use crate::daemon::support::reported_pod::pods_of;
use crate::daemon::support::rules::{always, every_nth, first_n, on};
use crate::fake::kube::{PROTOBUF, fixture};
use crate::fake::{Reply, Request};
use crate::program::{Outcome, once};

const STREAMING: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn replicas(n: usize) -> impl Iterator<Item = Pod> {
    let web = |n| pod("shop", &format!("web-{n:04}")).image("registry.example.com/web:1", n % 7 + 1);
    (0..n).map(move |n| web(n).owner("ReplicaSet", "web-7d"))
}

/// Pods in each state.
fn zoo() -> Vec<Pod> {
    let web = |name| pod("shop", name).image("registry.example.com/web:1", 'a').owner("ReplicaSet", "web-7d");
    vec![
        web("web-1"),
        web("web-2").ended(),
        web("web-3").pending(),
        web("web-4").failed(),
        web("web-5").phase("Unknown").being_deleted(),
        web("meshed")
            .init_image("registry.example.com/proxy:1", 'b')
            .ephemeral_image("registry.example.com/debug", 'c')
            .image("registry.example.com/web:1", 'd'),
        pod("shop-b", "job-1").image("registry.example.com/job", 'e').owner("Job", "job").padded(100),
    ]
}

fn bytes(reply: Reply) -> (u16, Bytes) {
    let Reply::Response(status, headers, body) = reply else { panic!("not a complete response") };
    assert_eq!(headers, [("content-type", PROTOBUF.to_owned())]);
    (status, body)
}

fn last_frame(body: &[u8]) -> Vec<u8> {
    let mut rest = body;
    loop {
        let length = u32::from_be_bytes(*rest.first_chunk().unwrap()) as usize + 4;
        if rest.len() == length {
            return rest.to_vec();
        }
        rest = &rest[length..];
    }
}

#[test]
fn bookmarks_errors_and_tokens_equal_the_recorded_bytes() {
    assert_eq!(
        wire::bookmark(301, Bookmark::InitialEventsEnd),
        last_frame(&fixture("watch-streaming-list.pb"))
    );
    assert_eq!(wire::bookmark(337, Bookmark::Progress), last_frame(&fixture("watch.pb")));
    assert_eq!(Status::too_old(2, 356).event(), fixture("watch-410.pb"));
    let inconsistent = token(-1, "half-pulled");
    for (status, code, name) in [
        (Status::unauthorized(), 401, "statuses/401.pb"),
        (Status::forbidden("nobody", "list", "pods", "", None), 403, "statuses/403.pb"),
        (Status::not_found("nope", "pods"), 404, "statuses/404.pb"),
        (Status::continue_expired(inconsistent), 410, "statuses/410-continue.pb"),
        (Status::no_streaming_lists(), 422, "statuses/422-streaming-list.pb"),
    ] {
        assert_eq!(bytes(status.reply()), (code, fixture(name).into()), "{name}");
    }
    let metadata = |name| at(&unwrap(&fixture(name)).1, &[1]);
    let next = (token(301, "/half-pulled"), 16);
    assert_eq!(wire::list_meta(301, Some(&next)).encoded(), metadata("pod-list-page-1.pb"));
    assert_eq!(wire::list_meta(301, None).encoded(), metadata("pod-list.pb"));
}

#[test]
fn encoded_pod_has_the_shape_of_recorded_pods() {
    const CONTAINER: [&[u64]; 5] = [&[8], &[8, 2], &[8, 2, 1], &[8, 2, 2], &[8, 2, 3]];
    let nested: &[&[u64]] =
        &[&[1], &[1, 8], &[1, 11], &[1, 13], &[2], &[2, 2], &[2, 20], &[2, 34], &[2, 34, 1], &[3]];
    let mut nested: Vec<Vec<u64>> = nested.iter().map(|path| path.to_vec()).collect();
    for status in [8, 10, 13] {
        nested.extend(CONTAINER.iter().map(|path| [&[3, status], &path[1..]].concat()));
    }
    let nested: Vec<&[u64]> = nested.iter().map(Vec::as_slice).collect();
    let list = unwrap(&fixture("pod-list.pb")).1;
    let events = frames(&fixture("watch.pb"));
    let pods = all(&list, 2).into_iter().chain(events.into_iter().map(|(_, _, pod)| pod));
    let recorded: BTreeSet<_> = pods.flat_map(|pod| shape(&pod, &nested)).collect();
    for pod in zoo() {
        let encoded = wire::encode(&pod, 7);
        for part in shape(&encoded, &nested) {
            // No recorded pod has an annotation.
            let is_known = recorded.contains(&part) || part.0 == [1, 12];
            assert!(is_known, "{}: {part:?}", pod.key());
        }
        let numbers: Vec<_> = fields(&at(&encoded, &[2])).into_iter().map(|(number, _)| number).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
}

fn run_once(cluster: &Cluster, args: &[&str]) -> Outcome {
    let program = once().args(["--dry-run", "--environment", "x"]).args(args.iter().copied());
    program.kubeconfig(&cluster.kubeconfig()).run()
}

#[track_caller]
fn assert_reads_all(cluster: &Cluster, args: &[&str], includes: fn(&str) -> bool) {
    let outcome = run_once(cluster, args);
    outcome.expect(0, &[]);
    let pods = pods_of(outcome.stdout.trim_end().as_bytes()).unwrap();
    assert_eq!(pods, cluster.expected_first_report(includes), "{outcome:#?}");
    assert!(!pods.is_empty());
}

#[test]
fn once_run_reads_the_cluster_in_pages() {
    let cluster = Cluster::start();
    cluster.add_all(replicas(1203));
    cluster.add_all(zoo());
    cluster.modify("shop", "web-0007", Pod::without_image_ids);
    cluster.delete("shop", "web-0008");
    assert_reads_all(&cluster, &[], |_| true);
    assert_eq!(cluster.count(ApiRequest::is_list), 3);
    assert_eq!(cluster.count(ApiRequest::is_later_page), 2);
    assert_eq!(cluster.expected_report(|_| true).len(), cluster.expected_first_report(|_| true).len() + 1);

    assert_reads_all(&cluster, &["--namespace", "shop"], |name| name == "shop");
    // The first two lists expire on their second page, and the third is unpaged.
    cluster.inject(on(ApiRequest::is_later_page, first_n(2, Fault::Expired)));
    assert_reads_all(&cluster, &["--namespace", "shop"], |name| name == "shop");
    assert_eq!(
        cluster.api_requests().last().unwrap().operation,
        crate::daemon::support::cluster::request::Operation::List
    );
    let is_namespace = |request: &Request| request.path.starts_with("/api/v1/namespaces/shop");
    assert!(cluster.requests().iter().any(is_namespace));
}

#[test]
fn token_and_permissions_are_checked_over_tls() {
    let cluster = Cluster::start_tls();
    cluster.add_all(zoo());
    let anonymous = cluster.kubeconfig();
    cluster.require_token("t0ken");
    assert_reads_all(&cluster, &[], |_| true);
    let outcome = once().args(["--dry-run", "--environment", "x"]).kubeconfig(&anonymous).run();
    outcome.expect(8, &["401 Unauthorized"]);
    cluster.allow_only(grants(Some("shop-b")));
    assert_reads_all(&cluster, &["--namespace", "shop-b"], |name| name == "shop-b");
    run_once(&cluster, &[])
        .expect(8, &["403 Forbidden: pods is forbidden", "cannot list resource", "at the cluster scope"]);
    run_once(&cluster, &["--namespace", "shop"]).expect(8, &["in the namespace \"shop\""]);
    cluster.allow_only(grants(None));
    run_once(&cluster, &["--namespace", "shop", "--namespace", "nowhere"]).expect(8, &["nowhere", "exist"]);
    cluster.create_namespace("empty");
    assert_reads_all(&cluster, &["--namespace", "shop", "--namespace", "empty"], |name| name == "shop");
    cluster.delete_namespace("empty");
    run_once(&cluster, &["--namespace", "empty"]).expect(8, &["exist"]);
}

#[test]
fn lists_have_the_injected_faults_until_they_are_cleared() {
    let cluster = Cluster::start();
    cluster.add_all(replicas(10));
    for (fault, expected_text) in [
        (Fault::Overloaded(Some(0)), "429 Too Many Requests"),
        (Fault::Broken, "500 Internal Server Error"),
        (Fault::Reset, "failed to list pods"),
        (Fault::CutAfter(100), "incomplete response"),
        (Fault::EndAfter(100), "truncated list"),
        (Fault::Garbage, ""),
    ] {
        cluster.inject(first_n(1, fault.clone()));
        let outcome = run_once(&cluster, &[]);
        assert!(
            outcome.stderr.contains(expected_text) && outcome.stderr.len() > 20,
            "{fault:?}: {outcome:#?}"
        );
        cluster.clear_faults();
    }
    assert_reads_all(&cluster, &[], |_| true);
    for (fault, expected_text) in [
        (Fault::Forbidden, "403 Forbidden: pods is forbidden"),
        (Fault::Unauthorized, "401 Unauthorized: Unauthorized"),
        (Fault::Stall, "timed out after"),
        (Fault::StallAfter(100), "timed out after"),
    ] {
        cluster.inject(always(fault));
        run_once(&cluster, &["--timeout", "1s"]).expect(8, &[expected_text]);
        cluster.clear_faults();
    }
    cluster.listen(false);
    run_once(&cluster, &["--timeout", "1s"]).expect(8, &["refused"]);
    cluster.listen(true);
    assert_reads_all(&cluster, &[], |_| true);
    cluster.inject(every_nth(2, Fault::Broken));
    assert_reads_all(&cluster, &[], |_| true);
    assert_reads_all(&cluster, &[], |_| true);
}

/// Event type, name of the pod or message, and resourceVersion.
type EventLine = (String, String, String);

/// Reads a watch.
struct Reader {
    response: reqwest::Response,
    read: Vec<u8>,
}

impl Reader {
    async fn open(cluster: &Cluster, path: &str, query: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}{path}?{query}", cluster.url());
        let response = http.get(url).header("accept", PROTOBUF).send().await.unwrap();
        Self { response, read: Vec::new() }
    }

    /// All frames up to the first match.
    async fn until(&mut self, matches: impl Fn(&str, &str) -> bool) -> Vec<EventLine> {
        loop {
            let lines = self.lines();
            if let Some(n) = lines.iter().position(|(event, name, _)| matches(event, name)) {
                return lines[..=n].to_vec();
            }
            self.more().await;
        }
    }

    /// At least this many frames.
    async fn first(&mut self, frames: usize) -> Vec<EventLine> {
        while self.lines().len() < frames {
            self.more().await;
        }
        self.lines()
    }

    fn lines(&self) -> Vec<EventLine> {
        let line = |(event, kind, object): (String, String, Bytes)| match kind.as_str() {
            "Pod" => (event, text(&object, &[1, 1]), text(&object, &[1, 6])),
            _ => (event, text(&object, &[3]), String::new()),
        };
        frames(&self.read).into_iter().map(line).collect()
    }

    async fn more(&mut self) {
        let chunk = self.response.chunk().await.unwrap();
        self.read.extend_from_slice(&chunk.unwrap_or_else(|| panic!("the stream ended: {:?}", self.lines())));
    }

    /// All bytes until the end of the stream.
    async fn rest(mut self) -> Result<Vec<u8>, reqwest::Error> {
        while let Some(chunk) = self.response.chunk().await? {
            self.read.extend_from_slice(&chunk);
        }
        Ok(self.read)
    }
}

const PODS: &str = "/api/v1/pods";

#[tokio::test]
async fn streaming_list_sends_pods_bookmark_and_events() {
    let cluster = Cluster::start();
    cluster.add_all(replicas(3));
    cluster.add(pod("kube-system", "dns").image("registry.example.com/dns", 'a'));
    let mut all = Reader::open(&cluster, PODS, STREAMING).await;
    assert_eq!(all.response.status(), 200);
    assert_eq!(all.response.headers()["content-type"], WATCH);
    let list = all.until(|event, _| event == "BOOKMARK").await;
    let names: Vec<_> = list.iter().map(|(event, name, _)| format!("{event} {name}")).collect();
    assert_eq!(names, ["ADDED dns", "ADDED web-0000", "ADDED web-0001", "ADDED web-0002", "BOOKMARK "]);
    assert_eq!(list[4].2, cluster.revision().to_string());
    let annotation = at(&frames(&all.read)[4].2, &[1, 12]);
    assert_eq!(
        (text(&annotation, &[1]), text(&annotation, &[2])),
        ("k8s.io/initial-events-end".into(), "true".into())
    );

    let mut one = Reader::open(&cluster, "/api/v1/namespaces/kube-system/pods", STREAMING).await;
    assert_eq!(one.until(|event, _| event == "BOOKMARK").await.len(), 2);
    assert_eq!(cluster.open_watches(), 2);
    cluster.modify("shop", "web-0001", Pod::ended);
    cluster.delete("shop", "web-0002");
    cluster.delete("kube-system", "dns");
    let events = all.until(|event, name| (event, name) == ("DELETED", "dns")).await;
    let changes: Vec<_> = events
        .iter()
        .filter(|(event, ..)| event != "BOOKMARK")
        .map(|(event, name, _)| format!("{event} {name}"))
        .collect();
    assert_eq!(changes[4..], ["MODIFIED web-0001", "DELETED web-0002", "DELETED dns"]);
    let events = one.until(|event, _| event == "DELETED").await;
    assert!(events.iter().all(|(_, name, _)| name == "dns" || name.is_empty()));
    cluster.end_watches();
    all.rest().await.unwrap();
}

#[tokio::test]
async fn watch_sends_events_after_its_resource_version_or_410_or_nothing() {
    let cluster = Cluster::start();
    cluster.bookmarks_every(Duration::from_millis(20));
    cluster.add_all(replicas(2));
    let (before, backup) = (cluster.revision(), cluster.backup());
    cluster.add(pod("shop", "new").image("registry.example.com/new", 'b'));
    cluster.modify("shop", "new", Pod::ended);
    let watch = |after: u64| format!("watch=1&allowWatchBookmarks=true&resourceVersion={after}");
    let mut open = Reader::open(&cluster, PODS, &watch(before)).await;
    let events = open.until(|event, _| event == "BOOKMARK").await;
    assert_eq!(events[0], ("ADDED".into(), "new".into(), (before + 1).to_string()));
    assert_eq!(events[1], ("MODIFIED".into(), "new".into(), (before + 2).to_string()));
    assert!(events[2].2.parse::<u64>().unwrap() > before + 2);

    assert_eq!(cluster.count(ApiRequest::is_watch), 1);
    cluster.compact();
    let now = cluster.revision();
    let mut old = Reader::open(&cluster, PODS, &watch(before)).await;
    let error = old.until(|event, _| event == "ERROR").await;
    assert!(error[0].1.starts_with(&format!("too old resource version: {before} ({now}")), "{error:?}");
    assert_eq!(old.rest().await.map(|body| frames(&body).len()).unwrap(), 1);
    // The open watch continues.
    cluster.add(pod("shop", "newer").image("registry.example.com/new", 'b'));
    open.until(|_, name| name == "newer").await;

    let future = Reader::open(&cluster, PODS, &watch(now + 1_000_000)).await;
    let quiet = Reader::open(&cluster, PODS, "watch=1&resourceVersion=9999&timeoutSeconds=0").await;
    assert_eq!(future.response.status(), 200);
    assert_eq!(quiet.rest().await.unwrap(), b"");
    cluster.add(pod("shop", "newest").image("registry.example.com/new", 'b'));
    open.until(|_, name| name == "newest").await;
    cluster.end_watches();
    assert_eq!(future.rest().await.unwrap(), b"", "older bookmarks and events are not sent");

    let open = Reader::open(&cluster, PODS, &watch(cluster.revision())).await;
    cluster.restore_from_backup(backup);
    assert!(open.rest().await.is_err(), "the connection is dropped");
    assert_eq!(cluster.revision(), before);
    assert_eq!(cluster.expected_report(|_| true).len(), 2);
    let lifetimes = cluster.lifetimes();
    assert_eq!(lifetimes.iter().filter(|lifetime| lifetime.to.is_none()).count(), 2);
    assert_eq!(lifetimes.len(), 5);
}

#[tokio::test]
async fn watches_have_the_injected_faults() {
    let cluster = Cluster::start();
    cluster.bookmarks_every(Duration::from_millis(10));
    cluster.add_all(replicas(3));
    let frame = {
        let mut whole = Reader::open(&cluster, PODS, STREAMING).await;
        whole.until(|event, _| event == "BOOKMARK").await;
        u32::from_be_bytes(*whole.read.first_chunk().unwrap()) as usize + 4
    };
    let opened = async |fault: Fault| {
        cluster.inject(always(fault));
        let reader = Reader::open(&cluster, PODS, STREAMING).await;
        cluster.clear_faults();
        reader
    };
    let reads = async |fault| opened(fault).await.rest().await.map(|body| body.len());
    assert_eq!(reads(Fault::CloseAfterFrames(1)).await.unwrap(), frame);
    assert_eq!(reads(Fault::HalfAFrameAfter(1)).await.unwrap(), frame + frame / 2);
    assert_eq!(reads(Fault::EndAfter(5)).await.unwrap(), 5);
    assert!(reads(Fault::CutAfter(5)).await.is_err());
    assert!(reads(Fault::CloseAfter(Duration::from_millis(30))).await.unwrap() > frame);
    assert_eq!(opened(Fault::NoStreamingLists).await.response.status(), 422);
    assert_eq!(opened(Fault::Overloaded(None)).await.response.status(), 429);
    let mut quiet = opened(Fault::BookmarksOnly).await;
    cluster.add(pod("shop", "later").image("registry.example.com/new", 'b'));
    let frames = quiet.first(9).await;
    assert!(!frames.iter().any(|(_, name, _)| name == "later"), "{frames:?}");
    cluster.mute();
    let mut healed = Reader::open(&cluster, PODS, STREAMING).await;
    cluster.add(pod("shop", "last").image("registry.example.com/new", 'b'));
    cluster.clear_faults();
    healed.until(|_, name| name == "last").await;
    cluster.mute();
    let muted = Reader::open(&cluster, PODS, STREAMING).await;
    cluster.end_watches();
    assert_eq!(muted.rest().await.unwrap(), b"");
    cluster.clear_faults();
    let silent = opened(Fault::Silent).await;
    let mut stalls = opened(Fault::StallAfter(frame)).await;
    stalls.until(|event, _| event == "ADDED").await;
    let garbage = opened(Fault::Garbage).await;
    cluster.restart();
    assert!(silent.rest().await.is_err());
    assert!(stalls.rest().await.is_err());
    assert!(garbage.rest().await.is_err());
    crate::daemon::eventually("all are closed", async || cluster.open_watches() == 0).await;
}
