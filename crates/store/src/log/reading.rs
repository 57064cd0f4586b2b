//! Reads pages of a log, each entry with its record as it is stored now.

use std::collections::{HashMap, hash_map};

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::types::Uuid;

use crate::database::transaction::{fetch_all, fetch_optional, fetch_optional_scalar, fetch_scalar};
use crate::log::row_id;
use crate::log::rows::{RowKind, TimedKind};
use crate::precedence::precedes;
use crate::{Error, Tenant};
use model::log::environment_change::ChangeRecord;
use model::log::verification::{RecordedEntry, RowCounts};
use model::log::{Entry, Head, Kind, Removal, start_record};

#[derive(Debug, Clone)]
pub struct LogPage {
    pub entries: Vec<RecordedEntry>,
    pub head: Head,
    /// On the last page: the numbers of rows that entries should cover.
    pub rows: Option<RowCounts>,
}

/// Maximum size of the records of a page, in bytes of JSON. The last record may exceed it.
const MAX_RECORD_BYTES: usize = 1024 * 1024;

/// Bytes of attached files that count as one byte of a record: they are read, and not returned.
const FILE_BYTES: usize = 16;

#[derive(sqlx::FromRow)]
struct EnvironmentRow {
    name: String,
    horizon_at: Option<i64>,
}

/// The entries of an organization's log after this one, at most `limit`.
pub async fn page(tenant: &mut Tenant<'_>, after: i64, limit: i64) -> Result<LogPage, Error> {
    const HEAD: &str = "SELECT size, hash FROM log_heads WHERE organization = $1";
    const SELECT: &str = "
        SELECT sequence, at, kind, record AS id, record_hash, hash FROM log_entries
        WHERE organization = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
    const REMOVED: &str = "SELECT audit_removed_before FROM organizations WHERE name = $1";
    let head: Option<Head> = fetch_optional!(tenant.tx, HEAD, tenant.name);
    let rows: Vec<Entry> = fetch_all!(tenant.tx, SELECT, tenant.name, after, limit);
    let removed: Option<Option<i64>> = fetch_optional_scalar!(tenant.tx, REMOVED, tenant.name);
    let audit_horizon = removed.flatten().unwrap_or_default();
    let is_end = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
    let mut reader = Reader { audit_horizon, environments: HashMap::new(), size: 0 };
    let mut entries = Vec::new();
    let mut rows = rows.into_iter();
    for row in rows.by_ref() {
        entries.push(reader.read(tenant, row).await?);
        if reader.size > MAX_RECORD_BYTES {
            break;
        }
    }
    let rows =
        if is_end && rows.next().is_none() { Some(row_counts(tenant, audit_horizon).await?) } else { None };
    Ok(LogPage { entries, head: head.unwrap_or(Head::EMPTY), rows })
}

/// Kinds of rows that do not follow from the rows that they are derived from, with a query for their number. No entry has these
/// kinds.
const UNEXPLAINED: [(&str, &str); 7] = [
    (
        "unexplained-latest-attestation",
        "SELECT COUNT(*) FROM latest_attestations l WHERE l.organization = $1 AND NOT EXISTS
           (SELECT 1 FROM attested_artifacts x
              JOIN attestations a ON a.organization = x.organization AND a.id = x.attestation
            WHERE x.organization = l.organization AND x.fingerprint = l.fingerprint
              AND x.attestation = l.attestation AND a.flow = l.flow AND a.name = l.name)",
    ),
    // An artifact has one origin: the first claim of the highest priority.
    (
        "unexplained-origin",
        concat!(
            "SELECT COUNT(*) FROM provenance p WHERE p.organization = $1 AND (NOT EXISTS
           (SELECT 1 FROM claims c
            WHERE c.organization = p.organization AND c.fingerprint = p.fingerprint AND c.flow = p.flow
              AND c.repository = p.repository AND c.commit_sha IS NOT DISTINCT FROM p.commit_sha
              AND c.priority = p.priority)
           OR EXISTS
           (SELECT 1 FROM provenance o
            WHERE o.organization = p.organization AND o.fingerprint = p.fingerprint AND o.repository <> p.repository)
           OR EXISTS
           (SELECT 1 FROM claims c JOIN repositories r ON r.organization = c.organization AND r.id = c.repository
            WHERE c.organization = p.organization AND c.fingerprint = p.fingerprint AND r.closed_at IS NULL AND ",
            precedes!(),
            "))"
        ),
    ),
    // The commit of an attestation is the first field of its JSON.
    (
        "unexplained-claim",
        "SELECT COUNT(*) FROM claims c WHERE c.organization = $1 AND NOT
           (CASE WHEN c.attestation IS NULL
              THEN EXISTS (SELECT 1 FROM reported_artifacts r
                           WHERE r.organization = c.organization AND r.fingerprint = c.fingerprint
                             AND r.flow = c.flow AND r.created_at = c.recorded_at)
              ELSE EXISTS (SELECT 1 FROM attestations a JOIN attested_artifacts x
                             ON x.organization = a.organization AND x.attestation = a.id
                           WHERE a.organization = c.organization AND a.id = c.attestation
                             AND x.fingerprint = c.fingerprint AND a.flow = c.flow AND a.repository = c.repository)
            END
            AND (c.commit_sha IS NULL OR EXISTS
              (SELECT 1 FROM reported_artifacts r
               WHERE r.organization = c.organization AND r.id = c.commit_report AND r.fingerprint = c.fingerprint
                 AND r.flow = c.flow)
              OR EXISTS
              (SELECT 1 FROM attested_artifacts x JOIN attestations a
                 ON a.organization = x.organization AND a.id = x.attestation
               WHERE x.organization = c.organization AND x.fingerprint = c.fingerprint AND a.flow = c.flow
                 AND a.repository = c.repository
                 AND substr(a.git_commit_info, 10, length(c.commit_sha)) = c.commit_sha)))",
    ),
    (
        "unexplained-author",
        "SELECT COUNT(*) FROM artifact_authors n WHERE n.organization = $1 AND NOT
           (CASE WHEN n.attestation IS NULL
              THEN EXISTS (SELECT 1 FROM reported_artifacts r
                           WHERE r.organization = n.organization AND r.id = n.report
                             AND r.fingerprint = n.fingerprint AND r.flow = n.flow)
              ELSE EXISTS (SELECT 1 FROM attestations a JOIN attested_artifacts x
                             ON x.organization = a.organization AND x.attestation = a.id
                           WHERE a.organization = n.organization AND a.id = n.attestation AND a.flow = n.flow
                             AND x.fingerprint = n.fingerprint AND x.report IS NOT DISTINCT FROM n.report)
            END)",
    ),
    // A flow holds an artifact from its first attestation or report to the latest one, in the trail of the latest one with a
    // trail. The latest report counts, of those with a trail if there are any.
    (
        "unexplained-flow-artifact",
        "SELECT COUNT(*) FROM
           (SELECT flow, fingerprint, MIN(at) AS first_at, MAX(at) AS last_at FROM
              (SELECT a.flow, x.fingerprint, a.created_at AS at FROM attested_artifacts x
                 JOIN attestations a ON a.organization = x.organization AND a.id = x.attestation
               WHERE x.organization = $1 AND x.report IS NULL
               UNION ALL SELECT flow, fingerprint, created_at FROM reported_artifacts WHERE organization = $1) AS s
            GROUP BY flow, fingerprint) AS h
           FULL JOIN (SELECT * FROM flow_artifacts WHERE organization = $1) AS f
             ON f.flow = h.flow AND f.fingerprint = h.fingerprint
         WHERE f.created_at IS DISTINCT FROM h.first_at OR f.modified_at IS DISTINCT FROM h.last_at
           OR f.report IS DISTINCT FROM
             (SELECT r.id FROM reported_artifacts r
              WHERE r.organization = $1 AND r.fingerprint = f.fingerprint AND r.flow = f.flow
              ORDER BY r.trail IS NULL, r.created_at DESC, r.id DESC LIMIT 1)
           OR f.trail IS DISTINCT FROM
             (SELECT t.trail FROM
                (SELECT x.trail, a.created_at AS at FROM attested_artifacts x
                   JOIN attestations a ON a.organization = x.organization AND a.id = x.attestation
                 WHERE x.organization = $1 AND x.fingerprint = f.fingerprint AND x.report IS NULL AND a.flow = f.flow
                 UNION ALL SELECT r.trail, r.created_at FROM reported_artifacts r
                 WHERE r.organization = $1 AND r.fingerprint = f.fingerprint AND r.flow = f.flow
                   AND r.trail IS NOT NULL) AS t
              ORDER BY t.at DESC LIMIT 1)",
    ),
    (
        "unexplained-image-manifest",
        "SELECT COUNT(*) FROM (
           SELECT image_index, fingerprint, flow, created_at, is_recent,
                  RANK() OVER (PARTITION BY fingerprint, flow ORDER BY created_at DESC) AS place
           FROM image_manifests WHERE organization = $1) m
         WHERE m.is_recent <> (m.place <= 16) OR NOT EXISTS
           (SELECT 1 FROM image_indexes i WHERE i.organization = $1 AND i.fingerprint = m.image_index
              AND i.flow = m.flow AND i.created_at = m.created_at)",
    ),
    (
        "unexplained-compliance",
        "SELECT COUNT(*) FROM (
           SELECT e.compliance, e.compliant_artifacts, e.unknown_artifacts, e.non_compliant_artifacts,
                  SUM(CASE WHEN v.compliance = 'COMPLIANT' THEN 1 ELSE 0 END) AS compliant,
                  SUM(CASE WHEN v.compliance = 'NON-COMPLIANT' THEN 1 ELSE 0 END) AS non_compliant,
                  COUNT(r.environment) AS artifacts
           FROM environments e
             LEFT JOIN artifact_runs r
               ON r.organization = e.organization AND r.environment = e.id AND r.ended_at IS NULL
             LEFT JOIN verdicts v ON v.organization = e.organization AND v.environment = e.id
               AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
           WHERE e.organization = $1 AND e.compliance IS NOT NULL
           GROUP BY e.organization, e.id) AS s
         WHERE compliant <> compliant_artifacts OR non_compliant <> non_compliant_artifacts
           OR (compliance = 'COMPLIANT' AND unknown_artifacts + non_compliant > 0)
           OR artifacts <> compliant + non_compliant + unknown_artifacts",
    ),
];

/// Rows of environments whose numbers are compared.
struct OfEnvironments {
    kind: &'static str,
    table: &'static str,
    opened_at: &'static str,
    /// The column with the time at which a row ended, for the kind of ends.
    ended_at: Option<&'static str>,
}

impl OfEnvironments {
    /// Counts rows since the horizon of their environment, also those whose end is dated before they began. A comparison with
    /// the horizon alone would skip times that SQLite stores as other types.
    fn select(&self) -> String {
        let Self { table, opened_at, ended_at, .. } = self;
        let ended = ended_at.unwrap_or(opened_at);
        format!(
            "SELECT COUNT(x.{ended}) FROM environments e
               JOIN {table} x ON x.organization = e.organization AND x.environment = e.id
             WHERE e.organization = $1
               AND (e.horizon_at IS NULL OR x.{ended} >= e.horizon_at OR x.{opened_at} >= e.horizon_at)"
        )
    }
}

const OF_ENVIRONMENTS: [OfEnvironments; 8] = {
    const fn rows(kind: &'static str, table: &'static str, opened_at: &'static str) -> OfEnvironments {
        OfEnvironments { kind, table, opened_at, ended_at: None }
    }
    [
        rows("snapshot", "snapshots", "received_at"),
        rows("gap", "gaps", "to_at"),
        rows("running-artifact", "artifact_runs", "started_at"),
        OfEnvironments {
            ended_at: Some("ended_at"),
            ..rows("running-artifact-end", "artifact_runs", "started_at")
        },
        rows("pod", "pod_runs", "started_at"),
        OfEnvironments { ended_at: Some("ended_at"), ..rows("pod-end", "pod_runs", "started_at") },
        rows("verdict", "verdicts", "from_at"),
        OfEnvironments { ended_at: Some("until_at"), ..rows("verdict-end", "verdicts", "from_at") },
    ]
};

/// The numbers of rows that the retention did not remove.
async fn row_counts(tenant: &mut Tenant<'_>, audit_horizon: i64) -> Result<RowCounts, Error> {
    const AUDIT: &str = "SELECT COUNT(*) FROM audit WHERE organization = $1 AND at >= $2";
    let mut counts = RowCounts::new();
    for TimedKind { kind, row, time } in RowKind::all() {
        let count: i64 = if kind == Kind::Audit {
            fetch_scalar!(tenant.tx, AUDIT, tenant.name, audit_horizon)
        } else {
            // Without a comparison, which would skip times that SQLite stores as other types.
            let table = row.table;
            let select = format!("SELECT COUNT({time}) FROM {table} WHERE organization = $1");
            fetch_scalar!(tenant.tx, AssertSqlSafe(select), tenant.name)
        };
        counts.insert(kind.as_str().to_owned(), count);
    }
    for rows in OF_ENVIRONMENTS {
        let count: i64 = fetch_scalar!(tenant.tx, AssertSqlSafe(rows.select()), tenant.name);
        counts.insert(rows.kind.to_owned(), count);
    }
    for (kind, select) in UNEXPLAINED {
        let count: i64 = fetch_scalar!(tenant.tx, select, tenant.name);
        counts.insert(kind.to_owned(), count);
    }
    Ok(counts)
}

/// Reads the records of a page.
struct Reader {
    audit_horizon: i64,
    environments: HashMap<Uuid, Option<EnvironmentRow>>,
    /// Size of the records so far, in bytes.
    size: usize,
}

impl Reader {
    async fn read(&mut self, tenant: &mut Tenant<'_>, entry: Entry) -> Result<RecordedEntry, Error> {
        let mut is_attachment_removed = false;
        let record = match entry.kind.parse::<Kind>().ok() {
            Some(Kind::Start) => Some(start_record(tenant.name)),
            Some(Kind::Removal) => Removal::parse(&entry.id).map(|removal| removal.record()),
            Some(Kind::Environment) => self.environment(tenant, &entry).await?,
            Some(Kind::Audit) if entry.at < self.audit_horizon => None,
            Some(kind) => match RowKind::find(kind).zip(row_id(&entry.id)) {
                Some((row, id)) => match crate::log::rows::row_record(tenant, row, kind, id).await? {
                    Some(mut record) => {
                        let added = crate::log::attestation::add_related(tenant, kind, id, &mut record).await;
                        if kind == Kind::Attestation {
                            let size =
                                crate::log::attestation::check_attachment(tenant.tx, &mut record).await?;
                            is_attachment_removed = size.is_none();
                            self.size += size.unwrap_or_default() / FILE_BYTES;
                        }
                        Some(readable(added.map(|()| Value::from(record)))?)
                    }
                    None => None,
                },
                None => None,
            },
            None => None,
        };
        self.size += record.as_ref().map_or(0, |record| record.to_string().len());
        Ok(RecordedEntry { entry, record, is_attachment_removed })
    }

    async fn environment(&mut self, tenant: &mut Tenant<'_>, entry: &Entry) -> Result<Option<Value>, Error> {
        const SELECT: &str = "SELECT name, horizon_at FROM environments WHERE organization = $1 AND id = $2";
        let Some(id) = row_id(&entry.id) else { return Ok(None) };
        let row = match self.environments.entry(id) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(unknown) => {
                unknown.insert(fetch_optional!(tenant.tx, SELECT, tenant.name, id))
            }
        };
        let Some(row) = row else { return Ok(None) };
        if row.horizon_at.is_some_and(|horizon| entry.at < horizon) {
            return Ok(None);
        }
        let change = crate::log::environment::environment_change(tenant, id, entry.at).await;
        let record = change.map(|change| {
            let (id, environment, at) = (&entry.id, &row.name, entry.at);
            json!(ChangeRecord { id, organization: tenant.name, environment, at, change: &change })
        });
        readable(record).map(Some)
    }
}

/// A record that matches no entry for columns of a type that only a change of the database can cause.
fn readable(record: Result<Value, Error>) -> Result<Value, Error> {
    match record {
        Err(
            Error::Failed(sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_)) | Error::Unreadable(_),
        ) => Ok(json!("unreadable")),
        record => record,
    }
}
