//! Exhausted file descriptors: for connections, the database, and the token file.

use std::process::{Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use nix::sys::signal::Signal;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::{DaemonBuilder, PROD, wait_until_all_reported, wait_until_in_sync};
use crate::service::bootstrap;
use crate::service::report;
use crate::service::support::process::{self, Process};
use crate::service::{self, ADMIN, Database, READER, Response, folder};

/// Sets the limit of open files of a running process.
fn limit(pid: u32, files: &str) {
    let set =
        Command::new("prlimit").args([&format!("--nofile={files}"), "--pid", &pid.to_string()]).status();
    assert!(set.unwrap().success());
}

/// The command with a limit of open files.
fn limited(command: &Command, files: usize) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
    shell.env_clear().arg(command.get_program()).args(command.get_args());
    shell
}

/// A connection for successive requests.
struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    async fn open(address: &str) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Sends a request and returns the status.
    async fn send(&mut self, method: &str, path: &str, body: String) -> u16 {
        self.0.ready().await.unwrap();
        let request = http::Request::builder().method(method).uri(path).header("host", "x");
        let request = request.header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {ADMIN}"));
        let response = self.0.send_request(request.body(Full::from(body)).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        status
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_connections_do_not_exhaust_the_file_descriptors_of_the_database() {
    let folder = folder(&bootstrap(1, ""));
    let mut command = limited(&process::command(&folder, "sqlite:evidence.db"), 160);
    command.current_dir(folder.path()).env("SUPERCARGO_DATABASE", "sqlite:evidence.db");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let serve = Process::run(command, folder);
    let address = serve.base.strip_prefix("http://").unwrap().to_owned();
    let mut connections = Vec::new();
    for _ in 0..8 {
        let mut connection = Connection::open(&address).await;
        assert_eq!(connection.send("GET", "/ready", String::new()).await, 200);
        connections.push(connection);
    }
    let mut silent = Vec::new();
    for _ in 0..180 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    // Concurrently, so that further database files are opened.
    let mut requests = JoinSet::new();
    for (n, mut connection) in connections.into_iter().enumerate() {
        requests.spawn(async move {
            let body = report(&[service::pod("p", "i", 'a')]);
            let path = format!("/api/v2/environments/acme/prod-{n}/report/K8S?create=true");
            assert_eq!(connection.send("PUT", &path, body).await, 201);
            for _ in 0..10 {
                assert_eq!(connection.send("GET", "/api/v2/trails/acme", String::new()).await, 200);
            }
        });
    }
    requests.join_all().await;
    // Waiting connections are served when others close.
    drop(silent);
    assert_eq!(Connection::open(&address).await.send("GET", "/api/v2/trails/acme", String::new()).await, 200);
    serve.signal(Signal::SIGTERM);
    let (code, log) = serve.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("the database is not available"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_without_free_file_descriptors_logs_it_and_recovers() {
    let database = Database::sqlite();
    let serve = Process::start(&database.url());
    let request = || process::client().get(format!("{}/api/v2/trails/acme", serve.base)).bearer_auth(READER);
    Response::from_request(request()).await.expect(200);
    let pid = serve.child.id();
    limit(pid, "10:");
    let waiting = tokio::spawn(Response::from_request(request()));
    let message = "failed to accept a connection: Too many open files";
    tokio::task::block_in_place(|| serve.wait_for_line(message));
    limit(pid, "1024:");
    waiting.await.unwrap().expect(200);
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_without_free_file_descriptors_logs_it_and_loses_no_pod() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(pod("shop", "web-1").image("registry.example.com/web:1", 'a'));
    let daemon = DaemonBuilder::new(&cluster, &gate).token_file(ADMIN).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    let pid = u32::try_from(daemon.pid().as_raw()).unwrap();
    limit(pid, "3:");
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    // The watch is open, but the token file cannot be opened.
    daemon.wait_for_line("Too many open files").await;
    cluster.delete("shop", "job");
    cluster.restart();
    daemon.wait_for_line("the cluster: failed to ").await;
    cluster.add(pod("shop", "web-2").image("registry.example.com/web:1", 'a'));
    limit(pid, "1024:");
    wait_until_in_sync(&gate, &cluster, PROD).await;
    wait_until_all_reported(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[test]
fn command_with_too_few_file_descriptors_fails_with_an_exit_code() {
    for files in 3..16 {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "token-0123456789abcdef0123456789").unwrap();
        let mut list = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        list.args(["list", "trails", "--timeout", "1s", "--token-file", "token", "--org", "acme"]);
        list.args(["--base-url", "http://127.0.0.1:1"]);
        let output = limited(&list, files).current_dir(home.path()).output().unwrap();
        let (code, log) = (output.status.code(), String::from_utf8(output.stderr).unwrap());
        match code {
            // Failed during the start.
            Some(1 | 2) => assert!(log.contains("Too many open files") || files < 5, "{files}: {log}"),
            Some(6) => {}
            // The dynamic loader failed.
            Some(127) if files < 5 => {}
            other => panic!("{files}: {other:?}: {log}"),
        }
    }
}

#[test]
fn service_with_too_few_file_descriptors_fails_to_start_with_an_exit_code() {
    let folder = folder(&bootstrap(1, ""));
    let serve = process::command(&folder, "sqlite:evidence.db");
    for files in 5..16 {
        let mut command = limited(&serve, files);
        command.current_dir(folder.path()).env("SUPERCARGO_DATABASE", "sqlite:evidence.db");
        let output = command.output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        let is_explained = ["Too many open files", "unable to open"].iter().any(|text| log.contains(text));
        assert!(
            matches!(output.status.code(), Some(1 | 2 | 6)) && is_explained,
            "{files}: {:?} {log}",
            output.status
        );
    }
}
