//! What runs, and from when to when: the pods and artifacts of an environment.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use super::columns::json;
use super::rows::{Bytes, Id, rows};
use super::transaction::{ROWS, for_all, insert, on};
use super::{Error, Transaction};
use crate::domain::evidence::snapshot::change::Running;
use crate::domain::evidence::snapshot::reported::{Pod, Workload};
use crate::domain::model::{Fingerprint, Timestamp};

impl Transaction {
    /// The pods that are held as running.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn running_pods(&mut self, environment: Uuid) -> Result<Vec<Running<Uuid>>, Error> {
        let rows: Vec<(Id, String, String, i64, Bytes)> = rows!(
            self,
            "hex(id), namespace, pod, created_at, hex(workload)",
            "SELECT id, namespace, pod, created_at, workload FROM pod_runs
             WHERE environment = $1 AND ended_at IS NULL",
            |query| query.bind(environment)
        );
        let running = rows.into_iter().map(|(Id(row), namespace, name, created_at, Bytes(workload))| {
            let created_at = Timestamp::from_micros(created_at);
            let pod = Pod { namespace: namespace.into(), name: name.into(), created_at, workload };
            Running { pod, row }
        });
        Ok(running.collect())
    }

    /// Closes pods.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn end_pods(&mut self, rows: Vec<Uuid>, at: Timestamp) -> Result<(), Error> {
        for_all!(
            self,
            |query| query.push("UPDATE pod_runs SET ended_at = ").push_bind(at.micros()).push(" WHERE id IN"),
            rows
        );
        Ok(())
    }

    /// Opens pods, and keeps what they run.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn start_pods(
        &mut self,
        organization: &str,
        environment: Uuid,
        pods: &[&Pod],
        workloads: &BTreeMap<Fingerprint, Workload>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let wanted: BTreeSet<Fingerprint> = pods.iter().map(|pod| pod.workload).collect();
        let wanted: Vec<_> = workloads.iter().filter(|(hash, _)| wanted.contains(hash)).collect();
        insert!(
            self,
            "INSERT INTO workloads (organization, hash, digests, owners) ",
            " ON CONFLICT DO NOTHING",
            wanted,
            |values, (hash, workload)| {
                values.push_bind(organization).push_bind(hash.bytes().as_slice());
                values.push_bind(json(&workload.digests)).push_bind(workload.owners.as_str());
            }
        );
        insert!(
            self,
            "INSERT INTO pod_runs (id, environment, namespace, pod, created_at, workload, started_at) ",
            "",
            pods,
            |values, pod| {
                values.push_bind(Uuid::now_v7()).push_bind(environment).push_bind(&*pod.namespace);
                values.push_bind(&*pod.name).push_bind(pod.created_at.micros());
                values.push_bind(pod.workload.bytes().as_slice()).push_bind(at.micros());
            }
        );
        Ok(())
    }

    /// Closes artifacts: the last snapshot that has them is `last_snapshot`.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn end_artifacts(
        &mut self,
        environment: Uuid,
        artifacts: &BTreeSet<Fingerprint>,
        last_snapshot: i64,
        at: Timestamp,
    ) -> Result<(), Error> {
        for_all!(
            self,
            |query| {
                query.push("UPDATE artifact_runs SET ended_at = ").push_bind(at.micros());
                query.push(", last_snapshot = ").push_bind(last_snapshot);
                query.push(" WHERE environment = ").push_bind(environment);
                query.push(" AND ended_at IS NULL AND fingerprint IN");
            },
            artifacts.iter().map(|artifact| artifact.bytes().to_vec())
        );
        Ok(())
    }

    /// Opens artifacts.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn start_artifacts(
        &mut self,
        organization: &str,
        environment: Uuid,
        artifacts: &BTreeMap<Fingerprint, (&str, i64)>,
        first_snapshot: i64,
        at: Timestamp,
    ) -> Result<(), Error> {
        insert!(
            self,
            "INSERT INTO artifact_runs
                 (environment, fingerprint, first_snapshot, organization, name, pods, started_at) ",
            "",
            artifacts,
            |values, (artifact, (name, pods))| {
                values
                    .push_bind(environment)
                    .push_bind(artifact.bytes().as_slice())
                    .push_bind(first_snapshot);
                values.push_bind(organization).push_bind(*name).push_bind(*pods).push_bind(at.micros());
            }
        );
        Ok(())
    }

    /// Gives running artifacts the name under which they run now, and the number of pods.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn change_artifacts(
        &mut self,
        environment: Uuid,
        artifacts: &BTreeMap<Fingerprint, (&str, i64)>,
    ) -> Result<(), Error> {
        let changed: Vec<_> = artifacts.iter().collect();
        for chunk in changed.chunks(ROWS) {
            on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new("WITH now_seen (fingerprint, name, pods) AS (");
                query.push_values(chunk, |mut values, (artifact, (name, pods))| {
                    values.push_bind(artifact.bytes().as_slice()).push_bind(*name).push_bind(*pods);
                });
                query.push(
                    ") UPDATE artifact_runs SET name = now_seen.name, pods = now_seen.pods FROM now_seen
                     WHERE artifact_runs.fingerprint = now_seen.fingerprint AND ended_at IS NULL
                       AND environment = ",
                );
                query.push_bind(environment).build().persistent(false).execute(connection).await?;
            });
        }
        Ok(())
    }
}
