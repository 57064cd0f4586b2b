//! Verifies a log entry by entry: the chain, the records, and what the retention may have removed.
//!
//! Memory does not depend on the number of entries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checkpoint::Checkpoint;
use super::{Entry, Head, Kind, Removal, record_hash};
use crate::Fingerprint;
use crate::escape::Escaped;

/// An entry with its record as it is stored now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedEntry {
    /// The entry.
    #[serde(flatten)]
    pub entry: Entry,
    /// The record; `null` if it is not stored.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub record: Option<Value>,
    /// Whether the retention removed the file of this attestation. Its hash remains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_attachment_removed: bool,
}

/// The numbers of rows per kind, to find rows that no entry covers.
pub type RowCounts = BTreeMap<String, i64>;

/// A log that does not match its records or a checkpoint. Messages name the first entry that differs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The log is empty, or its first entry is not a start.
    #[error("entry 1 is not the start of a log of this organization")]
    NoStart,
    /// Entries are missing, or in another order.
    #[error("entry {expected} is missing: entry {actual} follows entry {}", expected - 1)]
    Sequence {
        expected: i64,
        /// The position of the next entry.
        actual: i64,
    },
    #[error("{0} was changed: its hash does not follow from its content and the previous entry")]
    Hash(Subject),
    #[error("{0} does not match its record, which was changed: SHA-256 {1}, recorded {2}")]
    Record(Subject, Fingerprint, Fingerprint),
    /// An entry for a row of another time.
    #[error("{0} does not have the time of its record")]
    Time(Subject),
    #[error("{0} has no record: it was removed, and no entry of the log says that the retention removed it")]
    Missing(Subject),
    #[error(
        "{0} has no attached file: it was removed, and no entry of the log says that the retention removed it"
    )]
    MissingAttachment(Subject),
    #[error("the log has {size} entries, and the checkpoint {expected}: entries were removed from its end")]
    Truncated {
        size: i64,
        /// Number of entries of the checkpoint.
        expected: i64,
    },
    /// The log has other entries than a checkpoint.
    #[error("the log does not extend the checkpoint: entry {0} has another hash")]
    Checkpoint(i64),
    /// Records were removed that the retention of the organization keeps.
    #[error("{0} removes records that the retention of the organization keeps at this time")]
    Removal(Subject),
    /// An entry that was added after the checkpoint, with a time long before it.
    #[error("{entry} was added after the checkpoint, and is dated {} s before it", before / 1_000_000)]
    Backdated {
        entry: Subject,
        /// In microseconds.
        before: i64,
    },
    /// Rows without an entry.
    #[error("{rows} rows of kind {kind} are stored, and the log has {entries}: rows were added or removed")]
    Rows { kind: String, rows: i64, entries: i64 },
}

/// How much earlier than the last entry of a checkpoint a later entry may be, in microseconds: the clocks of replicas differ,
/// and a transaction takes its time before it waits for others.
const MAX_BACKDATED: i64 = 60 * 60 * 1_000_000;

/// An entry in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject(Box<Entry>);

impl From<Entry> for Subject {
    fn from(entry: Entry) -> Self {
        Self(Box::new(entry))
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Entry { sequence, at, kind, id, .. } = &*self.0;
        write!(
            f,
            "entry {sequence} ({} {}, at {}.{:06} s)",
            Escaped(kind),
            Escaped(id),
            at / 1_000_000,
            at % 1_000_000
        )
    }
}

#[derive(Debug, Clone)]
pub struct Verifier {
    organization: Option<String>,
    head: Head,
    since: Option<Head>,
    /// The time of the last entry of `since`, once it was verified.
    since_at: Option<i64>,
    /// The retention in effect, by its identifier.
    retention: Option<(String, Value)>,
    /// The last missing record of each subject of the retention.
    missing: BTreeMap<String, MissingRecord>,
    /// The time up to which the retention removed records, by subject.
    removed: BTreeMap<String, i64>,
    rows: RowCounts,
    /// Entries of rows that changed, by kind and identifier, until a later entry of the row matches its record.
    revised: BTreeMap<(Kind, String), Mismatch>,
}

#[derive(Debug, Clone)]
struct MissingRecord {
    entry: Entry,
    mismatch: fn(Subject) -> Mismatch,
}

impl Verifier {
    /// Starts at the beginning of a log, which must be of this organization if one is given, and extend `since`.
    #[must_use]
    pub fn new(organization: Option<&str>, since: Option<Head>) -> Self {
        Self {
            organization: organization.map(str::to_owned),
            head: Head::EMPTY,
            since,
            since_at: None,
            retention: None,
            missing: BTreeMap::new(),
            removed: BTreeMap::new(),
            rows: RowCounts::new(),
            revised: BTreeMap::new(),
        }
    }

    /// The end of the verified part.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// Verifies the next entry.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] if it does not follow the previous one, or does not match its record.
    pub fn accept(&mut self, recorded: RecordedEntry) -> Result<(), Mismatch> {
        let RecordedEntry { entry, record, is_attachment_removed } = recorded;
        let expected = self.head.size.saturating_add(1);
        if entry.sequence != expected {
            return Err(Mismatch::Sequence { expected, actual: entry.sequence });
        }
        let kind = entry.kind.parse::<Kind>().ok();
        let is_start = kind == Some(Kind::Start);
        let is_other = |organization: &String| is_start && *organization != entry.id;
        if is_start != (expected == 1) || self.organization.as_ref().is_some_and(is_other) {
            return Err(Mismatch::NoStart);
        }
        if entry.chained(self.head.hash) != entry.hash {
            return Err(Mismatch::Hash(Subject::from(entry)));
        }
        self.head = entry.head();
        if let Some(before) = self.since_at.map(|at| at.saturating_sub(entry.at))
            && before > MAX_BACKDATED
        {
            return Err(Mismatch::Backdated { entry: Subject::from(entry), before });
        }
        if let Some(since) = self.since
            && since.size == self.head.size
        {
            if since != self.head {
                return Err(Mismatch::Checkpoint(since.size));
            }
            self.since_at = Some(entry.at);
        }
        match &record {
            Some(record) => {
                let hash = record_hash(record);
                self.count(&entry, record);
                let mismatch = (hash != entry.record_hash)
                    .then(|| Mismatch::Record(Subject::from(entry.clone()), hash, entry.record_hash));
                if let Some(kind) = kind.filter(|kind| kind.is_revised()) {
                    let row = (kind, entry.id.clone());
                    self.revised.remove(&row);
                    self.revised.extend(mismatch.map(|mismatch| (row, mismatch)));
                } else if let Some(mismatch) = mismatch {
                    return Err(mismatch);
                } else if let Some(column) = kind.and_then(Kind::time_column)
                    && record.get(column).and_then(Value::as_i64) != Some(entry.at)
                {
                    return Err(Mismatch::Time(Subject::from(entry)));
                }
                match kind {
                    Some(Kind::Removal) => self.remove(&entry)?,
                    Some(Kind::Retention) => self.retention = Some((entry.id.clone(), record.clone())),
                    Some(Kind::RetentionEnd) => drop(self.retention.take_if(|(id, _)| *id == entry.id)),
                    _ => {}
                }
                if is_attachment_removed {
                    self.miss(Removal::ATTACHMENTS.to_owned(), entry, Mismatch::MissingAttachment);
                }
            }
            None => match Removal::subject_of(&entry) {
                Some(subject) => self.miss(subject, entry, Mismatch::Missing),
                None => return Err(Mismatch::Missing(Subject::from(entry))),
            },
        }
        Ok(())
    }

    /// Ends the verification with the checkpoint of the log, and with the numbers of rows if the retention did not remove any
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] if records are missing, if there are rows without entries, or if the checkpoint is another.
    pub fn finish(self, checkpoint: &Checkpoint, rows: Option<&RowCounts>) -> Result<Head, Mismatch> {
        for (size, expected) in [
            (self.head.size, self.since.map_or(0, |since| since.size)),
            (self.head.size, checkpoint.head.size),
        ] {
            if size < expected {
                return Err(Mismatch::Truncated { size, expected });
            }
        }
        if self.head == Head::EMPTY {
            return Err(Mismatch::NoStart);
        }
        if checkpoint.head != self.head {
            return Err(Mismatch::Checkpoint(checkpoint.head.size));
        }
        if let Some(mismatch) = self.revised.into_values().next() {
            return Err(mismatch);
        }
        for (subject, MissingRecord { entry, mismatch }) in self.missing {
            if self.removed.get(&subject).is_none_or(|before| entry.at >= *before) {
                return Err(mismatch(Subject::from(entry)));
            }
        }
        for (kind, rows) in rows.into_iter().flatten() {
            let entries = self.rows.get(kind).copied().unwrap_or_default();
            if entries != *rows {
                return Err(Mismatch::Rows { kind: kind.clone(), rows: *rows, entries });
            }
        }
        Ok(self.head)
    }

    /// Remembers the latest missing record of a subject.
    fn miss(&mut self, subject: String, entry: Entry, mismatch: fn(Subject) -> Mismatch) {
        if self.missing.get(&subject).is_none_or(|missing| missing.entry.at < entry.at) {
            self.missing.insert(subject, MissingRecord { entry, mismatch });
        }
    }

    /// Accepts a removal of what is older than the retention in effect.
    fn remove(&mut self, entry: &Entry) -> Result<(), Mismatch> {
        let is_explained = |removal: &Removal| {
            let (_, retention) = self.retention.as_ref()?;
            let kept = retention.get(removal.retention()).and_then(Value::as_i64)?;
            Some(removal.before.saturating_add(kept) <= entry.at)
        };
        let removal = Removal::parse(&entry.id).filter(|removal| is_explained(removal) == Some(true));
        let Removal { subject, before } =
            removal.ok_or_else(|| Mismatch::Removal(Subject::from(entry.clone())))?;
        let known = self.removed.entry(subject).or_insert(before);
        *known = before.max(*known);
        Ok(())
    }

    /// Counts the rows of a record, under the names of [`RowCounts`].
    fn count(&mut self, entry: &Entry, record: &Value) {
        if entry.kind.parse::<Kind>().is_ok_and(Kind::is_revised)
            && record.get("created_at").and_then(Value::as_i64) != Some(entry.at)
        {
            return;
        }
        if entry.kind != Kind::Environment.as_str() {
            *self.rows.entry(entry.kind.clone()).or_default() += 1;
            return;
        }
        let length = |field: &str| record.get(field).and_then(Value::as_array).map_or(0, Vec::len);
        let has = |field: &str| usize::from(record.get(field).is_some());
        let pods = |field: &str| record.get(field).and_then(|pods| pods.get("count")).and_then(Value::as_i64);
        let lengths = [
            ("snapshot", has("snapshot")),
            ("gap", has("gap_from")),
            ("running-artifact", length("artifacts_started")),
            ("running-artifact-end", length("artifacts_ended")),
            ("verdict", length("verdicts_started")),
            ("verdict-end", length("verdicts_ended")),
        ];
        let counts = lengths.map(|(kind, rows)| (kind, i64::try_from(rows).unwrap_or(i64::MAX)));
        let pods = [("pod", "pods_started"), ("pod-end", "pods_ended")]
            .map(|(kind, field)| (kind, pods(field).unwrap_or_default()));
        for (kind, rows) in counts.into_iter().chain(pods) {
            *self.rows.entry(kind.to_owned()).or_default() += rows;
        }
    }
}

#[cfg(test)]
mod tests;
