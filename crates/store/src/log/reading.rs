//! Reads pages of a log, each entry with its record as it is stored now.

use std::collections::{HashMap, hash_map};

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::types::Uuid;

use crate::database::transaction::{fetch_all, fetch_optional, fetch_optional_scalar, fetch_scalar};
use crate::log::row_id;
use crate::log::rows::RowKind;
use crate::{Error, Transaction};
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
pub async fn page(
    transaction: &mut Transaction,
    organization: &str,
    after: i64,
    limit: i64,
) -> Result<LogPage, Error> {
    const HEAD: &str = "SELECT size, hash FROM log_heads WHERE organization = $1";
    const SELECT: &str = "
        SELECT sequence, at, kind, record AS id, record_hash, hash FROM log_entries
        WHERE organization = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
    const REMOVED: &str = "SELECT audit_removed_before FROM organizations WHERE name = $1";
    let head: Option<Head> = fetch_optional!(transaction, HEAD, organization);
    let rows: Vec<Entry> = fetch_all!(transaction, SELECT, organization, after, limit);
    let removed: Option<Option<i64>> = fetch_optional_scalar!(transaction, REMOVED, organization);
    let audit_horizon = removed.flatten().unwrap_or_default();
    let is_end = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
    let mut reader = Reader { audit_horizon, environments: HashMap::new(), size: 0 };
    let mut entries = Vec::new();
    let mut rows = rows.into_iter();
    for row in rows.by_ref() {
        entries.push(reader.read(transaction, organization, row).await?);
        if reader.size > MAX_RECORD_BYTES {
            break;
        }
    }
    let rows = if is_end && rows.next().is_none() {
        Some(row_counts(transaction, organization, audit_horizon).await?)
    } else {
        None
    };
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
    (
        "unexplained-origin",
        "SELECT COUNT(*) FROM provenance p WHERE p.organization = $1 AND NOT EXISTS
           (SELECT 1 FROM claims c
            WHERE c.organization = p.organization AND c.fingerprint = p.fingerprint AND c.flow = p.flow
              AND c.repository = p.repository AND c.commit_sha IS NOT DISTINCT FROM p.commit_sha
              AND c.priority = p.priority)",
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
            AND (c.commit_sha IS NULL OR c.commit_report IS NOT NULL OR EXISTS
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
    // A flow holds an artifact since its first attestation or report.
    (
        "unexplained-flow-artifact",
        "SELECT COUNT(*) FROM flow_artifacts f
         WHERE f.organization = $1 AND (f.created_at IS DISTINCT FROM
           (SELECT MIN(at) FROM
              (SELECT a.created_at AS at FROM attested_artifacts x JOIN attestations a
                 ON a.organization = x.organization AND a.id = x.attestation
               WHERE x.organization = f.organization AND x.fingerprint = f.fingerprint AND x.report IS NULL
                 AND a.flow = f.flow
               UNION ALL SELECT r.created_at FROM reported_artifacts r
               WHERE r.organization = f.organization AND r.fingerprint = f.fingerprint AND r.flow = f.flow) AS s)
           OR (f.report IS NOT NULL AND NOT EXISTS
              (SELECT 1 FROM reported_artifacts r
               WHERE r.organization = f.organization AND r.id = f.report AND r.fingerprint = f.fingerprint
                 AND r.flow = f.flow)))",
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

/// The numbers of rows that the retention did not remove.
async fn row_counts(
    transaction: &mut Transaction,
    organization: &str,
    audit_horizon: i64,
) -> Result<RowCounts, Error> {
    const OF_ENVIRONMENTS: [(&str, &str, &str); 8] = [
        ("snapshot", "snapshots", "received_at"),
        ("gap", "gaps", "to_at"),
        ("running-artifact", "artifact_runs", "started_at"),
        ("running-artifact-end", "artifact_runs", "ended_at"),
        ("pod", "pod_runs", "started_at"),
        ("pod-end", "pod_runs", "ended_at"),
        ("verdict", "verdicts", "from_at"),
        ("verdict-end", "verdicts", "until_at"),
    ];
    let mut counts = RowCounts::new();
    for (kind, row) in RowKind::all() {
        let since = if kind == Kind::Audit { audit_horizon } else { i64::MIN };
        let (table, time) = (row.table, row.time(kind));
        let select = format!("SELECT COUNT(*) FROM {table} WHERE organization = $1 AND {time} >= $2");
        let count: i64 = fetch_scalar!(transaction, AssertSqlSafe(select), organization, since);
        counts.insert(kind.as_str().to_owned(), count);
    }
    for (kind, table, time) in OF_ENVIRONMENTS {
        let select = format!(
            "SELECT COUNT(*) FROM environments e
               JOIN {table} x ON x.organization = e.organization AND x.environment = e.id
             WHERE e.organization = $1 AND x.{time} >= COALESCE(e.horizon_at, $2)"
        );
        let count: i64 = fetch_scalar!(transaction, AssertSqlSafe(select), organization, i64::MIN);
        counts.insert(kind.to_owned(), count);
    }
    for (kind, select) in UNEXPLAINED {
        let count: i64 = fetch_scalar!(transaction, select, organization);
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
    async fn read(
        &mut self,
        transaction: &mut Transaction,
        organization: &str,
        entry: Entry,
    ) -> Result<RecordedEntry, Error> {
        let mut is_attachment_removed = false;
        let record = match entry.kind.parse::<Kind>().ok() {
            Some(Kind::Start) => Some(start_record(organization)),
            Some(Kind::Removal) => Removal::parse(&entry.id).map(|removal| removal.record()),
            Some(Kind::Environment) => self.environment(transaction, organization, &entry).await?,
            Some(Kind::Audit) if entry.at < self.audit_horizon => None,
            Some(kind) => match RowKind::find(kind).zip(row_id(&entry.id)) {
                Some((row, id)) => {
                    match crate::log::rows::row_record(transaction, row, kind, organization, id).await? {
                        Some(mut record) => {
                            let added = crate::log::attestation::add_related(
                                transaction,
                                kind,
                                organization,
                                id,
                                &mut record,
                            )
                            .await;
                            if kind == Kind::Attestation {
                                let size =
                                    crate::log::attestation::check_attachment(transaction, &mut record)
                                        .await?;
                                is_attachment_removed = size.is_none();
                                self.size += size.unwrap_or_default() / FILE_BYTES;
                            }
                            Some(readable(added.map(|()| Value::from(record)))?)
                        }
                        None => None,
                    }
                }
                None => None,
            },
            None => None,
        };
        self.size += record.as_ref().map_or(0, |record| record.to_string().len());
        Ok(RecordedEntry { entry, record, is_attachment_removed })
    }

    async fn environment(
        &mut self,
        transaction: &mut Transaction,
        organization: &str,
        entry: &Entry,
    ) -> Result<Option<Value>, Error> {
        const SELECT: &str = "SELECT name, horizon_at FROM environments WHERE organization = $1 AND id = $2";
        let Some(id) = row_id(&entry.id) else { return Ok(None) };
        let row = match self.environments.entry(id) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(unknown) => {
                unknown.insert(fetch_optional!(transaction, SELECT, organization, id))
            }
        };
        let Some(row) = row else { return Ok(None) };
        if row.horizon_at.is_some_and(|horizon| entry.at < horizon) {
            return Ok(None);
        }
        let change =
            crate::log::environment::environment_change(transaction, organization, id, entry.at).await;
        let record = change.map(|change| {
            let (id, environment, at) = (&entry.id, &row.name, entry.at);
            json!(ChangeRecord { id, organization, environment, at, change: &change })
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
