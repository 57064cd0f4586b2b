//! Reads which digests run anywhere, or ran since a time.

use serde::Deserialize;

use crate::database::columns::Micros;
use crate::database::rows::{Bytes, converted, rows};
use crate::database::transaction::fetch_optional_scalar;
use crate::{Error, Transaction};
use model::{Fingerprint, Timestamp};

/// A digest in an environment. The columns in the order of `list`.
#[derive(Debug, Clone, sqlx::FromRow, Deserialize)]
pub struct DigestRun {
    #[serde(deserialize_with = "converted::<_, Bytes, _>")]
    pub fingerprint: Fingerprint,
    /// Its image name.
    pub name: String,
    pub environment: String,
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub started_at: Timestamp,
    /// `None` while it runs.
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub ended_at: Option<Timestamp>,
}

/// The runs of some digests in order, and the last of them if there may be more.
#[derive(Debug)]
pub struct DigestRuns {
    /// By digest, unsorted among those of one digest.
    pub runs: Vec<DigestRun>,
    pub next: Option<Fingerprint>,
}

/// Most runs on a page, and those of its last digest: an image of every cluster runs in thousands of environments.
const MAX_RUNS: i64 = 20_000;

/// The runs of the first digests after one, at most `limit`: those that run, or that ended at or after `since`.
pub async fn list(
    transaction: &mut Transaction,
    organization: &str,
    after: Option<Fingerprint>,
    since: Option<Timestamp>,
    limit: i64,
) -> Result<DigestRuns, Error> {
    // Running and ended runs have an index each, in the order of digests; PostgreSQL uses that of running ones only if all of
    // its columns are sorted by. Without `since`, ended ones are not read.
    const NEXT: &str = "
        SELECT fingerprint FROM (
          SELECT fingerprint, ROW_NUMBER() OVER digests AS digests, SUM(runs) OVER digests AS runs FROM (
            SELECT fingerprint, SUM(runs) AS runs FROM (
              SELECT * FROM (SELECT fingerprint, COUNT(*) AS runs FROM artifact_runs
                WHERE organization = $1 AND ended_at IS NULL AND fingerprint > $2
                GROUP BY ended_at, fingerprint ORDER BY ended_at, fingerprint LIMIT $4) AS running
              UNION ALL
              SELECT * FROM (SELECT fingerprint, COUNT(*) AS runs FROM artifact_runs
                WHERE organization = $1 AND ended_at IS NOT NULL AND $3 < 9223372036854775807 AND ended_at + 0 >= $3
                  AND fingerprint > $2
                GROUP BY fingerprint ORDER BY fingerprint LIMIT $4) AS ended) AS used
            GROUP BY fingerprint) AS counted
          WINDOW digests AS (ORDER BY fingerprint)) AS numbered
        WHERE digests = $4 OR runs >= $5 ORDER BY fingerprint LIMIT 1";
    let after = after.map_or(Vec::new(), |digest| digest.bytes().to_vec());
    let since = since.map_or(i64::MAX, Timestamp::micros);
    let next: Option<Fingerprint> =
        fetch_optional_scalar!(transaction, NEXT, organization, &after, since, limit, MAX_RUNS);
    let last = next.map_or(vec![u8::MAX; 32], |digest| digest.bytes().to_vec());
    let mut runs: Vec<DigestRun> = rows!(
        transaction,
        "hex(fingerprint), name, environment, started_at, ended_at",
        "SELECT r.fingerprint, r.name, e.name AS environment, r.started_at, r.ended_at
         FROM (SELECT * FROM artifact_runs
               WHERE organization = $1 AND ended_at IS NULL AND fingerprint > $2 AND fingerprint <= $4
               UNION ALL
               SELECT * FROM artifact_runs
               WHERE organization = $1 AND ended_at IS NOT NULL AND $3 < 9223372036854775807 AND ended_at + 0 >= $3 AND fingerprint > $2
                 AND fingerprint <= $4) r
           CROSS JOIN environments e
         WHERE e.organization = $1 AND e.id = r.environment",
        |query| query.bind(organization).bind(&after).bind(since).bind(&last)
    );
    runs.sort_by_key(|run| run.fingerprint);
    Ok(DigestRuns { runs, next })
}
