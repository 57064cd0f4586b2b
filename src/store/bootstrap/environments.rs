//! Environments: how long each may be silent, what it requires, and what may run there all the same.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::{Allowance, Environment, Journal, until};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::columns::{fingerprint, json, micros};
use crate::store::transaction::{for_all, insert, on};
use crate::store::{Error, Transaction};

impl Transaction {
    pub(super) async fn reconcile_environments(
        &mut self,
        organization: &str,
        environments: &[Environment],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const FORGET: &str = "
            UPDATE environments SET silent_after = NULL WHERE organization = $1 AND silent_after IS NOT NULL";
        on!(self, |connection| {
            sqlx::query(FORGET).bind(organization).execute(connection).await?;
        });
        insert!(
            self,
            "INSERT INTO environments (id, organization, name, created_at, silent_after, snapshot) ",
            " ON CONFLICT (organization, name) DO UPDATE SET silent_after = excluded.silent_after",
            environments,
            |values, environment| {
                values.push_bind(Uuid::now_v7()).push_bind(organization).push_bind(environment.name.as_str());
                values.push_bind(now.micros()).push_bind(environment.silent_after.map(micros));
                values.push_bind(0_i64);
            }
        );
        self.reconcile_policies(organization, environments, now, journal).await?;
        self.reconcile_allowances(organization, environments, now, journal).await
    }

    async fn reconcile_policies(
        &mut self,
        organization: &str,
        environments: &[Environment],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, environment, content FROM policies WHERE organization = $1 AND closed_at IS NULL";
        let policies = environments.iter().filter_map(|e| Some((e.name.as_str(), json(e.policy.as_ref()?))));
        let mut wanted: BTreeMap<&str, String> = policies.collect();
        let open: Vec<(Uuid, String, String)> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let mut closed = Vec::new();
        for (id, environment, content) in open {
            if wanted.get(environment.as_str()) == Some(&content) {
                wanted.remove(environment.as_str());
            } else {
                closed.push(id);
                journal.note(organization, format!("the policy of the environment {environment} was closed"));
                journal.touch(organization, &environment);
            }
        }
        for_all!(
            self,
            |query| query
                .push("UPDATE policies SET closed_at = ")
                .push_bind(now.micros())
                .push(" WHERE id IN"),
            closed
        );
        for (environment, content) in &wanted {
            journal.note(organization, format!("the environment {environment} got the policy {content}"));
            journal.touch(organization, environment);
        }
        insert!(
            self,
            "INSERT INTO policies (id, organization, environment, content, created_at) ",
            "",
            &wanted,
            |values, (environment, content)| {
                values.push_bind(Uuid::now_v7()).push_bind(organization).push_bind(**environment);
                values.push_bind(content.as_str()).push_bind(now.micros());
            }
        );
        Ok(())
    }

    async fn reconcile_allowances(
        &mut self,
        organization: &str,
        environments: &[Environment],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        type Row = (Uuid, String, Vec<u8>, String, String, Option<i64>);
        const SELECT: &str = "
            SELECT id, environment, fingerprint, reason, author, expires_at FROM allowances
            WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE allowances SET closed_at = $1 WHERE id = $2";
        const INSERT: &str = "
            INSERT INTO allowances
                (id, organization, environment, fingerprint, reason, author, expires_at, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let listed = environments.iter().flat_map(|environment| {
            environment
                .allowed
                .iter()
                .map(|allowance| ((environment.name.as_str(), allowance.fingerprint), allowance))
        });
        let mut wanted: BTreeMap<(&str, Fingerprint), &Allowance> = listed.collect();
        let open: Vec<Row> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        for (id, environment, artifact, reason, author, expires_at) in &open {
            let artifact = fingerprint(artifact)?;
            let key = (environment.as_str(), artifact);
            let is_same = wanted.get(&key).is_some_and(|wanted| {
                let until = wanted.expires_at.map(Timestamp::micros);
                (&wanted.reason, &wanted.author, until) == (reason, author, *expires_at)
            });
            if is_same {
                wanted.remove(&key);
            } else {
                self.close(CLOSE, *id, now).await?;
                journal.note(organization, format!("{artifact} is no longer allowed in {environment}"));
                journal.touch(organization, environment);
            }
        }
        for ((environment, artifact), allowance) in wanted {
            let Allowance { reason, author, expires_at, .. } = allowance;
            journal.note(
                organization,
                format!(
                    "{artifact} is allowed in {environment} {} by {author}: {reason}",
                    until(*expires_at)
                ),
            );
            journal.touch(organization, environment);
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(environment);
                let insert = insert.bind(artifact.bytes().as_slice()).bind(reason).bind(author);
                let insert = insert.bind(expires_at.map(Timestamp::micros)).bind(now.micros());
                insert.execute(connection).await?;
            });
        }
        Ok(())
    }
}
