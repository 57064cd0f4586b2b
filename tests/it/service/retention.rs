//! Removal of rows past their retention, and the horizon of complete history.

use std::time::Duration;

use supercargo::service::Limits;

use super::test_service::{Options, bootstrap, eventually};
use super::{ADMIN, Database, TestService, pod, report};

async fn rows_past_retention_are_removed_and_the_horizon_is_recorded(database: Database) {
    let limits = Limits { retention_interval: Duration::from_millis(20), ..Limits::default() };
    let options = |retention: &str| Options {
        limits,
        bootstrap: bootstrap(1, &format!("    retention: {retention}")),
        ..Options::default()
    };
    let service = TestService::start_with(database, options("1000d")).await;
    for digit in ['a', 'b', 'b'] {
        let body = report(&[pod("runs", "x:1", 'f'), pod("p", "i:1", digit)]);
        let response = service.report(ADMIN, "prod", body).await;
        assert!(response.status.is_success(), "{response:?}");
    }
    let history =
        "SELECT CAST(COUNT(*) AS TEXT) FROM pod_runs UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM snapshots";
    assert_eq!(service.database.rows(history).await, ["3", "2"]);
    // Makes the ended pod, its artifact and the first snapshot older than a thousand days.
    let day = 86_400_000_000_i64;
    for (table, column) in
        [("pod_runs", "ended_at"), ("artifact_runs", "ended_at"), ("snapshots", "superseded_at")]
    {
        let age =
            format!("UPDATE {table} SET {column} = {column} - {} WHERE {column} IS NOT NULL", 1_001 * day);
        service.database.execute(&age).await;
    }
    eventually("the rows are removed", async || service.database.rows(history).await == ["2", "1"]).await;
    let remaining = "SELECT name FROM artifact_runs ORDER BY name";
    assert_eq!(service.database.rows(remaining).await, ["i:1", "x:1"]);
    let counted = async || service.metrics().await.contains("supercargo_retention_removed_rows_total 3");
    eventually("the metric counts them", counted).await;
    let horizon = "SELECT CASE WHEN horizon_at > 0 THEN 'yes' END FROM environments";
    assert_eq!(service.database.rows(horizon).await, ["yes"]);
}

super::on_both!(rows_past_retention_are_removed_and_the_horizon_is_recorded);
