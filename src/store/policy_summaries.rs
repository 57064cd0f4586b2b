//! Reads policies with their versions, for the API.

use std::collections::BTreeMap;

use super::from_row::all_from_rows;
use super::policies::Attachment;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{PolicySummary, PolicyVersionSummary, Timestamp};

/// Maximum number of versions of a policy that are listed.
const MAX_VERSIONS: i64 = 50;

#[derive(sqlx::FromRow)]
struct VersionRow {
    name: String,
    version: i64,
    description: String,
    comment: String,
    content: Option<String>,
    created_by: String,
    created_at: i64,
    first_at: i64,
}

/// The latest versions `v` of the open policies with this content, in the order of their numbers.
macro_rules! versions {
    ($content:literal, $filter:literal) => {
        concat!(
            "SELECT name, version, description, comment, content, created_by, created_at, first_at
             FROM (SELECT v.name, v.version, v.description, v.comment, ",
            $content,
            " AS content, v.created_by, v.created_at,
                          MIN(v.created_at) OVER (PARTITION BY v.name) AS first_at,
                          ROW_NUMBER() OVER (PARTITION BY v.name ORDER BY v.version DESC) AS place
                   FROM policy_versions c
                     JOIN policy_versions v ON v.organization = c.organization AND v.name = c.name
                   WHERE c.organization = $1 AND c.closed_at IS NULL",
            $filter,
            ") AS listed WHERE place <= $2 ORDER BY version"
        )
    };
}

impl Transaction {
    /// The policies of an organization by name, each with the content of its current version.
    pub async fn policies(&mut self, organization: &str) -> Result<Vec<PolicySummary>, Error> {
        const SELECT: &str = versions!("CASE WHEN v.closed_at IS NULL THEN v.content END", "");
        let rows: Vec<VersionRow> = on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(MAX_VERSIONS);
            select.fetch_all(connection).await.and_then(all_from_rows)?
        });
        let attachments = self.policy_attachments(organization, None, None).await?;
        Ok(summaries(rows, attachments))
    }

    /// A policy with the contents of its versions.
    pub async fn policy(&mut self, organization: &str, name: &str) -> Result<Option<PolicySummary>, Error> {
        const SELECT: &str = versions!("v.content", " AND c.name = $3");
        let rows: Vec<VersionRow> = on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(MAX_VERSIONS).bind(name);
            select.fetch_all(connection).await.and_then(all_from_rows)?
        });
        let attachments = self.policy_attachments(organization, None, Some(name)).await?;
        Ok(summaries(rows, attachments).pop())
    }
}

/// Groups versions, in their order, by policy.
fn summaries(rows: Vec<VersionRow>, attachments: Vec<Attachment>) -> Vec<PolicySummary> {
    let mut policies: BTreeMap<String, PolicySummary> = BTreeMap::new();
    for row in rows {
        let policy = policies.entry(row.name).or_insert_with_key(|name| PolicySummary {
            name: name.clone(),
            description: String::new(),
            created_at: Timestamp::from_micros(row.first_at),
            consuming_envs: Vec::new(),
            versions: Vec::new(),
        });
        policy.description = row.description;
        policy.versions.push(PolicyVersionSummary {
            version: row.version,
            policy_yaml: row.content,
            comment: row.comment,
            timestamp: Timestamp::from_micros(row.created_at),
            created_by: row.created_by,
        });
    }
    for Attachment { environment, policy, .. } in attachments {
        if let Some(policy) = policies.get_mut(&policy) {
            policy.consuming_envs.push(environment);
        }
    }
    policies.into_values().collect()
}
