//! Updates the planner's statistics after many rows were inserted.

use super::{Error, Transaction};

/// Minimum number of inserted rows that can make plans unsuitable.
const MIN_ROWS: usize = 1_000;

impl Transaction {
    /// Updates PostgreSQL's statistics if this transaction inserted many rows compared to the rows that PostgreSQL knows
    /// of. PostgreSQL does so itself a minute later, and until then reads whole tables. SQLite's plans do not depend on
    /// statistics.
    pub async fn analyze_after(&mut self, inserted: usize) -> Result<(), Error> {
        const OUTDATED: &str = "
            SELECT COUNT(*) FROM pg_class
            WHERE oid IN ('pod_runs'::regclass, 'artifact_runs'::regclass, 'latest_attestations'::regclass)
              AND reltuples < $1";
        // Skips tables that another report is analyzing.
        const ANALYZE: &str = "
            ANALYZE (SKIP_LOCKED) pod_runs, artifact_runs, workloads, verdicts, attestations, attested_artifacts,
                                  latest_attestations, provenance";
        let Self::Postgres(transaction) = self else { return Ok(()) };
        if inserted < MIN_ROWS {
            return Ok(());
        }
        // PostgreSQL's own threshold is a tenth of the table (`autovacuum_analyze_scale_factor`).
        let threshold = i64::try_from(inserted).unwrap_or(i64::MAX).saturating_mul(10);
        #[expect(clippy::cast_precision_loss, reason = "reltuples is a float")]
        let outdated = sqlx::query_scalar(OUTDATED).bind(threshold as f32);
        let outdated: i64 = outdated.fetch_one(&mut **transaction).await?;
        if outdated > 0 {
            sqlx::query(ANALYZE).execute(&mut **transaction).await?;
        }
        Ok(())
    }
}
