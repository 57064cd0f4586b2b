//! What is past its retention goes, and the environment says from when on all is there.

use std::time::Duration;

use supercargo::service::Policy;

use super::running::{Options, bootstrap, eventually};
use super::{ADMIN, Database, Running, pod, report};

async fn what_ended_before_the_retention_goes_and_the_horizon_is_recorded(database: Database) {
    let policy = Policy { retention_interval: Duration::from_millis(20), ..Policy::default() };
    let options = |retention: &str| Options {
        policy,
        bootstrap: bootstrap(1, &format!("    retention: {retention}")),
        ..Options::default()
    };
    let service = Running::start_with(database, options("1000d")).await;
    for digit in ['a', 'b', 'b'] {
        let body = report(&[pod("runs", "x:1", 'f'), pod("p", "i:1", digit)]);
        let answer = service.report(ADMIN, "prod", body).await;
        assert!(answer.status.is_success(), "{answer:?}");
    }
    let history =
        "SELECT CAST(COUNT(*) AS TEXT) FROM pod_runs UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM snapshots";
    assert_eq!(service.database.rows(history).await, ["3", "2"]);
    // What is older than a thousand days: the pod that ended, its artifact, and the first snapshot.
    let day = 86_400_000_000_i64;
    for (table, column) in
        [("pod_runs", "ended_at"), ("artifact_runs", "ended_at"), ("snapshots", "superseded_at")]
    {
        let age =
            format!("UPDATE {table} SET {column} = {column} - {} WHERE {column} IS NOT NULL", 1_001 * day);
        service.database.execute(&age).await;
    }
    eventually("they go", async || service.database.rows(history).await == ["2", "1"]).await;
    let left = "SELECT name FROM artifact_runs ORDER BY name";
    assert_eq!(service.database.rows(left).await, ["i:1", "x:1"]);
    let counted = async || service.metrics().await.contains("supercargo_retention_removed_rows_total 3");
    eventually("they are counted", counted).await;
    // What still runs stays, however old.
    let horizon = "SELECT CASE WHEN horizon_at > 0 THEN 'yes' END FROM environments";
    assert_eq!(service.database.rows(horizon).await, ["yes"]);
}

super::on_both!(what_ended_before_the_retention_goes_and_the_horizon_is_recorded);
