//! Reports: environments, their snapshots and their silences.

use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::{duration, fingerprint, micros};
use super::transaction::on;
use super::{Error, Store, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::model::{Fingerprint, Timestamp};

/// An environment, held against other reports until the transaction ends.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Its identifier.
    pub id: Uuid,
    /// How long it may be silent before that is a gap; `None`: the default.
    pub silent_after: Option<Duration>,
    /// When it was last reported.
    pub last_report_at: Option<Timestamp>,
    /// The hash of what was last reported.
    pub report_hash: Option<Fingerprint>,
    /// The number of the current snapshot, 0 before the first.
    pub snapshot: i64,
    /// How it stood when it was last judged.
    pub compliance: Compliance,
    /// When that was.
    pub judged_at: Option<Timestamp>,
}

/// A report that was read, as what follows from it is written down.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// When it came.
    pub at: Timestamp,
    /// The hash of its bytes.
    pub body_hash: Fingerprint,
    /// The hash of what it says.
    pub report_hash: Fingerprint,
}

const TOUCH: &str = "
    UPDATE environments SET last_report_at = CASE WHEN last_report_at > $1 THEN last_report_at ELSE $1 END
    WHERE organization = $2 AND name = $3 AND body_hash = $4
      AND last_report_at >= $1 - COALESCE(silent_after, $5)";

const CREATE: &str = "
    INSERT INTO environments (id, organization, name, created_at, snapshot) VALUES ($1, $2, $3, $4, 0)
    ON CONFLICT DO NOTHING";

type Row = (String, Uuid, Option<i64>, Option<i64>, Option<Vec<u8>>, i64, Option<String>, Option<i64>);

impl Store {
    /// Confirms the last report where these very bytes were it and no gap lies between; says whether
    /// it did. Its time only goes forward: another that came later may have been written first. On SQLite this
    /// may be lost with the machine's power: the time is then earlier, and the next report moves it.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn confirm(
        &self,
        organization: &str,
        environment: &str,
        body_hash: Fingerprint,
        at: Timestamp,
        silent_after: Duration,
    ) -> Result<bool, Error> {
        macro_rules! touch {
            ($pool:expr) => {
                sqlx::query(TOUCH)
                    .bind(at.micros())
                    .bind(organization)
                    .bind(environment)
                    .bind(body_hash.bytes().as_slice())
                    .bind(micros(silent_after))
                    .execute($pool)
                    .await?
                    .rows_affected()
            };
        }
        let rows = match self {
            Self::Sqlite(pools) => touch!(pools.toucher()?),
            // It waits while a report of the environment is recorded.
            Self::Postgres(pools) => touch!(&pools.writers),
        };
        Ok(rows > 0)
    }
}

impl Transaction {
    /// The environment of this name, created if it is new. Until the transaction ends no other
    /// report can take it: on SQLite nobody else writes, on PostgreSQL its row is locked.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn environment(
        &mut self,
        organization: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<Environment, Error> {
        on!(self, |connection| {
            let create = sqlx::query(CREATE).bind(Uuid::now_v7()).bind(organization).bind(name);
            create.bind(now.micros()).execute(connection).await?;
        });
        let mut held = self.environments(organization, &[name]).await?;
        held.pop().map(|(_, environment)| environment).ok_or(Error::Unreadable("an environment"))
    }

    /// Those of these environments that there are, by name, held in the same way.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn environments(
        &mut self,
        organization: &str,
        names: &[&str],
    ) -> Result<Vec<(String, Environment)>, Error> {
        // In one order, so that no two wait for each other.
        let end = match self {
            Self::Sqlite(_) => ") ORDER BY name",
            Self::Postgres(_) => ") ORDER BY name FOR UPDATE",
        };
        let rows: Vec<Row> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT name, id, silent_after, last_report_at, report_hash, snapshot, compliance, judged_at
                 FROM environments WHERE organization = ",
            );
            query.push_bind(organization).push(" AND name IN (");
            let mut list = query.separated(", ");
            for name in names {
                list.push_bind(*name);
            }
            query.push(end).build_query_as().fetch_all(connection).await?
        });
        rows.into_iter().map(read).collect()
    }

    /// Notes a report, and the snapshot that is current after it.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn note_report(
        &mut self,
        environment: Uuid,
        received: Received,
        snapshot: i64,
    ) -> Result<(), Error> {
        const NOTE: &str = "
            UPDATE environments SET last_report_at = $1, body_hash = $2, report_hash = $3, snapshot = $4
            WHERE id = $5";
        on!(self, |connection| {
            let note =
                sqlx::query(NOTE).bind(received.at.micros()).bind(received.body_hash.bytes().as_slice());
            let note = note.bind(received.report_hash.bytes().as_slice()).bind(snapshot).bind(environment);
            note.execute(connection).await?;
        });
        Ok(())
    }

    /// Records that nobody knows what ran between two reports.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn insert_gap(
        &mut self,
        environment: Uuid,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(), Error> {
        const INSERT: &str = "INSERT INTO gaps (environment, from_at, to_at) VALUES ($1, $2, $3)";
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(environment).bind(from.micros()).bind(to.micros());
            insert.execute(connection).await?;
        });
        Ok(())
    }

    /// Closes the current snapshot, which was last confirmed at `confirmed`.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn supersede_snapshot(
        &mut self,
        environment: Uuid,
        snapshot: i64,
        confirmed: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<(), Error> {
        const SUPERSEDE: &str = "
            UPDATE snapshots SET superseded_at = $1, confirmed_at = $2 WHERE environment = $3 AND snapshot = $4";
        on!(self, |connection| {
            let supersede = sqlx::query(SUPERSEDE).bind(at.micros()).bind(confirmed.map(Timestamp::micros));
            supersede.bind(environment).bind(snapshot).execute(connection).await?;
        });
        Ok(())
    }

    /// Opens a snapshot.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn insert_snapshot(
        &mut self,
        environment: Uuid,
        snapshot: i64,
        received: Received,
        reported_by: &str,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO snapshots (environment, snapshot, received_at, reported_by, report_hash)
            VALUES ($1, $2, $3, $4, $5)";
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(environment).bind(snapshot).bind(received.at.micros());
            let insert = insert.bind(reported_by).bind(received.report_hash.bytes().as_slice());
            insert.execute(connection).await?;
        });
        Ok(())
    }
}

fn read(row: Row) -> Result<(String, Environment), Error> {
    let (name, id, silent_after, last_report_at, report_hash, snapshot, compliance, judged_at) = row;
    let compliance = compliance.as_deref().map_or(Ok(Compliance::Unknown), str::parse);
    let environment = Environment {
        id,
        silent_after: silent_after.map(duration),
        last_report_at: last_report_at.map(Timestamp::from_micros),
        report_hash: report_hash.as_deref().map(fingerprint).transpose()?,
        snapshot,
        compliance: compliance.map_err(|_| Error::Unreadable("how an environment stands"))?,
        judged_at: judged_at.map(Timestamp::from_micros),
    };
    Ok((name, environment))
}
