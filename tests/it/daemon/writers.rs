//! Someone else reports to the same environment.

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::Gate;
use crate::daemon::{PROD, Starting, eventually, holds_what_the_cluster_holds, nothing_was_lost};
use crate::service::{self, ADMIN, Database, Running};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_writer_is_said_once_for_each_time_and_the_agent_s_word_is_the_last() {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    // A fortieth: an answer that is lost would take with it what it says of the other writer.
    let daemon = Starting::between(&cluster, &gate).hasten(40).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    let count = async || daemon.count("supercargo_agent_other_writers_total", "").await;
    for (n, digit) in (1..).zip(['b', 'c']) {
        let other = [service::pod("other", "registry.example.com/other:1", digit)];
        gate.service().report(ADMIN, "prod", service::report(&other)).await.expect(201);
        eventually("it is noticed", async || count().await >= n).await;
        let unchanged = daemon.reports("unchanged").await;
        daemon.has_reported("unchanged", unchanged + 1).await;
        assert_eq!(count().await, n);
        nothing_was_lost(&gate, &cluster, PROD).await;
    }
    let said = daemon.stop().await;
    let warnings = said.iter().filter(|l| l.contains("prod: ") && l.contains("someone else reports to"));
    assert_eq!(warnings.count(), 2, "{said:#?}");
}
