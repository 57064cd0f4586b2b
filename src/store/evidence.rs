//! Reads the input of an evaluation: policies, attestations, approvals and allow-lists.
//!
//! Called by `service::evaluation`, for several environments at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::columns::fingerprint;
use super::transaction::{fetch_for_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::{
    AllowListEntry, ApprovalEvidence, AttestationEvidence, Evidence, Policy, Requirement,
};
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};
use crate::store::from_row::all_from_rows;

/// Allow-list entries by environment.
pub type Allowances = HashMap<String, Vec<(Fingerprint, AllowListEntry)>>;

/// Runs a `SELECT` for some environments of an organization. The statement is cached per number of environments.
macro_rules! of_environments {
    ($transaction:expr, $select:literal, $organization:ident, $names:ident) => {
        on!($transaction, |connection| {
            let mut query = sqlx::QueryBuilder::new($select);
            query.push(" WHERE organization = ").push_bind($organization);
            query.push(" AND closed_at IS NULL AND environment IN (");
            let mut list = query.separated(", ");
            for name in $names {
                list.push_bind(*name);
            }
            query.push(")").build().fetch_all(connection).await.and_then(all_from_rows)?
        })
    };
}

#[derive(sqlx::FromRow)]
struct AttestedRow {
    fingerprint: Vec<u8>,
    flow: String,
    name: String,
    is_compliant: bool,
}

impl Transaction {
    /// The policy of an environment.
    pub async fn policy(&mut self, organization: &str, environment: &str) -> Result<Option<Policy>, Error> {
        Ok(self.policies(organization, &[environment]).await?.remove(environment))
    }

    /// The policies of environments, by name.
    pub async fn policies(
        &mut self,
        organization: &str,
        environments: &[&str],
    ) -> Result<HashMap<String, Policy>, Error> {
        let rows: Vec<(String, String)> =
            of_environments!(self, "SELECT environment, content FROM policies", organization, environments);
        let read = |(environment, content): (String, String)| {
            let policy = serde_json::from_str(&content).map_err(|_| Error::Unreadable("a policy"))?;
            Ok((environment, policy))
        };
        rows.into_iter().map(read).collect()
    }

    /// The allow-lists of environments.
    pub async fn allowances(
        &mut self,
        organization: &str,
        environments: &[&str],
    ) -> Result<Allowances, Error> {
        let rows: Vec<(String, Vec<u8>, Option<i64>)> = of_environments!(
            self,
            "SELECT environment, fingerprint, expires_at FROM allowances",
            organization,
            environments
        );
        let mut allowances = Allowances::new();
        for (environment, artifact, until) in rows {
            let allowed = AllowListEntry { until: until.map(Timestamp::from_micros) };
            allowances.entry(environment).or_default().push((fingerprint(&artifact)?, allowed));
        }
        Ok(allowances)
    }

    /// The attestations and approvals of artifacts that any of these policies requires.
    pub async fn evidence(
        &mut self,
        organization: &str,
        policies: &[&Policy],
        artifacts: BTreeSet<Fingerprint>,
    ) -> Result<BTreeMap<Fingerprint, Evidence>, Error> {
        let mut evidence: BTreeMap<Fingerprint, Evidence> = BTreeMap::new();
        let required = policies.iter().flat_map(|policy| &policy.attestations);
        let names: BTreeSet<&str> = required.map(|required| required.name.as_str()).collect();
        let keys: Vec<Vec<u8>> = artifacts.iter().map(|artifact| artifact.bytes().to_vec()).collect();
        if !names.is_empty() {
            for row in self.attested(organization, &names, &keys).await? {
                let requirement = Requirement { flow: row.flow, name: row.name };
                let attested = AttestationEvidence { requirement, passes: row.is_compliant };
                evidence.entry(fingerprint(&row.fingerprint)?).or_default().attestations.push(attested);
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

    /// The attestations of artifacts with these names, oldest first.
    async fn attested(
        &mut self,
        organization: &str,
        names: &BTreeSet<&str>,
        artifacts: &[Vec<u8>],
    ) -> Result<Vec<AttestedRow>, Error> {
        Ok(fetch_for_all!(
            self,
            |query| {
                query.push(
                    "SELECT x.fingerprint, a.flow, a.name, a.is_compliant
                     FROM attested_artifacts x JOIN attestations a ON a.id = x.attestation
                     WHERE x.organization = ",
                );
                query.push_bind(organization).push(" AND a.name IN (");
                let mut list = query.separated(", ");
                for name in names {
                    list.push_bind(*name);
                }
                query.push(") AND x.fingerprint IN");
            },
            artifacts.iter().cloned(),
            " ORDER BY a.created_at, a.id"
        ))
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
