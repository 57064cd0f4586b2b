//! `--state`: departed pods survive the end of the agent.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::{Fault, Gate};
use crate::daemon::rules::always;
use crate::daemon::{Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::service::{Database, TestService};

async fn start() -> (Cluster, Gate) {
    let cluster = Cluster::start();
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    (cluster, Gate::with_service(TestService::start(Database::sqlite()).await))
}

fn builder(cluster: &Cluster, gate: &Gate, state: Option<&Path>) -> DaemonBuilder {
    let builder = DaemonBuilder::new(cluster, gate);
    match state {
        Some(state) => builder.args(["--state", state.to_str().unwrap()]),
        None => builder,
    }
}

fn has_job(state: &Path) -> bool {
    fs::read_to_string(state).is_ok_and(|text| text.contains(r#""pod_name":"job""#))
}

/// Starts an agent whose service is unavailable when a Job's pod ends. Waits until the state file contains the pod.
async fn job_ends_unreported(cluster: &Cluster, gate: &Gate, state: Option<&Path>) -> Daemon {
    let daemon = builder(cluster, gate, state).start();
    wait_until_in_sync(gate, cluster, PROD).await;
    gate.inject(always(Fault::Status(503, None)));
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.wait_for_pods(2).await;
    cluster.delete("shop", "job");
    daemon.wait_for_pods(1).await;
    if let Some(state) = state {
        eventually("the state file has the departed pod", async || has_job(state)).await;
    }
    daemon
}

/// Number of accepted reports with the Job's pod.
fn reports_with_job(gate: &Gate) -> usize {
    let has_job = |report: &super::gate::Report| report.pods.iter().any(|pod| pod.name == "job");
    gate.accepted("prod").into_iter().filter(has_job).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pod_is_reported_once_after_sigkill_only_with_a_state_file() {
    for has_state in [true, false] {
        let ((cluster, gate), folder) = (start().await, tempfile::tempdir().unwrap());
        let file = folder.path().join("state");
        let state = has_state.then_some(&*file);
        drop(job_ends_unreported(&cluster, &gate, state).await);
        gate.clear_faults();

        let daemon = builder(&cluster, &gate, state).start();
        daemon.wait_for_line(" reported, ").await;
        wait_until_in_sync(&gate, &cluster, PROD).await;
        assert_eq!(reports_with_job(&gate), usize::from(has_state));
        if has_state {
            assert_no_loss(&gate, &cluster, PROD).await;
            daemon.wait_for_line("prod: restored 1 departed pod from ").await;
            eventually("the state file has no pod", async || !has_job(&file)).await;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(daemon);

        let daemon = builder(&cluster, &gate, state).start();
        daemon.wait_for_line(" reported, ").await;
        assert_eq!(reports_with_job(&gate), usize::from(has_state));
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files.len(), usize::from(has_state), "{files:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pod_is_reported_after_a_shutdown_while_the_service_was_unavailable() {
    let ((cluster, gate), folder) = (start().await, tempfile::tempdir().unwrap());
    let state = folder.path().join("state");
    let log = job_ends_unreported(&cluster, &gate, Some(&state)).await.stop().await;
    assert!(log.iter().any(|line| line.contains("shutting down with unreported changes")), "{log:#?}");
    gate.clear_faults();
    let daemon = builder(&cluster, &gate, Some(&state)).start();
    daemon.wait_for_line(" reported, ").await;
    assert_no_loss(&gate, &cluster, PROD).await;
    assert_eq!(reports_with_job(&gate), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_that_runs_again_is_not_reported_as_departed() {
    let ((cluster, gate), folder) = (start().await, tempfile::tempdir().unwrap());
    let state = folder.path().join("state");
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    let backup = cluster.backup();
    cluster.delete("shop", "job");
    let daemon = builder(&cluster, &gate, Some(&state)).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    gate.inject(always(Fault::Status(503, None)));
    cluster.restore_from_backup_with_new_revisions(backup.clone());
    daemon.wait_for_pods(2).await;
    cluster.delete("shop", "job");
    daemon.wait_for_pods(1).await;
    eventually("the state file has the departed pod", async || has_job(&state)).await;
    drop(daemon);
    gate.clear_faults();
    cluster.restore_from_backup_with_new_revisions(backup);
    let _daemon = builder(&cluster, &gate, Some(&state)).start();
    // The gate asserts that each report has each pod once.
    wait_until_in_sync(&gate, &cluster, PROD).await;
    eventually("the state file has no pod", async || !has_job(&state)).await;
    assert_eq!(gate.last_accepted("prod").unwrap().pods.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_state_file_is_ignored_with_a_warning_and_replaced() {
    let truncate = |state: &Path| {
        let text = fs::read(state).unwrap();
        fs::write(state, &text[..text.len() - 2]).unwrap();
    };
    let hang = |state: &Path| {
        fs::remove_file(state).unwrap();
        symlink("/dev/ptmx", state).unwrap();
    };
    let cases: [(&str, &dyn Fn(&Path), &str); 3] = [
        ("prod", &truncate, "it is corrupt: the checksum does not match"),
        // A read of this device waits until somebody writes to the terminal that it creates (pts(4)).
        ("prod", &hang, "timed out after 5s"),
        ("stage", &|_| {}, "this agent does not report prod"),
    ];
    for (environment, change, reason) in cases {
        let ((cluster, gate), folder) = (start().await, tempfile::tempdir().unwrap());
        let state = folder.path().join("state");
        drop(job_ends_unreported(&cluster, &gate, Some(&state)).await);
        gate.clear_faults();
        change(&state);
        let daemon = builder(&cluster, &gate, Some(&state))
            .without_environment()
            .args(["--environment", environment])
            .start();
        let line = daemon.wait_for_line(reason).await;
        assert!(line.starts_with("WARN ignoring ") && line.contains(state.to_str().unwrap()), "{line}");
        daemon.wait_for_line(" reported, ").await;
        assert_eq!(reports_with_job(&gate), 0);
        if state.is_file() {
            eventually("the state file has no ignored pod", async || !has_job(&state)).await;
        }
        cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'c'));
        daemon.wait_for_pods(2).await;
        gate.inject(always(Fault::Status(503, None)));
        cluster.delete("shop", "job");
        let digest = "c".repeat(64);
        let is_new = async || state.is_file() && fs::read_to_string(&state).unwrap().contains(&digest);
        eventually("the state file is replaced", is_new).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_another_selection_are_ignored_with_a_warning() {
    let ((cluster, gate), folder) = (start().await, tempfile::tempdir().unwrap());
    let state = folder.path().join("state");
    drop(job_ends_unreported(&cluster, &gate, Some(&state)).await);
    gate.clear_faults();
    cluster.add(pod("pay", "web").image("registry.example.com/web:1", 'a'));
    cluster.label_namespace("pay", &["team=b"]);
    let by_labels =
        || builder(&cluster, &gate, Some(&state)).args(["--namespace-selector", "team=b"]).start();
    let daemon = by_labels();
    let line = daemon.wait_for_line("the namespaces of prod are selected differently now").await;
    assert!(line.starts_with("WARN ignoring 1 departed pod in the state file "), "{line}");
    daemon.wait_for_line(" reported, ").await;
    assert_eq!(reports_with_job(&gate), 0);
    drop(daemon);

    // The labels stay the same.
    let daemon = by_labels();
    daemon.wait_for_line(" reported, ").await;
    gate.inject(always(Fault::Status(503, None)));
    cluster.add(pod("pay", "job").image("registry.example.com/job:1", 'b'));
    daemon.wait_for_pods(2).await;
    cluster.delete("pay", "job");
    eventually("the state file has the departed pod of pay", async || {
        fs::read_to_string(&state).is_ok_and(|text| text.contains(r#""namespace":"pay""#))
    })
    .await;
    drop(daemon);
    gate.clear_faults();
    let daemon = by_labels();
    daemon.wait_for_line("prod: restored 1 departed pod from ").await;
    daemon.wait_for_line(" reported, ").await;
    assert_eq!(reports_with_job(&gate), 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_reports_while_the_state_file_cannot_be_written() {
    let ((cluster, gate), folder) = (start().await, tempfile::tempdir().unwrap());
    let state = folder.path().join("missing/state");
    let daemon = builder(&cluster, &gate, Some(&state)).start();
    let line = daemon.wait_for_line("failed to write the state file").await;
    assert!(line.contains("/missing/state\": No such file or directory"), "{line}");
    assert!(daemon.count("supercargo_agent_state_write_failures_total", "").await > 0);
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    wait_until_in_sync(&gate, &cluster, PROD).await;
    fs::create_dir(folder.path().join("missing")).unwrap();
    daemon.wait_for_line("wrote the state file").await;
    daemon.stop().await;
}
