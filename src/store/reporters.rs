//! The reporters of environments. A heartbeat only counts in `environments`; the next other report adds it to its reporter.

use sqlx::types::Uuid;

use super::transaction::{execute, fetch_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::reporters::{ReportCounts, Reporter, Sender, add_report};
use crate::domain::model::Timestamp;

#[derive(sqlx::FromRow)]
struct ReporterRow {
    name: String,
    cluster: String,
    user_agent: String,
    first_at: Timestamp,
    last_at: Timestamp,
    pods: i64,
    hour: i64,
    reports: i64,
    previous_reports: i64,
    reported_by: Option<String>,
    last_report_at: Option<Timestamp>,
    heartbeat_hour: i64,
    heartbeats: i64,
    previous_heartbeats: i64,
}

impl From<&ReporterRow> for Reporter {
    fn from(row: &ReporterRow) -> Self {
        let sender = Sender { user_agent: row.user_agent.clone(), cluster: row.cluster.clone() };
        let counts = ReportCounts { hour: row.hour, reports: row.reports, previous: row.previous_reports };
        let (first_at, last_at) = (row.first_at, row.last_at);
        Self { name: row.name.clone(), sender, first_at, last_at, pods: row.pods, counts }
    }
}

impl Transaction {
    /// The reporters of an environment, latest first.
    pub async fn reporters(&mut self, environment: Uuid) -> Result<Vec<Reporter>, Error> {
        const SELECT: &str = "
            SELECT r.name, r.cluster, r.user_agent, r.first_at, r.last_at, r.pods, r.hour, r.reports, r.previous_reports,
                   e.reported_by, e.last_report_at, e.heartbeat_hour, e.heartbeats, e.previous_heartbeats
            FROM environments e JOIN reporters r ON r.environment = e.id
            WHERE e.id = $1 ORDER BY r.last_at DESC";
        let rows: Vec<ReporterRow> = fetch_all!(self, SELECT, environment);
        let mut reporters: Vec<Reporter> = rows.iter().map(Into::into).collect();
        // Heartbeats follow the last other report; a previous version of the program may have recorded that.
        if let Some((row, last)) = rows.first().zip(reporters.first_mut())
            && row.reported_by.as_ref() == Some(&last.name)
        {
            let (hour, reports, previous) = (row.heartbeat_hour, row.heartbeats, row.previous_heartbeats);
            last.counts = last.counts.plus(ReportCounts { hour, reports, previous });
            last.last_at = last.last_at.max(row.last_report_at.unwrap_or(last.last_at));
        }
        Ok(reporters)
    }

    /// Records a report other than a heartbeat. The caller then records it in the environment, whose heartbeats start anew.
    pub async fn record_reporter(&mut self, environment: Uuid, report: Reporter) -> Result<(), Error> {
        const UPSERT: &str = "
            INSERT INTO reporters (environment, name, cluster, user_agent, first_at, last_at, pods, hour, reports,
                                   previous_reports)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (environment, name, cluster) DO UPDATE
            SET user_agent = excluded.user_agent, last_at = excluded.last_at, pods = excluded.pods,
                hour = excluded.hour, reports = excluded.reports, previous_reports = excluded.previous_reports";
        const DELETE: &str = "DELETE FROM reporters WHERE environment = $1 AND name = $2 AND cluster = $3";
        let mut reporters = self.reporters(environment).await?;
        let evicted = add_report(&mut reporters, report);
        // The reporter, and the one before with its heartbeats.
        for reporter in reporters.iter().take(2) {
            let Reporter { name, sender: Sender { user_agent, cluster }, counts, .. } = reporter;
            on!(self, |connection| {
                let upsert = sqlx::query(UPSERT).bind(environment).bind(name).bind(cluster).bind(user_agent);
                let upsert = upsert.bind(reporter.first_at).bind(reporter.last_at).bind(reporter.pods);
                let upsert = upsert.bind(counts.hour).bind(counts.reports).bind(counts.previous);
                upsert.execute(connection).await?;
            });
        }
        if let Some(Reporter { name, sender: Sender { cluster, .. }, .. }) = evicted {
            execute!(self, DELETE, environment, name, cluster);
        }
        Ok(())
    }
}
