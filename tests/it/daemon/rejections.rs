//! Rejected reports and foreign responses. They are retried at the heartbeat interval despite changes, and reports
//! resume after the fault.

use std::time::Duration;

use service::Limits;

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::{Fault, Gate, Report};
use crate::daemon::support::rules::always;
use crate::daemon::{
    DaemonBuilder, ExpectedEnvironment, PROD, assert_no_loss, eventually, wait_until_in_sync,
};
use crate::service::{ADMIN, Database, Options, REPORTER, TestService};

const SHOP: ExpectedEnvironment =
    ExpectedEnvironment { name: "prod", includes: |namespace| namespace == "shop" };
const PAY: ExpectedEnvironment =
    ExpectedEnvironment { name: "pay", includes: |namespace| namespace == "pay" };

fn web(n: usize) -> crate::daemon::support::cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanent_errors_are_retried_at_the_heartbeat_interval() {
    // The scaled heartbeat interval without its jitter.
    let min_interval = Duration::from_mins(1) / 200 * 9 / 10;
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = DaemonBuilder::new(&cluster, &gate).time_scale(200).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    let redirect = ("location", "https://login.example.com/");
    let html = ("content-type", "text/html");
    let mut pods = 1;
    for (fault, status, outcome, expected) in [
        (Fault::Status(400, None), 400, "refused", "400 Bad Request: injected 400"),
        (Fault::Status(403, None), 403, "unauthorized", "belongs to the organization \"acme\""),
        (
            Fault::Status(404, None),
            404,
            "not_found",
            "--create (`create: true` in the file of --config) creates the environment",
        ),
        (Fault::Status(413, None), 413, "refused", "413 Payload Too Large: injected 413"),
        (Fault::Status(501, None), 501, "foreign", "501 Not Implemented"),
        (Fault::Foreign(302, redirect, ""), 302, "foreign", "redirect to https://login.example.com/"),
        (
            Fault::Foreign(200, html, "<html>log in</html>"),
            200,
            "foreign",
            "200 OK with text/html: \"<html>log in</html>\"",
        ),
    ] {
        let (before, reports) = (daemon.report_count(outcome).await, gate.reports().len());
        gate.inject(always(fault));
        for attempts in 1..=3 {
            cluster.add(web(pods));
            pods += 1;
            daemon.wait_for_pods(pods).await;
            daemon.wait_for_reports(outcome, before + attempts).await;
        }
        gate.clear_faults();
        let is_refused = |report: &Report| !report.is_accepted && report.status == Some(status);
        let attempts: Vec<_> = gate.reports().into_iter().skip(reports).filter(is_refused).collect();
        assert!(attempts.len() >= 3, "{status}: {attempts:?}");
        for two in attempts.windows(2) {
            let apart = two[1].arrived - two[0].arrived;
            assert!(apart >= min_interval, "{status}: {apart:?}");
        }
        daemon.wait_for_line(expected).await;
        assert_no_loss(&gate, &cluster, PROD).await;
    }
    let log = daemon.stop().await;
    for status in ["400 Bad", "403 Forb", "404 Not F", "413 Payl", "501 Not I", "302 Found", "200 OK"] {
        let begins = |line: &&String| line.contains("prod: report failed:") && line.contains(status);
        assert_eq!(log.iter().filter(begins).count(), 1, "{log:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_report_waits_for_its_heartbeat_despite_changes() {
    let limits = Limits { report: 4096, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let gate = Gate::with_service(TestService::start_with(Database::sqlite(), options).await);
    let cluster = Cluster::start();
    cluster.add_all((0..40).map(web));
    cluster.add(pod("pay", "pay").image("registry.example.com/pay:1", 'a'));
    let config = "environments:\n- {name: prod, namespaces: [shop]}\n- {name: pay, namespaces: [pay]}\n";
    // With a heartbeat of 24 hours, only a change could cause a retry.
    let daemon =
        DaemonBuilder::new(&cluster, &gate).config(config).args(["--interval", "24h"]).time_scale(40).start();
    let prod = async || gate.reports().iter().filter(|report| report.environment == "prod").count();
    eventually("the report is rejected", async || prod().await == 1).await;
    wait_until_in_sync(&gate, &cluster, PAY).await;
    for n in 1..=5 {
        cluster.add(web(40 + n));
        cluster.add(pod("pay", &format!("pay-{n}")).image("registry.example.com/pay:1", n));
        // A retry would have arrived no later than the other environment's report.
        wait_until_in_sync(&gate, &cluster, PAY).await;
    }
    assert_eq!(prod().await, 1);
    daemon.wait_for_line("413 Payload Too Large").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_environment_does_not_affect_others() {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(web(0));
    cluster.add(pod("pay", "pay").image("registry.example.com/pay:1", 'a'));
    let config = "environments:\n- {name: prod, namespaces: [shop]}\n- {name: pay, namespaces: [pay]}\n";
    // The service accepts this token for only one of the environments.
    let daemon = DaemonBuilder::new(&cluster, &gate).config(config).token_file(REPORTER).start();
    for n in 1..=5 {
        cluster.add(web(n));
        cluster.add(pod("pay", "job").image("registry.example.com/job:1", n));
        daemon.wait_for_pods(n + 3).await;
        cluster.delete("pay", "job");
        daemon.wait_for_pods(n + 2).await;
        wait_until_in_sync(&gate, &cluster, SHOP).await;
    }
    daemon.wait_for_line("pay: report failed: PUT").await;
    let refused = async |environment: &str| {
        let label = format!("environment=\"{environment}\",outcome=\"unauthorized\"");
        daemon.count("supercargo_agent_reports_total", &label).await
    };
    eventually("the rejected report is retried", async || refused("pay").await >= 2).await;
    assert!(refused("prod").await == 0 && gate.accepted("pay").is_empty());
    assert_eq!(daemon.readyz().await.0, 200);
    daemon.write_token(ADMIN);
    assert_no_loss(&gate, &cluster, PAY).await;
    assert_no_loss(&gate, &cluster, SHOP).await;
    daemon.wait_for_line("pay: reported again").await;
    daemon.stop().await;
}
