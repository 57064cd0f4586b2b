//! Reads which digests run anywhere, or ran since a time.

use serde::Deserialize;

use crate::database::columns::Micros;
use crate::database::rows::{Bytes, converted, rows};
use crate::{Error, Tenant};
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

/// The runs of some digests in order, and the last of them if there are more.
#[derive(Debug)]
pub struct DigestRuns {
    /// By digest, unsorted among those of one digest.
    pub runs: Vec<DigestRun>,
    pub next: Option<Fingerprint>,
}

/// The first runs of digests from `$2` to `$3`, at most `$4`. Running and ended ones have an index each, in the order of
/// digests; PostgreSQL uses that of running ones only if all of its columns are sorted by.
macro_rules! first_runs {
    ($transaction:expr, $condition:literal, $order:literal, |$query:ident| $bind:expr) => {
        rows!(
            $transaction,
            "hex(fingerprint), name, environment, started_at, ended_at",
            concat!(
                "SELECT r.fingerprint, r.name, e.name AS environment, r.started_at, r.ended_at
                 FROM artifact_runs r CROSS JOIN environments e
                 WHERE r.organization = $1 AND r.fingerprint > $2 AND r.fingerprint <= $3 AND e.organization = $1
                   AND e.id = r.environment AND ",
                $condition,
                " ORDER BY ",
                $order,
                " LIMIT $4"
            ),
            |$query| $bind
        )
    };
}

/// The runs of the first digests after one: those that run, or that ended at or after `since`. There are at most `limit`, or
/// those of one digest: an image of every cluster runs in thousands of environments.
pub async fn list(
    tenant: &mut Tenant<'_>,
    after: Option<Fingerprint>,
    since: Option<Timestamp>,
    limit: i64,
) -> Result<DigestRuns, Error> {
    let after = after.map_or(Vec::new(), |digest| digest.bytes().to_vec());
    let mut first = async |last: Fingerprint, most: i64| -> Result<_, Error> {
        let running: Vec<DigestRun> =
            first_runs!(tenant.tx, "r.ended_at IS NULL", "r.ended_at, r.fingerprint", |query| {
                query.bind(tenant.name).bind(&after).bind(last).bind(most)
            });
        // Without `since`, ended ones are not read.
        let Some(since) = since else { return Ok([running, Vec::new()]) };
        let ended = first_runs!(
            tenant.tx,
            "r.ended_at IS NOT NULL AND r.ended_at + 0 >= $5",
            "r.fingerprint",
            |query| query.bind(tenant.name).bind(&after).bind(last).bind(most).bind(since)
        );
        Ok([running, ended])
    };
    let most = if since.is_some() { limit / 2 + 1 } else { limit + 1 };
    let read = first(Fingerprint::from([u8::MAX; 32]), most).await?;
    // From this digest on, there may be more.
    let end = read.iter().filter(|runs| i64::try_from(runs.len()) == Ok(most)).filter_map(|runs| runs.last());
    let end = end.map(|run| run.fingerprint).min();
    let mut runs: Vec<_> = read.into_iter().flatten().collect();
    runs.retain(|run| end.is_none_or(|end| run.fingerprint < end));
    if let Some(end) = end
        && runs.is_empty()
    {
        runs = first(end, i64::MAX).await?.into_iter().flatten().collect();
    }
    runs.sort_by_key(|run| run.fingerprint);
    let next = runs.last().map(|run| run.fingerprint).filter(|_| end.is_some());
    Ok(DigestRuns { runs, next })
}
