//! Approvals: each change of one is a row of its own, and the open one is the current.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::{Approval, Flow, Journal, Refused, Taken};
use crate::domain::evidence::compliance::Policy;
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};
use crate::store::columns::{fingerprint, json};
use crate::store::transaction::on;
use crate::store::{Error, Transaction};

/// An approval's flow and number.
type Key = (String, i64);

/// An approval that is open.
struct Open {
    id: Uuid,
    key: Key,
    target: Fingerprint,
    /// The rest, as it is compared.
    rest: (Option<String>, String, String),
    created_at: i64,
}

fn said((flow, number): &Key) -> String {
    format!("approval {number} of the flow {flow}")
}

fn rest(approval: &Approval) -> (Option<String>, String, String) {
    let environment = approval.environment.as_ref().map(EnvironmentName::as_str);
    (environment.map(str::to_owned), approval.state.as_str().to_owned(), json(&approval.content))
}

impl Transaction {
    pub(super) async fn reconcile_approvals(
        &mut self,
        organization: &str,
        flows: &[Flow],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Refused> {
        const CLOSE: &str = "UPDATE approvals SET closed_at = $1 WHERE id = $2";
        let listed = flows.iter().flat_map(|flow| {
            flow.approvals.iter().map(|approval| ((flow.name.as_str().to_owned(), approval.number), approval))
        });
        let mut wanted: BTreeMap<Key, &Approval> = listed.collect();
        let before = journal.changes.len();
        for open in self.open_approvals(organization).await? {
            let key = said(&open.key);
            match wanted.remove(&open.key) {
                None => {
                    self.close(CLOSE, open.id, now).await?;
                    journal.note(organization, format!("the {key} was closed"));
                }
                Some(approval) if approval.target != open.target => {
                    let why = "is for another artifact";
                    let organization = organization.to_owned();
                    return Err(Refused::Taken(Taken { organization, what: key, why }));
                }
                Some(approval) if rest(approval) == open.rest => {}
                Some(approval) => {
                    self.close(CLOSE, open.id, now).await?;
                    self.insert_approval(organization, &open.key.0, approval, open.created_at, now).await?;
                    journal.note(organization, changed(&key, approval));
                }
            }
        }
        for (key, approval) in wanted {
            if self.knows_approval(organization, &key).await? {
                return Err(Refused::Taken(Taken::closed(organization, said(&key))));
            }
            self.insert_approval(organization, &key.0, approval, now.micros(), now).await?;
            journal.note(organization, changed(&said(&key), approval));
        }
        if journal.changes.len() > before {
            for environment in self.environments_with_approvals(organization).await? {
                journal.touch(organization, &environment);
            }
        }
        Ok(())
    }

    async fn open_approvals(&mut self, organization: &str) -> Result<Vec<Open>, Error> {
        type Row = (Uuid, String, i64, Vec<u8>, Option<String>, String, String, i64);
        const SELECT: &str = "
            SELECT id, flow, number, target, environment, state, content, created_at FROM approvals
            WHERE organization = $1 AND closed_at IS NULL";
        let rows: Vec<Row> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let open =
            rows.into_iter().map(|(id, flow, number, target, environment, state, content, created_at)| {
                let (key, rest) = ((flow, number), (environment, state, content));
                Ok(Open { id, key, target: fingerprint(&target)?, rest, created_at })
            });
        open.collect()
    }

    async fn knows_approval(&mut self, organization: &str, (flow, number): &Key) -> Result<bool, Error> {
        const COUNT: &str = "
            SELECT COUNT(*) FROM approvals WHERE organization = $1 AND flow = $2 AND number = $3";
        let count: i64 = on!(self, |connection| {
            sqlx::query_scalar(COUNT).bind(organization).bind(flow).bind(number).fetch_one(connection).await?
        });
        Ok(count > 0)
    }

    async fn insert_approval(
        &mut self,
        organization: &str,
        flow: &str,
        approval: &Approval,
        created_at: i64,
        now: Timestamp,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO approvals
                (id, organization, flow, number, target, environment, state, content, created_at, modified_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let (environment, state, content) = rest(approval);
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(flow);
            let insert = insert.bind(approval.number).bind(approval.target.bytes().as_slice());
            let insert = insert.bind(environment).bind(state).bind(content).bind(created_at);
            insert.bind(now.micros()).execute(connection).await?;
        });
        Ok(())
    }

    /// The environments whose policies want an approval.
    async fn environments_with_approvals(&mut self, organization: &str) -> Result<Vec<String>, Error> {
        const SELECT: &str = "
            SELECT environment, content FROM policies WHERE organization = $1 AND closed_at IS NULL";
        let rows: Vec<(String, String)> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let wants =
            |content: &str| serde_json::from_str::<Policy>(content).is_ok_and(|policy| policy.approval);
        Ok(rows
            .into_iter()
            .filter(|(_, content)| wants(content))
            .map(|(environment, _)| environment)
            .collect())
    }
}

fn changed(key: &str, approval: &Approval) -> String {
    let place =
        approval.environment.as_ref().map_or_else(|| "any environment".to_owned(), ToString::to_string);
    let by: Vec<_> = approval.content.approvals.iter().map(|said| said.approved_by.as_str()).collect();
    let by = if by.is_empty() { String::new() } else { format!(", by {}", by.join(", ")) };
    format!("the {key} is {} for {} in {place}{by}", approval.state.as_str(), approval.target)
}
