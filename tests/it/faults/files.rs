//! Too few open files: for connections, for the database, for the token.

use std::process::{Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use nix::sys::signal::Signal;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::Gate;
use crate::daemon::{PROD, Starting, every_pod_was_reported, holds_what_the_cluster_holds};
use crate::service::process::{self, Process};
use crate::service::{self, ADMIN, Answer, Database, READER, bootstrap, folder, report};

/// Lets a process have so many open files at most.
fn limit(pid: u32, files: &str) {
    let set =
        Command::new("prlimit").args([&format!("--nofile={files}"), "--pid", &pid.to_string()]).status();
    assert!(set.unwrap().success());
}

/// What its shell calls a limit, in a process that starts.
fn limited(command: &Command, files: usize) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
    shell.env_clear().arg(command.get_program()).args(command.get_args());
    shell
}

/// One connection, which requests go over one after the other.
struct Connected(SendRequest<Full<Bytes>>);

impl Connected {
    async fn to(address: &str) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// The answer's status.
    async fn send(&mut self, method: &str, path: &str, body: String) -> u16 {
        self.0.ready().await.unwrap();
        let request = http::Request::builder().method(method).uri(path).header("host", "x");
        let request = request.header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {ADMIN}"));
        let answer = self.0.send_request(request.body(Full::from(body)).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        answer.into_body().collect().await.unwrap();
        status
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_connects_does_not_keep_the_service_from_its_database() {
    let folder = folder(&bootstrap(1, ""));
    let mut command = limited(&process::command(&folder, "sqlite:evidence.db"), 160);
    command.current_dir(folder.path()).env("SUPERCARGO_DATABASE", "sqlite:evidence.db");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let serve = Process::run(command, folder);
    let address = serve.base.strip_prefix("http://").unwrap().to_owned();
    let mut connected = Vec::new();
    for _ in 0..8 {
        connected.push(Connected::to(&address).await);
    }
    let mut silent = Vec::new();
    for _ in 0..180 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    // At once, so that the database's files are opened that were not needed yet.
    let mut asking = JoinSet::new();
    for (n, mut connected) in connected.into_iter().enumerate() {
        asking.spawn(async move {
            let body = report(&[service::pod("p", "i", 'a')]);
            let path = format!("/api/v2/environments/acme/prod-{n}/report/K8S");
            assert_eq!(connected.send("PUT", &path, body).await, 201);
            for _ in 0..10 {
                assert_eq!(connected.send("GET", "/api/v2/trails/acme", String::new()).await, 200);
            }
        });
    }
    asking.join_all().await;
    // Whoever waited in line is served when others go.
    drop(silent);
    assert_eq!(Connected::to(&address).await.send("GET", "/api/v2/trails/acme", String::new()).await, 200);
    serve.signal(Signal::SIGTERM);
    let (code, said) = serve.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("the database is not available"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_without_a_free_file_says_so_and_goes_on_when_there_are_some() {
    let database = Database::sqlite();
    let serve = Process::start(&database.url());
    let ask = || process::client().get(format!("{}/api/v2/trails/acme", serve.base)).bearer_auth(READER);
    Answer::of(ask()).await.expect(200);
    let pid = serve.child.id();
    limit(pid, "10:");
    let waiting = tokio::spawn(Answer::of(ask()));
    let words = "no connection could be accepted: Too many open files";
    tokio::task::block_in_place(|| serve.says(words));
    limit(pid, "1024:");
    waiting.await.unwrap().expect(200);
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_a_free_file_says_so_and_loses_nothing() {
    let (cluster, gate) = (Cluster::start(), Gate::alone());
    cluster.add(pod("shop", "web-1").image("registry.example.com/web:1", 'a'));
    let daemon = Starting::between(&cluster, &gate).token_file(ADMIN).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    let pid = u32::try_from(daemon.pid().as_raw()).unwrap();
    limit(pid, "3:");
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    // The watch is there; the token's file is not.
    daemon.says("Too many open files").await;
    cluster.delete("shop", "job");
    cluster.restart();
    daemon.says("the cluster: GET").await;
    cluster.add(pod("shop", "web-2").image("registry.example.com/web:1", 'a'));
    limit(pid, "1024:");
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    every_pod_was_reported(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[test]
fn a_command_that_may_open_too_few_files_says_so_and_has_an_exit_code() {
    for files in 3..16 {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "token-0123456789abcdef0123456789").unwrap();
        let mut list = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        list.args(["list", "trails", "--timeout", "1s", "--token-file", "token", "--org", "acme"]);
        list.args(["--base-url", "http://127.0.0.1:1"]);
        let output = limited(&list, files).current_dir(home.path()).output().unwrap();
        let (code, said) = (output.status.code(), String::from_utf8(output.stderr).unwrap());
        match code {
            // Before it could begin.
            Some(1 | 2) => assert!(said.contains("Too many open files") || files < 5, "{files}: {said}"),
            Some(6) => {}
            // The loader of shared libraries, which is not us.
            Some(127) if files < 5 => {}
            other => panic!("{files}: {other:?}: {said}"),
        }
    }
}

#[test]
fn a_service_that_may_open_too_few_files_to_begin_says_so_and_has_an_exit_code() {
    let folder = folder(&bootstrap(1, ""));
    let serve = process::command(&folder, "sqlite:evidence.db");
    for files in 5..16 {
        let mut command = limited(&serve, files);
        command.current_dir(folder.path()).env("SUPERCARGO_DATABASE", "sqlite:evidence.db");
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let is_said = ["Too many open files", "unable to open"].iter().any(|words| said.contains(words));
        assert!(
            matches!(output.status.code(), Some(1 | 2 | 6)) && is_said,
            "{files}: {:?} {said}",
            output.status
        );
    }
}
