//! The records of single rows, by table.
//!
//! A record has the identifier and these columns, without those that are NULL. The columns of a kind never change; a new one
//! is added only if it is NULL for all earlier rows.

use std::iter;

use serde_json::{Map, Value};
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Column as _, Row as _};

use crate::database::transaction::{fetch_scalars, on};
use crate::log::contradictions::is_latest_contradicted;
use crate::{Error, Tenant};
use model::log::Kind;

/// The type of a column.
#[derive(Debug, Clone, Copy)]
enum Type {
    Text,
    Integer,
    Boolean,
    Bytes,
    Id,
}

/// Columns of a type, as in a `SELECT`. No expression has a comma.
type Columns = (Type, &'static str);

/// Rows of a table whose records are in the log.
pub(crate) struct RowKind {
    kind: Kind,
    /// The kind of the entry that closes a row; `None` for rows that are not closed.
    end: Option<Kind>,
    /// The name of the table, which is `x` in columns.
    pub(crate) table: &'static str,
    columns: &'static [Columns],
}

use Type::{Boolean, Bytes, Id, Integer, Text};

const KINDS: [RowKind; 16] = [
    RowKind {
        kind: Kind::Attestation,
        end: None,
        table: "attestations",
        columns: &[
            (
                Text,
                "x.organization, x.flow, t.organization AS trail_organization, t.flow AS trail_flow,
                 t.name AS trail_name, t.created_by AS trail_created_by, x.name, x.kind, x.targets,
                 x.reported_by, x.results, x.description, x.origin_url, x.user_data, x.annotations,
                 x.external_urls, x.git_commit_info, x.other_fields, x.repo_info, x.signed_evidence,
                 r.organization AS repository_organization, r.name AS repository_name,
                 r.flow AS repository_flow, r.reported_by AS repository_reported_by, x.attachment_name",
            ),
            (
                Integer,
                "t.created_at AS trail_created_at, x.created_at, x.schema_version,
                 r.created_at AS repository_created_at",
            ),
            (Boolean, "x.is_compliant, x.has_verdict"),
            (Bytes, "x.attachment"),
            (Id, "x.trail, x.repository, x.overrides"),
            // Not NULL only if the links between an attestation and its successor differ.
            (
                Integer,
                "CAST(CASE WHEN x.superseded_by IS NOT NULL AND NOT EXISTS
                   (SELECT 1 FROM attestations n
                    WHERE n.organization = x.organization AND n.id = x.superseded_by AND n.overrides = x.id)
                   THEN 1 END AS BIGINT) AS is_successor_contradicted",
            ),
            (
                Integer,
                "CAST(CASE WHEN x.overrides IS NOT NULL AND NOT EXISTS
                   (SELECT 1 FROM attestations o
                    WHERE o.organization = x.organization AND o.id = x.overrides AND o.superseded_by = x.id)
                   THEN 1 END AS BIGINT) AS is_predecessor_contradicted",
            ),
        ],
    },
    RowKind {
        kind: Kind::Artifact,
        end: None,
        table: "reported_artifacts",
        columns: &[
            (Text, "organization, flow, name, template_name, reported_by, content"),
            (Integer, "created_at"),
            (Bytes, "fingerprint"),
            (Id, "trail"),
            // Not NULL only if a latest attestation differs from the attestation that the report linked.
            (
                Integer,
                concat!(
                    "CAST(CASE WHEN EXISTS
                   (SELECT 1 FROM attested_artifacts y
                      JOIN attestations a ON a.organization = y.organization AND a.id = y.attestation
                      LEFT JOIN latest_attestations l ON l.organization = y.organization AND l.fingerprint = y.fingerprint
                        AND l.flow = a.flow AND l.name = a.name
                    WHERE y.organization = x.organization AND y.fingerprint = x.fingerprint AND y.report = x.id AND ",
                    is_latest_contradicted!(),
                    ") THEN 1 END AS BIGINT) AS is_latest_contradicted"
                ),
            ),
        ],
    },
    RowKind {
        kind: Kind::ImageIndex,
        end: None,
        table: "image_indexes",
        columns: &[
            (Text, "organization, flow, reported_by"),
            (Integer, "created_at"),
            (Bytes, "fingerprint"),
        ],
    },
    RowKind {
        kind: Kind::Audit,
        end: None,
        table: "audit",
        columns: &[
            (Text, "organization, actor, change"),
            (Integer, "at"),
        ],
    },
    RowKind {
        kind: Kind::Allowance,
        end: Some(Kind::AllowanceEnd),
        table: "allowances",
        columns: &[
            (Text, "organization, environment, reason, author, pattern"),
            (Integer, "expires_at, created_at"),
            (Boolean, "is_declared"),
            (Bytes, "fingerprint"),
        ],
    },
    RowKind {
        kind: Kind::Approval,
        end: Some(Kind::ApprovalEnd),
        table: "approvals",
        columns: &[
            (Text, "organization, flow, environment, state, content, created_by"),
            (Integer, "number, created_at, modified_at"),
            (Bytes, "target"),
        ],
    },
    RowKind {
        kind: Kind::Template,
        end: Some(Kind::TemplateEnd),
        table: "flow_templates",
        columns: &[
            (Text, "organization, flow, content"),
            (Integer, "version, created_at"),
            (Bytes, "sha256"),
        ],
    },
    RowKind {
        kind: Kind::PolicyVersion,
        end: Some(Kind::PolicyVersionEnd),
        table: "policy_versions",
        columns: &[
            (Text, "organization, name, description, comment, content, created_by"),
            (Integer, "version, created_at"),
            (Boolean, "needs_trails, is_declared"),
        ],
    },
    RowKind {
        kind: Kind::Attachment,
        end: Some(Kind::AttachmentEnd),
        table: "policy_attachments",
        columns: &[
            (Text, "organization, environment, policy, attached_by"),
            (Integer, "attached_at"),
            (Boolean, "is_declared"),
        ],
    },
    RowKind {
        kind: Kind::Ownership,
        end: Some(Kind::OwnershipEnd),
        table: "flow_ownerships",
        columns: &[
            (Text, "organization, flow, content"),
            (Integer, "created_at"),
        ],
    },
    RowKind {
        kind: Kind::Token,
        end: Some(Kind::TokenEnd),
        table: "tokens",
        columns: &[
            (Text, "organization, name, role, scope, created_by"),
            (Integer, "expires_at, created_at"),
            (Boolean, "can_create"),
            (Bytes, "sha256"),
        ],
    },
    RowKind {
        kind: Kind::Issuer,
        end: Some(Kind::IssuerEnd),
        table: "issuers",
        columns: &[
            (Text, "organization, url, content"),
            (Integer, "created_at"),
        ],
    },
    RowKind {
        kind: Kind::Trust,
        end: Some(Kind::TrustEnd),
        table: "trusted_signers",
        columns: &[
            (Text, "organization, content"),
            (Integer, "created_at"),
        ],
    },
    RowKind {
        kind: Kind::Retention,
        end: Some(Kind::RetentionEnd),
        table: "retentions",
        columns: &[
            (Text, "organization"),
            (Integer, "history, attachments, audit, created_at"),
        ],
    },
    RowKind {
        kind: Kind::Repository,
        end: None,
        table: "repositories",
        columns: &[
            (Text, "organization, provider, name, url, external_id, description, flow, reported_by"),
            (Integer, "created_at, closed_at"),
            (Boolean, "is_url_of_owner"),
        ],
    },
    RowKind {
        kind: Kind::Trail,
        end: None,
        table: "trails",
        columns: &[
            (
                Text,
                "organization, flow, name, created_by, description, origin_url, user_data, external_urls,
                 git_commit_info",
            ),
            (Integer, "created_at"),
            (Id, "repository, template"),
        ],
    },
];

/// The trail and the repository of an attestation `x`.
const ATTESTATION_JOINS: &str = "
    JOIN trails t ON t.organization = x.organization AND t.id = x.trail
    LEFT JOIN repositories r ON r.organization = x.organization AND r.id = x.repository";

/// The columns of a closed row.
const END: &[Columns] = &[(Text, "organization"), (Integer, "closed_at")];

/// The columns of a closed approval.
const APPROVAL_END: &[Columns] =
    &[(Text, "organization, withdrawn_by, withdrawal_comment"), (Integer, "closed_at")];

/// A kind of entry.
pub(crate) struct TimedKind {
    pub(crate) kind: Kind,
    pub(crate) row: &'static RowKind,
    /// The column with the time of an entry.
    pub(crate) time: &'static str,
}

impl RowKind {
    /// The table of a kind of entry.
    pub(crate) fn find(kind: Kind) -> Option<&'static Self> {
        KINDS.iter().find(|row| row.kind == kind || row.end == Some(kind))
    }

    /// The columns of the table in the records of its kinds.
    #[cfg(test)]
    pub(crate) fn compared(&self) -> impl Iterator<Item = String> {
        let end = if self.kind == Kind::Approval { APPROVAL_END } else { END };
        let end = end.iter().filter(|_| self.end.is_some());
        let names = self.columns.iter().chain(end).flat_map(|(_, names)| names.split(','));
        let names = names.map(|name| name.trim().trim_start_matches("x."));
        // Others are expressions, or columns of joined tables.
        names.chain(["id"]).filter(|name| !name.contains([' ', '.'])).map(str::to_owned)
    }

    /// The kinds of entries of all tables, with their tables and columns with the time of an entry.
    pub(crate) fn all() -> impl Iterator<Item = TimedKind> {
        let kinds = KINDS
            .iter()
            .flat_map(|row| [Some(row.kind), row.end].into_iter().flatten().zip(iter::repeat(row)));
        kinds.filter_map(|(kind, row)| Some(TimedKind { kind, row, time: kind.time_column()? }))
    }
}

/// Reads a row as an object. A column of another type, which only a change of the database can cause, is marked.
macro_rules! read {
    ($row:expr, $columns:expr) => {{
        let row = $row;
        let mut record = Map::new();
        let types = $columns.iter().flat_map(|(of, names)| names.split(',').map(move |_| *of));
        for (index, column_type) in iter::once(Id).chain(types).enumerate() {
            let value = match column_type {
                Text => row.try_get::<Option<String>, _>(index).map(|value| value.map(Value::from)),
                Integer => row.try_get::<Option<i64>, _>(index).map(|value| value.map(Value::from)),
                Boolean => row.try_get::<Option<bool>, _>(index).map(|value| value.map(Value::from)),
                Bytes => {
                    row.try_get::<Option<Vec<u8>>, _>(index).map(|value| value.map(|v| hex::encode(v).into()))
                }
                Id => {
                    row.try_get::<Option<Uuid>, _>(index).map(|value| value.map(|id| id.to_string().into()))
                }
            };
            let value = value.unwrap_or_else(|_| Some("unreadable".into()));
            if let Some(value) = value {
                record.insert(row.column(index).name().to_owned(), value);
            }
        }
        record
    }};
}

/// The record of a row; `None` if the row does not exist.
pub(crate) async fn row_record(
    tenant: &mut Tenant<'_>,
    row: &RowKind,
    kind: Kind,
    id: Uuid,
) -> Result<Option<Map<String, Value>>, Error> {
    let columns = match kind {
        kind if kind == row.kind => row.columns,
        Kind::ApprovalEnd => APPROVAL_END,
        _ => END,
    };
    let joins = if kind == Kind::Attestation { ATTESTATION_JOINS } else { "" };
    Ok(on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new("SELECT x.id");
        for (_, names) in columns {
            query.push(", ").push(*names);
        }
        query.push(" FROM ").push(row.table).push(" x").push(joins);
        query.push(" WHERE x.organization = ").push_bind(tenant.name);
        query.push(" AND x.id = ").push_bind(id);
        let row = query.build().fetch_optional(connection).await?;
        row.map(|row| read!(row, columns))
    }))
}

/// The declared rows that were opened or closed at a time.
pub(crate) async fn declared_rows(tenant: &mut Tenant<'_>, at: i64) -> Result<Vec<(Kind, Uuid)>, Error> {
    let mut rows = Vec::new();
    for TimedKind { kind, row, time } in RowKind::all().filter(|kind| kind.row.end.is_some()) {
        let table = row.table;
        let select = format!("SELECT id FROM {table} WHERE organization = $1 AND {time} = $2 ORDER BY id");
        let ids: Vec<Uuid> = fetch_scalars!(tenant.tx, AssertSqlSafe(select), tenant.name, at);
        rows.extend(ids.into_iter().map(|id| (kind, id)));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each comma begins a column, whose type would otherwise be that of another one.
    #[test]
    fn no_expression_has_a_comma() {
        for (_, columns) in KINDS.iter().flat_map(|row| row.columns) {
            assert!(!columns.contains('(') || !columns.contains(','), "{columns}");
        }
    }
}
