//! Reads policies with their versions, and the artifacts that fail them, for the API and the pages.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;

use crate::database::columns::Json;
use crate::database::row_limit::{AtMost, MAX_ROWS, one_more_than};
use crate::database::transaction::fetch_all;
use crate::policies::Attachment;
use crate::search::Artifact;
use crate::{Error, Tenant, Transaction};
use model::reason::Reason;
use model::{PolicySummary, PolicyVersionSummary, Timestamp};
use rules::compliance::Compliance;

/// Maximum number of versions of a policy that are listed.
const MAX_VERSIONS: i64 = 50;

#[derive(sqlx::FromRow)]
struct VersionRow {
    name: String,
    description: String,
    first_at: Timestamp,
    #[sqlx(flatten)]
    version: PolicyVersionSummary,
}

/// The latest versions `v` of the open policies with this content, in the order of their numbers.
macro_rules! versions {
    ($content:literal, $filter:literal) => {
        concat!(
            "SELECT name, version, description, comment, policy_yaml, created_by, timestamp, first_at
             FROM (SELECT v.name, v.version, v.description, v.comment, ",
            $content,
            " AS policy_yaml, v.created_by, v.created_at AS timestamp,
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

/// The policies of an organization by name, each with the content of its current version.
pub async fn list(tenant: &mut Tenant<'_>) -> Result<Vec<PolicySummary>, Error> {
    const SELECT: &str = versions!("CASE WHEN v.closed_at IS NULL THEN v.content END", "");
    let rows: Vec<VersionRow> = fetch_all!(tenant.tx, SELECT, tenant.name, MAX_VERSIONS);
    let attachments = crate::policies::attachments(tenant, None, None).await?;
    Ok(summaries(rows, attachments))
}

/// A policy with the contents of its versions.
pub async fn get(tenant: &mut Tenant<'_>, name: &str) -> Result<Option<PolicySummary>, Error> {
    const SELECT: &str = versions!("v.content", " AND c.name = $3");
    let rows: Vec<VersionRow> = fetch_all!(tenant.tx, SELECT, tenant.name, MAX_VERSIONS, name);
    let attachments = crate::policies::attachments(tenant, None, Some(name)).await?;
    Ok(summaries(rows, attachments).pop())
}

/// An artifact that does not fulfill a policy.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct FailingArtifact {
    pub environment: String,
    #[sqlx(flatten)]
    pub artifact: Artifact,
    /// Why, by the rules of the policy.
    #[sqlx(try_from = "Json<Vec<Reason>>")]
    pub reasons: Vec<Reason>,
}

/// The running artifacts whose verdict has reasons of a policy, in the environments to which it is attached.
pub async fn failing_artifacts(
    tenant: &mut Tenant<'_>,
    policy: &str,
) -> Result<AtMost<FailingArtifact>, Error> {
    let reasons = match tenant.tx {
        Transaction::Sqlite(_) => "json_each(v.reasons) x",
        Transaction::Postgres(_) => "json_array_elements(v.reasons::json) AS x (value)",
    };
    let select = AssertSqlSafe(format!(
        "SELECT e.name AS environment, v.fingerprint, r.name, v.reasons
         FROM policy_attachments a
           JOIN environments e ON e.organization = a.organization AND e.name = a.environment
           JOIN verdicts v ON v.organization = e.organization AND v.environment = e.id AND v.until_at IS NULL
             AND v.compliance = $3
           JOIN artifact_runs r ON r.organization = e.organization AND r.environment = e.id
             AND r.fingerprint = v.fingerprint AND r.ended_at IS NULL
         WHERE a.organization = $1 AND a.policy = $2 AND a.closed_at IS NULL
           AND EXISTS (SELECT 1 FROM {reasons} WHERE x.value -> 'rule' ->> 'policy_name' = $2)
         ORDER BY e.name, r.name, v.fingerprint LIMIT $4"
    ));
    let (failing, limit) = (Compliance::NonCompliant.as_str(), one_more_than(MAX_ROWS));
    let mut rows: Vec<FailingArtifact> = fetch_all!(tenant.tx, select, tenant.name, policy, failing, limit);
    for row in &mut rows {
        row.reasons.retain(|reason| reason.rule.as_ref().is_some_and(|rule| rule.policy_name == policy));
    }
    Ok(AtMost::from_rows(MAX_ROWS, rows))
}

/// Groups versions, in their order, by policy.
fn summaries(rows: Vec<VersionRow>, attachments: Vec<Attachment>) -> Vec<PolicySummary> {
    let mut policies: BTreeMap<String, PolicySummary> = BTreeMap::new();
    for row in rows {
        let policy = policies.entry(row.name).or_insert_with_key(|name| PolicySummary {
            name: name.clone(),
            description: String::new(),
            created_at: row.first_at,
            consuming_envs: Vec::new(),
            versions: Vec::new(),
        });
        policy.description = row.description;
        policy.versions.push(row.version);
    }
    for Attachment { environment, policy, .. } in attachments {
        if let Some(policy) = policies.get_mut(&policy) {
            policy.consuming_envs.push(environment);
        }
    }
    policies.into_values().collect()
}
