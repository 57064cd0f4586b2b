//! Reconciles environments, with their limits and allow-lists.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use super::{Allowance, EnvironmentConfig, Journal, until};
use crate::domain::evidence::ownership::Pattern;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::columns::micros;
use crate::store::transaction::{execute, fetch_all, for_all, insert, on};
use crate::store::{Error, Transaction};

/// The declared limits of an environment.
#[derive(sqlx::FromRow)]
struct LimitsRow {
    name: String,
    min_artifacts: Option<i64>,
    max_drop_percent: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct OpenAllowance {
    id: Uuid,
    environment: String,
    fingerprint: Fingerprint,
    pattern: Option<String>,
    reason: String,
    author: String,
    expires_at: Option<Timestamp>,
    is_declared: bool,
}

impl Transaction {
    pub(super) async fn reconcile_environments(
        &mut self,
        organization: &str,
        environments: &[EnvironmentConfig],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const RESET: &str = "
            UPDATE environments SET silent_after = NULL, is_declared = FALSE, min_artifacts = NULL, max_drop_percent = NULL
            WHERE organization = $1
              AND (silent_after IS NOT NULL OR is_declared OR min_artifacts IS NOT NULL OR max_drop_percent IS NOT NULL)";
        self.reconcile_limits(organization, environments, journal).await?;
        execute!(self, RESET, organization);
        insert!(
            self,
            "INSERT INTO environments
                 (id, organization, name, created_at, silent_after, min_artifacts, max_drop_percent, is_declared, snapshot) ",
            " ON CONFLICT (organization, name)
              DO UPDATE SET silent_after = excluded.silent_after, min_artifacts = excluded.min_artifacts,
                            max_drop_percent = excluded.max_drop_percent, is_declared = excluded.is_declared",
            environments,
            |values, environment| {
                values.push_bind(Uuid::now_v7()).push_bind(organization).push_bind(environment.name.as_str());
                values.push_bind(now.micros()).push_bind(environment.silent_after.map(micros));
                values.push_bind(environment.min_artifacts.map(i64::from));
                values.push_bind(environment.max_drop.map(i64::from));
                values.push_bind(true).push_bind(0_i64);
            }
        );
        self.reconcile_allowances(organization, environments, now, journal).await
    }

    /// Evaluates environments whose limits change. A drop is measured anew when `maxDrop` changes.
    async fn reconcile_limits(
        &mut self,
        organization: &str,
        environments: &[EnvironmentConfig],
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT name, min_artifacts, max_drop_percent FROM environments
            WHERE organization = $1 AND (min_artifacts IS NOT NULL OR max_drop_percent IS NOT NULL)";
        const UPDATE: &str =
            "UPDATE environments SET reference_artifacts = NULL WHERE organization = ? AND name IN (?)";
        let rows: Vec<LimitsRow> = fetch_all!(self, SELECT, organization);
        let current: BTreeMap<&str, _> =
            rows.iter().map(|row| (row.name.as_str(), (row.min_artifacts, row.max_drop_percent))).collect();
        let wanted: BTreeMap<&str, _> = environments
            .iter()
            .map(|environment| {
                let EnvironmentConfig { min_artifacts, max_drop, .. } = environment;
                (environment.name.as_str(), (min_artifacts.map(i64::from), max_drop.map(i64::from)))
            })
            .collect();
        let mut restarted = Vec::new();
        for name in current.keys().chain(wanted.keys()).copied().collect::<BTreeSet<_>>() {
            let of = |limits: &BTreeMap<&str, _>| limits.get(name).copied().unwrap_or_default();
            let (before, (min_artifacts, max_drop)) = (of(&current), of(&wanted));
            if before != (min_artifacts, max_drop) {
                let text =
                    |limit: Option<i64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
                let (min, drop) = (text(min_artifacts), text(max_drop));
                journal.record(
                    organization,
                    format!("minArtifacts of the environment {name} is {min}, maxDrop is {drop}"),
                );
                journal.mark_for_evaluation(organization, name);
            }
            if before.1 != max_drop {
                restarted.push(name);
            }
        }
        for_all!(self, UPDATE, restarted, organization);
        Ok(())
    }

    async fn reconcile_allowances(
        &mut self,
        organization: &str,
        environments: &[EnvironmentConfig],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, environment, fingerprint, pattern, reason, author, expires_at, is_declared FROM allowances
            WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE allowances SET closed_at = $1 WHERE organization = $2 AND id = $3";
        const INSERT: &str = "
            INSERT INTO allowances
                (id, organization, environment, fingerprint, reason, author, expires_at, created_at, is_declared, pattern)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let listed = environments.iter().flat_map(|environment| {
            environment
                .allowed
                .iter()
                .map(|allowance| ((environment.name.as_str(), allowance.fingerprint), allowance))
        });
        let mut wanted: BTreeMap<(&str, Fingerprint), &Allowance> = listed.collect();
        let open: Vec<OpenAllowance> = fetch_all!(self, SELECT, organization);
        for open in &open {
            let (environment, artifact) = (open.environment.as_str(), open.fingerprint);
            let key = (environment, artifact);
            // An entry of an operation stays, until the file lists the artifact.
            if !open.is_declared && !wanted.contains_key(&key) {
                continue;
            }
            let is_unchanged = open.is_declared
                && wanted.get(&key).is_some_and(|wanted| {
                    (&wanted.reason, &wanted.author, wanted.expires_at)
                        == (&open.reason, &open.author, open.expires_at)
                });
            if is_unchanged {
                wanted.remove(&key);
            } else {
                self.close(CLOSE, organization, open.id, now).await?;
                journal.record(
                    organization,
                    format!(
                        "{} is no longer allowed in {environment}",
                        open.pattern.clone().unwrap_or_else(|| artifact.to_string())
                    ),
                );
                journal.mark_for_evaluation(organization, environment);
            }
        }
        for ((environment, artifact), allowance) in wanted {
            let Allowance { reason, author, expires_at, pattern, .. } = allowance;
            let pattern = pattern.as_ref().map(Pattern::as_str);
            let subject = pattern.map_or_else(|| artifact.to_string(), str::to_owned);
            journal.record(
                organization,
                format!("{subject} is allowed in {environment} {} by {author}: {reason}", until(*expires_at)),
            );
            journal.mark_for_evaluation(organization, environment);
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(environment);
                let insert = insert.bind(artifact.bytes().as_slice()).bind(reason).bind(author);
                let insert = insert
                    .bind(expires_at.map(Timestamp::micros))
                    .bind(now.micros())
                    .bind(true)
                    .bind(pattern);
                insert.execute(connection).await?;
            });
        }
        Ok(())
    }
}
