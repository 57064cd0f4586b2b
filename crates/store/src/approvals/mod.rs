//! Reads approvals, and the artifacts built from their commits, for the API and the pages. Records approvals, and their
//! withdrawal, by tokens.

pub mod allow_list;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sqlx::types::Uuid;

use crate::database::columns::{Json, json};
use crate::database::row_limit::{AtMost, MAX_ROWS, one_more_than};
use crate::database::transaction::{
    execute, fetch_all, fetch_for_all, fetch_optional, fetch_optional_scalar, fetch_scalar, fetch_scalars,
};
use crate::{Error, Tenant};
use model::log::Kind;
use model::{
    Approval, ApprovalItem, ApprovalState, CommitHash, EnvironmentName, Fingerprint, Page, SignOff,
    SourceCommit, Timestamp, Withdrawal,
};

#[derive(Debug, Clone, PartialEq)]
pub struct NewApproval {
    /// Its number in its flow.
    pub number: i64,
    /// The artifact that it is about.
    pub target: Fingerprint,
    /// The environment that it applies to; `None` for any.
    pub environment: Option<EnvironmentName>,
    pub state: ApprovalState,
    pub content: ApprovalContent,
}

/// The fields of an approval that are stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalContent {
    /// The artifact that the target replaces.
    pub base: Fingerprint,
    /// The target's name.
    pub artifact_name: String,
    pub description: String,
    /// The hashes of the commits between base and target.
    pub commits: Vec<String>,
    pub approvals: Vec<SignOff>,
    /// Free-form data.
    pub user_data: serde_json::Value,
}

#[derive(sqlx::FromRow)]
struct ApprovalRow {
    flow: String,
    number: i64,
    target: Fingerprint,
    environment: Option<String>,
    state: ApprovalState,
    content: Json<ApprovalContent>,
    created_by: Option<String>,
    withdrawn_by: Option<String>,
    withdrawal_comment: Option<String>,
    created_at: Timestamp,
    modified_at: Timestamp,
    closed_at: Option<Timestamp>,
}

/// Excludes all but the latest state of each approval.
macro_rules! is_latest {
    () => {
        "NOT EXISTS (
              SELECT 1 FROM approvals l
              WHERE l.organization = a.organization AND l.flow = a.flow AND l.number = a.number
                AND l.target = a.target
                AND (l.modified_at > a.modified_at OR (l.modified_at = a.modified_at AND l.id > a.id)))"
    };
}

macro_rules! columns {
    () => {
        "a.flow, a.number, a.target, a.environment, a.state, a.content, a.created_by, a.withdrawn_by,
         a.withdrawal_comment, a.created_at, a.modified_at, a.closed_at"
    };
}

impl ApprovalRow {
    fn parse(self) -> Result<Approval, Error> {
        let environment = self.environment.map(|name| name.parse()).transpose();
        let withdrawal = self.withdrawn_by.zip(self.closed_at).map(|(withdrawn_by, timestamp)| Withdrawal {
            withdrawn_by,
            comment: self.withdrawal_comment.unwrap_or_default(),
            timestamp,
        });
        let ApprovalContent { base, artifact_name, description, commits, approvals, user_data } =
            self.content.0;
        Ok(Approval {
            flow: self.flow,
            release_number: self.number,
            base_artifact: base,
            artifact_name,
            target_artifact: self.target,
            description,
            src_commit_list: commits.into_iter().map(CommitHash).map(SourceCommit::Hash).collect(),
            created_at: self.created_at,
            last_modified_at: self.closed_at.unwrap_or(self.modified_at),
            state: if self.closed_at.is_some() { ApprovalState::Unapproved } else { self.state },
            approvals: approvals.into_iter().map(ApprovalItem::from).collect(),
            environment: environment.map_err(|_| Error::Unreadable("an approval"))?,
            user_data,
            created_by: self.created_by,
            withdrawal,
        })
    }
}

/// An approval of a flow.
pub async fn get(tenant: &mut Tenant<'_>, flow: &str, number: i64) -> Result<Option<Approval>, Error> {
    const SELECT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM approvals a WHERE a.organization = $1 AND a.flow = $2 AND a.number = $3
          ORDER BY a.modified_at DESC, a.id DESC LIMIT 1"
    );
    let row: Option<ApprovalRow> = fetch_optional!(tenant.tx, SELECT, tenant.name, flow, number);
    row.map(ApprovalRow::parse).transpose()
}

/// The number of a flow's approval, counted from the latest: 0 for the latest.
pub async fn nth_latest(tenant: &mut Tenant<'_>, flow: &str, place: i64) -> Result<Option<i64>, Error> {
    const SELECT: &str = "
        SELECT DISTINCT number FROM approvals WHERE organization = $1 AND flow = $2
        ORDER BY number DESC LIMIT 1 OFFSET $3";
    Ok(fetch_optional_scalar!(tenant.tx, SELECT, tenant.name, flow, place))
}

/// A page of the approvals of a flow, latest first.
pub async fn of_flow(tenant: &mut Tenant<'_>, flow: &str, page: Page) -> Result<Vec<Approval>, Error> {
    const SELECT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM approvals a WHERE a.organization = $1 AND a.flow = $2 AND ",
        is_latest!(),
        " ORDER BY a.number DESC LIMIT $3 OFFSET $4"
    );
    let rows: Vec<ApprovalRow> = fetch_all!(tenant.tx, SELECT, tenant.name, flow, page.size(), page.offset());
    rows.into_iter().map(ApprovalRow::parse).collect()
}

/// The approvals of an artifact in a flow, lowest number first.
pub async fn list(tenant: &mut Tenant<'_>, flow: &str, target: Fingerprint) -> Result<Vec<Approval>, Error> {
    const SELECT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM approvals a WHERE a.organization = $1 AND a.flow = $2 AND a.target = $3
          ORDER BY a.number, a.modified_at DESC, a.id DESC"
    );
    let mut rows: Vec<ApprovalRow> = fetch_all!(tenant.tx, SELECT, tenant.name, flow, target);
    // Each number's latest state comes first.
    rows.dedup_by_key(|row| row.number);
    rows.into_iter().map(ApprovalRow::parse).collect()
}

/// The approvals of an artifact in all flows, most recently changed first.
pub async fn of_artifact(tenant: &mut Tenant<'_>, target: Fingerprint) -> Result<AtMost<Approval>, Error> {
    const SELECT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM approvals a WHERE a.organization = $1 AND a.target = $2 AND ",
        is_latest!(),
        " ORDER BY COALESCE(a.closed_at, a.modified_at) DESC, a.flow, a.number LIMIT $3"
    );
    let rows: Vec<ApprovalRow> = fetch_all!(tenant.tx, SELECT, tenant.name, target, one_more_than(MAX_ROWS));
    let approvals = rows.into_iter().map(ApprovalRow::parse).collect::<Result<_, Error>>()?;
    Ok(AtMost::from_rows(MAX_ROWS, approvals))
}

/// The artifacts that were attested as built from each of these commits.
pub async fn artifacts_built_from(
    tenant: &mut Tenant<'_>,
    commits: &[String],
) -> Result<BTreeMap<String, BTreeSet<Fingerprint>>, Error> {
    const SELECT: &str =
        "SELECT commit_sha, fingerprint FROM provenance WHERE organization = ? AND commit_sha IN (?)";
    let rows: Vec<(String, Fingerprint)> =
        fetch_for_all!(tenant.tx, SELECT, commits.iter().cloned(), tenant.name);
    let mut built: BTreeMap<String, BTreeSet<Fingerprint>> = BTreeMap::new();
    for (commit, artifact) in rows {
        built.entry(commit).or_default().insert(artifact);
    }
    Ok(built)
}

/// The latest approved artifact of a flow for this environment, or for all.
pub async fn latest_approved(
    tenant: &mut Tenant<'_>,
    flow: &str,
    environment: Option<&EnvironmentName>,
) -> Result<Option<Fingerprint>, Error> {
    const SELECT: &str = "
        SELECT target FROM approvals
        WHERE organization = $1 AND flow = $2 AND COALESCE(environment, '') = $3 AND closed_at IS NULL
          AND state = 'APPROVED'
        ORDER BY number DESC LIMIT 1";
    let environment = environment.map_or("", EnvironmentName::as_str);
    Ok(fetch_optional_scalar!(tenant.tx, SELECT, tenant.name, flow, environment))
}

/// The number of an open approval in this state that this token has made already.
pub async fn repeated(
    tenant: &mut Tenant<'_>,
    flow: &str,
    approval: &NewApproval,
    created_by: &str,
) -> Result<Option<i64>, Error> {
    const SELECT: &str = "
        SELECT MIN(number) FROM approvals
        WHERE organization = $1 AND flow = $2 AND target = $3 AND COALESCE(environment, '') = $4 AND state = $5
          AND created_by = $6 AND closed_at IS NULL";
    let environment = approval.environment.as_ref().map_or("", EnvironmentName::as_str);
    let (target, state) = (approval.target, approval.state.as_str());
    Ok(fetch_scalar!(tenant.tx, SELECT, tenant.name, flow, target, environment, state, created_by))
}

/// The highest number of a flow's approvals; 0 without approvals.
pub async fn last_number(tenant: &mut Tenant<'_>, flow: &str) -> Result<i64, Error> {
    const SELECT: &str = "
        SELECT COALESCE(MAX(number), 0) FROM approvals WHERE organization = $1 AND flow = $2";
    Ok(fetch_scalar!(tenant.tx, SELECT, tenant.name, flow))
}

/// Records an approval, or a new state of one, that is made by a token or declared in the bootstrap file.
pub async fn insert(
    tenant: &mut Tenant<'_>,
    flow: &str,
    approval: &NewApproval,
    created_by: Option<&str>,
    created_at: Timestamp,
    modified_at: Timestamp,
) -> Result<(), Error> {
    const INSERT: &str = "
        INSERT INTO approvals (id, organization, flow, number, target, environment, state, content, created_by,
                               created_at, modified_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let (id, content) = (crate::new_id(), json(&approval.content)?);
    let environment = approval.environment.as_ref().map(EnvironmentName::as_str);
    let NewApproval { number, target, state, .. } = approval;
    execute!(
        tenant.tx,
        INSERT,
        id,
        tenant.name,
        flow,
        number,
        target,
        environment,
        state,
        content,
        created_by,
        created_at,
        modified_at
    );
    tenant.tx.log().row(tenant.name, Kind::Approval, id);
    Ok(())
}

/// Withdraws an approval that a token made.
pub async fn withdraw(
    tenant: &mut Tenant<'_>,
    flow: &str,
    number: i64,
    withdrawal: &Withdrawal,
) -> Result<(), Error> {
    const UPDATE: &str = "
        UPDATE approvals SET closed_at = $1, withdrawn_by = $2, withdrawal_comment = $3
        WHERE organization = $4 AND flow = $5 AND number = $6 AND created_by IS NOT NULL AND withdrawn_by IS NULL
        RETURNING id";
    let Withdrawal { withdrawn_by, comment, timestamp } = withdrawal;
    let withdrawn: Vec<Uuid> =
        fetch_scalars!(tenant.tx, UPDATE, timestamp, withdrawn_by, comment, tenant.name, flow, number);
    for id in withdrawn {
        tenant.tx.log().row(tenant.name, Kind::ApprovalEnd, id);
    }
    Ok(())
}
