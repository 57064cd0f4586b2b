//! Updates the planner's statistics after many rows were inserted.

use super::{Error, Transaction};

/// Minimum number of inserted rows that can make plans unsuitable.
const MIN_ROWS: usize = 1_000;

/// The tables that one report or attestation inserts many rows into, and the statement for each. It skips a table that
/// another transaction is analyzing.
macro_rules! analyze {
    ($($table:literal),+) => {
        [$(($table, concat!("ANALYZE (SKIP_LOCKED) ", $table))),+]
    };
}

const TABLES: [(&str, &str); 8] = analyze!(
    "pod_runs",
    "artifact_runs",
    "workloads",
    "verdicts",
    "attested_artifacts",
    "latest_attestations",
    "provenance",
    "claims"
);

impl Transaction {
    /// Updates PostgreSQL's statistics of tables that are small compared to the rows that this transaction inserted.
    /// PostgreSQL does so itself a minute later, and until then reads whole tables. SQLite's plans do not depend on
    /// statistics.
    pub async fn analyze_after(&mut self, inserted: usize) -> Result<(), Error> {
        const ROWS: &str = "SELECT CAST(reltuples AS BIGINT) FROM pg_class WHERE oid = CAST($1 AS regclass)";
        let Self::Postgres(transaction) = self else { return Ok(()) };
        if inserted < MIN_ROWS {
            return Ok(());
        }
        // PostgreSQL's own threshold is a tenth of the table (`autovacuum_analyze_scale_factor`).
        let threshold = i64::try_from(inserted).unwrap_or(i64::MAX).saturating_mul(10);
        for (table, analyze) in TABLES {
            let rows: i64 = sqlx::query_scalar(ROWS).bind(table).fetch_one(&mut **transaction).await?;
            if rows < threshold {
                sqlx::query(analyze).execute(&mut **transaction).await?;
            }
        }
        Ok(())
    }
}
