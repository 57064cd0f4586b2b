//! Peers that go silent: how long they are waited for is a policy, which these tests make short.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use supercargo::api::{self, BaseUrl, PlainHttp, TokenSource};
use supercargo::cluster::{self, Access, Cluster};
use supercargo::domain::live::collapse::Counting;
use supercargo::domain::live::live_set::Roster;
use supercargo::domain::live::pod::PodView;
use supercargo::domain::live::report::Report;
use supercargo::domain::live::selection::Selection;
use supercargo::domain::retry::Retryable;

use crate::fake::kube::{PROTOBUF, User, fixture, fixture_path, kubeconfig};
use crate::fake::{Reply, Server};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_mins(1);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Lists the pods of a fake API server.
fn list(api: &Server, patience: cluster::Patience) -> Result<(), cluster::Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig(&api.url(), None, &User::Nobody)).unwrap();
    let access = Access { kubeconfig: Some(file.path().to_owned()), context: None };
    block_on(async {
        let cluster = Cluster::configure(access, patience, LONG).await.unwrap();
        cluster.list_pods(None, |_| ()).await
    })
}

const PATIENT: cluster::Patience =
    cluster::Patience { headers: LONG, frame: LONG, error_text: LONG, read_pause: Duration::ZERO };

#[test]
fn an_api_server_that_is_silent_before_or_amid_its_answer_is_given_up() {
    let patience = cluster::Patience { headers: SHORT, ..PATIENT };
    let error = list(&Server::start(|_| Reply::Stall), patience).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("was met with silence for 50ms"), "{error}");

    let patience = cluster::Patience { frame: SHORT, ..PATIENT };
    let stalls = |_: &_| {
        let headers = vec![("content-type", PROTOBUF.into())];
        Reply::StallAfter(200, headers, fixture("pod-list.pb").into(), 20_000)
    };
    let error = list(&Server::start(stalls), patience).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("was met with silence for 50ms"), "{error}");

    let patience = cluster::Patience { error_text: SHORT, ..PATIENT };
    let stalls = |_: &_| Reply::StallAfter(403, vec![], "forbidden, because".into(), 9);
    let error = list(&Server::start(stalls), patience).unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("403 Forbidden: forbidden"), "{error}");
}

/// Reports the recorded pods, each a thousand times, to this URL.
fn report(url: &str, patience: api::Patience) -> Result<api::Accepted, api::Error> {
    let mut roster = Roster::new(vec![Selection::default()], Counting::All);
    let file = cluster::PodsFile::Path(fixture_path("pod-list.json"));
    let mut take = |pod: Result<PodView, cluster::Unreadable>| {
        let pod = pod.unwrap();
        for copy in 0..1_000 {
            let mut pod = pod.clone();
            pod.name = format!("{}-{copy}", pod.name);
            roster.apply(None, pod);
        }
    };
    file.read(&mut take).unwrap();
    let report = Report::new(roster.snapshot(0, vec![]));
    assert!(report.content_length() > 4 * 1024 * 1024, "more than the buffers of a connection hold");
    let setup = api::Setup {
        base_url: BaseUrl::parse(url, PlainHttp::LoopbackOnly).unwrap(),
        organization: "acme".parse().unwrap(),
        token: TokenSource::Variable("t".into()),
        ca_file: None,
    };
    let client = api::Client::new(setup, patience).unwrap();
    block_on(client.report_k8s(&"prod".parse().unwrap(), &report))
}

#[test]
fn an_upload_that_the_service_stops_reading_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let service = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.read_exact(&mut [0; 100]).unwrap();
        // Open, and unread, until the other side has given up.
        let _ = is_done.recv();
    });
    let patience = api::Patience { stall: SHORT, ..api::Patience::default() };
    let error = report(&url, patience).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("did not move for 50ms"), "{error}");
    drop(done);
    service.join().unwrap();
}

#[test]
fn an_upload_that_is_in_buffers_has_its_time_although_nothing_is_seen_to_move() {
    let stall = Duration::from_millis(300);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        // The last of it lies in the connection's buffers for longer than an upload may stand still.
        let last = 256 * 1024;
        let mut rest = length.parse::<usize>().unwrap() - last;
        let mut buffer = vec![0; 64 * 1024];
        while rest > 0 {
            let at_most = rest.min(buffer.len());
            rest -= connection.read(&mut buffer[..at_most]).unwrap();
        }
        std::thread::sleep(stall * 2);
        connection.read_exact(&mut vec![0; last]).unwrap();
        connection.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    report(&url, api::Patience { stall, answer: LONG, ..api::Patience::default() }).unwrap();
    service.join().unwrap();
}
