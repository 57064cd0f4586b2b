//! A full disk: of the database, and of standard output.

use std::fs::{File, remove_file};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::fake::{Reply, Server};
use crate::service::bootstrap;
use crate::service::report;
use crate::service::support::process::{self, Process};
use crate::service::{ADMIN, Database, READER, Response, folder, form, pod};

/// Every command that writes to standard output.
#[test]
#[cfg(target_os = "linux")]
fn full_standard_output_is_an_error_with_an_exit_code() {
    let server = Server::start(|_| Reply::json(200, r#"[{"name":"t"}]"#));
    let pods = crate::fake::kube::fixture_path("pod-list.json");
    let dry_run = format!("agent --once --dry-run --environment x --pods-from {}", pods.display());
    for line in [
        "--help",
        "--version",
        "help attest",
        "attest junit --help",
        "completions bash",
        "list trails",
        "list trails -o json",
        "list trails -o yaml",
        "attest junit --flow f --trail t --name n --dry-run results.xml",
        "attest junit --flow f --trail t --name n -o json results.xml",
        &dry_run,
    ] {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(
            home.path().join("results.xml"),
            "<testsuite name=\"s\"><testcase name=\"a\"/></testsuite>",
        )
        .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        command
            .env_clear()
            .current_dir(home.path())
            .args(line.split(' '))
            .env("SUPERCARGO_BASE_URL", server.url());
        command.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", ADMIN);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdin(Stdio::null()).stdout(full).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {log}");
        assert!(log.contains("error: ") && log.contains("No space left on device"), "{line}: {log}");
    }
}

/// A file that fills a file system until it is dropped.
struct Filling(PathBuf);

impl Filling {
    fn new(volume: &Path) -> Self {
        let path = volume.join("filling");
        let _ = std::io::copy(&mut std::io::repeat(b'x'), &mut File::create(&path).unwrap());
        Self(path)
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let _ = remove_file(&self.0);
    }
}

fn start(database: &Database) -> Process {
    let folder = folder(&bootstrap(1, ""));
    Process::run(process::command(&folder, &database.url()), folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a file system of a few megabytes: SUPERCARGO_TEST_VOLUME=FOLDER"]
async fn service_with_a_full_disk_rejects_writes_until_space_is_free() {
    let volume = PathBuf::from(std::env::var_os("SUPERCARGO_TEST_VOLUME").expect("SUPERCARGO_TEST_VOLUME"));
    let database = Database::Sqlite(tempfile::tempdir_in(&volume).unwrap());
    let serve = start(&database);
    let (http, base) = (process::client(), serve.base.clone());
    let put = async |n: usize| {
        let image = ['a', 'b', 'c'][n % 3];
        let pods: Vec<_> = (0..200).map(|k| pod(&format!("p-{n}-{k}"), "i", image)).collect();
        let put = http
            .put(format!("{base}/api/v2/environments/acme/prod/report/K8S?create=true"))
            .bearer_auth(ADMIN);
        Response::from_request(put.header("Content-Type", "application/json").body(report(&pods))).await
    };
    let attest = async |trail: &str| {
        let data =
            json!({"attestation_name": "unit", "junit_results": [], "description": "x".repeat(50_000)});
        let url = format!("{base}/api/v2/attestations/acme/cart/trail/{trail}/junit");
        Response::from_request(http.post(url).bearer_auth(ADMIN).multipart(form(&data))).await
    };
    let list = || http.get(format!("{base}/api/v2/attestations/acme/cart")).bearer_auth(READER);
    put(0).await.expect(201);
    attest("first").await.expect(201);
    let filling = Filling::new(&volume);
    // The write-ahead log may still have room for some reports.
    let mut accepted = 1;
    let rejected = loop {
        let response = put(accepted).await;
        if response.status != 201 {
            break response;
        }
        accepted += 1;
    };
    for rejected in [rejected, put(accepted).await, attest("lost").await] {
        assert_eq!(rejected.status, 503, "{rejected:?}");
        assert!(rejected.headers.contains_key("retry-after"), "{rejected:?}");
        assert!(rejected.text.contains("nothing was recorded"), "{rejected:?}");
    }
    assert_eq!(Response::from_request(list()).await.expect(200).json()["pagination"]["total"], 1);
    drop(filling);
    put(accepted).await.expect(201);
    attest("second").await.expect(201);
    assert_eq!(Response::from_request(list()).await.expect(200).json()["pagination"]["total"], 2);
    serve.signal(Signal::SIGTERM);
    let (code, log) = serve.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("the database is not available: ") && log.contains("disk is full"), "{log}");

    // A start on the full disk fails. A later start finds all accepted data.
    let filling = Filling::new(&volume);
    let (code, log) = process::run_to_failure(&database.url(), &[]);
    assert_eq!(code, 6, "{log}");
    assert!(log.contains("disk is full"), "{log}");
    drop(filling);
    let serve = start(&database);
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().0, Some(0));
    assert_eq!(database.rows("PRAGMA integrity_check").await, ["ok"]);
    let snapshots = database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM snapshots").await;
    assert_eq!(snapshots, [(accepted + 1).to_string()]);
}
