//! Reconciles environments, with their limits and allow-lists.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::Error;
use crate::bootstrap::file::{Environment, unresolved};
use crate::bootstrap::{Difference, Reconciliation, until};
use crate::database::transaction::{execute, fetch_all, fetch_scalars, for_all, insert};
use model::{Fingerprint, Timestamp};

/// The declared limits of an environment.
#[derive(sqlx::FromRow)]
struct ArtifactLimitsRow {
    name: String,
    #[sqlx(flatten)]
    limits: ArtifactLimits,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, sqlx::FromRow)]
struct ArtifactLimits {
    min_artifacts: Option<i64>,
    max_drop_percent: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct OpenAllowance {
    id: Uuid,
    environment: String,
    fingerprint: Fingerprint,
    #[sqlx(flatten)]
    entry: AllowanceContent,
}

/// The columns of an allow-list entry that are compared.
#[derive(PartialEq, Eq, sqlx::FromRow)]
struct AllowanceContent {
    pattern: Option<String>,
    reason: String,
    author: String,
    expires_at: Option<Timestamp>,
    is_declared: bool,
}

impl AllowanceContent {
    /// What it allows.
    fn subject(&self, artifact: Fingerprint) -> String {
        self.pattern.clone().unwrap_or_else(|| artifact.to_string())
    }
}

impl Reconciliation<'_> {
    pub(crate) async fn environments(&mut self, environments: &[Environment]) -> Result<(), Error> {
        const RESET: &str = "
            UPDATE environments SET silent_after = NULL, is_declared = FALSE, min_artifacts = NULL, max_drop_percent = NULL,
                                    forbids_exclusion = FALSE
            WHERE organization = $1
              AND (silent_after IS NOT NULL OR is_declared OR min_artifacts IS NOT NULL OR max_drop_percent IS NOT NULL
                   OR forbids_exclusion)";
        self.limits(environments).await?;
        self.exclusion(environments).await?;
        execute!(self.tenant.tx, RESET, self.tenant.name);
        insert!(
            self.tenant.tx,
            "INSERT INTO environments
                 (id, organization, name, created_at, silent_after, min_artifacts, max_drop_percent, forbids_exclusion,
                  is_declared, snapshot) ",
            " ON CONFLICT (organization, name)
              DO UPDATE SET silent_after = excluded.silent_after, min_artifacts = excluded.min_artifacts,
                            max_drop_percent = excluded.max_drop_percent,
                            forbids_exclusion = excluded.forbids_exclusion, is_declared = excluded.is_declared,
                            archived_at = NULL",
            environments,
            |values, environment| {
                let Environment { name, silent_after, min_artifacts, max_drop, forbid_exclusion, .. } = environment;
                values.push_bind(crate::new_id()).push_bind(self.tenant.name).push_bind(name.as_str());
                values.push_bind(self.now).push_bind(*silent_after);
                values.push_bind(min_artifacts.map(i64::from)).push_bind(max_drop.map(i64::from));
                values.push_bind(*forbid_exclusion).push_bind(true).push_bind(0_i64);
            }
        );
        self.allowances(environments).await
    }

    /// Evaluates environments whose limits change. A drop is measured anew when `maxDrop` changes.
    async fn limits(&mut self, environments: &[Environment]) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT name, min_artifacts, max_drop_percent FROM environments
            WHERE organization = $1 AND (min_artifacts IS NOT NULL OR max_drop_percent IS NOT NULL)";
        const UPDATE: &str =
            "UPDATE environments SET reference_artifacts = NULL WHERE organization = ? AND name IN (?)";
        let rows: Vec<ArtifactLimitsRow> = fetch_all!(self.tenant.tx, SELECT, self.tenant.name);
        let current: BTreeMap<&str, ArtifactLimits> =
            rows.iter().map(|row| (row.name.as_str(), row.limits)).collect();
        let declared = environments.iter().map(|Environment { name, min_artifacts, max_drop, .. }| {
            let min_artifacts = min_artifacts.map(i64::from);
            (name.as_str(), ArtifactLimits { min_artifacts, max_drop_percent: max_drop.map(i64::from) })
        });
        let declared: BTreeMap<&str, ArtifactLimits> = declared.collect();
        let mut restarted = Vec::new();
        for name in current.keys().chain(declared.keys()).copied().collect::<BTreeSet<_>>() {
            let of = |limits: &BTreeMap<&str, ArtifactLimits>| limits.get(name).copied().unwrap_or_default();
            let (before, after) = (of(&current), of(&declared));
            if before != after {
                let text =
                    |limit: Option<i64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
                let (min, drop) = (text(after.min_artifacts), text(after.max_drop_percent));
                self.record(format!("minArtifacts of the environment {name} is {min}, maxDrop is {drop}"));
                self.mark_for_evaluation(name);
            }
            if before.max_drop_percent != after.max_drop_percent {
                restarted.push(name);
            }
        }
        for_all!(self.tenant.tx, UPDATE, restarted, self.tenant.name);
        Ok(())
    }

    /// Records which environments forbid or permit excluded pods from now on.
    async fn exclusion(&mut self, environments: &[Environment]) -> Result<(), Error> {
        const SELECT: &str = "SELECT name FROM environments WHERE organization = $1 AND forbids_exclusion";
        let before: Vec<String> = fetch_scalars!(self.tenant.tx, SELECT, self.tenant.name);
        let before: BTreeSet<_> = before.into_iter().collect();
        let forbidding = environments.iter().filter(|environment| environment.forbid_exclusion);
        let after: BTreeSet<_> = forbidding.map(|environment| environment.name.as_str().to_owned()).collect();
        for name in before.symmetric_difference(&after) {
            let forbids = after.contains(name);
            self.record(format!("forbidExclusion of the environment {name} is {forbids}"));
        }
        Ok(())
    }

    async fn allowances(&mut self, environments: &[Environment]) -> Result<(), Error> {
        const SELECT: &str = "
            SELECT id, environment, fingerprint, pattern, reason, author, expires_at, is_declared FROM allowances
            WHERE organization = $1 AND closed_at IS NULL";
        const INSERT: &str = "
            INSERT INTO allowances
                (id, organization, environment, fingerprint, reason, author, expires_at, created_at, is_declared, pattern)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let declared = environments.iter().flat_map(|environment| {
            environment.allowed.iter().map(|allowance| {
                let entry = AllowanceContent {
                    pattern: allowance.image.as_ref().map(|image| image.as_str().to_owned()),
                    reason: allowance.reason.as_str().to_owned(),
                    author: allowance.author.as_str().to_owned(),
                    expires_at: allowance.expires,
                    is_declared: true,
                };
                let name = environment.name.as_str().to_owned();
                let artifact =
                    allowance.fingerprint().ok_or_else(|| unresolved("the artifact of an allowance"));
                artifact.map(|artifact| ((name, artifact), entry))
            })
        });
        let declared: BTreeMap<(String, Fingerprint), AllowanceContent> =
            declared.collect::<Result<_, Error>>()?;
        let open: Vec<OpenAllowance> = fetch_all!(self.tenant.tx, SELECT, self.tenant.name);
        let open = open.into_iter().map(|OpenAllowance { id, environment, fingerprint, entry }| {
            (id, (environment, fingerprint), entry)
        });
        // An entry of an operation stays, until the file lists the artifact.
        let open = open.filter(|(_, key, entry)| entry.is_declared || declared.contains_key(key)).collect();
        let Difference { closed, inserted } = Difference::new(open, declared);
        self.close("allowances", closed.iter().map(|(id, ..)| *id).collect()).await?;
        for (_, (environment, artifact), entry) in closed {
            self.record(format!("{} is no longer allowed in {environment}", entry.subject(artifact)));
            self.mark_for_evaluation(&environment);
        }
        for ((environment, artifact), entry) in inserted {
            let subject = entry.subject(artifact);
            let AllowanceContent { pattern, reason, author, expires_at, is_declared } = entry;
            execute!(
                self.tenant.tx,
                INSERT,
                crate::new_id(),
                self.tenant.name,
                &environment,
                artifact,
                &reason,
                &author,
                expires_at,
                self.now,
                is_declared,
                pattern
            );
            let until = until(expires_at);
            self.record(format!("{subject} is allowed in {environment} {until} by {author}: {reason}"));
            self.mark_for_evaluation(&environment);
        }
        Ok(())
    }
}
