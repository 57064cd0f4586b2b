//! Approvals, as they are shown.

use std::collections::{BTreeMap, BTreeSet};

use super::bootstrap::ApprovalContent;
use super::columns::fingerprint;
use super::row_limit::{AtMost, MOST, one_more_than};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{ApprovalState, EnvironmentName, Fingerprint, Timestamp};

/// An approval, in the last state that it had.
#[derive(Debug, Clone)]
pub struct Approval {
    /// Its number in its flow.
    pub number: i64,
    /// The artifact that it is about.
    pub target: Fingerprint,
    /// The environment that it is for.
    pub environment: Option<EnvironmentName>,
    /// Where it stands; what was taken out of the bootstrap file is withdrawn.
    pub state: ApprovalState,
    /// All else that was declared.
    pub content: ApprovalContent,
    /// When the number was first there.
    pub created_at: Timestamp,
    /// When it last changed.
    pub modified_at: Timestamp,
}

type Row = (i64, Vec<u8>, Option<String>, String, String, i64, i64, Option<i64>);

/// The same behind its flow.
type OfFlow = (String, i64, Vec<u8>, Option<String>, String, String, i64, i64, Option<i64>);

impl Transaction {
    /// The approvals of a flow, of this number or of this artifact, the latest number first; `None` where
    /// there is no such flow.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn approvals(
        &mut self,
        organization: &str,
        flow: &str,
        number: Option<i64>,
        target: Option<Fingerprint>,
    ) -> Result<Option<Vec<Approval>>, Error> {
        const FLOW: &str = "SELECT COUNT(*) FROM flows WHERE organization = $1 AND name = $2";
        const SELECT: &str = "
            SELECT number, target, environment, state, content, created_at, modified_at, closed_at
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
        let mut rows: Vec<Row> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(flow).bind(number);
            select.bind(target).fetch_all(connection).await?
        });
        // The states before the last are history.
        rows.dedup_by_key(|row| row.0);
        rows.into_iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    /// The approvals of an artifact in all flows, each with its flow and in its last state, the one that changed last
    /// first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn approvals_of(
        &mut self,
        organization: &str,
        target: Fingerprint,
    ) -> Result<AtMost<(String, Approval)>, Error> {
        // The states before the last are history.
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
        let rows: Vec<OfFlow> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(target.bytes().to_vec());
            select.bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        let approvals = rows.into_iter().map(|row| {
            let (flow, number, target, environment, state, content, created, modified, closed) = row;
            Ok((flow, read((number, target, environment, state, content, created, modified, closed))?))
        });
        Ok(AtMost::of(MOST, approvals.collect::<Result<_, Error>>()?))
    }

    /// What was attested as built from commits.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn built_from(
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

fn read(row: Row) -> Result<Approval, Error> {
    let unreadable = || Error::Unreadable("an approval");
    let (number, target, environment, state, content, created_at, modified_at, closed_at) = row;
    let state: ApprovalState = state.parse().map_err(|_| unreadable())?;
    let environment = environment.map(|name| name.parse()).transpose();
    Ok(Approval {
        number,
        target: fingerprint(&target)?,
        environment: environment.map_err(|_| unreadable())?,
        state: if closed_at.is_some() { ApprovalState::Unapproved } else { state },
        content: serde_json::from_str(&content).map_err(|_| unreadable())?,
        created_at: Timestamp::from_micros(created_at),
        modified_at: Timestamp::from_micros(closed_at.unwrap_or(modified_at)),
    })
}
