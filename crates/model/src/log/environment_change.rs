//! The record of a change of an environment: a report, with the verdicts that follow from it, or changed verdicts.
//!
//! `store` fills an [`EnvironmentChange`] while it writes the rows of a change, and again from the rows when the log is
//! read. The two are equal unless a row was changed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{Fingerprint, FingerprintHasher};

/// A change of an environment at one time. Its record omits what did not change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnvironmentChange {
    /// The snapshot that the report started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<NewSnapshot>,
    /// The last report of the snapshot that it ended, in microseconds of Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_confirmed_at: Option<i64>,
    /// Start of the period without reports that the report ended, in microseconds of Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_from: Option<i64>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub artifacts_started: BTreeSet<Fingerprint>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub artifacts_ended: BTreeSet<EndedArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_started: Option<RowsDigest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_ended: Option<RowsDigest>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub verdicts_started: BTreeSet<StartedVerdict>,
    /// The artifacts whose previous verdict ended.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub verdicts_ended: BTreeSet<Fingerprint>,
}

/// A snapshot as it was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct NewSnapshot {
    pub number: i64,
    /// The name of the token.
    pub reported_by: String,
    /// The hash of the report's content.
    pub report_hash: Fingerprint,
    /// The environment's compliance afterwards.
    pub compliance: Option<String>,
}

/// An artifact that ended, as it was reported last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct EndedArtifact {
    pub fingerprint: Fingerprint,
    pub name: String,
    pub pods: i64,
    pub first_snapshot: i64,
    pub last_snapshot: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct StartedVerdict {
    pub fingerprint: Fingerprint,
    pub compliance: String,
    /// Whether an allow-list entry allows it.
    pub is_allowed: bool,
    /// The reasons as JSON.
    pub reasons: String,
}

/// The number and the hash of rows, for the pods of a report, which may be many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowsDigest {
    count: usize,
    sha256: Fingerprint,
}

impl RowsDigest {
    /// The digest of rows, each as the text of its columns; `None` if there are none. Independent of their order.
    #[must_use]
    pub fn new<const N: usize>(mut rows: Vec<[String; N]>) -> Option<Self> {
        if rows.is_empty() {
            return None;
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
        Some(Self { count: rows.len(), sha256: hasher.finish() })
    }
}

/// The record of a change of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeRecord<'a> {
    pub id: &'a str,
    pub organization: &'a str,
    pub environment: &'a str,
    /// The time of the change, in microseconds of Unix time.
    pub at: i64,
    /// What changed, in the same object.
    #[serde(flatten)]
    pub change: &'a EnvironmentChange,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn record_omits_what_did_not_change() {
        let change = EnvironmentChange::default();
        let record =
            ChangeRecord { id: "e", organization: "acme", environment: "prod", at: 7, change: &change };
        let expected = json!({"id": "e", "organization": "acme", "environment": "prod", "at": 7});
        assert_eq!(json!(record), expected);
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
        assert_eq!(RowsDigest::new::<2>(Vec::new()), None);
    }
}
