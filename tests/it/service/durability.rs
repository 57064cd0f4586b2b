//! The program as a process: killed, started twice, on a database that is full, read-only, newer or
//! not there.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::task::JoinSet;

use super::process::{Process, client, command, fails, report_once};
use super::running::{bootstrap, eventually, folder};
use super::{ADMIN, Answer, Database, READER, form};

async fn attest(http: &reqwest::Client, base: &str, trail: &str) -> reqwest::Result<u16> {
    let data = json!({"attestation_name": "unit", "junit_results": []});
    let url = format!("{base}/api/v2/attestations/acme/cart/trail/{trail}/junit");
    Ok(http.post(url).bearer_auth(ADMIN).multipart(form(&data)).send().await?.status().as_u16())
}

fn number(text: &str) -> usize {
    text.trim_matches('"').rsplit(' ').next().unwrap().parse().unwrap()
}

async fn trails(database: &Database) -> BTreeSet<String> {
    database.rows("SELECT name FROM trails").await.into_iter().collect()
}

/// The numbers of snapshots, which have to be 1, 2, 3 and so on.
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

async fn what_was_acknowledged_is_there_after_kill_9(database: Database) {
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
                assert!(reported.insert(number), "two reports were answered with snapshot {number}");
            }
        }
        assert_eq!(process.wait().0, None);
    }
    let process = Process::start(&database.url());
    let url = format!("{}/api/v2/trails/acme", process.base);
    Answer::of(client().get(url).bearer_auth(READER)).await.expect(200);
    let there = trails(&database).await;
    assert!(there.is_superset(&attested), "{:?} are lost", attested.difference(&there));
    assert!(snapshots(&database).await >= *reported.last().unwrap());
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
}

async fn two_processes_on_one_database_lose_nothing_and_leave_no_hole(database: Database) {
    let url = database.url();
    // They start at once, on a database that has no schema yet.
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
                // The same trail from all of them, too.
                assert_eq!(attest(&http, &base, "shared").await.unwrap(), 201);
                let (status, text) = report_once(&http, &base, unique).await.unwrap();
                assert_eq!(status, 201, "{text}");
                numbers.push(number(&text));
                let list = http.get(format!("{base}/api/v2/trails/acme?per_page=500")).bearer_auth(READER);
                let list = Answer::of(list).await.expect(200).json();
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
    // Of the attestations of one name, one is the latest and each other has one after it.
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

/// A database that takes no writes answers 503, and reads go on.
async fn only_reads_go_on(base: &str) {
    let http = client();
    let (status, text) = report_once(&http, base, 77).await.unwrap();
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("nothing was recorded"), "{text}");
    assert_eq!(attest(&http, base, "new").await.unwrap(), 503);
    for path in ["/trails/acme", "/attestations/acme/cart"] {
        let answer =
            Answer::of(http.get(format!("{base}/api/v2{path}")).bearer_auth(READER)).await.expect(200);
        assert_eq!(answer.json()["data"].as_array().unwrap().len(), 1);
    }
}

async fn a_read_only_database_is_503_for_writes_and_reads_go_on(database: Database) {
    let process = Process::start(&database.url());
    let http = client();
    assert_eq!(attest(&http, &process.base, "t").await.unwrap(), 201);
    assert_eq!(report_once(&http, &process.base, 1).await.unwrap().0, 201);
    if let Database::Postgres { name, .. } = &database {
        // As on a standby, or in maintenance; the connections that are open are cut, too.
        database.execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        database.execute(cut).await;
        only_reads_go_on(&process.base).await;
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    } else {
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
        let process = read_only(&database);
        only_reads_go_on(&process.base).await;
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    }
}

/// Without a bootstrap file, which would have to be written down.
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

async fn a_full_disk_is_503_for_writes_and_reads_go_on(database: Database) {
    let http = client();
    if database.is_postgres() {
        let process = Process::start(&database.url());
        assert_eq!(attest(&http, &process.base, "t").await.unwrap(), 201);
        // What PostgreSQL says when it cannot extend a file.
        let trigger = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                       $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
                       CREATE TRIGGER full_disk BEFORE INSERT ON environments EXECUTE FUNCTION full_disk();
                       CREATE TRIGGER full_disk BEFORE INSERT ON trails EXECUTE FUNCTION full_disk();";
        database.execute(trigger).await;
        only_reads_go_on(&process.base).await;
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    } else {
        // No file of the process may grow past a limit, and that is no signal but an error.
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
            let answer = Answer::of(http.post(url).bearer_auth(ADMIN).multipart(form(&large))).await;
            if answer.status != 201 {
                break answer;
            }
            attested += 1;
        };
        assert_eq!(last.status, 503, "{last:?}");
        assert!(last.text.contains("nothing was recorded"), "{last:?}");
        let read = http.get(format!("{}/api/v2/attestations/acme/cart", process.base)).bearer_auth(READER);
        assert_eq!(Answer::of(read).await.expect(200).json()["pagination"]["total"], attested);
        // With room again, it goes on, and so does one that starts then.
        let pid = process.child.id().to_string();
        let more = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status().unwrap();
        assert!(more.success());
        assert_eq!(attest(&http, &process.base, "with-room").await.unwrap(), 201);
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
        let process = Process::start(&database.url());
        assert_eq!(attest(&http, &process.base, "after").await.unwrap(), 201);
        assert_eq!(trails(&database).await.len(), attested + 2);
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    }
}

/// What is written to a file that was removed is gone with the process, so nothing more is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_sqlite_file_that_was_removed_or_replaced_takes_nothing_more() {
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
    // Put back, it goes on.
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(attest(&http, &process.base, "t2").await.unwrap(), 201);
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
    assert_eq!(trails(&database).await, ["t", "t2"].map(str::to_owned).into());
}

async fn a_database_of_a_newer_version_is_refused(database: Database) {
    let process = Process::start(&database.url());
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 SELECT 9999, 'from the future', success, checksum, 0 FROM _sqlx_migrations LIMIT 1";
    database.execute(newer).await;
    let (code, said) = fails(&database.url(), &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("written by a newer supercargo") && said.contains("9999"), "{said}");
}

async fn signals_end_it_in_order_and_reload_its_file(database: Database) {
    let process = Process::start(&database.url());
    let second = "second-0123456789abcdef012345678";
    std::fs::write(process.folder.path().join("second"), second).unwrap();
    let more = bootstrap(2, "      - {name: second, role: read, file: second}");
    std::fs::write(process.folder.path().join("bootstrap.yaml"), more).unwrap();
    process.signal(Signal::SIGHUP);
    let http = client();
    let list = || http.get(format!("{}/api/v2/trails/acme", process.base)).bearer_auth(second).send();
    eventually("the file is read again", async || list().await.unwrap().status() == 200).await;
    process.signal(Signal::SIGTERM);
    let (code, said) = process.wait();
    assert_eq!(code, Some(0));
    assert!(said.contains("generation 2") && said.ends_with("stopped\n"), "{said}");
    for token in [second, ADMIN, READER] {
        assert!(!said.contains(token), "{said}");
    }
}

super::on_both!(
    what_was_acknowledged_is_there_after_kill_9,
    two_processes_on_one_database_lose_nothing_and_leave_no_hole,
    a_read_only_database_is_503_for_writes_and_reads_go_on,
    a_full_disk_is_503_for_writes_and_reads_go_on,
    a_database_of_a_newer_version_is_refused,
    signals_end_it_in_order_and_reload_its_file,
);

#[test]
fn a_database_that_is_not_there_is_exit_6_and_a_password_is_never_said() {
    let (code, said) = fails("postgres://u:s3cret-passw0rd@127.0.0.1:1/d", &["-vvv"]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("PostgreSQL, database d at 127.0.0.1:1"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
    let (code, said) = fails("sqlite:/nowhere/at/all.db", &[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("/nowhere/at/all.db"), "{said}");
}

#[test]
fn options_that_cannot_be_used_are_exit_2() {
    for (args, words) in [
        (&["--database", "postgres://u:s3cret-passw0rd@h/d"][..], "SUPERCARGO_DATABASE"),
        (&["--database", "mysql://u@h/d"], "sqlite:FILE"),
        (&["--public-url", "ftp://h"], "--public-url"),
        (&["--public-url", "https://u:p@h"], "--public-url"),
        (&["--max-report", "99999999999"], "--max-report"),
        (&["--listen", "nowhere"], "--listen"),
        (&["--listen", "192.0.2.1:1"], "cannot listen on 192.0.2.1:1 (--listen, SUPERCARGO_LISTEN)"),
        (&["--admin-listen", "192.0.2.1:1"], "192.0.2.1:1 (--admin-listen, SUPERCARGO_ADMIN_LISTEN)"),
        (&["--bootstrap", "missing.yaml"], "missing.yaml"),
        (&["--allow-internal", "10.0.0.0/33"], "a network as 10.1.0.0/16"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_supercargo"));
        serve.env_clear().current_dir(home.path()).arg("serve").args(args);
        serve.env("SUPERCARGO_LISTEN", "127.0.0.1:0").env("SUPERCARGO_ADMIN_LISTEN", "127.0.0.1:0");
        let output = serve.output().unwrap();
        let (code, said) = (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}

#[test]
fn a_bootstrap_file_that_cannot_be_used_leaves_no_database_behind() {
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
fn an_empty_variable_is_one_that_is_not_set() {
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
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("holds no organization"), "{said}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn sslmode_is_honoured_and_a_wrong_password_is_not_said() {
    let database = Database::postgres().await;
    let url = database.url();
    let tls = database.rows("SELECT setting FROM pg_settings WHERE name = 'ssl'").await == ["on"];
    let with = |mode: &str| format!("{url}{}sslmode={mode}", if url.contains('?') { '&' } else { '?' });
    // A certificate that nobody vouches for is refused where it is to be verified.
    let (code, said) = fails(&with("verify-full"), &[]);
    assert_eq!(code, 6, "{said}");
    if tls {
        let process = Process::start(&with("require"));
        let encrypted = "SELECT CAST(COUNT(*) AS TEXT) FROM pg_stat_ssl s JOIN pg_stat_activity a ON a.pid = s.pid
                         WHERE a.application_name = 'supercargo' AND a.datname = current_database() AND NOT s.ssl";
        assert_eq!(database.rows(encrypted).await, ["0"]);
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait().0, Some(0));
    } else {
        assert_eq!(fails(&with("require"), &[]).0, 6);
    }
    let mut wrong: url::Url = url.parse().unwrap();
    wrong.set_password(Some("wr0ng-passw0rd")).unwrap();
    let wrong = wrong.to_string();
    let (_, said) = fails(&wrong, &["-vvv"]);
    assert!(!said.contains("wr0ng-passw0rd"), "{said}");
}
