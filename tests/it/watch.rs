//! The watch against an API server that answers with recorded bytes, and against answers that only a real connection
//! can show. `domain::watch` tests the reaction to each failure; `daemon` tests that no pod is lost by one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use supercargo::cluster::{Access, Cluster, EventType, Heard, Patience};
use supercargo::domain::live::pod::PodView;
use supercargo::domain::live::watch::{Policy, Restart};
use supercargo::domain::retry::Backoff;
use tokio::sync::Notify;

use crate::fake::kube::{PROTOBUF, User, fixture, kubeconfig, page_of, parameters, protobuf};
use crate::fake::{Reply, Seen, Server};

const LONG: Duration = Duration::from_mins(1);

/// What a listener keeps.
#[derive(Default)]
struct Live {
    pods: BTreeMap<String, PodView>,
    seen: BTreeSet<String>,
    lists: usize,
    events: Vec<EventType>,
    restarts: Vec<Restart>,
    failures: Vec<(String, Option<String>)>,
    has_contact: bool,
    settled: usize,
}

impl Live {
    fn hear(&mut self, heard: Heard) {
        let name = |pod: &PodView| format!("{}/{}", pod.namespace, pod.name);
        match heard {
            Heard::Begin => self.seen.clear(),
            Heard::Pod(pod) => {
                let pod = pod.unwrap();
                self.seen.insert(name(&pod));
                self.pods.insert(name(&pod), pod);
            }
            Heard::Gone(pod) => assert!(self.pods.remove(&name(&pod)).is_some(), "{pod:?}"),
            Heard::GoneByName(pod) => panic!("{pod:?}"),
            Heard::Complete => {
                self.pods.retain(|name, _| self.seen.contains(name));
                self.lists += 1;
            }
            Heard::Contact(_) => self.has_contact = true,
            Heard::Event(event) => self.events.push(event),
            Heard::Restart(why) => self.restarts.push(why),
            Heard::Failed { error, .. } => self.failures.push((error.to_string(), error.hint())),
            Heard::State(_) => {}
            Heard::Settled => self.settled += 1,
        }
    }

    fn names(&self) -> Vec<&str> {
        self.pods.keys().map(String::as_str).collect()
    }
}

/// Watches all pods until what was heard is enough.
fn watch_until(url: &str, is_enough: impl Fn(&Live) -> bool) -> Live {
    watch_with(Patience::default(), url, is_enough)
}

fn watch_with(patience: Patience, url: &str, is_enough: impl Fn(&Live) -> bool) -> Live {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig(url, None, &User::Nobody)).unwrap();
    let access = Access { kubeconfig: Some(file.path().to_owned()), context: None };
    let millis = Duration::from_millis;
    let backoff = Backoff { first: millis(1), most: millis(5), most_asked: millis(5) };
    let policy = Policy { backoff, ..Policy::default() };
    let mut live = Live::default();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let cluster = Cluster::configure(access, patience, LONG).await.unwrap();
        let enough = Notify::new();
        let watch = cluster.watch_pods(None, policy, 7, |heard| {
            // A listener looks at the set when all that came was told.
            let is_settled = matches!(heard, Heard::Settled);
            live.hear(heard);
            if is_settled && is_enough(&live) {
                enough.notify_one();
            }
        });
        let stopped = async {
            tokio::select! {
                never = watch => match never {},
                () = enough.notified() => {}
            }
        };
        tokio::time::timeout(LONG, stopped).await.expect("enough is heard in a minute");
    });
    live
}

const EVENTS: [(&str, &str); 2] =
    [("application/vnd.kubernetes.protobuf;stream=watch", "pb"), ("application/json", "ndjson")];

/// A stream that was recorded, and stays open.
fn stream((content_type, extension): (&str, &str), name: &str) -> Reply {
    let body = fixture(&format!("{name}.{extension}"));
    let end = body.len();
    Reply::StallAfter(200, vec![("content-type", content_type.to_owned())], body.into(), end)
}

/// What a request is.
fn asked(seen: &Seen) -> String {
    let parameters = parameters(seen);
    if parameters.contains_key("sendInitialEvents") {
        return "stream".into();
    }
    match (parameters.get("resourceVersion"), parameters.get("limit")) {
        (Some(from), _) => format!("watch from {from}"),
        (None, Some(_)) => format!("page {}", page_of(seen)),
        (None, None) => "whole".into(),
    }
}

#[test]
fn a_recorded_streaming_list_and_the_watch_behind_it_give_the_pods_in_both_encodings() {
    let mut sets = Vec::new();
    for encoding in EVENTS {
        let api = Server::start(move |seen| match asked(seen).as_str() {
            "stream" => {
                let Reply::StallAfter(status, headers, body, _) = stream(encoding, "watch-streaming-list")
                else {
                    unreachable!()
                };
                Reply::Answer(status, headers, body)
            }
            "watch from 301" => stream(encoding, "watch"),
            other => panic!("{other}"),
        });
        let live = watch_until(&api.url(), |live| live.events.len() == 44);
        assert_eq!((live.lists, live.pods.len(), live.has_contact), (1, 27, true));
        assert!(
            live.pods.contains_key("zoo/web-9e2f-uvwxy") && !live.pods.contains_key("zoo/web-8d1e-qrstu")
        );
        assert!(live.settled < live.events.len(), "{} times", live.settled);
        assert_eq!((live.restarts, live.failures.len()), (vec![Restart::Ended], 1));
        assert!(live.failures[0].0.contains("ended and brought nothing new"), "{:?}", live.failures);

        let seen = api.seen();
        assert_eq!(seen.iter().map(asked).collect::<Vec<_>>(), ["stream", "watch from 301"]);
        for request in &seen {
            let parameters = parameters(request);
            assert_eq!(
                (parameters["watch"].as_str(), parameters["allowWatchBookmarks"].as_str()),
                ("1", "true")
            );
            assert!((240..=300).contains(&parameters["timeoutSeconds"].parse::<u32>().unwrap()));
            assert!(request.headers["accept"].to_str().unwrap().starts_with(EVENTS[0].0));
        }
        let list = parameters(&seen[0]);
        assert_eq!(list["resourceVersionMatch"], "NotOlderThan");
        assert!(!list.contains_key("resourceVersion"), "a list must be consistent");
        sets.push(live.pods);
    }
    assert_eq!(sets[0], sets[1]);
}

#[test]
fn a_list_without_the_right_to_watch_says_which_verb_is_missing() {
    let api = Server::start(|seen| match asked(seen).as_str() {
        "page 1" => protobuf(200, fixture("pod-list.pb")),
        "stream" => protobuf(422, fixture("status-422-streaming-list.pb")),
        _ => protobuf(403, fixture("status-403.pb")),
    });
    let live = watch_until(&api.url(), |live| live.failures.len() >= 3);
    assert_eq!(live.lists, 1);
    for (error, hint) in &live.failures[1..] {
        assert!(
            error.contains("(watch pods at the cluster scope) was answered with 403 Forbidden"),
            "{error}"
        );
        assert!(
            hint.as_ref().unwrap().starts_with("grant \"watch\" on \"pods\" by a ClusterRole"),
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
fn an_answer_that_is_given_up_is_closed_and_not_read_to_an_end_that_it_may_not_have() {
    const ENDLESS: usize = 512 * 1024 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        read_request(&mut connection);
        write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: {PROTOBUF};stream=watch\r\n\r\n").unwrap();
        // No event is as long as this says: the stream is given up, and the list read in another way.
        let chunk = vec![0xff; 64 * 1024];
        let written = (0..ENDLESS / chunk.len()).take_while(|_| connection.write_all(&chunk).is_ok()).count();
        // Only then the next request is answered, if the stream is still open or not.
        let (mut next, _) = listener.accept().unwrap();
        read_request(&mut next);
        write!(next, "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        written * chunk.len()
    });
    let live = watch_until(&url, |live| live.restarts.len() >= 2);
    assert_eq!(live.restarts[..2], [Restart::Garbled, Restart::Refused]);
    assert!(server.join().unwrap() < ENDLESS, "it was read to its end");
}

#[test]
fn events_that_have_come_are_read_together_although_each_is_a_chunk_of_its_own() {
    const EVENTS: usize = 1000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let list = fixture("watch-streaming-list.pb");
    let watch = fixture("watch.pb");
    let length = 4 + u32::from_be_bytes(*watch.first_chunk().unwrap()) as usize;
    // As an API server does, which flushes after each.
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {PROTOBUF};stream=watch\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for chunk in std::iter::once(list.as_slice()).chain(std::iter::repeat_n(&watch[..length], EVENTS)) {
        write!(answer, "{:x}\r\n", chunk.len()).unwrap();
        answer.extend_from_slice(chunk);
        answer.extend_from_slice(b"\r\n");
    }
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        read_request(&mut connection);
        connection.write_all(&answer).unwrap();
        connection
    });
    let live = watch_until(&url, |live| live.events.len() >= EVENTS);
    assert_eq!(live.lists, 1);
    // Whoever hears that looks at the whole set.
    assert!(live.settled < EVENTS / 10, "{} times", live.settled);
    drop(server.join().unwrap());
}

#[test]
fn expired_watch_is_relisted_and_missing_pods_are_removed() {
    let lists = AtomicUsize::new(0);
    let api = Server::start(move |seen| match asked(seen).as_str() {
        "stream" => protobuf(422, fixture("status-422-streaming-list.pb")),
        "watch from 301" => stream(EVENTS[0], "watch-410"),
        // The first list has a page more than the second.
        "page 3" if lists.fetch_add(1, Ordering::Relaxed) > 0 => {
            protobuf(200, crate::fake::pods::list([], ""))
        }
        _ => protobuf(200, fixture(&format!("pod-list-page-{}.pb", page_of(seen)))),
    });
    let first = watch_until(&api.url(), |live| live.lists == 1);
    let api_names: Vec<_> = first.names().into_iter().map(str::to_owned).collect();
    assert_eq!(api_names.len(), 26);

    let live = watch_until(&api.url(), |live| live.lists >= 2);
    assert_eq!(live.names(), &api_names[..20]);
    assert!(live.restarts.starts_with(&[Restart::Refused, Restart::Expired]), "{:?}", live.restarts);
    assert!(live.failures[1].0.contains("410 Gone: too old resource version"), "{:?}", live.failures);
}

#[test]
fn cut_stream_resumes_after_the_last_whole_event() {
    let tries = AtomicUsize::new(0);
    let api = Server::start(move |seen| match asked(seen).as_str() {
        "stream" => {
            let headers = vec![("content-type", EVENTS[0].0.to_owned())];
            Reply::Answer(200, headers, fixture("watch-streaming-list.pb").into())
        }
        "watch from 301" if tries.fetch_add(1, Ordering::Relaxed) == 0 => {
            let mut body = fixture("watch.pb");
            body.truncate(body.len() - 10);
            Reply::Answer(200, vec![("content-type", EVENTS[0].0.to_owned())], body.into())
        }
        _ => stream(EVENTS[0], "watch-410"),
    });
    let live = watch_until(&api.url(), |live| live.restarts.contains(&Restart::Expired));
    assert_eq!(live.restarts[..2], [Restart::Ended, Restart::BrokenOff]);
    assert!(live.failures[1].0.contains("broke off"), "{:?}", live.failures);
    assert_eq!(asked(&api.seen()[2]), "watch from 337");
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
            // Apart, so that without a pause each would be read alone.
            std::thread::sleep(Duration::from_millis(2));
            connection.write_all(&event).unwrap();
        }
        connection
    });
    let patience = Patience { read_pause: Duration::from_secs(1), ..Patience::default() };
    let live = watch_with(patience, &url, |live| live.events.len() >= EVENTS);
    assert_eq!(live.lists, 1);
    assert!(live.settled < EVENTS / 5, "{} times", live.settled);
    drop(server.join().unwrap());
}

#[test]
fn a_watch_that_is_never_at_rest_tells_all_the_same_that_it_was_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let list = fixture("watch-streaming-list.pb");
    let watch = fixture("watch.pb");
    let length = 4 + u32::from_be_bytes(*watch.first_chunk().unwrap()) as usize;
    // More than can be read before the next has come.
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
fn a_list_that_leads_nowhere_is_said_to() {
    for (metadata, next, says) in [
        (r#"{"resourceVersion":""}"#, "", "the list has no resourceVersion"),
        (r#"{"resourceVersion":"7","continue":"a"}"#, "continue=a", "its continue token leads to itself"),
    ] {
        let api = Server::start(move |seen| {
            if seen.query.contains("watch=1") {
                Reply::text(422, "no streaming lists")
            } else {
                Reply::json(200, format!(r#"{{"kind":"PodList","metadata":{metadata},"items":[]}}"#))
            }
        });
        let live = watch_until(&api.url(), |live| live.restarts.contains(&Restart::Garbled));
        assert_eq!(live.lists, 0);
        assert!(live.failures.iter().any(|(failure, _)| failure.contains(says)), "{:?}", live.failures);
        assert!(api.seen().iter().any(|seen| seen.query.contains(next)));
    }
}

#[test]
fn a_version_or_a_token_that_is_longer_than_a_url_can_be_leads_to_another_list() {
    let long = "9".repeat(70_000);
    for first in [
        format!(r#"{{"resourceVersion":"{long}"}}"#),
        format!(r#"{{"resourceVersion":"7","continue":"{long}"}}"#),
    ] {
        let lists = AtomicUsize::new(0);
        let api = Server::start(move |seen| match asked_of_pages(seen).as_str() {
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
        let led_on = |live: &Live| {
            live.restarts.iter().filter(|why| **why == Restart::Garbled).count() >= 2 && live.lists >= 1
        };
        let live = watch_until(&api.url(), |live| led_on(live) && live.failures.len() >= 2);
        let says = "what it said to go on from makes no request";
        assert!(live.failures.iter().any(|(failure, _)| failure.contains(says)), "{:?}", live.failures);
    }
}

/// What a request is, whatever its version and token.
fn asked_of_pages(seen: &Seen) -> String {
    let parameters = parameters(seen);
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
