//! The log of an organization: a hash chain over the records of all acknowledged changes.
//!
//! `store` appends entries and reads the records, `service` serves and signs them, and `cli` verifies them. docs/reference/log.md
//! describes the formats for other implementations. Pure.

pub mod checkpoint;
pub mod environment_change;
pub mod note;
pub mod verification;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Fingerprint, FingerprintHasher, words};

/// An entry: the record of one change, by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct Entry {
    /// Its position in the log, from 1.
    pub sequence: i64,
    /// When the change was made, in microseconds of Unix time.
    pub at: i64,
    /// The kind of record.
    pub kind: String,
    /// The identifier of the record.
    pub id: String,
    /// SHA-256 of the canonical JSON of the record.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub record_hash: Fingerprint,
    /// Hash of the previous entry and of this one.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hash: Fingerprint,
}

/// A change to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// When the change was made, in microseconds of Unix time.
    pub at: i64,
    pub kind: Kind,
    pub id: String,
    /// SHA-256 of the canonical JSON of the record.
    pub record_hash: Fingerprint,
}

/// The end of a log: its number of entries, and the hash of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct Head {
    pub size: i64,
    /// Hash of the last entry; zero for an empty log.
    pub hash: Fingerprint,
}

words! {
    /// The kind of a record. A kind's records never change: a new column is added only if it may be NULL, since records
    /// omit NULL.
    Kind {
        /// The first entry: the log covers changes from its time on.
        Start "start",
        /// A report, or changed verdicts of an environment.
        Environment "environment",
        Attestation "attestation",
        /// The report of an artifact.
        Artifact "artifact",
        /// An image index with its manifests.
        ImageIndex "image-index",
        /// An entry of the audit log.
        Audit "audit",
        PolicyVersion "policy-version",
        /// The end of a version of a policy.
        PolicyVersionEnd "policy-version-end",
        /// The attachment of a policy to an environment.
        Attachment "policy-attachment",
        /// The end of the attachment of a policy.
        AttachmentEnd "policy-attachment-end",
        /// An allow-list entry.
        Allowance "allowance",
        /// The end of an allow-list entry.
        AllowanceEnd "allowance-end",
        /// A state of an approval.
        Approval "approval",
        /// The end of a state of an approval.
        ApprovalEnd "approval-end",
        /// A version of a flow's template.
        Template "template",
        /// The end of a version of a flow's template.
        TemplateEnd "template-end",
        /// The repositories and images that a flow owns.
        Ownership "ownership",
        OwnershipEnd "ownership-end",
        Token "token",
        TokenEnd "token-end",
        /// An issuer of tokens, with its rules.
        Issuer "issuer",
        IssuerEnd "issuer-end",
        /// A signer whose evidence counts.
        Trust "trust",
        TrustEnd "trust-end",
        /// The retention of an organization, which explains removals.
        Retention "retention",
        RetentionEnd "retention-end",
        /// A new or changed repository.
        Repository "repository",
        /// A new or changed trail.
        Trail "trail",
        /// The retention removed records from before a time.
        Removal "removal",
    }
}

impl Kind {
    /// Whether its rows change: only the last entry of a row matches its record.
    #[must_use]
    pub fn is_revised(self) -> bool {
        matches!(self, Self::Repository | Self::Trail)
    }
}

impl Kind {
    /// The column with the time of a row: that of its entry, or of the first one if the row changes. `None` for kinds without a
    /// row of their own.
    #[must_use]
    pub fn time_column(self) -> Option<&'static str> {
        match self {
            Self::Start | Self::Environment | Self::Removal => None,
            Self::Audit => Some("at"),
            Self::Attachment => Some("attached_at"),
            Self::Approval => Some("modified_at"),
            Self::Attestation
            | Self::Artifact
            | Self::ImageIndex
            | Self::PolicyVersion
            | Self::Allowance
            | Self::Template
            | Self::Ownership
            | Self::Token
            | Self::Issuer
            | Self::Trust
            | Self::Retention
            | Self::Repository
            | Self::Trail => Some("created_at"),
            Self::PolicyVersionEnd
            | Self::AttachmentEnd
            | Self::AllowanceEnd
            | Self::ApprovalEnd
            | Self::TemplateEnd
            | Self::OwnershipEnd
            | Self::TokenEnd
            | Self::IssuerEnd
            | Self::TrustEnd
            | Self::RetentionEnd => Some("closed_at"),
        }
    }
}

impl Head {
    pub const EMPTY: Self = Self { size: 0, hash: Fingerprint::ZERO };

    pub fn append(&mut self, new: NewEntry) -> Entry {
        let NewEntry { at, kind, id, record_hash } = new;
        let sequence = self.size.saturating_add(1);
        let mut entry =
            Entry { sequence, at, kind: kind.as_str().to_owned(), id, record_hash, hash: self.hash };
        entry.hash = entry.chained(self.hash);
        *self = entry.head();
        entry
    }
}

impl Entry {
    /// Hash of the previous entry's hash and the canonical JSON of this entry.
    #[must_use]
    pub fn chained(&self, previous: Fingerprint) -> Fingerprint {
        let Self { sequence, at, kind, id, record_hash, .. } = self;
        let content = canonical(&json!({
            "at": at, "id": id, "kind": kind, "record_hash": record_hash, "sequence": sequence,
        }));
        let mut hasher = FingerprintHasher::default();
        hasher.update(previous.bytes());
        hasher.update(content.as_bytes());
        hasher.finish()
    }

    /// The end of the log after this entry.
    #[must_use]
    pub fn head(&self) -> Head {
        Head { size: self.sequence, hash: self.hash }
    }
}

/// Canonical JSON (RFC 8785) of a record: sorted keys, no white space, and one text per value.
///
/// `serde_json` sorts the keys of its maps, and escapes as the RFC requires. Records have no floating-point numbers, and their
/// keys are ASCII: the order of UTF-16 code units, which the RFC requires, is then that of bytes.
fn canonical(value: &Value) -> String {
    value.to_string()
}

/// SHA-256 of the canonical JSON of a record.
#[must_use]
pub fn record_hash(record: &Value) -> Fingerprint {
    Fingerprint::from_content(canonical(record).as_bytes())
}

/// The record of a log's first entry.
#[must_use]
pub fn start_record(organization: &str) -> Value {
    json!({"organization": organization})
}

/// Records that the retention removes together, before a time. Identifies an entry of kind [`Kind::Removal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The history of an environment, `attachments` or `audit`: see [`Removal::subject_of`].
    pub subject: String,
    /// Changes before this time were removed, in microseconds of Unix time.
    pub before: i64,
}

impl Removal {
    pub const ATTACHMENTS: &str = "attachments";
    pub const AUDIT: &str = "audit";

    /// The subject of the history of an environment.
    #[must_use]
    pub fn history(environment: &str) -> String {
        format!("history/{environment}")
    }

    /// The subject of which an entry's record may be removed; `None` if its record is never removed.
    #[must_use]
    pub fn subject_of(entry: &Entry) -> Option<String> {
        match entry.kind.parse::<Kind>().ok()? {
            Kind::Environment => Some(Self::history(&entry.id)),
            Kind::Audit => Some(Self::AUDIT.to_owned()),
            _ => None,
        }
    }

    /// The field of a record of kind [`Kind::Retention`] with the retention of the subject.
    #[must_use]
    pub fn retention(&self) -> &'static str {
        match self.subject.as_str() {
            Self::ATTACHMENTS => "attachments",
            Self::AUDIT => "audit",
            _ => "history",
        }
    }

    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.subject, self.before)
    }

    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        let (subject, before) = id.rsplit_once('/')?;
        Some(Self { subject: subject.to_owned(), before: before.parse().ok()? })
    }

    #[must_use]
    pub fn record(&self) -> Value {
        json!({"subject": self.subject, "before": self.before})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected text is that of the Python package `rfc8785`.
    #[test]
    fn canonical_json_is_that_of_another_implementation() {
        let value = json!({
            "zeta": null, "alpha": [1, -2, 9_007_199_254_740_991_i64, true, {"b": "", "a": []}],
            "text": "\u{8}\t\n\u{c}\r\u{1f}\u{7f}\"\\/é\u{2028}😀", "Upper": {}
        });
        let expected = "{\"Upper\":{},\"alpha\":[1,-2,9007199254740991,true,{\"a\":[],\"b\":\"\"}],\"text\":\"\\b\\t\\n\\f\\r\\u001f\u{7f}\\\"\\\\/é\u{2028}😀\",\"zeta\":null}";
        assert_eq!(canonical(&value), expected);
    }

    /// The expected hashes are those of Python: `hashlib.sha256(previous + rfc8785.dumps(entry))`.
    #[test]
    fn hash_of_an_entry_is_that_of_another_implementation() {
        let mut head = Head::EMPTY;
        let record_hash = record_hash(&start_record("acme"));
        assert_eq!(
            record_hash.to_string(),
            "d3aa8f1ddb04d9e8187d5728133ee6b740e9a3079de68be0adc4cf76e0e11f5e"
        );
        let at = 1_790_000_000_500_000;
        let first = head.append(NewEntry { at, kind: Kind::Start, id: "acme".into(), record_hash });
        assert_eq!(
            first.hash.to_string(),
            "fac7c73c1ea13349354055f87a331f809c1090c9c53f90f5f207cdacfbdae211"
        );
        let id = "prod é".to_owned();
        let second = head.append(NewEntry { at: at + 1, kind: Kind::Audit, id, record_hash });
        assert_eq!(
            second.hash.to_string(),
            "b74674dfba55adbecd7c5d12f89037e2706ddc348570cec8e0168c818fb5e7d3"
        );
        assert_eq!(head, second.head());
    }

    #[test]
    fn kinds_and_removals_round_trip() {
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        let removal = Removal { subject: Removal::history("e"), before: 7 };
        assert_eq!(removal.id(), "history/e/7");
        assert_eq!(Removal::parse(&removal.id()), Some(removal));
        assert_eq!(Removal::parse("audit"), None);
    }
}
