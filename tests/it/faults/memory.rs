//! A limit on the service's memory, which it has to know of: the kernel kills what goes beyond. How the agent keeps
//! within one is measured (`cargo bench --bench scale -- limited 64 100000`).

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use reqwest::multipart::Part;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::group::Group;
use crate::service::process::{self, Process};
use crate::service::{ADMIN, Database, bootstrap, eventually, folder, form};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root, which makes a control group"]
async fn a_report_that_would_take_too_much_of_the_limit_is_refused_unread() {
    let (group, database, folder) = (Group::new(200).unwrap(), Database::sqlite(), folder(&bootstrap(1, "")));
    let serve = process::command(&folder, &database.url());
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(group.file("cgroup.procs"));
    command.arg(serve.get_program()).args(serve.get_args()).env_clear().current_dir(folder.path());
    command.env("SUPERCARGO_DATABASE", database.url());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let serve = Process::run(command, folder);
    // A quarter of the limit for all that is received, of which an organization has half.
    for (megabytes, status) in [(24, "100"), (26, "413")] {
        let mut stream = TcpStream::connect(serve.base.strip_prefix("http://").unwrap()).await.unwrap();
        let head = format!(
            "PUT /api/v2/environments/acme/prod/report/K8S HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
            megabytes << 20
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{megabytes} MiB");
    }
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().0, Some(0));
    assert_eq!(group.kills(), 0);
}

/// What the chart tells the memory's allocator.
fn of_the_chart() -> &'static str {
    let chart = include_str!("../../../charts/supercargo/templates/_serve.tpl");
    let (_, value) = chart.split_once("- name: GLIBC_TUNABLES").unwrap();
    value.lines().nth(1).unwrap().trim().strip_prefix("value: ").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_leave_nothing_behind_that_would_add_up() {
    let (database, folder) = (Database::sqlite(), folder(&bootstrap(1, "")));
    let mut command = process::command(&folder, &database.url());
    command.env("GLIBC_TUNABLES", of_the_chart());
    let serve = Process::run(command, folder);
    let resident = || {
        let process = procfs::process::Process::new(serve.child.id().try_into().unwrap()).unwrap();
        (process.statm().unwrap().resident * procfs::page_size()) >> 20
    };
    let before = resident();
    let mut sent = JoinSet::new();
    for n in 0..12_u8 {
        let url = format!("{}/api/v2/attestations/acme/cart/trail/t/junit", serve.base);
        let file = Part::bytes(vec![n; 8 << 20]).file_name("a");
        let form =
            form(&json!({"attestation_name": "unit", "junit_results": []})).part("attachment_file", file);
        sent.spawn(process::client().post(url).bearer_auth(ADMIN).multipart(form).send());
    }
    for answer in sent.join_all().await {
        assert_eq!(answer.unwrap().status(), 201);
    }
    eventually("no more than two of them are left", async || resident() < before + 16).await;
}
