//! Memory limits of the service, which the kernel enforces by killing it.

use std::process::{Command, Stdio};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use reqwest::multipart::Part;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::faults::control_group::ControlGroup;
use crate::service::bootstrap;
use crate::service::support::process::{self, Process};
use crate::service::{ADMIN, Database, eventually, folder, form};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root, which makes a control group"]
async fn report_beyond_its_share_of_the_memory_limit_is_rejected_unread() {
    let (group, database, folder) =
        (ControlGroup::new(200).unwrap(), Database::sqlite(), folder(&bootstrap(1, "")));
    let serve = process::command(&folder, &database.url());
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(group.file("cgroup.procs"));
    command.arg(serve.get_program()).args(serve.get_args()).env_clear().current_dir(folder.path());
    command.env("SUPERCARGO_DATABASE", database.url());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let serve = Process::run(command, folder);
    // A quarter of the limit is for requests, and an organization may use half of that.
    for (megabytes, status) in [(24, "100"), (26, "413")] {
        let mut stream = TcpStream::connect(serve.base.strip_prefix("http://").unwrap()).await.unwrap();
        let head = format!(
            "PUT /api/v2/environments/acme/prod/report/K8S HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
            megabytes << 20
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = [0; 12];
        stream.read_exact(&mut response).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&response), format!("HTTP/1.1 {status}"), "{megabytes} MiB");
    }
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().0, Some(0));
    assert_eq!(group.kills(), 0);
}

/// The allocator settings of the chart.
fn chart_tunables() -> &'static str {
    let chart = include_str!("../../../charts/supercargo/templates/_serve.tpl");
    let (_, value) = chart.split_once("- name: GLIBC_TUNABLES").unwrap();
    value.lines().nth(1).unwrap().trim().strip_prefix("value: ").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_large_bodies_is_released() {
    let (database, folder) = (Database::sqlite(), folder(&bootstrap(1, "")));
    let mut command = process::command(&folder, &database.url());
    command.env("GLIBC_TUNABLES", chart_tunables());
    let serve = Process::run(command, folder);
    // In MiB. Without the pages of the program, which the kernel maps as code runs.
    let anonymous = || {
        let process = procfs::process::Process::new(serve.child.id().try_into().unwrap()).unwrap();
        process.status().unwrap().rssanon.unwrap() >> 10
    };
    let upload = |n: u8| {
        let url = format!("{}/api/v2/attestations/acme/cart/trail/t/junit", serve.base);
        let file = Part::bytes(vec![n; 8 << 20]).file_name("a");
        let form =
            form(&json!({"attestation_name": "unit", "junit_results": []})).part("attachment_file", file);
        process::client().post(url).bearer_auth(ADMIN).multipart(form).send()
    };
    // The disk may be too slow for the last of many.
    let upload = async |n: u8| {
        eventually("the file is stored", async || upload(n).await.unwrap().status() == 201).await;
    };
    // Fills the page cache of the database.
    upload(0).await;
    let before = anonymous();
    join_all((1..=12).map(upload)).await;
    eventually("the memory of all bodies is released", async || anonymous() < before + 8).await;
}
