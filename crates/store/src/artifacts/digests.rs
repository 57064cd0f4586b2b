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
    // Running and ended runs have an index each, in the order of digests; PostgreSQL uses that of running ones only if all of its
    // columns are sorted by. The expression keeps the index on ends unused, which
    // would be sorted for each page. Without `since`, ended ones are not read.
    macro_rules! nth {
        ($grouped:literal, $distinct:literal, $union:literal) => {
            concat!(
                "SELECT fingerprint FROM (
                   SELECT fingerprint FROM (SELECT fingerprint FROM artifact_runs
                     WHERE organization = $1 AND ended_at IS NULL AND fingerprint > $2 ", $grouped,
                   " ORDER BY ended_at, fingerprint LIMIT $4) AS running ",
                $union,
                " SELECT fingerprint FROM (SELECT ", $distinct, " fingerprint FROM artifact_runs
                     WHERE organization = $1 AND ended_at IS NOT NULL AND $3 < 9223372036854775807 AND ended_at + 0 >= $3 AND fingerprint > $2
                     ORDER BY fingerprint LIMIT $4) AS ended) AS used
                 ORDER BY fingerprint LIMIT 1 OFFSET $4 - 1"
            )
        };
    }
    const LAST_DIGEST: &str = nth!("GROUP BY ended_at, fingerprint", "DISTINCT", "UNION");
    const LAST_RUN: &str = nth!("", "", "UNION ALL");
    let after = after.map_or(Vec::new(), |digest| digest.bytes().to_vec());
    let since = since.map_or(i64::MAX, Timestamp::micros);
    let last_digest: Option<Fingerprint> =
        fetch_optional_scalar!(transaction, LAST_DIGEST, organization, &after, since, limit);
    let last_run: Option<Fingerprint> =
        fetch_optional_scalar!(transaction, LAST_RUN, organization, &after, since, MAX_RUNS);
    let next = [last_digest, last_run].into_iter().flatten().min();
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
