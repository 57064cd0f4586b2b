//! Creates flows by operation, and versions of their templates.

use sqlx::types::Uuid;

use super::columns::json;
use super::from_row::optional_from_row;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::log::Kind;
use crate::domain::model::{Fingerprint, TemplateBody, Timestamp};

/// A flow, and what the bootstrap file says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct FlowState {
    /// Whether the bootstrap file lists it.
    pub is_declared: bool,
    /// Whether it has a template.
    pub has_template: bool,
}

/// A flow to be created or updated.
#[derive(Debug, Clone, Copy)]
pub struct NewFlow<'a> {
    /// The organization.
    pub organization: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its description.
    pub description: &'a str,
    /// The hash of the token.
    pub token: Fingerprint,
}

#[derive(sqlx::FromRow)]
struct TemplateRow {
    id: Uuid,
    content: String,
}

impl Transaction {
    /// A flow; `None` if it does not exist.
    pub async fn flow(&mut self, organization: &str, flow: &str) -> Result<Option<FlowState>, Error> {
        const SELECT: &str = "
            SELECT is_declared,
                   EXISTS (SELECT 1 FROM flow_templates t
                           WHERE t.organization = f.organization AND t.flow = f.name AND t.closed_at IS NULL)
                     AS has_template
            FROM flows f WHERE organization = $1 AND name = $2";
        Ok(on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(flow);
            select.fetch_optional(connection).await.and_then(optional_from_row)?
        }))
    }

    /// Creates a flow, or replaces its description.
    pub async fn upsert_flow(&mut self, new: NewFlow<'_>, now: Timestamp) -> Result<(), Error> {
        const UPSERT: &str = "
            INSERT INTO flows (organization, name, description, created_at, created_by_token) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (organization, name) DO UPDATE SET description = excluded.description";
        on!(self, |connection| {
            let upsert = sqlx::query(UPSERT).bind(new.organization).bind(new.name).bind(new.description);
            let upsert = upsert.bind(now.micros()).bind(new.token.bytes().as_slice());
            upsert.execute(connection).await?;
        });
        Ok(())
    }

    /// Sets the template of a flow. Returns whether it changed.
    pub async fn set_template(
        &mut self,
        organization: &str,
        flow: &str,
        body: &TemplateBody,
        now: Timestamp,
    ) -> Result<bool, Error> {
        const CLOSE: &str = "UPDATE flow_templates SET closed_at = $1 WHERE id = $2";
        let content = json(body)?;
        if let Some(open) = self.open_template(organization, flow).await? {
            if open.content == content {
                return Ok(false);
            }
            on!(self, |connection| {
                sqlx::query(CLOSE).bind(now.micros()).bind(open.id).execute(connection).await?;
            });
            self.log().row(Kind::TemplateEnd, open.id);
        }
        self.insert_template(organization, flow, &content, now, None).await?;
        Ok(true)
    }

    /// The identifier of the current template of a flow.
    pub async fn open_template_id(&mut self, organization: &str, flow: &str) -> Result<Option<Uuid>, Error> {
        Ok(self.open_template(organization, flow).await?.map(|open| open.id))
    }

    async fn open_template(&mut self, organization: &str, flow: &str) -> Result<Option<TemplateRow>, Error> {
        const SELECT: &str = "
            SELECT id, content FROM flow_templates WHERE organization = $1 AND flow = $2 AND closed_at IS NULL";
        Ok(on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(flow);
            select.fetch_optional(connection).await.and_then(optional_from_row)?
        }))
    }

    /// The identifier of a version of a flow's templates with this content. Creates one that is not current if there is
    /// none: for a trail with a template of its own.
    pub async fn template_version(
        &mut self,
        organization: &str,
        flow: &str,
        body: &TemplateBody,
        now: Timestamp,
    ) -> Result<Uuid, Error> {
        const SELECT: &str = "
            SELECT id FROM flow_templates WHERE organization = $1 AND flow = $2 AND content = $3
            ORDER BY version DESC LIMIT 1";
        let content = json(body)?;
        let known: Option<Uuid> = on!(self, |connection| {
            let select = sqlx::query_scalar(SELECT).bind(organization).bind(flow).bind(&content);
            select.fetch_optional(connection).await?
        });
        match known {
            Some(id) => Ok(id),
            None => self.insert_template(organization, flow, &content, now, Some(now)).await,
        }
    }

    /// Inserts the next version of a flow's templates.
    pub(super) async fn insert_template(
        &mut self,
        organization: &str,
        flow: &str,
        content: &str,
        now: Timestamp,
        closed_at: Option<Timestamp>,
    ) -> Result<Uuid, Error> {
        const INSERT: &str = "
            INSERT INTO flow_templates (id, organization, flow, version, content, created_at, closed_at)
            SELECT $1, $2, $3, COALESCE(MAX(version), 0) + 1, $4, $5, $6 FROM flow_templates
            WHERE organization = $2 AND flow = $3";
        let id = Uuid::now_v7();
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(id).bind(organization).bind(flow).bind(content);
            let insert = insert.bind(now.micros()).bind(closed_at.map(Timestamp::micros));
            insert.execute(connection).await?;
        });
        self.log().row(Kind::Template, id);
        if closed_at.is_some() {
            self.log().row(Kind::TemplateEnd, id);
        }
        Ok(id)
    }
}
