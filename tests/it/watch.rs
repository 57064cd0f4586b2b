//! The watch against recorded bytes and misbehaving connections. `agent::live::watch` tests the reaction to each
//! failure; `daemon` tests that failures lose no pod.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::cluster::{Access, Cluster, ClusterTimeouts, EventType, WatchEvent};
use agent::live::pod::PodView;
use agent::live::watch::{RestartReason, WatchTiming};
use model::retry::Backoff;
use tokio::sync::Notify;

use crate::fake::kube::{PROTOBUF, User, fixture, kubeconfig, page_of, parameters, protobuf};
use crate::fake::{Reply, Request, Server};

const LONG: Duration = Duration::from_mins(1);

/// A consumer's state after applying watch events.
#[derive(Default)]
struct Live {
    pods: BTreeMap<String, PodView>,
    listed: BTreeSet<String>,
    lists: usize,
    events: Vec<EventType>,
    restarts: Vec<RestartReason>,
    failures: Vec<(String, Option<String>)>,
    has_contact: bool,
    caught_up: usize,
}

impl Live {
    fn apply(&mut self, event: WatchEvent) {
        let name = |pod: &PodView| format!("{}/{}", pod.namespace, pod.name);
        match event {
            WatchEvent::ListStarted => self.listed.clear(),
            WatchEvent::Applied(pod) => {
                let pod = pod.unwrap();
                self.listed.insert(name(&pod));
                self.pods.insert(name(&pod), pod);
            }
            WatchEvent::Deleted(pod) => assert!(self.pods.remove(&name(&pod)).is_some(), "{pod:?}"),
            WatchEvent::DeletedByName(pod) => panic!("{pod:?}"),
            WatchEvent::Complete => {
                self.pods.retain(|name, _| self.listed.contains(name));
                self.lists += 1;
            }
            WatchEvent::Contact(_) => self.has_contact = true,
            WatchEvent::Event(event) => self.events.push(event),
            WatchEvent::Restart(reason) => self.restarts.push(reason),
            WatchEvent::Failed { error, .. } => self.failures.push((error.to_string(), error.hint())),
            WatchEvent::State(_) => {}
            WatchEvent::CaughtUp => self.caught_up += 1,
        }
    }

    fn names(&self) -> Vec<&str> {
        self.pods.keys().map(String::as_str).collect()
    }
}

/// Watches all pods until a caught-up state satisfies `is_enough`.
fn watch_until(url: &str, is_enough: impl Fn(&Live) -> bool) -> Live {
    watch_with(ClusterTimeouts::default(), url, is_enough)
}

fn watch_with(timeouts: ClusterTimeouts, url: &str, is_enough: impl Fn(&Live) -> bool) -> Live {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig(url, None, &User::Anonymous)).unwrap();
    let access = Access { kubeconfig: Some(file.path().to_owned()), ..Access::default() };
    let millis = Duration::from_millis;
    let backoff = Backoff { initial: millis(1), max: millis(5), max_retry_after: millis(5) };
    let timing = WatchTiming { backoff, ..WatchTiming::default() };
    let mut live = Live::default();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let cluster = Cluster::configure(access, timeouts, LONG).await.unwrap();
        let enough = Notify::new();
        let watch = cluster.watch_pods(None, timing, 7, |event| {
            // Consumers read the set only when it has caught up.
            let is_caught_up = matches!(event, WatchEvent::CaughtUp);
            live.apply(event);
            if is_caught_up && is_enough(&live) {
                enough.notify_one();
            }
        });
        let stopped = async {
            tokio::select! {
                never = watch => match never {},
                () = enough.notified() => {}
            }
        };
        tokio::time::timeout(LONG, stopped).await.expect("the events arrive within a minute");
    });
    live
}

const EVENTS: [(&str, &str); 2] =
    [("application/vnd.kubernetes.protobuf;stream=watch", "pb"), ("application/json", "ndjson")];

/// A recorded stream that stays open.
fn stream(encoding: (&str, &str), name: &str) -> Reply {
    let (content_type, extension) = encoding;
    let body = fixture(&format!("{name}.{extension}"));
    let end = body.len();
    Reply::StallAfter(200, vec![("content-type", content_type.to_owned())], body.into(), end)
}

/// Kind of request, with its page or resourceVersion.
fn describe(request: &Request) -> String {
    let parameters = parameters(request);
    if parameters.contains_key("sendInitialEvents") {
        return "stream".into();
    }
    match (parameters.get("resourceVersion"), parameters.get("limit")) {
        (Some(from), _) => format!("watch from {from}"),
        (None, Some(_)) => format!("page {}", page_of(request)),
        (None, None) => "whole".into(),
    }
}

#[test]
fn recorded_streaming_list_and_watch_give_the_same_pods_in_both_encodings() {
    let mut sets = Vec::new();
    for encoding in EVENTS {
        let api = Server::start(move |request| match describe(request).as_str() {
            "stream" => {
                let Reply::StallAfter(status, headers, body, _) = stream(encoding, "watch-streaming-list")
                else {
                    unreachable!()
                };
                Reply::Response(status, headers, body)
            }
            "watch from 301" => stream(encoding, "watch"),
            other => panic!("{other}"),
        });
        let live = watch_until(&api.url(), |live| live.events.len() == 44);
        assert_eq!((live.lists, live.pods.len(), live.has_contact), (1, 27, true));
        assert!(
            live.pods.contains_key("zoo/web-9e2f-uvwxy") && !live.pods.contains_key("zoo/web-8d1e-qrstu")
        );
        assert!(live.caught_up < live.events.len(), "{} times", live.caught_up);
        assert_eq!((live.restarts, live.failures.len()), (vec![RestartReason::Ended], 1));
        assert!(live.failures[0].0.contains("the watch ended without an event"), "{:?}", live.failures);

        let requests = api.requests();
        assert_eq!(requests.iter().map(describe).collect::<Vec<_>>(), ["stream", "watch from 301"]);
        for request in &requests {
            let parameters = parameters(request);
            assert_eq!(
                (parameters["watch"].as_str(), parameters["allowWatchBookmarks"].as_str()),
                ("1", "true")
            );
            assert!((240..=300).contains(&parameters["timeoutSeconds"].parse::<u32>().unwrap()));
            assert!(request.headers["accept"].to_str().unwrap().starts_with(EVENTS[0].0));
        }
        let list = parameters(&requests[0]);
        assert_eq!(list["resourceVersionMatch"], "NotOlderThan");
        assert!(!list.contains_key("resourceVersion"), "a list must be consistent");
        sets.push(live.pods);
    }
    assert_eq!(sets[0], sets[1]);
}

#[test]
fn forbidden_watch_error_names_the_missing_verb() {
    let api = Server::start(|request| match describe(request).as_str() {
        "page 1" => protobuf(200, fixture("pod-list.pb")),
        "stream" => protobuf(422, fixture("statuses/422-streaming-list.pb")),
        _ => protobuf(403, fixture("statuses/403.pb")),
    });
    let live = watch_until(&api.url(), |live| live.failures.len() >= 3);
    assert_eq!(live.lists, 1);
    for (error, hint) in &live.failures[1..] {
        assert!(
            error.starts_with("failed to watch pods at the cluster scope: GET ")
                && error.contains("/api/v1/pods: 403 Forbidden"),
            "{error}"
        );
        assert!(
            hint.as_ref().unwrap().starts_with("grant \"watch\" on \"pods\" with a ClusterRole"),
            "{hint:?}"
        );
    }
}

/// Reads a request to its end.
fn read_request(connection: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
}

#[test]
fn abandoned_response_is_closed_and_not_drained() {
    const ENDLESS: usize = 512 * 1024 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        read_request(&mut connection);
        write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: {PROTOBUF};stream=watch\r\n\r\n").unwrap();
        // The length prefix exceeds the limit: the client abandons the stream and falls back to a paged list.
        let chunk = vec![0xff; 64 * 1024];
        let written = (0..ENDLESS / chunk.len()).take_while(|_| connection.write_all(&chunk).is_ok()).count();
        // The next request is served only after the writes, whether or not the stream is still open.
        let (mut next, _) = listener.accept().unwrap();
        read_request(&mut next);
        write!(next, "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        written * chunk.len()
    });
    let live = watch_until(&url, |live| live.restarts.len() >= 2);
    assert_eq!(live.restarts[..2], [RestartReason::Garbled, RestartReason::Refused]);
    assert!(server.join().unwrap() < ENDLESS, "the response was drained");
}

#[test]
fn buffered_events_in_separate_chunks_are_applied_together() {
    const EVENTS: usize = 1000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let list = fixture("watch-streaming-list.pb");
    let watch = fixture("watch.pb");
    let length = 4 + u32::from_be_bytes(*watch.first_chunk().unwrap()) as usize;
    // An API server flushes after each event.
    let mut response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {PROTOBUF};stream=watch\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for chunk in std::iter::once(list.as_slice()).chain(std::iter::repeat_n(&watch[..length], EVENTS)) {
        write!(response, "{:x}\r\n", chunk.len()).unwrap();
        response.extend_from_slice(chunk);
        response.extend_from_slice(b"\r\n");
    }
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        read_request(&mut connection);
        connection.write_all(&response).unwrap();
        connection
    });
    let live = watch_until(&url, |live| live.events.len() >= EVENTS);
    assert_eq!(live.lists, 1);
    // Each caught-up event lets consumers read the whole set.
    assert!(live.caught_up < EVENTS / 10, "{} times", live.caught_up);
    drop(server.join().unwrap());
}

#[test]
fn expired_watch_is_relisted_and_missing_pods_are_removed() {
    let lists = AtomicUsize::new(0);
    let api = Server::start(move |request| match describe(request).as_str() {
        "stream" => protobuf(422, fixture("statuses/422-streaming-list.pb")),
        "watch from 301" => stream(EVENTS[0], "watch-410"),
        // The first list has a page more than the second.
        "page 3" if lists.fetch_add(1, Ordering::Relaxed) > 0 => {
            protobuf(200, crate::fake::pods::list([], ""))
        }
        _ => protobuf(200, fixture(&format!("pod-list-page-{}.pb", page_of(request)))),
    });
    let first = watch_until(&api.url(), |live| live.lists == 1);
    let api_names: Vec<_> = first.names().into_iter().map(str::to_owned).collect();
    assert_eq!(api_names.len(), 26);

    let live = watch_until(&api.url(), |live| live.lists >= 2);
    assert_eq!(live.names(), &api_names[..20]);
    assert!(
        live.restarts.starts_with(&[RestartReason::Refused, RestartReason::Expired]),
        "{:?}",
        live.restarts
    );
    assert!(live.failures[1].0.contains("410 Gone: too old resource version"), "{:?}", live.failures);
}

#[test]
fn cut_stream_resumes_after_the_last_whole_event() {
    let attempts = AtomicUsize::new(0);
    let api = Server::start(move |request| match describe(request).as_str() {
        "stream" => {
            let headers = vec![("content-type", EVENTS[0].0.to_owned())];
            Reply::Response(200, headers, fixture("watch-streaming-list.pb").into())
        }
        "watch from 301" if attempts.fetch_add(1, Ordering::Relaxed) == 0 => {
            let mut body = fixture("watch.pb");
            body.truncate(body.len() - 10);
            Reply::Response(200, vec![("content-type", EVENTS[0].0.to_owned())], body.into())
        }
        _ => stream(EVENTS[0], "watch-410"),
    });
    let live = watch_until(&api.url(), |live| live.restarts.contains(&RestartReason::Expired));
    assert_eq!(live.restarts[..2], [RestartReason::Ended, RestartReason::BrokenOff]);
    assert!(live.failures[1].0.contains("incomplete response"), "{:?}", live.failures);
    assert_eq!(describe(&api.requests()[2]), "watch from 337");
}

#[test]
fn events_that_arrive_during_the_read_pause_are_read_together() {
    const EVENTS: usize = 50;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let list = fixture("watch-streaming-list.pb");
    let watch = fixture("watch.pb");
    let length = 4 + u32::from_be_bytes(*watch.first_chunk().unwrap()) as usize;
    let event = watch[..length].to_vec();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        read_request(&mut connection);
        write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: {PROTOBUF};stream=watch\r\n\r\n").unwrap();
        connection.write_all(&list).unwrap();
        for _ in 0..EVENTS {
            // Spaced, so that without a pause each would be read alone.
            std::thread::sleep(Duration::from_millis(2));
            connection.write_all(&event).unwrap();
        }
        connection
    });
    let timeouts = ClusterTimeouts { read_pause: Duration::from_secs(1), ..ClusterTimeouts::default() };
    let live = watch_with(timeouts, &url, |live| live.events.len() >= EVENTS);
    assert_eq!(live.lists, 1);
    assert!(live.caught_up < EVENTS / 5, "{} times", live.caught_up);
    drop(server.join().unwrap());
}

#[test]
fn continuously_busy_watch_still_signals_contact() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let list = fixture("watch-streaming-list.pb");
    let watch = fixture("watch.pb");
    let length = 4 + u32::from_be_bytes(*watch.first_chunk().unwrap()) as usize;
    // More than the client reads before the next batch arrives.
    let events = watch[..length].repeat(200);
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        read_request(&mut connection);
        write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: {PROTOBUF};stream=watch\r\n\r\n").unwrap();
        connection.write_all(&list).unwrap();
        while connection.write_all(&events).is_ok() {}
    });
    let live = watch_until(&url, |live| live.has_contact && live.events.len() > 1_000);
    assert_eq!((live.lists, live.restarts.len()), (1, 0));
    server.join().unwrap();
}

#[test]
fn list_without_a_way_to_continue_is_an_error() {
    for (metadata, next, expected) in [
        (r#"{"resourceVersion":""}"#, "", "the list has no resourceVersion"),
        (r#"{"resourceVersion":"7","continue":"a"}"#, "continue=a", "its continue token leads to itself"),
    ] {
        let api = Server::start(move |request| {
            if request.query.contains("watch=1") {
                Reply::text(422, "no streaming lists")
            } else {
                Reply::json(200, format!(r#"{{"kind":"PodList","metadata":{metadata},"items":[]}}"#))
            }
        });
        let live = watch_until(&api.url(), |live| live.restarts.contains(&RestartReason::Garbled));
        assert_eq!(live.lists, 0);
        assert!(live.failures.iter().any(|(failure, _)| failure.contains(expected)), "{:?}", live.failures);
        assert!(api.requests().iter().any(|request| request.query.contains(next)));
    }
}

#[test]
fn oversized_resource_version_or_token_causes_a_relist() {
    let long = "9".repeat(70_000);
    for first in [
        format!(r#"{{"resourceVersion":"{long}"}}"#),
        format!(r#"{{"resourceVersion":"7","continue":"{long}"}}"#),
    ] {
        let lists = AtomicUsize::new(0);
        let api = Server::start(move |request| match request_kind(request).as_str() {
            "stream" => Reply::text(422, "no streaming lists"),
            "list" => {
                let metadata = match lists.fetch_add(1, Ordering::Relaxed) {
                    0 => &*first,
                    _ => r#"{"resourceVersion":"8"}"#,
                };
                Reply::json(200, format!(r#"{{"kind":"PodList","metadata":{metadata},"items":[]}}"#))
            }
            _ => Reply::StallAfter(200, vec![("content-type", EVENTS[1].0.to_owned())], "\n".into(), 1),
        });
        let has_relisted = |live: &Live| {
            live.restarts.iter().filter(|reason| **reason == RestartReason::Garbled).count() >= 2
                && live.lists >= 1
        };
        let live = watch_until(&api.url(), |live| has_relisted(live) && live.failures.len() >= 2);
        let expected = "its continue token or resourceVersion makes no valid request";
        assert!(live.failures.iter().any(|(failure, _)| failure.contains(expected)), "{:?}", live.failures);
    }
}

/// Kind of request only.
fn request_kind(request: &Request) -> String {
    let parameters = parameters(request);
    let is = |name| parameters.contains_key(name);
    if is("sendInitialEvents") {
        "stream"
    } else if is("watch") {
        "watch"
    } else {
        "list"
    }
    .to_owned()
}
