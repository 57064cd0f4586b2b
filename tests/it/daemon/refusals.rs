//! The service refuses, or something else answers: it is tried again at the heartbeat's pace, whatever
//! changes meanwhile, and mended it goes on.

use std::time::Duration;

use supercargo::service::Policy;

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::{Fault, Gate, Report};
use crate::daemon::rules::always;
use crate::daemon::{
    Environment, PROD, Starting, eventually, holds_what_the_cluster_holds, nothing_was_lost,
};
use crate::service::{ADMIN, Database, Options, REPORTER, Running};

const SHOP: Environment = Environment { name: "prod", takes: |namespace| namespace == "shop" };
const PAY: Environment = Environment { name: "pay", takes: |namespace| namespace == "pay" };

fn web(n: usize) -> crate::daemon::cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_mend_itself_is_tried_again_at_the_heartbeat_s_pace() {
    // An interval at a two-hundredth, and as much shorter as it may be.
    let pace = Duration::from_mins(1) / 200 * 9 / 10;
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = Starting::between(&cluster, &gate).hasten(200).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    let redirect = ("location", "https://login.example.com/");
    let html = ("content-type", "text/html");
    let mut pods = 1;
    for (fault, status, outcome, says) in [
        (Fault::Says(400, None), 400, "refused", "400 Bad Request: the gate says 400"),
        (Fault::Says(403, None), 403, "unauthorized", "check that it belongs to the organization \"acme\""),
        (Fault::Says(404, None), 404, "not_found", "the environment \"prod\", which some services want"),
        (Fault::Says(413, None), 413, "refused", "413 Payload Too Large: the gate says 413"),
        (Fault::Says(501, None), 501, "foreign", "501 Not Implemented"),
        (Fault::Foreign(302, redirect, ""), 302, "foreign", "a redirect to https://login.example.com/"),
        (Fault::Foreign(200, html, "<html>log in</html>"), 200, "foreign", "begins \"<html>log in</html>\""),
    ] {
        let (before, reports) = (daemon.reports(outcome).await, gate.reports().len());
        gate.misbehave(always(fault));
        for tries in 1..=3 {
            cluster.add(web(pods));
            pods += 1;
            daemon.hears_of(pods).await;
            daemon.has_reported(outcome, before + tries).await;
        }
        gate.behave();
        let is_refused = |report: &Report| !report.is_accepted && report.told == Some(status);
        let tries: Vec<_> = gate.reports().into_iter().skip(reports).filter(is_refused).collect();
        assert!(tries.len() >= 3, "{status}: {tries:?}");
        for two in tries.windows(2) {
            let apart = two[1].arrived - two[0].arrived;
            assert!(apart >= pace, "{status}: {apart:?}");
        }
        daemon.says(says).await;
        nothing_was_lost(&gate, &cluster, PROD).await;
    }
    let said = daemon.stop().await;
    for status in ["400 Bad", "403 Forb", "404 Not F", "413 Payl", "501 Not I", "302 Found", "200 OK"] {
        let begins = |line: &&String| line.contains("prod: not reported:") && line.contains(status);
        assert_eq!(said.iter().filter(begins).count(), 1, "{said:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_is_too_large_waits_for_its_heartbeat_although_the_set_changes() {
    let policy = Policy { report: 4096, ..Policy::default() };
    let options = Options { policy, ..Options::default() };
    let gate = Gate::before(Running::start_with(Database::sqlite(), options).await);
    let cluster = Cluster::start();
    cluster.add_all((0..40).map(web));
    cluster.add(pod("pay", "pay").image("registry.example.com/pay:1", 'a'));
    let config = "environments:\n- {name: prod, namespaces: [shop]}\n- {name: pay, namespaces: [pay]}\n";
    // The heartbeat is out of sight, so nothing but a change could have it tried again.
    let daemon =
        Starting::between(&cluster, &gate).config(config).args(["--interval", "24h"]).hasten(40).start();
    let prod = async || gate.reports().iter().filter(|report| report.environment == "prod").count();
    eventually("it is refused", async || prod().await == 1).await;
    holds_what_the_cluster_holds(&gate, &cluster, PAY).await;
    for n in 1..=5 {
        cluster.add(web(40 + n));
        cluster.add(pod("pay", &format!("pay-{n}")).image("registry.example.com/pay:1", n));
        // The other environment's report comes after as long as this one's would.
        holds_what_the_cluster_holds(&gate, &cluster, PAY).await;
    }
    assert_eq!(prod().await, 1);
    daemon.says("answered with 413 Payload Too Large").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_environment_that_is_refused_keeps_none_of_the_others_from_being_reported() {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(web(0));
    cluster.add(pod("pay", "pay").image("registry.example.com/pay:1", 'a'));
    let config = "environments:\n- {name: prod, namespaces: [shop]}\n- {name: pay, namespaces: [pay]}\n";
    // The service takes this token for the one, and not for the other.
    let daemon = Starting::between(&cluster, &gate).config(config).token_file(REPORTER).start();
    for n in 1..=5 {
        cluster.add(web(n));
        cluster.add(pod("pay", "job").image("registry.example.com/job:1", n));
        daemon.hears_of(n + 3).await;
        cluster.delete("pay", "job");
        daemon.hears_of(n + 2).await;
        holds_what_the_cluster_holds(&gate, &cluster, SHOP).await;
    }
    daemon.says("pay: not reported: PUT").await;
    let refused = async |environment: &str| {
        let label = format!("environment=\"{environment}\",outcome=\"unauthorized\"");
        daemon.count("supercargo_agent_reports_total", &label).await
    };
    eventually("the one is tried again", async || refused("pay").await >= 2).await;
    assert!(refused("prod").await == 0 && gate.accepted("pay").is_empty());
    assert_eq!(daemon.readyz().await.0, 200);
    daemon.write_token(ADMIN);
    nothing_was_lost(&gate, &cluster, PAY).await;
    nothing_was_lost(&gate, &cluster, SHOP).await;
    daemon.says("pay: reported again").await;
    daemon.stop().await;
}
