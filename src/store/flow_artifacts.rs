//! Lists the artifacts of a flow, or those that were built from a repository.

use std::collections::BTreeSet;

use sqlx::types::Uuid;

use super::from_row::all_from_rows;
use super::transaction::{fetch_all, fetch_for_all, fetch_scalar, on};
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, Page, Timestamp};

/// Maximum number of newest artifacts of a flow that are checked for running ones.
const MAX_DEPLOYED: i64 = 1_000;

/// Artifacts, each with the time since which it is known.
type Artifacts = Vec<(Fingerprint, Timestamp)>;

impl Transaction {
    /// A page of the artifacts of a flow, newest first.
    pub async fn artifacts_of_flow(
        &mut self,
        organization: &str,
        flow: &str,
        page: Page,
    ) -> Result<Artifacts, Error> {
        const SELECT: &str = "
            SELECT fingerprint, created_at FROM flow_artifacts WHERE organization = $1 AND flow = $2
            ORDER BY created_at DESC, fingerprint LIMIT $3 OFFSET $4";
        Ok(fetch_all!(self, SELECT, organization, flow, page.size(), page.offset()))
    }

    /// The artifacts of a flow between two fingerprints, inclusive: at most two.
    pub async fn two_artifacts_of_flow(
        &mut self,
        organization: &str,
        flow: &str,
        (first, last): (Fingerprint, Fingerprint),
    ) -> Result<Artifacts, Error> {
        const SELECT: &str = "
            SELECT fingerprint, created_at FROM flow_artifacts
            WHERE organization = $1 AND flow = $2 AND fingerprint >= $3 AND fingerprint <= $4
            ORDER BY fingerprint LIMIT 2";
        Ok(fetch_all!(self, SELECT, organization, flow, first, last))
    }

    /// When an artifact was first attested or reported in a flow; `None` if it was not.
    pub async fn added_to_flow(
        &mut self,
        organization: &str,
        flow: &str,
        artifact: Fingerprint,
    ) -> Result<Option<Timestamp>, Error> {
        let found = self.two_artifacts_of_flow(organization, flow, (artifact, artifact)).await?;
        Ok(found.first().map(|(_, at)| *at))
    }

    /// When the last of a flow's 1,000 newest artifacts that run started; `None` if none of them runs.
    pub async fn last_deployment(
        &mut self,
        organization: &str,
        flow: &str,
    ) -> Result<Option<Timestamp>, Error> {
        const SELECT: &str = "
            SELECT MAX(r.started_at) FROM (
              SELECT fingerprint FROM flow_artifacts WHERE organization = $1 AND flow = $2
              ORDER BY created_at DESC, fingerprint LIMIT $3) f CROSS JOIN artifact_runs r
            WHERE r.organization = $1 AND r.fingerprint = f.fingerprint AND r.ended_at IS NULL";
        Ok(fetch_scalar!(self, SELECT, organization, flow, MAX_DEPLOYED))
    }

    /// The artifacts of a set that were attested or reported in a trail.
    pub async fn artifacts_in_trail(
        &mut self,
        organization: &str,
        trail: Uuid,
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<BTreeSet<Fingerprint>, Error> {
        let mut found = BTreeSet::new();
        for table in ["attested_artifacts", "reported_artifacts"] {
            let select = format!(
                "SELECT fingerprint FROM {table} WHERE trail = ? AND organization = ? AND fingerprint IN (?)"
            );
            let rows: Vec<(Fingerprint,)> =
                fetch_for_all!(self, select, artifacts.iter().copied(), trail, organization);
            found.extend(rows.into_iter().map(|(artifact,)| artifact));
        }
        Ok(found)
    }

    /// A page of the artifacts whose origin is one of these repositories, newest first.
    pub async fn built_from(
        &mut self,
        organization: &str,
        repositories: &[Uuid],
        page: Page,
    ) -> Result<Artifacts, Error> {
        Ok(on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT fingerprint, recorded_at FROM provenance WHERE organization = ",
            );
            query.push_bind(organization).push(" AND repository IN (");
            let mut list = query.separated(", ");
            for repository in repositories {
                list.push_bind(repository);
            }
            query.push(") ORDER BY recorded_at DESC, fingerprint LIMIT ").push_bind(page.size());
            query.push(" OFFSET ").push_bind(page.offset());
            query.build().persistent(false).fetch_all(connection).await.and_then(all_from_rows)?
        }))
    }
}
