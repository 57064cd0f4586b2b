//! What comes from the bootstrap file: brought into the database, and closed when it is taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sqlx::types::Uuid;

use super::access::fingerprint;
use super::reports::{json, micros};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::access::{Role, Scope};
use crate::domain::model::{
    EnvironmentName, Fingerprint, FlowName, OrganizationName, TemplateBody, Timestamp,
};

/// All that a bootstrap file says, with its references resolved.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Grows with each change of the file.
    pub generation: i64,
    /// The hash of the file, without what it refers to.
    pub sha256: Fingerprint,
    /// The organizations.
    pub organizations: Vec<Organization>,
}

/// An organization.
#[derive(Debug, Clone)]
pub struct Organization {
    /// Its name.
    pub name: OrganizationName,
    /// How long its environments' history is kept; `None`: for ever.
    pub retention: Option<Duration>,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Its flows, as far as more than their names is known.
    pub flows: Vec<Flow>,
    /// Its environments, as far as more than their names is known.
    pub environments: Vec<Environment>,
}

/// A token, known by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// The SHA-256 of its text.
    pub sha256: Fingerprint,
    /// What it may do.
    pub role: Role,
    /// For which environments or flows.
    pub scope: Scope,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

/// A flow.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Its name.
    pub name: FlowName,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// What it expects of its trails.
    pub template: Option<TemplateBody>,
}

/// An environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Its name.
    pub name: EnvironmentName,
    /// How long it may be silent; `None`: the default.
    pub silent_after: Option<Duration>,
}

/// What came of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The database is as it says.
    Done,
    /// The database has seen this generation with another file, and stays as it is.
    Changed,
    /// The database has seen this later generation, and stays as it is.
    Outdated(i64),
}

impl Transaction {
    /// Brings the database to what a plan says. What is not in it any more is closed at `now`.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn reconcile(&mut self, plan: &Plan, now: Timestamp) -> Result<Applied, Error> {
        const SEEN: &str = "SELECT generation, sha256 FROM bootstraps ORDER BY generation DESC LIMIT 1";
        const INSERT: &str = "INSERT INTO bootstraps (generation, sha256, applied_at) VALUES ($1, $2, $3)";
        if let Self::Postgres(transaction) = self {
            // On SQLite nobody else writes.
            sqlx::query("LOCK TABLE bootstraps IN EXCLUSIVE MODE").execute(&mut **transaction).await?;
        }
        let seen: Option<(i64, Vec<u8>)> =
            on!(self, |connection| sqlx::query_as(SEEN).fetch_optional(connection).await?);
        match seen {
            Some((seen, _)) if seen > plan.generation => return Ok(Applied::Outdated(seen)),
            Some((seen, sha256)) if seen == plan.generation => {
                if fingerprint(&sha256)? != plan.sha256 {
                    return Ok(Applied::Changed);
                }
            }
            _ => on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(plan.generation).bind(plan.sha256.bytes().as_slice());
                insert.bind(now.micros()).execute(connection).await?;
            }),
        }
        // First all that is to be closed: a token may move from one organization to another.
        self.close_organizations(plan, now).await?;
        let mut missing = Vec::new();
        for organization in &plan.organizations {
            missing.push(self.close_tokens(organization.name.as_str(), &organization.tokens, now).await?);
        }
        for (organization, missing) in plan.organizations.iter().zip(missing) {
            let name = organization.name.as_str();
            self.open_organization(name, organization.retention, now).await?;
            self.open_tokens(name, &missing, now).await?;
            self.reconcile_flows(name, &organization.flows, now).await?;
            self.reconcile_environments(name, &organization.environments, now).await?;
        }
        Ok(Applied::Done)
    }

    async fn close_organizations(&mut self, plan: &Plan, now: Timestamp) -> Result<(), Error> {
        const CLOSE: &str = "UPDATE organizations SET closed_at = $1 WHERE name = $2";
        let open: Vec<String> = on!(self, |connection| {
            let open = sqlx::query_scalar("SELECT name FROM organizations WHERE closed_at IS NULL");
            open.fetch_all(connection).await?
        });
        let kept: BTreeSet<&str> = plan.organizations.iter().map(|o| o.name.as_str()).collect();
        for name in open.iter().filter(|name| !kept.contains(name.as_str())) {
            on!(self, |connection| {
                sqlx::query(CLOSE).bind(now.micros()).bind(name).execute(connection).await?;
            });
            self.close_tokens(name, &[], now).await?;
        }
        Ok(())
    }

    async fn open_organization(
        &mut self,
        name: &str,
        retention: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Error> {
        const OPEN: &str = "
            INSERT INTO organizations (name, retention, created_at) VALUES ($1, $2, $3)
            ON CONFLICT (name) DO UPDATE SET retention = excluded.retention, closed_at = NULL";
        on!(self, |connection| {
            let open = sqlx::query(OPEN).bind(name).bind(retention.map(micros)).bind(now.micros());
            open.execute(connection).await?;
        });
        Ok(())
    }

    /// Closes the open tokens that are not wanted; gives those that are wanted and not open.
    async fn close_tokens<'a>(
        &mut self,
        organization: &str,
        wanted: &'a [Token],
        now: Timestamp,
    ) -> Result<Vec<&'a Token>, Error> {
        type Row = (Uuid, String, Vec<u8>, String, String, Option<i64>);
        const SELECT: &str = "
            SELECT id, name, sha256, role, scope, expires_at FROM tokens
            WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE tokens SET closed_at = $1 WHERE id = $2";
        let rows: Vec<Row> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let mut missing: Vec<&Token> = wanted.iter().collect();
        for (id, name, sha256, role, scope, expires_at) in rows {
            let there = Token {
                name,
                sha256: fingerprint(&sha256)?,
                role: role.parse().map_err(|_| Error::Unreadable("a role"))?,
                scope: serde_json::from_str(&scope).map_err(|_| Error::Unreadable("a scope"))?,
                expires_at: expires_at.map(Timestamp::from_micros),
            };
            if let Some(place) = missing.iter().position(|token| **token == there) {
                missing.remove(place);
            } else {
                on!(self, |connection| {
                    sqlx::query(CLOSE).bind(now.micros()).bind(id).execute(connection).await?;
                });
            }
        }
        Ok(missing)
    }

    async fn open_tokens(
        &mut self,
        organization: &str,
        tokens: &[&Token],
        now: Timestamp,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO tokens (id, organization, name, sha256, role, scope, expires_at, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        for token in tokens {
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(&token.name);
                let insert = insert.bind(token.sha256.bytes().as_slice()).bind(token.role.as_str());
                let insert = insert.bind(json(&token.scope)).bind(token.expires_at.map(Timestamp::micros));
                insert.bind(now.micros()).execute(connection).await?;
            });
        }
        Ok(())
    }

    async fn reconcile_flows(
        &mut self,
        organization: &str,
        flows: &[Flow],
        now: Timestamp,
    ) -> Result<(), Error> {
        const FLOW: &str = "
            INSERT INTO flows (organization, name, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let mut tags: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        let mut templates: BTreeMap<&str, String> = BTreeMap::new();
        for flow in flows {
            let name = flow.name.as_str();
            on!(self, |connection| {
                sqlx::query(FLOW)
                    .bind(organization)
                    .bind(name)
                    .bind(now.micros())
                    .execute(connection)
                    .await?;
            });
            tags.extend(flow.tags.iter().map(|(tag, value)| (name, tag.as_str(), value.as_str())));
            templates.extend(flow.template.as_ref().map(|template| (name, json(template))));
        }
        self.reconcile_tags(organization, tags, now).await?;
        self.reconcile_templates(organization, templates, now).await
    }

    async fn reconcile_tags(
        &mut self,
        organization: &str,
        wanted: BTreeSet<(&str, &str, &str)>,
        now: Timestamp,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, tag, tag_value FROM flow_tags WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE flow_tags SET closed_at = $1 WHERE id = $2";
        const INSERT: &str = "
            INSERT INTO flow_tags (id, organization, flow, tag, tag_value, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)";
        let open: Vec<(Uuid, String, String, String)> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let mut wanted = wanted;
        for (id, flow, tag, value) in &open {
            if !wanted.remove(&(flow.as_str(), tag.as_str(), value.as_str())) {
                on!(self, |connection| {
                    sqlx::query(CLOSE).bind(now.micros()).bind(id).execute(connection).await?;
                });
            }
        }
        for (flow, tag, value) in wanted {
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(flow);
                insert.bind(tag).bind(value).bind(now.micros()).execute(connection).await?;
            });
        }
        Ok(())
    }

    async fn reconcile_templates(
        &mut self,
        organization: &str,
        mut wanted: BTreeMap<&str, String>,
        now: Timestamp,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, flow, content FROM flow_templates WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE flow_templates SET closed_at = $1 WHERE id = $2";
        const INSERT: &str = "
            INSERT INTO flow_templates (id, organization, flow, version, content, created_at)
            SELECT $1, $2, $3, COALESCE(MAX(version), 0) + 1, $4, $5 FROM flow_templates
            WHERE organization = $2 AND flow = $3";
        let open: Vec<(Uuid, String, String)> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        for (id, flow, content) in open {
            if wanted.get(flow.as_str()) == Some(&content) {
                wanted.remove(flow.as_str());
            } else {
                on!(self, |connection| {
                    sqlx::query(CLOSE).bind(now.micros()).bind(id).execute(connection).await?;
                });
            }
        }
        for (flow, content) in wanted {
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(flow);
                insert.bind(content).bind(now.micros()).execute(connection).await?;
            });
        }
        Ok(())
    }

    async fn reconcile_environments(
        &mut self,
        organization: &str,
        environments: &[Environment],
        now: Timestamp,
    ) -> Result<(), Error> {
        const FORGET: &str = "
            UPDATE environments SET silent_after = NULL WHERE organization = $1 AND silent_after IS NOT NULL";
        const SET: &str = "
            INSERT INTO environments (id, organization, name, created_at, silent_after, snapshot)
            VALUES ($1, $2, $3, $4, $5, 0)
            ON CONFLICT (organization, name) DO UPDATE SET silent_after = excluded.silent_after";
        on!(self, |connection| {
            sqlx::query(FORGET).bind(organization).execute(connection).await?;
        });
        for environment in environments {
            on!(self, |connection| {
                let set = sqlx::query(SET).bind(Uuid::now_v7()).bind(organization);
                let set = set.bind(environment.name.as_str()).bind(now.micros());
                set.bind(environment.silent_after.map(micros)).execute(connection).await?;
            });
        }
        Ok(())
    }
}
