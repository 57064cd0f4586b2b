//! Policies of environments: their versions and attachments.

pub mod evaluation_queue;
pub mod evidence;
pub mod summaries;
pub mod verdicts;

use std::collections::HashMap;

use sqlx::types::Uuid;

use crate::database::from_row::all_from_rows;
use crate::database::transaction::{
    fetch_all, fetch_for_all, fetch_optional_scalar, fetch_scalar, fetch_scalars, for_all, insert, on,
};
use crate::{Error, Tenant};
use model::log::Kind;
use model::{Fingerprint, Timestamp};
use rules::policy::PolicyVersion;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentPolicy {
    /// Identifies its content, which never changes.
    pub id: Uuid,
    pub name: PolicyVersion,
}

/// A version of a policy to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewPolicy<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// A comment on this version.
    pub comment: &'a str,
    pub content: &'a str,
    /// Whether it requires that trails comply with their templates.
    pub needs_trails: bool,
    /// Whether the bootstrap file declares it.
    pub is_declared: bool,
    /// The author of this version.
    pub created_by: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct CurrentPolicy {
    /// Identifies its content.
    pub id: Uuid,
    pub name: String,
    pub version: i64,
    pub description: String,
    pub content: String,
    /// Whether the bootstrap file declares it.
    pub is_declared: bool,
}

/// An attachment of a policy to an environment.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Attachment {
    pub id: Uuid,
    pub environment: String,
    pub policy: String,
    /// Whether the bootstrap file declares it.
    pub is_declared: bool,
}

#[derive(sqlx::FromRow)]
struct EnvironmentPolicyRow {
    environment: String,
    id: Uuid,
    name: String,
    version: i64,
}

/// The policies of environments, by environment.
pub async fn of_environment(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = &str>,
) -> Result<HashMap<String, Vec<EnvironmentPolicy>>, Error> {
    const SELECT: &str = "
        SELECT a.environment, v.id, v.name, v.version
        FROM policy_attachments a JOIN policy_versions v ON v.organization = a.organization AND v.name = a.policy
        WHERE a.closed_at IS NULL AND v.closed_at IS NULL AND a.organization = ? AND a.environment IN (?)";
    let rows: Vec<EnvironmentPolicyRow> = fetch_for_all!(tenant.tx, SELECT, environments, tenant.name);
    let mut policies: HashMap<String, Vec<EnvironmentPolicy>> = HashMap::new();
    for EnvironmentPolicyRow { environment, id, name, version } in rows {
        let name = PolicyVersion { name, version };
        policies.entry(environment).or_default().push(EnvironmentPolicy { id, name });
    }
    // Sorted here: the database's order depends on its locale.
    for of_one in policies.values_mut() {
        of_one.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(policies)
}

/// The policies that an environment had at a point in time, each with the hash of its content.
pub async fn at(
    tenant: &mut Tenant<'_>,
    environment: &str,
    at: Timestamp,
) -> Result<Vec<(PolicyVersion, Fingerprint)>, Error> {
    const SELECT: &str = "
        SELECT v.name, v.version, v.content
        FROM policy_attachments a JOIN policy_versions v ON v.organization = a.organization AND v.name = a.policy
        WHERE a.organization = $1 AND a.environment = $2
          AND a.attached_at <= $3 AND (a.closed_at IS NULL OR a.closed_at > $3)
          AND v.created_at <= $3 AND (v.closed_at IS NULL OR v.closed_at > $3)";
    let rows: Vec<(String, i64, String)> = fetch_all!(tenant.tx, SELECT, tenant.name, environment, at);
    let policy = |(name, version, content): (String, i64, String)| {
        (PolicyVersion { name, version }, Fingerprint::from_content(content.as_bytes()))
    };
    let mut policies: Vec<_> = rows.into_iter().map(policy).collect();
    policies.sort();
    Ok(policies)
}

/// The contents of policies, by their identifiers.
pub async fn contents(
    tenant: &mut Tenant<'_>,
    ids: impl IntoIterator<Item = Uuid>,
) -> Result<HashMap<Uuid, String>, Error> {
    const SELECT: &str = "SELECT id, content FROM policy_versions WHERE organization = ? AND id IN (?)";
    let rows: Vec<(Uuid, String)> = fetch_for_all!(tenant.tx, SELECT, ids, tenant.name);
    Ok(rows.into_iter().collect())
}

/// Whether a policy that is attached to an environment of the organization requires that trails comply with their
/// templates.
pub async fn needs_trails(tenant: &mut Tenant<'_>) -> Result<bool, Error> {
    const COUNT: &str = "
        SELECT COUNT(*) FROM (
          SELECT 1 FROM policy_versions v
          WHERE v.organization = $1 AND v.closed_at IS NULL AND v.needs_trails
            AND EXISTS (SELECT 1 FROM policy_attachments a
                        WHERE a.organization = v.organization AND a.policy = v.name AND a.closed_at IS NULL)
          LIMIT 1) AS needed";
    let count: i64 = fetch_scalar!(tenant.tx, COUNT, tenant.name);
    Ok(count > 0)
}

/// The environments to which policies are attached.
pub async fn environments(tenant: &mut Tenant<'_>) -> Result<Vec<String>, Error> {
    const SELECT: &str = "
        SELECT DISTINCT a.environment
        FROM policy_attachments a JOIN policy_versions v ON v.organization = a.organization AND v.name = a.policy
        WHERE a.organization = $1 AND a.closed_at IS NULL AND v.closed_at IS NULL";
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name))
}

/// The environments with a policy that requires that trails comply with their templates.
pub async fn environments_that_need_trails(tenant: &mut Tenant<'_>) -> Result<Vec<String>, Error> {
    const SELECT: &str = "
        SELECT DISTINCT a.environment
        FROM policy_attachments a JOIN policy_versions v ON v.organization = a.organization AND v.name = a.policy
        WHERE a.organization = $1 AND a.closed_at IS NULL AND v.closed_at IS NULL AND v.needs_trails";
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name))
}

/// The current version of a policy.
pub async fn names(tenant: &mut Tenant<'_>) -> Result<Vec<String>, Error> {
    const SELECT: &str =
        "SELECT DISTINCT name FROM policy_versions WHERE organization = $1 AND closed_at IS NULL";
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name))
}

pub async fn current(tenant: &mut Tenant<'_>, name: &str) -> Result<Option<CurrentPolicy>, Error> {
    Ok(all_current(tenant, Some(name)).await?.pop())
}

/// The current versions of an organization's policies; of one policy if `name` names it.
pub(crate) async fn all_current(
    tenant: &mut Tenant<'_>,
    name: Option<&str>,
) -> Result<Vec<CurrentPolicy>, Error> {
    const SELECT: &str = "
        SELECT id, name, version, description, content, is_declared FROM policy_versions
        WHERE closed_at IS NULL AND organization = ";
    Ok(on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new(SELECT);
        query.push_bind(tenant.name);
        if let Some(name) = name {
            query.push(" AND name = ").push_bind(name);
        }
        query.build().fetch_all(connection).await.and_then(all_from_rows)?
    }))
}

/// Records a new version of a policy, which supersedes the current one. Returns its number.
pub async fn insert(tenant: &mut Tenant<'_>, new: NewPolicy<'_>, at: Timestamp) -> Result<i64, Error> {
    const LAST: &str =
        "SELECT COALESCE(MAX(version), 0) FROM policy_versions WHERE organization = $1 AND name = $2";
    const INSERT: &str = "
        INSERT INTO policy_versions (id, organization, name, version, description, comment, content, needs_trails,
                                     is_declared, created_by, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let last: i64 = fetch_scalar!(tenant.tx, LAST, tenant.name, new.name);
    close(tenant, new.name, at).await?;
    let id = crate::new_id();
    on!(tenant.tx, |connection| {
        let insert = sqlx::query(INSERT).bind(id).bind(tenant.name).bind(new.name);
        let insert = insert.bind(last + 1).bind(new.description).bind(new.comment).bind(new.content);
        let insert = insert.bind(new.needs_trails).bind(new.is_declared).bind(new.created_by);
        insert.bind(at.micros()).execute(connection).await?;
    });
    tenant.tx.log().row(tenant.name, Kind::PolicyVersion, id);
    Ok(last + 1)
}

/// Closes the current version of a policy.
pub(crate) async fn close(tenant: &mut Tenant<'_>, name: &str, at: Timestamp) -> Result<(), Error> {
    const CLOSE: &str = "
        UPDATE policy_versions SET closed_at = $1 WHERE organization = $2 AND name = $3 AND closed_at IS NULL
        RETURNING id";
    let closed: Option<Uuid> = fetch_optional_scalar!(tenant.tx, CLOSE, at, tenant.name, name);
    if let Some(id) = closed {
        tenant.tx.log().row(tenant.name, Kind::PolicyVersionEnd, id);
    }
    Ok(())
}

/// The attachments of an organization's policies; of one environment and of one policy if these are given.
pub async fn attachments(
    tenant: &mut Tenant<'_>,
    environment: Option<&str>,
    policy: Option<&str>,
) -> Result<Vec<Attachment>, Error> {
    let mut attachments: Vec<Attachment> = on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new(
            "SELECT id, environment, policy, is_declared FROM policy_attachments
             WHERE closed_at IS NULL AND organization = ",
        );
        query.push_bind(tenant.name);
        for (column, value) in [("environment", environment), ("policy", policy)] {
            if let Some(value) = value {
                query.push(format_args!(" AND {column} = ")).push_bind(value);
            }
        }
        query.build().fetch_all(connection).await.and_then(all_from_rows)?
    });
    // Sorted here: the database's order depends on its locale.
    attachments
        .sort_by(|one, other| (&one.policy, &one.environment).cmp(&(&other.policy, &other.environment)));
    Ok(attachments)
}

/// Attaches policies to environments: pairs of environment and policy.
pub async fn attach(
    tenant: &mut Tenant<'_>,
    attached: &[(&str, &str)],
    is_declared: bool,
    by: &str,
    at: Timestamp,
) -> Result<(), Error> {
    let new: Vec<_> = attached.iter().map(|pair| (crate::new_id(), pair)).collect();
    insert!(
        tenant.tx,
        "INSERT INTO policy_attachments (organization, id, environment, policy, is_declared, attached_by, attached_at) ",
        "",
        &new,
        |values, (id, (environment, policy))| {
            values.push_bind(tenant.name).push_bind(*id).push_bind(*environment);
            values.push_bind(*policy).push_bind(is_declared).push_bind(by).push_bind(at.micros());
        }
    );
    for (id, _) in new {
        tenant.tx.log().row(tenant.name, Kind::Attachment, id);
    }
    Ok(())
}

pub async fn detach(tenant: &mut Tenant<'_>, attachments: Vec<Uuid>, at: Timestamp) -> Result<(), Error> {
    const UPDATE: &str = "UPDATE policy_attachments SET closed_at = ? WHERE organization = ? AND id IN (?)";
    for id in &attachments {
        tenant.tx.log().row(tenant.name, Kind::AttachmentEnd, *id);
    }
    for_all!(tenant.tx, UPDATE, attachments, at, tenant.name);
    Ok(())
}
