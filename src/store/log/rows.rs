//! The records of single rows, by table.
//!
//! A record has the columns in the order of this table, without those that are NULL. The columns of a kind never change; a
//! new one is added only if it is NULL for all earlier rows.

use serde_json::{Map, Value};
use sqlx::types::Uuid;
use sqlx::{Column as _, Row as _};

use super::contradictions::is_latest_contradicted;
use crate::domain::evidence::log::Kind;
use crate::store::from_row::all_from_rows;
use crate::store::transaction::on;
use crate::store::{Error, Transaction};

/// The type of a column.
#[derive(Debug, Clone, Copy)]
enum Type {
    Text,
    Integer,
    Boolean,
    Bytes,
    Id,
}

/// Rows of a table whose records are in the log.
pub(super) struct RowKind {
    kind: Kind,
    /// The kind of the entry that closes a row; `None` for rows that are not closed.
    end: Option<Kind>,
    table: &'static str,
    /// The table, with others that its columns come from.
    from: &'static str,
    /// The column with the time at which the row was opened.
    opened_at: &'static str,
    columns: &'static [(&'static str, Type)],
}

use Type::{Boolean, Bytes, Id, Integer, Text};

const KINDS: [RowKind; 13] = [
    RowKind {
        kind: Kind::Attestation,
        end: None,
        table: "attestations",
        from: "attestations x JOIN trails t ON t.organization = x.organization AND t.id = x.trail
               LEFT JOIN repositories r ON r.organization = x.organization AND r.id = x.repository",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.flow", Text),
            ("x.trail", Id),
            ("t.organization AS trail_organization", Text),
            ("t.flow AS trail_flow", Text),
            ("t.name AS trail_name", Text),
            ("t.created_at AS trail_created_at", Integer),
            ("t.created_by AS trail_created_by", Text),
            ("x.name", Text),
            ("x.kind", Text),
            ("x.targets", Text),
            ("x.created_at", Integer),
            ("x.reported_by", Text),
            ("x.schema_version", Integer),
            ("x.is_compliant", Boolean),
            ("x.results", Text),
            ("x.description", Text),
            ("x.origin_url", Text),
            ("x.user_data", Text),
            ("x.annotations", Text),
            ("x.external_urls", Text),
            ("x.git_commit_info", Text),
            ("x.has_verdict", Boolean),
            ("x.other_fields", Text),
            ("x.repo_info", Text),
            ("x.repository", Id),
            ("r.organization AS repository_organization", Text),
            ("r.name AS repository_name", Text),
            ("r.created_at AS repository_created_at", Integer),
            ("r.flow AS repository_flow", Text),
            ("r.reported_by AS repository_reported_by", Text),
            ("x.attachment", Bytes),
            ("x.attachment_name", Text),
            ("x.overrides", Id),
            // Not NULL only if the links between an attestation and its successor differ.
            (
                "CAST(CASE WHEN x.superseded_by IS NOT NULL AND NOT EXISTS
                   (SELECT 1 FROM attestations n
                    WHERE n.organization = x.organization AND n.id = x.superseded_by AND n.overrides = x.id)
                   THEN 1 END AS BIGINT) AS is_successor_contradicted",
                Integer,
            ),
            (
                "CAST(CASE WHEN x.overrides IS NOT NULL AND NOT EXISTS
                   (SELECT 1 FROM attestations o
                    WHERE o.organization = x.organization AND o.id = x.overrides AND o.superseded_by = x.id)
                   THEN 1 END AS BIGINT) AS is_predecessor_contradicted",
                Integer,
            ),
        ],
    },
    RowKind {
        kind: Kind::Artifact,
        end: None,
        table: "reported_artifacts",
        from: "reported_artifacts x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.flow", Text),
            ("x.trail", Id),
            ("x.fingerprint", Bytes),
            ("x.name", Text),
            ("x.template_name", Text),
            ("x.created_at", Integer),
            ("x.reported_by", Text),
            ("x.content", Text),
            // Not NULL only if a latest attestation differs from the attestation that the report linked.
            (
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
                Integer,
            ),
        ],
    },
    RowKind {
        kind: Kind::ImageIndex,
        end: None,
        table: "image_indexes",
        from: "image_indexes x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.fingerprint", Bytes),
            ("x.flow", Text),
            ("x.reported_by", Text),
            ("x.created_at", Integer),
        ],
    },
    RowKind {
        kind: Kind::Audit,
        end: None,
        table: "audit",
        from: "audit x",
        opened_at: "at",
        columns: &[("x.organization", Text), ("x.at", Integer), ("x.actor", Text), ("x.change", Text)],
    },
    RowKind {
        kind: Kind::Allowance,
        end: Some(Kind::AllowanceEnd),
        table: "allowances",
        from: "allowances x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.environment", Text),
            ("x.fingerprint", Bytes),
            ("x.reason", Text),
            ("x.author", Text),
            ("x.expires_at", Integer),
            ("x.created_at", Integer),
            ("x.pattern", Text),
        ],
    },
    RowKind {
        kind: Kind::Approval,
        end: Some(Kind::ApprovalEnd),
        table: "approvals",
        from: "approvals x",
        opened_at: "modified_at",
        columns: &[
            ("x.organization", Text),
            ("x.flow", Text),
            ("x.number", Integer),
            ("x.target", Bytes),
            ("x.environment", Text),
            ("x.state", Text),
            ("x.content", Text),
            ("x.created_at", Integer),
            ("x.modified_at", Integer),
            ("x.created_by", Text),
        ],
    },
    RowKind {
        kind: Kind::Template,
        end: Some(Kind::TemplateEnd),
        table: "flow_templates",
        from: "flow_templates x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.flow", Text),
            ("x.version", Integer),
            ("x.content", Text),
            ("x.created_at", Integer),
        ],
    },
    RowKind {
        kind: Kind::PolicyVersion,
        end: Some(Kind::PolicyVersionEnd),
        table: "policy_versions",
        from: "policy_versions x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.name", Text),
            ("x.version", Integer),
            ("x.description", Text),
            ("x.comment", Text),
            ("x.content", Text),
            ("x.needs_trails", Boolean),
            ("x.is_declared", Boolean),
            ("x.created_by", Text),
            ("x.created_at", Integer),
        ],
    },
    RowKind {
        kind: Kind::Attachment,
        end: Some(Kind::AttachmentEnd),
        table: "policy_attachments",
        from: "policy_attachments x",
        opened_at: "attached_at",
        columns: &[
            ("x.organization", Text),
            ("x.environment", Text),
            ("x.policy", Text),
            ("x.is_declared", Boolean),
            ("x.attached_by", Text),
            ("x.attached_at", Integer),
        ],
    },
    RowKind {
        kind: Kind::Ownership,
        end: Some(Kind::OwnershipEnd),
        table: "flow_ownerships",
        from: "flow_ownerships x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.flow", Text),
            ("x.content", Text),
            ("x.created_at", Integer),
        ],
    },
    RowKind {
        kind: Kind::Token,
        end: Some(Kind::TokenEnd),
        table: "tokens",
        from: "tokens x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.name", Text),
            ("x.sha256", Bytes),
            ("x.role", Text),
            ("x.scope", Text),
            ("x.can_create", Boolean),
            ("x.expires_at", Integer),
            ("x.created_at", Integer),
            ("x.created_by", Text),
        ],
    },
    RowKind {
        kind: Kind::Repository,
        end: None,
        table: "repositories",
        from: "repositories x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.provider", Text),
            ("x.name", Text),
            ("x.url", Text),
            ("x.external_id", Text),
            ("x.created_at", Integer),
            ("x.flow", Text),
            ("x.reported_by", Text),
            ("x.closed_at", Integer),
        ],
    },
    RowKind {
        kind: Kind::Trail,
        end: None,
        table: "trails",
        from: "trails x",
        opened_at: "created_at",
        columns: &[
            ("x.organization", Text),
            ("x.flow", Text),
            ("x.name", Text),
            ("x.created_at", Integer),
            ("x.created_by", Text),
            ("x.description", Text),
            ("x.origin_url", Text),
            ("x.user_data", Text),
            ("x.external_urls", Text),
            ("x.git_commit_info", Text),
            ("x.repository", Id),
            ("x.template", Id),
        ],
    },
];

/// Bytes in a record.
pub(super) fn hex_text(bytes: &[u8]) -> Value {
    hex::encode(bytes).into()
}

/// The columns of a closed row.
const END: &[(&str, Type)] = &[("x.organization", Text), ("x.closed_at", Integer)];

/// The columns of a closed approval.
const APPROVAL_END: &[(&str, Type)] = &[
    ("x.organization", Text),
    ("x.closed_at", Integer),
    ("x.withdrawn_by", Text),
    ("x.withdrawal_comment", Text),
];

impl RowKind {
    /// The table of a kind of entry.
    pub(super) fn find(kind: Kind) -> Option<&'static Self> {
        KINDS.iter().find(|row| row.kind == kind || row.end == Some(kind))
    }

    /// The column with the time of an entry.
    pub(super) fn time(&self, kind: Kind) -> &'static str {
        if kind == self.kind { self.opened_at } else { "closed_at" }
    }

    /// The kinds of entries of all tables, with their tables.
    pub(super) fn all() -> impl Iterator<Item = (Kind, &'static Self)> {
        KINDS
            .iter()
            .flat_map(|row| [Some(row.kind), row.end].into_iter().flatten().map(move |kind| (kind, row)))
    }

    /// The name of the table.
    pub(super) fn table(&self) -> &'static str {
        self.table
    }
}

/// Reads a row as an object. A column of another type, which only a change of the database can cause, is marked.
macro_rules! read {
    ($row:expr, $columns:expr) => {{
        let row = $row;
        let mut record = Map::new();
        for (index, (_, column_type)) in $columns.iter().enumerate() {
            let value = match column_type {
                Text => row.try_get::<Option<String>, _>(index).map(|value| value.map(Value::from)),
                Integer => row.try_get::<Option<i64>, _>(index).map(|value| value.map(Value::from)),
                Boolean => row.try_get::<Option<bool>, _>(index).map(|value| value.map(Value::from)),
                Bytes => row.try_get::<Option<Vec<u8>>, _>(index).map(|value| value.map(|v| hex_text(&v))),
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

impl Transaction {
    /// The record of a row; `None` if the row does not exist.
    pub(super) async fn row_record(
        &mut self,
        row: &RowKind,
        kind: Kind,
        organization: &str,
        id: Uuid,
    ) -> Result<Option<Map<String, Value>>, Error> {
        let columns = match kind {
            kind if kind == row.kind => row.columns,
            Kind::ApprovalEnd => APPROVAL_END,
            _ => END,
        };
        let record = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("SELECT ");
            for (index, (column, _)) in columns.iter().enumerate() {
                query.push(if index > 0 { ", " } else { "" }).push(*column);
            }
            query.push(" FROM ").push(row.from).push(" WHERE x.organization = ").push_bind(organization);
            query.push(" AND x.id = ").push_bind(id);
            let row = query.build().fetch_optional(connection).await?;
            row.map(|row| read!(row, columns))
        });
        Ok(record.map(|mut record| {
            record.insert("id".to_owned(), id.to_string().into());
            record
        }))
    }

    /// The declared rows that were opened or closed at a time.
    pub(super) async fn declared_rows(
        &mut self,
        organization: &str,
        at: i64,
    ) -> Result<Vec<(Kind, Uuid)>, Error> {
        let mut rows = Vec::new();
        for (kind, row) in RowKind::all().filter(|(_, row)| row.end.is_some()) {
            let ids: Vec<(Uuid,)> = on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new("SELECT id FROM ");
                query.push(row.table).push(" WHERE organization = ").push_bind(organization);
                query.push(" AND ").push(row.time(kind)).push(" = ").push_bind(at);
                query.push(" ORDER BY id").build().fetch_all(connection).await.and_then(all_from_rows)?
            });
            rows.extend(ids.into_iter().map(|(id,)| (kind, id)));
        }
        Ok(rows)
    }
}
