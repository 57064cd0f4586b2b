//! Timeouts of both clients against silent peers, with shortened limits.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use agent::cluster::{self, Access, Cluster};
use agent::live::collapse::Counting;
use agent::live::live_set::LiveSet;
use agent::live::pod::PodView;
use agent::live::report::Report;
use agent::live::selection::Selection;
use client::{BaseUrl, PlainHttp, ReportBody, TokenSource};
use model::retry::Retryable;

use crate::fake::kube::{PROTOBUF, User, fixture, fixture_path, kubeconfig};
use crate::fake::{Reply, Server};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_mins(1);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Lists the pods of a fake API server.
fn list(api: &Server, timeouts: cluster::ClusterTimeouts) -> Result<(), cluster::Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig(&api.url(), None, &User::Anonymous)).unwrap();
    let access = Access { kubeconfig: Some(file.path().to_owned()), ..Access::default() };
    block_on(async {
        let cluster = Cluster::configure(access, timeouts, LONG).await.unwrap();
        cluster.list_pods(None, |_| ()).await
    })
}

const NO_TIMEOUTS: cluster::ClusterTimeouts = cluster::ClusterTimeouts {
    token_file: LONG,
    headers: LONG,
    frame: LONG,
    error_text: LONG,
    read_pause: Duration::ZERO,
};

#[test]
fn silent_api_server_times_out_before_and_during_the_response() {
    let timeouts = cluster::ClusterTimeouts { headers: SHORT, ..NO_TIMEOUTS };
    let error = list(&Server::start(|_| Reply::Stall), timeouts).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("timed out after 50ms"), "{error}");

    let timeouts = cluster::ClusterTimeouts { frame: SHORT, ..NO_TIMEOUTS };
    let stalls = |_: &_| {
        let headers = vec![("content-type", PROTOBUF.into())];
        Reply::StallAfter(200, headers, fixture("pod-list.pb").into(), 20_000)
    };
    let error = list(&Server::start(stalls), timeouts).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("timed out after 50ms"), "{error}");

    let timeouts = cluster::ClusterTimeouts { error_text: SHORT, ..NO_TIMEOUTS };
    let stalls = |_: &_| Reply::StallAfter(403, vec![], "forbidden, because".into(), 9);
    let error = list(&Server::start(stalls), timeouts).unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("403 Forbidden: forbidden"), "{error}");
}

/// Reports 1,000 copies of each recorded pod to this URL.
fn report(url: &str, timeouts: client::RequestTimeouts) -> Result<client::Accepted, client::Error> {
    let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
    let file = cluster::PodsFile::Path(fixture_path("pod-list.json"));
    let mut apply = |pod: Result<PodView, cluster::Unreadable>| {
        let pod = pod.unwrap();
        for copy in 0..1_000 {
            let mut pod = pod.clone();
            pod.name = format!("{}-{copy}", pod.name);
            live_set.apply(None, pod);
        }
    };
    file.read(&mut apply).unwrap();
    let report = Report::new(live_set.snapshot(0, vec![]));
    assert!(report.content_length() > 4 * 1024 * 1024, "must exceed the buffers of a connection");
    let setup = client::Setup {
        base_url: BaseUrl::parse(url, PlainHttp::LoopbackOnly).unwrap(),
        organization: "acme".parse().unwrap(),
        token: TokenSource::Variable("t".into()),
        ca_file: None,
        command: "test",
    };
    let client = client::Client::new(setup, timeouts).unwrap();
    block_on(client.report_k8s(&"prod".parse().unwrap(), client::IfUnknown::Reject, &report))
}

#[test]
fn stalled_upload_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let service = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.read_exact(&mut [0; 100]).unwrap();
        // Keep the connection open and unread until the client gives up.
        let _ = is_done.recv();
    });
    let timeouts = client::RequestTimeouts { stall: SHORT, ..client::RequestTimeouts::default() };
    let error = report(&url, timeouts).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("timed out after 50ms"), "{error}");
    drop(done);
    service.join().unwrap();
}

#[test]
fn upload_within_connection_buffers_does_not_count_as_stalled() {
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
        // The last part stays in the connection's buffers for longer than the stall timeout.
        let last = 256 * 1024;
        let mut rest = length.parse::<usize>().unwrap() - last;
        let mut buffer = vec![0; 64 * 1024];
        while rest > 0 {
            let size = rest.min(buffer.len());
            rest -= connection.read(&mut buffer[..size]).unwrap();
        }
        std::thread::sleep(stall * 2);
        connection.read_exact(&mut vec![0; last]).unwrap();
        connection.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    report(&url, client::RequestTimeouts { stall, response: LONG, ..client::RequestTimeouts::default() })
        .unwrap();
    service.join().unwrap();
}
