//! `serve` as a process: killed, started twice, and on a database that is full, read-only, newer or missing.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::task::JoinSet;

use crate::program::{Outcome, supercargo};
use crate::service::support::process::{Process, client, command, report_once, run_to_failure};
use crate::service::support::test_service::{bootstrap, eventually, folder};
use crate::service::{ADMIN, Database, READER, Response, form};

/// A new attestation of the name `unit`.
async fn attest(http: &reqwest::Client, base: &str, trail: &str) -> reqwest::Result<u16> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let data = json!({"attestation_name": "unit", "junit_results": [], "description": n});
    let url = format!("{base}/api/v2/attestations/acme/cart/trail/{trail}/junit");
    Ok(http.post(url).bearer_auth(ADMIN).multipart(form(&data)).send().await?.status().as_u16())
}

fn number(text: &str) -> usize {
    text.trim_matches('"').rsplit(' ').next().unwrap().parse().unwrap()
}

async fn trails(database: &Database) -> BTreeSet<String> {
    database.rows("SELECT name FROM trails").await.into_iter().collect()
}

async fn log_verify(base: String) -> Outcome {
    let verify = move || {
        let environment =
            [("SUPERCARGO_BASE_URL", base.as_str()), ("SUPERCARGO_ORG", "acme"), ("SUPERCARGO_TOKEN", ADMIN)];
        let program = supercargo().args(["log", "verify"]);
        environment.into_iter().fold(program, |program, (name, value)| program.env(name, value)).run()
    };
    tokio::task::spawn_blocking(verify).await.unwrap()
}

/// The number of snapshots, which must be numbered consecutively from 1.
async fn snapshots(database: &Database) -> usize {
    let numbers = database.rows("SELECT CAST(s.snapshot AS TEXT) FROM snapshots s ORDER BY s.snapshot").await;
    let expected: Vec<_> = (1..=numbers.len()).map(|n| n.to_string()).collect();
    assert_eq!(numbers, expected);
    let current = database.rows("SELECT CAST(snapshot AS TEXT) FROM environments").await;
    assert_eq!(current, [numbers.len().to_string()]);
    let open = "SELECT CAST(COUNT(*) AS TEXT) FROM artifact_runs WHERE ended_at IS NULL
                UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM pod_runs WHERE ended_at IS NULL
                UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM snapshots WHERE superseded_at IS NULL";
    assert_eq!(database.rows(open).await, ["1", "1", "1"]);
    numbers.len()
}

async fn acknowledged_writes_survive_sigkill(database: Database) {
    let counter = Arc::new(AtomicUsize::new(0));
    let (mut attested, mut reported) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..3 {
        let process = Process::start(&database.url());
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        for _ in 0..4 {
            let (http, base) = (client(), process.base.clone());
            let (counter, acknowledged) = (Arc::clone(&counter), Arc::clone(&acknowledged));
            writers.spawn(async move {
                let (mut attested, mut reported) = (Vec::new(), Vec::new());
                loop {
                    let unique = counter.fetch_add(1, Ordering::Relaxed);
                    let trail = format!("t{unique}");
                    match attest(&http, &base, &trail).await {
                        Ok(status) => assert_eq!(status, 201),
                        Err(_) => break,
                    }
                    attested.push(trail);
                    match report_once(&http, &base, unique).await {
                        Ok((status, text)) => {
                            assert_eq!(status, 201, "{text}");
                            reported.push(number(&text));
                        }
                        Err(_) => break,
                    }
                    acknowledged.fetch_add(2, Ordering::Relaxed);
                }
                (attested, reported)
            });
        }
        eventually("40 writes", async || acknowledged.load(Ordering::Relaxed) >= 40).await;
        process.signal(Signal::SIGKILL);
        while let Some(written) = writers.join_next().await {
            let (trails, numbers) = written.unwrap();
            attested.extend(trails);
            for number in numbers {
                assert!(reported.insert(number), "two reports got snapshot {number}");
            }
        }
        assert_eq!(process.wait().0, None);
    }
    let process = Process::start(&database.url());
    let url = format!("{}/api/v2/trails/acme", process.base);
    Response::from_request(client().get(url).bearer_auth(READER)).await.expect(200);
    let there = trails(&database).await;
    assert!(there.is_superset(&attested), "lost: {:?}", attested.difference(&there));
    assert!(snapshots(&database).await >= *reported.last().unwrap());
    // Each has an entry of the log.
    let verified = log_verify(process.base.clone()).await;
    verified.expect(0, &["verified "]);
    let entries = "SELECT (SELECT CAST(COUNT(*) AS TEXT) FROM attestations),
                          (SELECT CAST(COUNT(*) AS TEXT) FROM log_entries WHERE kind = 'attestation')
                   UNION ALL SELECT (SELECT CAST(COUNT(*) AS TEXT) FROM snapshots),
                                    (SELECT CAST(COUNT(*) AS TEXT) FROM log_entries WHERE kind = 'environment')";
    for counts in database.rows(entries).await {
        let (rows, entries) = counts.split_once('|').unwrap();
        assert_eq!(rows, entries);
    }
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
}

async fn two_processes_on_one_database_lose_no_write(database: Database) {
    let url = database.url();
    // Both start at the same time on an empty database.
    let starting = [url.clone(), url].map(|url| std::thread::spawn(move || Process::start(&url)));
    let processes = starting.map(|process| process.join().unwrap());
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (http, base) = (client(), processes[writer % 2].base.clone());
        writers.spawn(async move {
            let (mut attested, mut numbers) = (BTreeSet::new(), Vec::new());
            for turn in 0..15 {
                let unique = writer * 1_000 + turn;
                let trail = format!("t{unique}");
                assert_eq!(attest(&http, &base, &trail).await.unwrap(), 201);
                attested.insert(trail);
                // All writers also attest to one shared trail.
                assert_eq!(attest(&http, &base, "shared").await.unwrap(), 201);
                let (status, text) = report_once(&http, &base, unique).await.unwrap();
                assert_eq!(status, 201, "{text}");
                numbers.push(number(&text));
                let list = http.get(format!("{base}/api/v2/trails/acme?per_page=500")).bearer_auth(READER);
                let list = Response::from_request(list).await.expect(200).json();
                let names: Vec<_> =
                    list["data"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
                assert!(attested.iter().all(|name| names.contains(&name.as_str())));
            }
            (attested, numbers)
        });
    }
    let (mut attested, mut numbers) = (BTreeSet::from(["shared".to_owned()]), Vec::new());
    while let Some(written) = writers.join_next().await {
        let (trails, written) = written.unwrap();
        attested.extend(trails);
        numbers.extend(written);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=60).collect::<Vec<_>>());
    assert_eq!(snapshots(&database).await, 60);
    assert_eq!(trails(&database).await, attested);
    // Attestations of one name form a chain: one is the latest, each other is superseded by one.
    let chain = "SELECT CAST(COUNT(*) AS TEXT) FROM attestations a JOIN trails t ON t.id = a.trail
                 WHERE t.name = 'shared' AND superseded_by IS NULL
                 UNION ALL SELECT CAST(COUNT(DISTINCT overrides) AS TEXT) FROM attestations a JOIN trails t
                 ON t.id = a.trail WHERE t.name = 'shared'";
    assert_eq!(database.rows(chain).await, ["1", "59"]);
    for process in processes {
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    }
}

/// Asserts that writes get 503 and reads succeed.
async fn assert_only_reads_work(base: &str) {
    let http = client();
    let (status, text) = report_once(&http, base, 77).await.unwrap();
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("nothing was recorded"), "{text}");
    assert_eq!(attest(&http, base, "new").await.unwrap(), 503);
    for path in ["/trails/acme", "/attestations/acme/cart"] {
        let response = Response::from_request(http.get(format!("{base}/api/v2{path}")).bearer_auth(READER))
            .await
            .expect(200);
        assert_eq!(response.json()["data"].as_array().unwrap().len(), 1);
    }
}

async fn read_only_database_gives_503_for_writes_and_serves_reads(database: Database) {
    let process = Process::start(&database.url());
    let http = client();
    assert_eq!(attest(&http, &process.base, "t").await.unwrap(), 201);
    assert_eq!(report_once(&http, &process.base, 1).await.unwrap().0, 201);
    if let Database::Postgres { name, .. } = &database {
        // Simulates a standby; open connections are closed as well.
        database.execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
        let disconnect = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        database.execute(disconnect).await;
        assert_only_reads_work(&process.base).await;
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    } else {
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
        let process = read_only(&database);
        assert_only_reads_work(&process.base).await;
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    }
}

/// Starts without a bootstrap file, whose content would be written to the database.
fn read_only(database: &Database) -> Process {
    let folder = folder("");
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command
        .env_clear()
        .current_dir(folder.path())
        .env("SUPERCARGO_DATABASE", format!("{}?mode=ro", database.url()));
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Process::run(command, folder)
}

async fn full_disk_gives_503_for_writes_and_serves_reads(database: Database) {
    let http = client();
    if database.is_postgres() {
        let process = Process::start(&database.url());
        assert_eq!(attest(&http, &process.base, "t").await.unwrap(), 201);
        // SQLSTATE of PostgreSQL when a file cannot be extended.
        let trigger = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                       $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
                       CREATE TRIGGER full_disk BEFORE INSERT ON environments EXECUTE FUNCTION full_disk();
                       CREATE TRIGGER full_disk BEFORE INSERT ON trails EXECUTE FUNCTION full_disk();";
        database.execute(trigger).await;
        assert_only_reads_work(&process.base).await;
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    } else {
        // Limits the file size; the process gets an error instead of a signal.
        let folder = folder(&bootstrap(1, ""));
        let serve = command(&folder, &database.url());
        let mut limited = Command::new("bash");
        limited
            .args(["-c", "trap '' XFSZ; ulimit -S -f 1000; exec \"$@\"", "bash"])
            .arg(serve.get_program())
            .args(serve.get_args());
        limited
            .env_clear()
            .current_dir(folder.path())
            .env("SUPERCARGO_DATABASE", database.url())
            .env("PATH", std::env::var("PATH").unwrap());
        limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = Process::run(limited, folder);
        let mut attested = 0;
        let text = "x".repeat(60_000);
        let large = json!({
            "attestation_name": "unit", "junit_results": [], "description": text, "user_data": {"x": text},
        });
        let last = loop {
            let url = format!("{}/api/v2/attestations/acme/cart/trail/t{attested}/junit", process.base);
            let response =
                Response::from_request(http.post(url).bearer_auth(ADMIN).multipart(form(&large))).await;
            if response.status != 201 {
                break response;
            }
            attested += 1;
        };
        assert_eq!(last.status, 503, "{last:?}");
        assert!(last.text.contains("nothing was recorded"), "{last:?}");
        let read = http.get(format!("{}/api/v2/attestations/acme/cart", process.base)).bearer_auth(READER);
        assert_eq!(Response::from_request(read).await.expect(200).json()["pagination"]["total"], attested);
        // Writes succeed again with free space, also after a restart.
        let pid = process.child.id().to_string();
        let more = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status().unwrap();
        assert!(more.success());
        assert_eq!(attest(&http, &process.base, "with-space").await.unwrap(), 201);
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
        let process = Process::start(&database.url());
        assert_eq!(attest(&http, &process.base, "after").await.unwrap(), 201);
        assert_eq!(trails(&database).await.len(), attested + 2);
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    }
}

/// Writes to a removed file would be lost with the process, so the service rejects them.
#[tokio::test(flavor = "multi_thread")]
async fn removed_or_replaced_sqlite_file_gives_503_for_writes() {
    let database = Database::sqlite();
    let process = Process::start(&database.url());
    let http = client();
    assert_eq!(attest(&http, &process.base, "t").await.unwrap(), 201);
    let file = std::path::PathBuf::from(database.url().strip_prefix("sqlite:").unwrap());
    let aside = file.with_extension("aside");
    std::fs::rename(&file, &aside).unwrap();
    assert_eq!(attest(&http, &process.base, "lost").await.unwrap(), 503);
    assert_eq!(report_once(&http, &process.base, 1).await.unwrap().0, 503);
    std::fs::write(&file, "").unwrap();
    assert_eq!(attest(&http, &process.base, "lost").await.unwrap(), 503);
    // After the file is restored, writes succeed.
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(attest(&http, &process.base, "t2").await.unwrap(), 201);
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
    assert_eq!(trails(&database).await, ["t", "t2"].map(str::to_owned).into());
}

async fn database_of_a_newer_version_is_rejected(database: Database) {
    let process = Process::start(&database.url());
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 SELECT 9999, 'from the future', success, checksum, 0 FROM _sqlx_migrations LIMIT 1";
    database.execute(newer).await;
    let (code, stderr) = run_to_failure(&database.url(), &[]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("written by a newer supercargo") && stderr.contains("9999"), "{stderr}");
}

async fn signals_reload_the_file_and_shut_down_in_order(database: Database) {
    let process = Process::start(&database.url());
    let second = "second-0123456789abcdef012345678";
    std::fs::write(process.folder.path().join("second"), second).unwrap();
    let more = bootstrap(2, "      - {name: second, role: read, file: second}");
    std::fs::write(process.folder.path().join("bootstrap.yaml"), more).unwrap();
    process.signal(Signal::SIGHUP);
    let http = client();
    let list = || http.get(format!("{}/api/v2/trails/acme", process.base)).bearer_auth(second).send();
    eventually("the file is reloaded", async || list().await.unwrap().status() == 200).await;
    process.signal(Signal::SIGTERM);
    let (code, log) = process.wait();
    assert_eq!(code, Some(0));
    assert!(log.contains("generation 2") && log.ends_with("stopped\n"), "{log}");
    for token in [second, ADMIN, READER] {
        assert!(!log.contains(token), "{log}");
    }
}

crate::service::on_both!(
    acknowledged_writes_survive_sigkill,
    two_processes_on_one_database_lose_no_write,
    read_only_database_gives_503_for_writes_and_serves_reads,
    #[cfg(target_os = "linux")]
    full_disk_gives_503_for_writes_and_serves_reads,
    database_of_a_newer_version_is_rejected,
    signals_reload_the_file_and_shut_down_in_order,
);

#[test]
fn missing_database_exits_with_6_and_password_is_redacted() {
    let (code, stderr) = run_to_failure("postgres://u:s3cret-passw0rd@127.0.0.1:1/d", &["-vvv"]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("PostgreSQL, database d at 127.0.0.1:1"), "{stderr}");
    assert!(!stderr.contains("s3cret"), "{stderr}");
    let (code, stderr) = run_to_failure("sqlite:/nowhere/at/all.db", &[]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("/nowhere/at/all.db"), "{stderr}");
}

#[test]
fn invalid_options_exit_with_2() {
    for (args, text) in [
        (&["--database", "postgres://u:s3cret-passw0rd@h/d"][..], "SUPERCARGO_DATABASE"),
        (&["--database-read", "postgres://u:s3cret-passw0rd@h/d"], "SUPERCARGO_DATABASE_READ"),
        (&["--database-read", "postgres://u@h/d"], "SQLite has no replicas"),
        (&["--database-password-file", "password"], "SQLite has no password file"),
        (&["--database", "mysql://u@h/d"], "sqlite:FILE"),
        (&["--public-url", "ftp://h"], "--public-url"),
        (&["--public-url", "https://u:p@h"], "--public-url"),
        (&["--max-report", "99999999999"], "--max-report"),
        (&["--listen", "nowhere"], "--listen"),
        (&["--listen", "192.0.2.1:1"], "failed to listen on 192.0.2.1:1 (--listen, SUPERCARGO_LISTEN)"),
        (&["--admin-listen", "192.0.2.1:1"], "192.0.2.1:1 (--admin-listen, SUPERCARGO_ADMIN_LISTEN)"),
        (&["--bootstrap", "missing.yaml"], "missing.yaml"),
        (&["--allow-internal", "10.0.0.0/33"], "expected a network such as 10.1.0.0/16"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        serve.env_clear().current_dir(home.path()).arg("serve").args(args);
        serve.env("SUPERCARGO_LISTEN", "127.0.0.1:0").env("SUPERCARGO_ADMIN_LISTEN", "127.0.0.1:0");
        let output = serve.output().unwrap();
        let (code, stderr) = (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(text), "{args:?}: {stderr}");
        assert!(!stderr.contains("s3cret"), "{stderr}");
    }
}

#[test]
fn invalid_bootstrap_file_creates_no_database() {
    for name in ["missing.yaml", "wrong.yaml"] {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("wrong.yaml"), "organizations: oops").unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        serve.env_clear().current_dir(home.path()).args(["serve", "--bootstrap", name]);
        serve.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        assert_eq!(serve.output().unwrap().status.code(), Some(2));
        let left: Vec<_> =
            std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["wrong.yaml"]);
    }
}

#[test]
fn empty_variable_is_unset() {
    let home = tempfile::tempdir().unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    serve.env_clear().current_dir(home.path()).args(["serve", "--database", "sqlite::memory:"]);
    serve.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    for variable in ["BOOTSTRAP", "PUBLIC_URL", "TLS_CERT", "TLS_KEY", "ALLOW_INTERNAL"]
        .map(|variable| format!("SUPERCARGO_{variable}"))
    {
        serve.env(variable, "");
    }
    let output = serve.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2)
            && stderr.contains("the database has no organization: start the service with --bootstrap"),
        "{stderr}"
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn sslmode_is_honored_and_wrong_password_is_redacted() {
    let database = Database::postgres().await;
    let url = database.url();
    let tls = database.rows("SELECT setting FROM pg_settings WHERE name = 'ssl'").await == ["on"];
    let with = |mode: &str| format!("{url}{}sslmode={mode}", if url.contains('?') { '&' } else { '?' });
    // `verify-full` rejects an untrusted certificate.
    let (code, stderr) = run_to_failure(&with("verify-full"), &[]);
    assert_eq!(code, 6, "{stderr}");
    if tls {
        let process = Process::start(&with("require"));
        let encrypted = "SELECT CAST(COUNT(*) AS TEXT) FROM pg_stat_ssl s JOIN pg_stat_activity a ON a.pid = s.pid
                         WHERE a.application_name = 'supercargo' AND a.datname = current_database() AND NOT s.ssl";
        assert_eq!(database.rows(encrypted).await, ["0"]);
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    } else {
        assert_eq!(run_to_failure(&with("require"), &[]).0, 6);
    }
    let mut wrong: url::Url = url.parse().unwrap();
    wrong.set_password(Some("wr0ng-passw0rd")).unwrap();
    let wrong = wrong.to_string();
    let (_, stderr) = run_to_failure(&wrong, &["-vvv"]);
    assert!(!stderr.contains("wr0ng-passw0rd"), "{stderr}");
}
