//! The environments of an organization, for people who look at them.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::{compliance, duration};
use super::transaction::{fetch_for_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::validity::Validity;
use crate::domain::model::Timestamp;

/// An environment, and what runs there.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Its identifier.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its current snapshot; 0 before the first.
    pub snapshot: i64,
    /// When it was last reported; `None`: never.
    pub last_report_at: Option<Timestamp>,
    /// How long it may be silent; `None`: the default.
    pub silent_after: Option<Duration>,
    /// How it stood when that was last decided.
    pub compliance: Compliance,
    /// When an entry of its allow-list ends that was relied on.
    pub compliant_until: Option<Timestamp>,
    /// Artifacts that run.
    pub artifacts: i64,
    /// Pods that run.
    pub pods: i64,
}

/// How much happened in an environment, by the hour that it happened in.
pub type Hours = HashMap<(Uuid, i64), i64>;

type Row = (Uuid, String, i64, Option<i64>, Option<i64>, Option<String>, Option<i64>, i64, i64);

/// Environments; what stands behind their `WHERE` says which.
macro_rules! select_environments {
    ($which:literal) => {
        concat!(
            "SELECT e.id, e.name, e.snapshot, e.last_report_at, e.silent_after, e.compliance, e.compliant_until,
                   (SELECT COUNT(*) FROM artifact_runs r WHERE r.environment = e.id AND r.ended_at IS NULL),
                   (SELECT COUNT(*) FROM pod_runs p WHERE p.environment = e.id AND p.ended_at IS NULL)
            FROM environments e WHERE ",
            $which
        )
    };
}

impl Environment {
    /// How long what was decided of it holds, where it may be silent for so long if it does not say itself.
    #[must_use]
    pub fn validity(&self, silent_after: Duration) -> Validity {
        Validity::of(self.last_report_at, self.silent_after, silent_after, self.compliant_until)
    }
}

fn read(row: Row) -> Result<Environment, Error> {
    let (id, name, snapshot, last, silent, word, until, artifacts, pods) = row;
    Ok(Environment {
        id,
        name,
        snapshot,
        last_report_at: last.map(Timestamp::from_micros),
        silent_after: silent.map(duration),
        compliance: compliance(word.as_deref())?,
        compliant_until: until.map(Timestamp::from_micros),
        artifacts,
        pods,
    })
}

impl Transaction {
    /// The environments of an organization, by name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn environments_by_name(&mut self, organization: &str) -> Result<Vec<Uuid>, Error> {
        const NAMES: &str = "SELECT name, id FROM environments WHERE organization = $1";
        let mut names: Vec<(String, Uuid)> =
            on!(self, |connection| sqlx::query_as(NAMES).bind(organization).fetch_all(connection).await?);
        // Not by the database, which sorts names as its locale does.
        names.sort_unstable();
        Ok(names.into_iter().map(|(_, id)| id).collect())
    }

    /// These environments, by name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn overview(
        &mut self,
        environments: impl Iterator<Item = Uuid>,
    ) -> Result<Vec<Environment>, Error> {
        let rows: Vec<Row> =
            fetch_for_all!(self, |query| query.push(select_environments!("e.id IN")), environments, "");
        let mut environments: Vec<_> = rows.into_iter().map(read).collect::<Result<_, Error>>()?;
        environments.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(environments)
    }

    /// The environment of this name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn one_of_overview(
        &mut self,
        organization: &str,
        name: &str,
    ) -> Result<Option<Environment>, Error> {
        let row: Option<Row> = on!(self, |connection| {
            let select = sqlx::query_as(select_environments!("e.organization = $1 AND e.name = $2"));
            select.bind(organization).bind(name).fetch_optional(connection).await?
        });
        row.map(read).transpose()
    }

    /// What happened in environments since a moment, by the hours since then.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn hours(&mut self, environments: &[Environment], since: Timestamp) -> Result<Hours, Error> {
        // From whole numbers to whole numbers, on both databases.
        let rows: Vec<(Uuid, i64, i64)> = fetch_for_all!(
            self,
            |query| {
                query.push("SELECT environment, (occurred_at - ").push_bind(since.micros());
                query.push(") / 3600000000, COUNT(*) FROM events WHERE occurred_at >= ");
                query.push_bind(since.micros()).push(" AND environment IN");
            },
            environments.iter().map(|environment| environment.id),
            " GROUP BY 1, 2"
        );
        Ok(rows.into_iter().map(|(environment, hour, count)| ((environment, hour), count)).collect())
    }
}
