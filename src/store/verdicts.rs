//! What verdicts rest on, and the verdicts themselves: one row for each time in which one held.
//!
//! Whoever changes either holds the organization's verdicts first: what is judged must not change under it.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::columns::{fingerprint, json};
use super::rows::{Bytes, rows};
use super::transaction::{fetch_for_all, for_all, insert, on};
use super::{Error, Transaction};
use crate::domain::compliance::{Allowed, Approved, Attested, Compliance, Evidence, Policy, Requirement};
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};
use crate::domain::standing::{Running, Standing, Verdict};

/// An environment that is to be judged again.
#[derive(Debug, Clone)]
pub struct Due {
    /// Its organization.
    pub organization: String,
    /// Its name.
    pub name: String,
}

/// The name of the lock on an organization's verdicts, in PostgreSQL.
macro_rules! lock {
    ($function:literal) => {
        concat!("SELECT ", $function, "(hashtextextended('verdicts/' || $1, 0))")
    };
}

impl Transaction {
    /// Keeps others from changing what verdicts rest on until the transaction ends, and them from being
    /// judged: for an attestation, and the bootstrap file. On SQLite nobody else writes.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn hold_verdicts(&mut self, organization: &str) -> Result<(), Error> {
        if let Self::Postgres(transaction) = self {
            let lock = sqlx::query(lock!("pg_advisory_xact_lock"));
            lock.bind(organization).execute(&mut **transaction).await?;
        }
        Ok(())
    }

    /// Keeps others from changing what verdicts rest on until the transaction ends: for a report. Others may
    /// report other environments meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn share_verdicts(&mut self, organization: &str) -> Result<(), Error> {
        if let Self::Postgres(transaction) = self {
            let lock = sqlx::query(lock!("pg_advisory_xact_lock_shared"));
            lock.bind(organization).execute(&mut **transaction).await?;
        }
        Ok(())
    }

    /// What an environment requires.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn policy(&mut self, organization: &str, environment: &str) -> Result<Option<Policy>, Error> {
        const SELECT: &str = "
            SELECT content FROM policies
            WHERE organization = $1 AND environment = $2 AND closed_at IS NULL";
        let content: Option<String> = on!(self, |connection| {
            sqlx::query_scalar(SELECT).bind(organization).bind(environment).fetch_optional(connection).await?
        });
        let read =
            |content: String| serde_json::from_str(&content).map_err(|_| Error::Unreadable("a policy"));
        content.map(read).transpose()
    }

    /// What is known of artifacts that bears on a policy.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn evidence(
        &mut self,
        organization: &str,
        environment: &str,
        policy: Option<&Policy>,
        artifacts: impl Iterator<Item = Fingerprint>,
    ) -> Result<BTreeMap<Fingerprint, Evidence>, Error> {
        let mut evidence: BTreeMap<Fingerprint, Evidence> = BTreeMap::new();
        for (artifact, until) in self.allowances(organization, environment).await? {
            evidence.entry(artifact).or_default().allowed.push(Allowed { until });
        }
        let Some(policy) = policy else { return Ok(evidence) };
        let keys: Vec<Vec<u8>> = artifacts.map(|artifact| artifact.bytes().to_vec()).collect();
        if !policy.attestations.is_empty() {
            for (artifact, flow, name, passes) in self.attested(organization, policy, &keys).await? {
                let attested = Attested { what: Requirement { flow, name }, passes };
                evidence.entry(fingerprint(&artifact)?).or_default().attestations.push(attested);
            }
        }
        if policy.approval {
            for (artifact, environment) in self.approved(organization, keys).await? {
                let name = environment.map(|name| name.parse::<EnvironmentName>()).transpose();
                let environment = name.map_err(|_| Error::Unreadable("an environment's name"))?;
                evidence.entry(fingerprint(&artifact)?).or_default().approvals.push(Approved { environment });
            }
        }
        Ok(evidence)
    }

    async fn allowances(
        &mut self,
        organization: &str,
        environment: &str,
    ) -> Result<Vec<(Fingerprint, Option<Timestamp>)>, Error> {
        const SELECT: &str = "
            SELECT fingerprint, expires_at FROM allowances
            WHERE organization = $1 AND environment = $2 AND closed_at IS NULL";
        let rows: Vec<(Vec<u8>, Option<i64>)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(environment).fetch_all(connection).await?
        });
        let read = |(artifact, until): (Vec<u8>, Option<i64>)| {
            Ok((fingerprint(&artifact)?, until.map(Timestamp::from_micros)))
        };
        rows.into_iter().map(read).collect()
    }

    /// The attestations of artifacts under the names that a policy has, in the order in which they came.
    async fn attested(
        &mut self,
        organization: &str,
        policy: &Policy,
        artifacts: &[Vec<u8>],
    ) -> Result<Vec<(Vec<u8>, String, String, bool)>, Error> {
        Ok(fetch_for_all!(
            self,
            |query| {
                query.push(
                    "SELECT x.fingerprint, a.flow, a.name, a.is_compliant
                     FROM attested_artifacts x JOIN attestations a ON a.id = x.attestation
                     WHERE x.organization = ",
                );
                query.push_bind(organization).push(" AND a.name IN (");
                let mut names = query.separated(", ");
                for required in &policy.attestations {
                    names.push_bind(required.name.as_str());
                }
                query.push(") AND x.fingerprint IN");
            },
            artifacts.iter().cloned(),
            " ORDER BY a.created_at, a.id"
        ))
    }

    /// The environment of each approval that artifacts have.
    async fn approved(
        &mut self,
        organization: &str,
        artifacts: Vec<Vec<u8>>,
    ) -> Result<Vec<(Vec<u8>, Option<String>)>, Error> {
        Ok(fetch_for_all!(
            self,
            |query| {
                query.push("SELECT target, environment FROM approvals WHERE organization = ");
                query.push_bind(organization);
                query.push(" AND closed_at IS NULL AND state = 'APPROVED' AND target IN");
            },
            artifacts,
            ""
        ))
    }

    /// What is held as running in an environment, and the verdicts that were made of it.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn standing(&mut self, environment: Uuid) -> Result<BTreeMap<Fingerprint, Running>, Error> {
        type Row = (Bytes, String, Option<i64>, Option<String>, i64, Option<String>);
        let rows: Vec<Row> = rows!(
            self,
            "hex(fingerprint), name, pods, compliance, is_allowed, reasons",
            "SELECT r.fingerprint, r.name, r.pods, v.compliance,
                    CAST(CASE WHEN v.is_allowed THEN 1 ELSE 0 END AS BIGINT) AS is_allowed, v.reasons
             FROM artifact_runs r LEFT JOIN verdicts v
               ON v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
             WHERE r.environment = $1 AND r.ended_at IS NULL",
            |query| query.bind(environment)
        );
        let running = rows.into_iter().map(|(Bytes(artifact), name, pods, word, allowed, reasons)| {
            let verdict = match (word, reasons) {
                (Some(word), Some(reasons)) => Verdict {
                    compliance: word.parse().map_err(|_| Error::Unreadable("a verdict"))?,
                    is_allowed: allowed != 0,
                    reasons: serde_json::from_str(&reasons).map_err(|_| Error::Unreadable("reasons"))?,
                },
                _ => Verdict::UNKNOWN,
            };
            Ok((artifact, Running { name, pods, verdict }))
        });
        running.collect()
    }

    /// Writes down how an environment stands now, and from when on; each verdict that is another ends one
    /// and begins one.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn keep_standing(
        &mut self,
        environment: Uuid,
        before: &Standing,
        after: &Standing,
        until: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<(), Error> {
        // Of what runs no longer: a replica of the version before ends no verdict.
        const LEFT: &str = "
            UPDATE verdicts SET until_at = $1 WHERE environment = $2 AND until_at IS NULL AND NOT EXISTS
            (SELECT 1 FROM artifact_runs r WHERE r.environment = verdicts.environment
               AND r.fingerprint = verdicts.fingerprint AND r.ended_at IS NULL)";
        const KEEP: &str = "
            UPDATE environments SET compliance = $1, compliant_until = $2, judged_at = $3 WHERE id = $4";
        let verdict = |standing: &Standing, artifact: &Fingerprint| {
            standing.artifacts.get(artifact).map_or(Verdict::UNKNOWN, |running| running.verdict.clone())
        };
        let ended: Vec<Vec<u8>> = before
            .artifacts
            .iter()
            .filter(|(artifact, was)| {
                was.verdict != Verdict::UNKNOWN && was.verdict != verdict(after, artifact)
            })
            .map(|(artifact, _)| artifact.bytes().to_vec())
            .collect();
        let begun = after.artifacts.iter().filter(|(artifact, is)| {
            is.verdict != Verdict::UNKNOWN && is.verdict != verdict(before, artifact)
        });
        on!(self, |connection| {
            sqlx::query(LEFT).bind(at.micros()).bind(environment).execute(connection).await?;
        });
        for_all!(
            self,
            |query| {
                query.push("UPDATE verdicts SET until_at = ").push_bind(at.micros());
                query.push(" WHERE environment = ").push_bind(environment);
                query.push(" AND until_at IS NULL AND fingerprint IN");
            },
            ended
        );
        insert!(
            self,
            "INSERT INTO verdicts (environment, fingerprint, from_at, compliance, is_allowed, reasons) ",
            "",
            begun,
            |values, (artifact, running)| {
                let Verdict { compliance, is_allowed, reasons } = &running.verdict;
                values.push_bind(environment).push_bind(artifact.bytes().as_slice()).push_bind(at.micros());
                values.push_bind(compliance.as_str()).push_bind(*is_allowed).push_bind(json(reasons));
            }
        );
        on!(self, |connection| {
            let keep = sqlx::query(KEEP).bind(after.compliance.as_str()).bind(until.map(Timestamp::micros));
            keep.bind(at.micros()).bind(environment).execute(connection).await?;
        });
        Ok(())
    }

    /// Keeps with an environment's current snapshot how it stood when it was received.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn keep_with_snapshot(
        &mut self,
        environment: Uuid,
        snapshot: i64,
        compliance: Compliance,
    ) -> Result<(), Error> {
        const KEEP: &str = "UPDATE snapshots SET compliance = $1 WHERE environment = $2 AND snapshot = $3";
        on!(self, |connection| {
            let keep = sqlx::query(KEEP).bind(compliance.as_str()).bind(environment).bind(snapshot);
            keep.execute(connection).await?;
        });
        Ok(())
    }

    /// The environments with a policy in which any of these artifacts runs.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn judged_environments(
        &mut self,
        organization: &str,
        artifacts: impl Iterator<Item = Fingerprint>,
    ) -> Result<Vec<String>, Error> {
        let rows: Vec<(String,)> = fetch_for_all!(
            self,
            |query| {
                query.push(
                    "SELECT DISTINCT e.name FROM artifact_runs r JOIN environments e ON e.id = r.environment
                     JOIN policies p ON p.organization = e.organization AND p.environment = e.name
                     WHERE r.organization = ",
                );
                query.push_bind(organization);
                query.push(" AND r.ended_at IS NULL AND p.closed_at IS NULL AND r.fingerprint IN");
            },
            artifacts.map(|artifact| artifact.bytes().to_vec()),
            ""
        );
        let names: std::collections::BTreeSet<String> = rows.into_iter().map(|(name,)| name).collect();
        Ok(names.into_iter().collect())
    }

    /// The environments that are to be judged again though nobody said so: those that stand as an entry of the
    /// allow-list lets them that ended, and those with a policy that nobody judged since `stale`, while a
    /// replica of the version before may have written what bears on them.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn due_environments(&mut self, now: Timestamp, stale: Timestamp) -> Result<Vec<Due>, Error> {
        const SELECT: &str = "
            SELECT e.organization, e.name FROM environments e JOIN organizations o ON o.name = e.organization
            WHERE o.closed_at IS NULL AND e.snapshot > 0
              AND (e.compliant_until <= $1
                   OR (e.judged_at IS NULL OR e.judged_at < $2)
                      AND EXISTS (SELECT 1 FROM policies p
                                  WHERE p.organization = e.organization AND p.environment = e.name
                                    AND p.closed_at IS NULL))
            ORDER BY e.organization, e.name";
        let rows: Vec<(String, String)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(now.micros()).bind(stale.micros()).fetch_all(connection).await?
        });
        Ok(rows.into_iter().map(|(organization, name)| Due { organization, name }).collect())
    }
}
