//! Reads approvals, and the artifacts built from their commits, for the API and the pages.

use std::collections::{BTreeMap, BTreeSet};

use super::bootstrap::ApprovalContent;
use super::columns::fingerprint;
use super::row_limit::{AtMost, MAX_ROWS, one_more_than};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{ApprovalState, EnvironmentName, Fingerprint, Timestamp};
use crate::store::from_row::all_from_rows;

/// An approval in its latest state.
#[derive(Debug, Clone)]
pub struct Approval {
    /// Its number in its flow.
    pub number: i64,
    /// The artifact that it is about.
    pub target: Fingerprint,
    /// The environment that it applies to; `None` for any.
    pub environment: Option<EnvironmentName>,
    /// Its state; an approval that was removed from the bootstrap file is unapproved.
    pub state: ApprovalState,
    /// The remaining fields of the bootstrap file.
    pub content: ApprovalContent,
    /// When the number was first used.
    pub created_at: Timestamp,
    /// When it last changed.
    pub modified_at: Timestamp,
}

#[derive(sqlx::FromRow)]
struct ApprovalRow {
    flow: String,
    number: i64,
    target: Vec<u8>,
    environment: Option<String>,
    state: String,
    content: String,
    created_at: i64,
    modified_at: i64,
    closed_at: Option<i64>,
}

impl ApprovalRow {
    fn parse(self) -> Result<Approval, Error> {
        let unreadable = || Error::Unreadable("an approval");
        let state: ApprovalState = self.state.parse().map_err(|_| unreadable())?;
        let environment = self.environment.map(|name| name.parse()).transpose();
        Ok(Approval {
            number: self.number,
            target: fingerprint(&self.target)?,
            environment: environment.map_err(|_| unreadable())?,
            state: if self.closed_at.is_some() { ApprovalState::Unapproved } else { state },
            content: serde_json::from_str(&self.content).map_err(|_| unreadable())?,
            created_at: Timestamp::from_micros(self.created_at),
            modified_at: Timestamp::from_micros(self.closed_at.unwrap_or(self.modified_at)),
        })
    }
}

impl Transaction {
    /// The approvals of a flow, optionally with this number or for this artifact, highest number first.
    /// `None` if the flow does not exist.
    pub async fn approvals(
        &mut self,
        organization: &str,
        flow: &str,
        number: Option<i64>,
        target: Option<Fingerprint>,
    ) -> Result<Option<Vec<Approval>>, Error> {
        const FLOW: &str = "SELECT COUNT(*) FROM flows WHERE organization = $1 AND name = $2";
        const SELECT: &str = "
            SELECT flow, number, target, environment, state, content, created_at, modified_at, closed_at
            FROM approvals
            WHERE organization = $1 AND flow = $2 AND ($3 IS NULL OR number = $3)
              AND ($4 IS NULL OR target = $4)
            ORDER BY number DESC, modified_at DESC, id DESC";
        let exists: i64 = on!(self, |connection| {
            sqlx::query_scalar(FLOW).bind(organization).bind(flow).fetch_one(connection).await?
        });
        if exists == 0 {
            return Ok(None);
        }
        let target = target.map(|target| target.bytes().to_vec());
        let mut rows: Vec<ApprovalRow> = on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(flow).bind(number);
            select.bind(target).fetch_all(connection).await.and_then(all_from_rows)?
        });
        // Each number's latest state comes first.
        rows.dedup_by_key(|row| row.number);
        rows.into_iter().map(ApprovalRow::parse).collect::<Result<_, _>>().map(Some)
    }

    /// The approvals of an artifact in all flows, each with its flow, most recently changed first.
    pub async fn approvals_of_artifact(
        &mut self,
        organization: &str,
        target: Fingerprint,
    ) -> Result<AtMost<(String, Approval)>, Error> {
        // Excludes all but the latest state of each approval.
        const SELECT: &str = "
            SELECT a.flow, a.number, a.target, a.environment, a.state, a.content, a.created_at, a.modified_at,
                   a.closed_at
            FROM approvals a
            WHERE a.organization = $1 AND a.target = $2 AND NOT EXISTS (
              SELECT 1 FROM approvals l
              WHERE l.organization = a.organization AND l.flow = a.flow AND l.number = a.number
                AND l.target = a.target
                AND (l.modified_at > a.modified_at OR (l.modified_at = a.modified_at AND l.id > a.id)))
            ORDER BY COALESCE(a.closed_at, a.modified_at) DESC, a.flow, a.number LIMIT $3";
        let rows: Vec<ApprovalRow> = on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(target.bytes().to_vec());
            select.bind(one_more_than(MAX_ROWS)).fetch_all(connection).await.and_then(all_from_rows)?
        });
        let approvals = rows.into_iter().map(|row| Ok((row.flow.clone(), row.parse()?)));
        Ok(AtMost::from_rows(MAX_ROWS, approvals.collect::<Result<_, Error>>()?))
    }

    /// The artifacts that were attested as built from each of these commits.
    pub async fn artifacts_built_from(
        &mut self,
        organization: &str,
        commits: &[String],
    ) -> Result<BTreeMap<String, BTreeSet<Fingerprint>>, Error> {
        const SELECT: &str = "
            SELECT fingerprint FROM provenance WHERE organization = $1 AND commit_sha = $2";
        let mut built: BTreeMap<String, BTreeSet<Fingerprint>> = BTreeMap::new();
        for commit in commits {
            let rows: Vec<Vec<u8>> = on!(self, |connection| {
                sqlx::query_scalar(SELECT).bind(organization).bind(commit).fetch_all(connection).await?
            });
            let artifacts = rows.iter().map(|row| fingerprint(row)).collect::<Result<_, _>>()?;
            built.insert(commit.clone(), artifacts);
        }
        Ok(built)
    }
}
