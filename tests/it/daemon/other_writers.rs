//! Another client reports to the same environment.

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::{DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::service::{self, ADMIN, Database, TestService};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_writer_is_logged_once_per_report_and_overwritten() {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    // A smaller time scale, since a lost response would hide the other writer.
    let daemon = DaemonBuilder::new(&cluster, &gate).time_scale(10).args(["--interval", "10s"]).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    let count = async || daemon.count("supercargo_agent_other_writers_total", "").await;
    for (n, digit) in (1..).zip(['b', 'c']) {
        let other = [service::pod("other", "registry.example.com/other:1", digit)];
        gate.service().report(ADMIN, "prod", service::report(&other)).await.expect(201);
        eventually("the other writer is counted", async || count().await >= n).await;
        let unchanged = daemon.report_count("unchanged").await;
        daemon.wait_for_reports("unchanged", unchanged + 1).await;
        assert_eq!(count().await, n);
        assert_no_loss(&gate, &cluster, PROD).await;
    }
    let log = daemon.stop().await;
    let warnings = log.iter().filter(|l| l.contains("prod: ") && l.contains("another client reports to"));
    assert_eq!(warnings.count(), 2, "{log:#?}");
}
