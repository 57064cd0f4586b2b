//! The record of a change of an environment: a report, with the verdicts that follow from it, or changed verdicts.
//!
//! `store` fills an [`EnvironmentChange`] while it writes the rows of a change, and again from the rows when the log is
//! read. The two are equal unless a row was changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::domain::model::{Fingerprint, FingerprintHasher, Timestamp};

/// A change of an environment at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentChange {
    /// The snapshot that the report started.
    pub snapshot: Option<NewSnapshot>,
    /// The last report of the snapshot that it ended.
    pub previous_confirmed_at: Option<Timestamp>,
    /// Start of the period without reports that the report ended.
    pub gap_from: Option<Timestamp>,
    /// The artifacts that started.
    pub artifacts_started: BTreeSet<Fingerprint>,
    /// The artifacts that ended.
    pub artifacts_ended: BTreeMap<Fingerprint, EndedArtifact>,
    /// The pods that started.
    pub pods_started: RowsDigest,
    /// The pods that ended.
    pub pods_ended: RowsDigest,
    /// The verdicts that started.
    pub verdicts_started: BTreeMap<Fingerprint, StartedVerdict>,
    /// The artifacts whose previous verdict ended.
    pub verdicts_ended: BTreeSet<Fingerprint>,
}

/// A snapshot as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSnapshot {
    /// Its number.
    pub number: i64,
    /// The name of the token.
    pub reported_by: String,
    /// The hash of the report's content.
    pub report_hash: Fingerprint,
    /// The environment's compliance afterwards.
    pub compliance: Option<String>,
}

/// An artifact that ended, as it was reported last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedArtifact {
    /// Its image name.
    pub name: String,
    /// Its number of pods.
    pub pods: i64,
    /// The first snapshot that contains it.
    pub first_snapshot: i64,
    /// The last snapshot that contains it.
    pub last_snapshot: Option<i64>,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedVerdict {
    /// The compliance of the artifact.
    pub compliance: String,
    /// Whether an allow-list entry allows it.
    pub is_allowed: bool,
    /// The reasons as JSON.
    pub reasons: String,
}

/// The number and the hash of rows, for the pods of a report, which may be many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsDigest(Option<(usize, Fingerprint)>);

impl RowsDigest {
    /// The digest of rows, each as the text of its columns. Independent of their order.
    #[must_use]
    pub fn new<const N: usize>(mut rows: Vec<[String; N]>) -> Self {
        if rows.is_empty() {
            return Self(None);
        }
        rows.sort_unstable();
        let mut hasher = FingerprintHasher::default();
        for row in &rows {
            for column in row {
                // The length separates columns, whatever their content.
                hasher.update(format!("{}:", column.len()).as_bytes());
                hasher.update(column.as_bytes());
            }
            hasher.update(b"\n");
        }
        Self(Some((rows.len(), hasher.finish())))
    }
}

/// An environment of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedEnvironment<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// Its organization.
    pub organization: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl EnvironmentChange {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The record of the change. Omits what did not change.
    #[must_use]
    pub fn record(&self, environment: &ChangedEnvironment<'_>, at: i64) -> Value {
        let ChangedEnvironment { id, organization, name } = environment;
        let mut record = Map::new();
        record.insert("id".into(), json!(id));
        record.insert("organization".into(), json!(organization));
        record.insert("environment".into(), json!(name));
        record.insert("at".into(), json!(at));
        let fields = [
            ("snapshot", self.snapshot.as_ref().map(NewSnapshot::record)),
            ("previous_confirmed_at", self.previous_confirmed_at.map(|at| json!(at.micros()))),
            ("gap_from", self.gap_from.map(|at| json!(at.micros()))),
            ("artifacts_started", list(self.artifacts_started.iter().map(|artifact| json!(artifact)))),
            ("artifacts_ended", list(self.artifacts_ended.iter().map(EndedArtifact::record))),
            ("pods_started", self.pods_started.record()),
            ("pods_ended", self.pods_ended.record()),
            ("verdicts_started", list(self.verdicts_started.iter().map(StartedVerdict::record))),
            ("verdicts_ended", list(self.verdicts_ended.iter().map(|artifact| json!(artifact)))),
        ];
        record.extend(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Value::Object(record)
    }
}

fn list(items: impl Iterator<Item = Value>) -> Option<Value> {
    let items: Vec<Value> = items.collect();
    (!items.is_empty()).then_some(Value::Array(items))
}

impl NewSnapshot {
    fn record(&self) -> Value {
        let Self { number, reported_by, report_hash, compliance } = self;
        json!({
            "number": number, "reported_by": reported_by, "report_hash": report_hash, "compliance": compliance,
        })
    }
}

impl EndedArtifact {
    fn record((artifact, ended): (&Fingerprint, &Self)) -> Value {
        let Self { name, pods, first_snapshot, last_snapshot } = ended;
        json!({
            "fingerprint": artifact, "name": name, "pods": pods, "first_snapshot": first_snapshot,
            "last_snapshot": last_snapshot,
        })
    }
}

impl StartedVerdict {
    fn record((artifact, verdict): (&Fingerprint, &Self)) -> Value {
        let Self { compliance, is_allowed, reasons } = verdict;
        json!({"fingerprint": artifact, "compliance": compliance, "is_allowed": is_allowed, "reasons": reasons})
    }
}

impl RowsDigest {
    fn record(&self) -> Option<Value> {
        self.0.map(|(count, sha256)| json!({"count": count, "sha256": sha256}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_omits_what_did_not_change() {
        let environment = ChangedEnvironment { id: "e", organization: "acme", name: "prod" };
        let record = EnvironmentChange::default().record(&environment, 7);
        assert_eq!(record, json!({"id": "e", "organization": "acme", "environment": "prod", "at": 7}));
    }

    #[test]
    fn digest_of_rows_depends_on_their_columns_but_not_on_their_order() {
        let row = |one: &str, other: &str| [one.to_owned(), other.to_owned()];
        let digest = RowsDigest::new(vec![row("a", "b"), row("c", "d")]);
        assert_eq!(digest, RowsDigest::new(vec![row("c", "d"), row("a", "b")]));
        for other in [
            vec![row("a", "b")],
            vec![row("a", "d"), row("c", "b")],
            vec![row("ab", ""), row("c", "d")],
            vec![row("a", "b"), row("c", "d"), row("c", "d")],
        ] {
            assert_ne!(digest, RowsDigest::new(other));
        }
        assert_eq!(RowsDigest::new::<2>(Vec::new()), RowsDigest::default());
    }
}
