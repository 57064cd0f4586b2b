//! Reads the input of an evaluation: policies, attestations, approvals and allow-lists.
//!
//! Called by `service::evaluation` and by the page of an environment.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use super::columns::fingerprint;
use super::from_row::all_from_rows;
use super::transaction::{fetch_for_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::{
    AllowListEntry, ApprovalEvidence, AttestationEvidence, Evidence, Policy, Requirement,
};
use crate::domain::model::{EnvironmentName, Fingerprint, JunitResult, Timestamp};

#[derive(sqlx::FromRow)]
struct AttestedRow {
    fingerprint: Vec<u8>,
    flow: String,
    name: String,
    is_compliant: bool,
    attestation: Uuid,
}

impl Transaction {
    /// The policy of an environment.
    pub async fn policy(&mut self, organization: &str, environment: &str) -> Result<Option<Policy>, Error> {
        const SELECT: &str = "
            SELECT content FROM policies WHERE organization = $1 AND environment = $2 AND closed_at IS NULL";
        let content: Option<String> = on!(self, |connection| {
            sqlx::query_scalar(SELECT).bind(organization).bind(environment).fetch_optional(connection).await?
        });
        content.map(|json| policy(&json)).transpose()
    }

    /// The allow-list entries of an environment, and the attestations and approvals that its policy requires, of these
    /// artifacts.
    pub async fn evidence(
        &mut self,
        organization: &str,
        environment: &str,
        policy: Option<&Policy>,
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<BTreeMap<Fingerprint, Evidence>, Error> {
        let mut evidence = match policy {
            Some(policy) => self.required_evidence(organization, &[policy], artifacts).await?,
            None => BTreeMap::new(),
        };
        for (artifact, allowed) in self.allowances(organization, environment).await? {
            if artifacts.contains(&artifact) {
                evidence.entry(artifact).or_default().allowed.push(allowed);
            }
        }
        Ok(evidence)
    }

    /// The latest attestations and the approvals of artifacts that any of these policies requires.
    pub async fn required_evidence(
        &mut self,
        organization: &str,
        policies: &[&Policy],
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<BTreeMap<Fingerprint, Evidence>, Error> {
        let mut evidence: BTreeMap<Fingerprint, Evidence> = BTreeMap::new();
        let required: BTreeSet<_> = policies.iter().flat_map(|policy| &policy.attestations).collect();
        let keys: Vec<Vec<u8>> = artifacts.iter().map(|artifact| artifact.bytes().to_vec()).collect();
        if !required.is_empty() {
            let latest = self.latest_attestations(organization, &required, &keys).await?;
            let limited: BTreeSet<_> = required
                .iter()
                .filter(|required| required.has_limits())
                .map(|required| (required.flow.as_str(), required.name.as_str()))
                .collect();
            let counted =
                latest.iter().filter(|row| limited.contains(&(row.flow.as_str(), row.name.as_str())));
            let counts = self.test_counts(counted.map(|row| row.attestation).collect()).await?;
            for row in latest {
                let (tests, skipped) = counts.get(&row.attestation).copied().unwrap_or_default();
                let latest = AttestationEvidence { passes: row.is_compliant, tests, skipped };
                let evidence = evidence.entry(fingerprint(&row.fingerprint)?).or_default();
                evidence.attestations.entry(row.flow).or_default().insert(row.name, latest);
            }
        }
        if policies.iter().any(|policy| policy.approval) {
            for (artifact, environment) in self.approved(organization, keys).await? {
                let name = environment.map(|name| name.parse::<EnvironmentName>()).transpose();
                let environment = name.map_err(|_| Error::Unreadable("an environment's name"))?;
                evidence
                    .entry(fingerprint(&artifact)?)
                    .or_default()
                    .approvals
                    .push(ApprovalEvidence { environment });
            }
        }
        Ok(evidence)
    }

    async fn allowances(
        &mut self,
        organization: &str,
        environment: &str,
    ) -> Result<Vec<(Fingerprint, AllowListEntry)>, Error> {
        const SELECT: &str = "
            SELECT fingerprint, expires_at FROM allowances
            WHERE organization = $1 AND environment = $2 AND closed_at IS NULL";
        let rows: Vec<(Vec<u8>, Option<i64>)> = on!(self, |connection| {
            sqlx::query(SELECT)
                .bind(organization)
                .bind(environment)
                .fetch_all(connection)
                .await
                .and_then(all_from_rows)?
        });
        let entry = |(artifact, until): (Vec<u8>, Option<i64>)| {
            Ok((fingerprint(&artifact)?, AllowListEntry { until: until.map(Timestamp::from_micros) }))
        };
        rows.into_iter().map(entry).collect()
    }

    /// The latest attestation of each of these flows and names. May return more: flows and names are matched
    /// independently.
    async fn latest_attestations(
        &mut self,
        organization: &str,
        required: &BTreeSet<&Requirement>,
        artifacts: &[Vec<u8>],
    ) -> Result<Vec<AttestedRow>, Error> {
        let flows: BTreeSet<&str> = required.iter().map(|required| required.flow.as_str()).collect();
        let names: BTreeSet<&str> = required.iter().map(|required| required.name.as_str()).collect();
        Ok(fetch_for_all!(
            self,
            |query| {
                query.push(
                    "SELECT fingerprint, flow, name, is_compliant, attestation FROM latest_attestations
                     WHERE organization = ",
                );
                query.push_bind(organization);
                for (column, values) in [(" AND flow IN (", &flows), (" AND name IN (", &names)] {
                    query.push(column);
                    let mut list = query.separated(", ");
                    for value in values {
                        list.push_bind(*value);
                    }
                    query.push(")");
                }
                query.push(" AND fingerprint IN");
            },
            artifacts.iter().cloned(),
            ""
        ))
    }

    /// The numbers of tests that ran and of skipped tests of each of these attestations.
    async fn test_counts(
        &mut self,
        attestations: BTreeSet<Uuid>,
    ) -> Result<BTreeMap<Uuid, (u32, u32)>, Error> {
        let rows: Vec<(Uuid, String)> = fetch_for_all!(
            self,
            |query| query.push("SELECT id, results FROM attestations WHERE id IN"),
            attestations,
            ""
        );
        let sum = |(id, results): (Uuid, String)| {
            let results: Vec<JunitResult> = serde_json::from_str(&results)
                .map_err(|_| Error::Unreadable("the results of an attestation"))?;
            let JunitResult { total, skipped, .. } = JunitResult::sum(&results);
            Ok((id, (total.saturating_sub(skipped), skipped)))
        };
        rows.into_iter().map(sum).collect()
    }

    /// The environments of the approvals of artifacts.
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
}

/// Parses a stored policy.
pub fn policy(json: &str) -> Result<Policy, Error> {
    serde_json::from_str(json).map_err(|_| Error::Unreadable("a policy"))
}
