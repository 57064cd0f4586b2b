//! Verdicts: one row for each time in which one held.
//!
//! Whoever changes them or what they rest on holds the organization's verdicts first: what is judged must not change
//! under it.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::columns::{json, verdict};
use super::rows::{Bytes, rows};
use super::transaction::{ROWS, fetch_for_all, insert, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::environment_status::{Running, Standing, Verdict};
use crate::domain::model::{Fingerprint, Timestamp};

/// An environment that is to be judged again.
#[derive(Debug, Clone)]
pub struct Due {
    /// Its organization.
    pub organization: String,
    /// Its name.
    pub name: String,
}

/// An environment that was judged.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// Its identifier.
    pub environment: Uuid,
    /// How it stood.
    pub before: &'a Standing,
    /// How it stands.
    pub after: &'a Standing,
    /// When the first entry of its allow-list ends.
    pub until: Option<Timestamp>,
}

impl<'a> Judged<'a> {
    /// The artifacts whose verdict held until now.
    fn ended(&self) -> impl Iterator<Item = (Uuid, Vec<u8>)> + use<'a> {
        let Self { environment, before, after, .. } = *self;
        let was = before.artifacts.iter().filter(|(artifact, was)| {
            was.verdict != Verdict::UNKNOWN
                && after.artifacts.get(*artifact).map(|is| &is.verdict) != Some(&was.verdict)
        });
        was.map(move |(artifact, _)| (environment, artifact.bytes().to_vec()))
    }

    /// The artifacts whose verdict holds from now on.
    fn begun(&self) -> impl Iterator<Item = (Uuid, &'a Fingerprint, &'a Running)> + use<'a> {
        let Self { environment, before, after, .. } = *self;
        let is = after.artifacts.iter().filter(|(artifact, is)| {
            is.verdict != Verdict::UNKNOWN
                && before.artifacts.get(*artifact).map(|was| &was.verdict) != Some(&is.verdict)
        });
        is.map(move |(artifact, is)| (environment, artifact, is))
    }
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
            let verdict = verdict(word.as_deref(), allowed != 0, reasons.as_deref())?;
            Ok((artifact, Running { name, pods, verdict }))
        });
        running.collect()
    }

    /// Writes down how environments stand now, and from when on; each verdict that is another ends one and begins
    /// one.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn keep_standings(&mut self, judged: &[Judged<'_>], at: Timestamp) -> Result<(), Error> {
        let ended: Vec<(Uuid, Vec<u8>)> = judged.iter().flat_map(Judged::ended).collect();
        let begun: Vec<_> = judged.iter().flat_map(Judged::begun).collect();
        self.end_verdicts_of_what_left(judged, at).await?;
        for chunk in ended.chunks(ROWS) {
            on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new("WITH ended (environment, fingerprint) AS (");
                query.push_values(chunk, |mut values, (environment, artifact)| {
                    values.push_bind(*environment).push_bind(artifact.as_slice());
                });
                query.push(") UPDATE verdicts SET until_at = ").push_bind(at.micros());
                query.push(
                    " FROM ended WHERE verdicts.environment = ended.environment
                     AND verdicts.fingerprint = ended.fingerprint AND until_at IS NULL",
                );
                query.build().persistent(false).execute(connection).await?;
            });
        }
        insert!(
            self,
            "INSERT INTO verdicts (environment, fingerprint, from_at, compliance, is_allowed, reasons) ",
            "",
            begun,
            |values, (environment, artifact, running)| {
                let Verdict { compliance, is_allowed, reasons } = &running.verdict;
                values.push_bind(*environment).push_bind(artifact.bytes().as_slice()).push_bind(at.micros());
                values.push_bind(compliance.as_str()).push_bind(*is_allowed).push_bind(json(reasons));
            }
        );
        on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("WITH judged (id, compliance, until) AS (");
            query.push_values(judged, |mut values, judged| {
                values.push_bind(judged.environment).push_bind(judged.after.compliance.as_str());
                values.push_bind(judged.until.map(Timestamp::micros));
            });
            query.push(") UPDATE environments SET judged_at = ").push_bind(at.micros());
            query.push(
                ", compliance = judged.compliance, compliant_until = judged.until FROM judged
                 WHERE environments.id = judged.id",
            );
            query.build().execute(connection).await?;
        });
        Ok(())
    }

    /// Ends the verdicts of what runs no longer: a replica of the version before ends none.
    async fn end_verdicts_of_what_left(&mut self, judged: &[Judged<'_>], at: Timestamp) -> Result<(), Error> {
        on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("UPDATE verdicts SET until_at = ");
            query.push_bind(at.micros()).push(" WHERE until_at IS NULL AND environment IN (");
            let mut environments = query.separated(", ");
            for judged in judged {
                environments.push_bind(judged.environment);
            }
            query.push(
                ") AND NOT EXISTS (SELECT 1 FROM artifact_runs r WHERE r.environment = verdicts.environment
                     AND r.fingerprint = verdicts.fingerprint AND r.ended_at IS NULL)",
            );
            query.build().execute(connection).await?;
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
