//! Reads pages of a log, each entry with its record as it is stored now.

use std::collections::HashMap;

use serde_json::{Value, json};
use sqlx::types::Uuid;

use super::rows::RowKind;
use super::{HeadRow, row_id};
use crate::domain::evidence::log::environment_change::ChangedEnvironment;
use crate::domain::evidence::log::verification::{RecordedEntry, RowCounts};
use crate::domain::evidence::log::{Entry, Head, Kind, Removal, start_record};
use crate::domain::model::Fingerprint;
use crate::store::transaction::{fetch_all, fetch_optional, fetch_scalar, on};
use crate::store::{Error, Transaction};

/// A page of a log.
#[derive(Debug, Clone)]
pub struct LogPage {
    /// Its entries.
    pub entries: Vec<RecordedEntry>,
    /// The end of the log.
    pub head: Head,
    /// On the last page: the numbers of rows that entries should cover.
    pub rows: Option<RowCounts>,
}

/// Maximum size of the records of a page, in bytes of JSON. The last record may exceed it.
const MAX_RECORD_BYTES: usize = 1024 * 1024;

/// Bytes of attached files that count as one byte of a record: they are read, and not returned.
const FILE_BYTES: usize = 16;

#[derive(sqlx::FromRow)]
struct EntryRow {
    sequence: i64,
    at: i64,
    kind: String,
    record: String,
    record_hash: Fingerprint,
    hash: Fingerprint,
}

impl EntryRow {
    fn entry(self) -> Entry {
        let Self { sequence, at, kind, record, record_hash, hash } = self;
        Entry { sequence, at, kind, id: record, record_hash, hash }
    }
}

/// An environment of the organization.
#[derive(Clone, sqlx::FromRow)]
struct EnvironmentRow {
    name: String,
    horizon_at: Option<i64>,
}

/// The times before which the retention removed rows of an organization.
#[derive(Default, sqlx::FromRow)]
struct RemovedRow {
    audit_removed_before: Option<i64>,
}

impl Transaction {
    /// The entries of an organization's log after this one, at most `limit`.
    pub async fn log_page(&mut self, organization: &str, after: i64, limit: i64) -> Result<LogPage, Error> {
        const HEAD: &str = "SELECT size, hash FROM log_heads WHERE organization = $1";
        const SELECT: &str = "
            SELECT sequence, at, kind, record, record_hash, hash FROM log_entries
            WHERE organization = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
        const REMOVED: &str = "SELECT audit_removed_before FROM organizations WHERE name = $1";
        let head: Option<HeadRow> = fetch_optional!(self, HEAD, organization);
        let head = head.map_or(Head::EMPTY, HeadRow::head);
        let rows: Vec<EntryRow> = fetch_all!(self, SELECT, organization, after, limit);
        let removed: Option<RemovedRow> = fetch_optional!(self, REMOVED, organization);
        let audit_horizon = removed.unwrap_or_default().audit_removed_before.unwrap_or_default();
        let is_end = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let mut reader = Reader { audit_horizon, environments: HashMap::new(), size: 0 };
        let mut entries = Vec::new();
        let mut rows = rows.into_iter();
        for row in rows.by_ref() {
            let entry = reader.read(self, organization, row.entry()).await?;
            entries.push(entry);
            if reader.size > MAX_RECORD_BYTES {
                break;
            }
        }
        let rows = if is_end && rows.next().is_none() {
            Some(self.row_counts(organization, audit_horizon).await?)
        } else {
            None
        };
        Ok(LogPage { entries, head, rows })
    }

    async fn changed_environment(
        &mut self,
        organization: &str,
        id: Uuid,
    ) -> Result<Option<EnvironmentRow>, Error> {
        const SELECT: &str = "SELECT name, horizon_at FROM environments WHERE organization = $1 AND id = $2";
        Ok(fetch_optional!(self, SELECT, organization, id))
    }

    /// The numbers of rows that the retention did not remove.
    async fn row_counts(&mut self, organization: &str, audit_horizon: i64) -> Result<RowCounts, Error> {
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
        // Rows that follow from others. No entry has these kinds.
        const UNEXPLAINED: [(&str, &str); 3] = [
            (
                "unexplained-latest-attestation",
                "SELECT COUNT(*) FROM latest_attestations l WHERE l.organization = $1 AND NOT EXISTS
                   (SELECT 1 FROM attested_artifacts x
                      JOIN attestations a ON a.organization = x.organization AND a.id = x.attestation
                    WHERE x.organization = l.organization AND x.fingerprint = l.fingerprint
                      AND x.attestation = l.attestation AND a.flow = l.flow AND a.name = l.name)",
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
        let mut counts = RowCounts::new();
        for (kind, row) in RowKind::all() {
            let since = if kind == Kind::Audit { audit_horizon } else { i64::MIN };
            let count: i64 = on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new("SELECT COUNT(*) FROM ");
                query.push(row.table()).push(" WHERE organization = ").push_bind(organization);
                query.push(" AND ").push(row.time(kind)).push(" >= ").push_bind(since);
                query.build_query_scalar().fetch_one(connection).await?
            });
            counts.insert(kind.as_str().to_owned(), count);
        }
        for (kind, table, time) in OF_ENVIRONMENTS {
            let count: i64 = on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new("SELECT COUNT(*) FROM environments e JOIN ");
                query.push(table).push(" x ON x.organization = e.organization AND x.environment = e.id");
                query.push(" WHERE e.organization = ");
                query.push_bind(organization).push(" AND x.").push(time);
                query.push(" >= COALESCE(e.horizon_at, ").push_bind(i64::MIN).push(")");
                query.build_query_scalar().fetch_one(connection).await?
            });
            counts.insert(kind.to_owned(), count);
        }
        for (kind, select) in UNEXPLAINED {
            let count: i64 = fetch_scalar!(self, select, organization);
            counts.insert(kind.to_owned(), count);
        }
        Ok(counts)
    }
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
        let record = match Kind::parse(&entry.kind) {
            Some(Kind::Start) => Some(start_record(organization)),
            Some(Kind::Removal) => Removal::parse(&entry.id).map(|removal| removal.record()),
            Some(Kind::Environment) => self.environment(transaction, organization, &entry).await?,
            Some(Kind::Audit) if entry.at < self.audit_horizon => None,
            Some(kind) => {
                let (row, id) = (RowKind::find(kind), row_id(&entry.id));
                let record = match (row, id) {
                    (Some(row), Some(id)) => {
                        transaction.row_record(row, kind, organization, id).await?.map(|record| (id, record))
                    }
                    _ => None,
                };
                match record {
                    Some((id, mut record)) if kind == Kind::Attestation => {
                        let added = transaction.add_related(kind, organization, id, &mut record).await;
                        let size = transaction.check_attachment(&mut record).await?;
                        is_attachment_removed = size.is_none();
                        self.size += size.unwrap_or_default() / FILE_BYTES;
                        let record = readable(added.map(|()| Value::from(record)))?;
                        Some(record)
                    }
                    Some((id, mut record)) => {
                        let added = transaction.add_related(kind, organization, id, &mut record).await;
                        Some(readable(added.map(|()| Value::from(record)))?)
                    }
                    None => None,
                }
            }
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
        let Some(id) = row_id(&entry.id) else { return Ok(None) };
        let row = match self.environments.get(&id) {
            Some(row) => row.clone(),
            None => transaction.changed_environment(organization, id).await?,
        };
        self.environments.insert(id, row.clone());
        let Some(row) = row else { return Ok(None) };
        if row.horizon_at.is_some_and(|horizon| entry.at < horizon) {
            return Ok(None);
        }
        let change = transaction.environment_change(organization, id, entry.at).await;
        let environment = ChangedEnvironment { id: &entry.id, organization, name: &row.name };
        readable(change.map(|change| change.record(&environment, entry.at))).map(Some)
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
