//! Reads the running artifacts of one repository (operation 4).

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use sqlx::types::Uuid;

use crate::database::columns::{Json, Micros, read_compliance};
use crate::database::rows::{Bytes, Id, converted, rows};
use crate::database::transaction::{fetch_all, fetch_for_all, fetch_scalar};
use crate::{Error, Tenant};
use model::reason::Reason;
use model::{EmbeddedArtifact, Fingerprint, KnownRepository, Timestamp};
use rules::compliance::Compliance;
use rules::validity::Validity;

/// A repository that an attestation named.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Repository {
    pub id: Uuid,
    /// The fields by which attestations name it.
    #[sqlx(flatten)]
    pub known: KnownRepository,
    /// Whether it is the origin of an artifact, and not only what another flow named.
    pub is_origin: bool,
}

/// An artifact that runs in an environment. The columns in the order of `live`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow, Deserialize)]
pub struct LiveArtifact {
    #[sqlx(flatten)]
    pub environment: LiveEnvironment,
    #[sqlx(rename = "artifact")]
    pub name: String,
    #[serde(deserialize_with = "converted::<_, Bytes, _>")]
    pub fingerprint: Fingerprint,
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub started_at: Timestamp,
    /// The compliance of its current verdict.
    #[serde(deserialize_with = "read_compliance")]
    pub compliance: Compliance,
}

/// An environment with running artifacts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow, Deserialize)]
pub struct LiveEnvironment {
    pub name: String,
    #[serde(deserialize_with = "converted::<_, Id, _>")]
    pub id: Uuid,
    /// Its current snapshot.
    pub snapshot: i64,
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub last_report_at: Timestamp,
    /// Time without reports until it counts as silent; `None` for the service's default.
    #[sqlx(try_from = "Micros")]
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub silent_after: Option<Duration>,
    /// When the first allow-list entry that its compliance depends on expires.
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub compliant_until: Option<Timestamp>,
    /// When it was last evaluated, if it is queued for evaluation.
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub last_evaluated_at: Option<Timestamp>,
    /// Why it runs too few artifacts, if it does.
    #[sqlx(try_from = "Json<Option<Reason>>")]
    #[serde(deserialize_with = "converted::<_, Json<Option<Reason>>, _>")]
    pub absence: Option<Reason>,
}

impl LiveEnvironment {
    /// The validity of its compliance. `silent_after` is the service's default.
    #[must_use]
    pub fn validity(&self, silent_after: Duration) -> Validity {
        Validity::new(Some(self.last_report_at), self.silent_after, silent_after, self.compliant_until)
    }
}

/// The open repositories with this name. Without one, those that have it as a later name; otherwise those that have it in
/// another case, at a provider that ignores it.
pub async fn repositories(tenant: &mut Tenant<'_>, name: &str) -> Result<Vec<Repository>, Error> {
    // The order is that of an index. In another one, PostgreSQL sorts all artifacts of the repository; without one, it
    // may scan the table, and expect the first match soon.
    macro_rules! select {
        ($condition:literal) => {
            concat!(
                "SELECT id, provider, name, url, external_id,
                        (SELECT p.repository FROM provenance p
                         WHERE p.organization = r.organization AND p.repository = r.id
                         ORDER BY p.recorded_at DESC, p.fingerprint LIMIT 1) IS NOT NULL AS is_origin
                 FROM repositories r WHERE ",
                $condition,
                " AND closed_at IS NULL ORDER BY provider"
            )
        };
    }
    const NAMED: &str = select!("organization = $1 AND name = $2");
    const RENAMED: &str = select!(
        "organization = $1
         AND id IN (SELECT repository FROM repository_names WHERE organization = $1 AND name = $2)"
    );
    const IN_ANY_CASE: &str = select!("organization = $1 AND lower(name) = lower($2)");
    let mut repositories: Vec<Repository> = Vec::new();
    for select in [NAMED, RENAMED] {
        if repositories.is_empty() {
            repositories = fetch_all!(tenant.tx, select, tenant.name, name);
        }
    }
    if repositories.is_empty() {
        repositories = fetch_all!(tenant.tx, IN_ANY_CASE, tenant.name, name);
        repositories.retain(|repository| repository.known.ignores_case());
    }
    Ok(repositories)
}

/// The running artifacts of a repository, by environment and name.
pub async fn list(tenant: &mut Tenant<'_>, repository: Uuid) -> Result<Vec<LiveArtifact>, Error> {
    // SQLite keeps the order of a CROSS JOIN (sqlite.org/optoverview.html, "Manual Control Of Query Plans").
    // PostgreSQL chooses its own, but evaluates a subquery with an offset for each row.
    macro_rules! rows_of {
        ($artifacts:literal, $condition:literal) => {
            rows!(
                tenant.tx,
                "json_array(name, hex(id), snapshot, last_report_at, silent_after, compliant_until, last_evaluated_at,
                   absence), artifact, hex(fingerprint), started_at, compliance",
                concat!(
                    "SELECT r.name AS artifact, r.fingerprint, r.started_at, e.id, e.name, e.snapshot,
                            e.last_report_at, e.silent_after, e.compliant_until,
                            (SELECT e.evaluated_at FROM evaluation_queue q
                             WHERE q.organization = e.organization AND q.environment = e.id) AS last_evaluated_at,
                            e.absence, v.compliance
                     FROM ",
                    $artifacts,
                    " CROSS JOIN environments e
                       LEFT JOIN verdicts v
                         ON v.organization = r.organization AND v.environment = r.environment
                           AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
                     WHERE r.organization = $1 AND r.ended_at IS NULL
                       AND e.organization = r.organization AND e.id = r.environment AND e.last_report_at IS NOT NULL AND ",
                    $condition
                ),
                |query| query.bind(tenant.name).bind(repository)
            )
        };
    }
    let mut live: Vec<LiveArtifact> = if has_few_artifacts(tenant, repository).await? {
        rows_of!(
            "provenance p CROSS JOIN artifact_runs r",
            "p.organization = $1 AND p.repository = $2 AND r.fingerprint = p.fingerprint"
        )
    } else {
        rows_of!(
            "artifact_runs r",
            "EXISTS (SELECT 1 FROM provenance p WHERE p.organization = $1 AND p.repository = $2
                       AND p.fingerprint = r.fingerprint LIMIT 1 OFFSET 0)"
        )
    };
    // Sorted here: the database's order depends on its locale.
    live.sort_unstable();
    Ok(live)
}

/// Whether the repository has fewer artifacts than its organization runs. Counts in growing steps, so that the
/// cost is bounded by the smaller number.
async fn has_few_artifacts(tenant: &mut Tenant<'_>, repository: Uuid) -> Result<bool, Error> {
    const BUILT: &str = "
        SELECT COUNT(*) FROM (SELECT 1 FROM provenance WHERE organization = $1 AND repository = $2 LIMIT $3) AS b";
    const RUNNING: &str = "
        SELECT COUNT(*) FROM (SELECT 1 FROM artifact_runs WHERE organization = $1 AND ended_at IS NULL LIMIT $2) AS r";
    for limit in [1_000_i64, 10_000, 100_000] {
        let built: i64 = fetch_scalar!(tenant.tx, BUILT, tenant.name, repository, limit);
        if built < limit {
            return Ok(true);
        }
        let running: i64 = fetch_scalar!(tenant.tx, RUNNING, tenant.name, limit);
        if running < limit {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The artifacts that were built from the repository.
pub async fn of_repository(tenant: &mut Tenant<'_>, repository: Uuid) -> Result<Vec<Fingerprint>, Error> {
    let rows: Vec<(Bytes,)> = rows!(
        tenant.tx,
        "hex(fingerprint)",
        "SELECT fingerprint FROM provenance WHERE organization = $1 AND repository = $2",
        |query| query.bind(tenant.name).bind(repository)
    );
    Ok(rows.into_iter().map(|(Bytes(artifact),)| artifact).collect())
}

/// The artifacts of a set with the commits of this repository that they were built from, by fingerprint.
pub async fn built(
    tenant: &mut Tenant<'_>,
    repository: Uuid,
    artifacts: BTreeSet<Fingerprint>,
) -> Result<Vec<EmbeddedArtifact>, Error> {
    // Excludes the index on repositories: PostgreSQL underestimates their artifacts and reads all of them.
    const SELECT: &str = "
        SELECT fingerprint AS id, fingerprint, commit_sha, commit_url FROM provenance
        WHERE organization = ? AND repository IS NOT DISTINCT FROM ? AND fingerprint IN (?) ORDER BY fingerprint";
    Ok(fetch_for_all!(tenant.tx, SELECT, artifacts, tenant.name, repository))
}
