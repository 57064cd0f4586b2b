//! Reads what the flows that hold an artifact require of it and know about it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use super::from_row::all_from_rows;
use super::trails::{AttestationRow, COLUMNS, Trail, TrailRow};
use super::transaction::{fetch_for_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::verdict::LatestAttestation;
use crate::domain::model::{Fingerprint, Template};

/// A flow that holds an artifact: the artifact was attested or reported there.
#[derive(Debug, Clone, Default)]
pub struct AssertedFlow {
    /// The trail in which the artifact was last reported, otherwise last attested; `None` if it was reported without one.
    pub trail: Option<String>,
    /// The template of the trail, otherwise the current one of the flow.
    pub template: Option<Template>,
    /// The names of the image or file that pipelines reported, the latest last.
    pub reported_names: Vec<String>,
    /// The artifact's names in the template, as far as they are known.
    pub names: BTreeSet<String>,
    /// The latest attestations of the artifact in the flow, after those of the trail that attest no artifact.
    pub attestations: Vec<LatestAttestation>,
}

#[derive(sqlx::FromRow)]
struct OwnRow {
    flow: String,
    #[sqlx(flatten)]
    attestation: AttestationRow,
}

#[derive(sqlx::FromRow)]
struct ReportedRow {
    flow: String,
    trail: Option<Uuid>,
    name: String,
    template_name: Option<String>,
}

impl Transaction {
    /// The flows that hold an artifact, by name; with `flow`: only this one.
    pub async fn flows_of_artifact(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
        flow: Option<&str>,
    ) -> Result<BTreeMap<String, AssertedFlow>, Error> {
        const OWN: &str = "
            SELECT l.flow, a.trail, a.id, a.name, a.kind, a.overrides, a.is_compliant, a.has_verdict, a.targets
            FROM latest_attestations l JOIN attestations a ON a.id = l.attestation
            WHERE l.organization = $1 AND l.fingerprint = $2 ORDER BY a.created_at, a.id";
        const REPORTED: &str = "
            SELECT flow, trail, name, template_name FROM reported_artifacts
            WHERE organization = $1 AND fingerprint = $2 ORDER BY created_at, id";
        let key = artifact.bytes().as_slice();
        let mut own: Vec<OwnRow> = on!(self, |connection| {
            let select = sqlx::query(OWN).bind(organization).bind(key);
            select.fetch_all(connection).await.and_then(all_from_rows)?
        });
        let mut reported: Vec<ReportedRow> = on!(self, |connection| {
            let select = sqlx::query(REPORTED).bind(organization).bind(key);
            select.fetch_all(connection).await.and_then(all_from_rows)?
        });
        if let Some(flow) = flow {
            own.retain(|row| row.flow == flow);
            reported.retain(|row| row.flow == flow);
        }
        // The last trail of each flow replaces earlier ones.
        let mut trails: BTreeMap<String, Option<Uuid>> = BTreeMap::new();
        trails.extend(reported.iter().map(|row| (row.flow.clone(), None)));
        trails.extend(own.iter().map(|row| (row.flow.clone(), Some(row.attestation.trail))));
        let with_trail = reported.iter().filter(|row| row.trail.is_some());
        trails.extend(with_trail.map(|row| (row.flow.clone(), row.trail)));
        let mut by_id = self.trails_with_own_attestations(organization, &trails).await?;
        let current = trails
            .iter()
            .filter(|(_, id)| id.and_then(|id| by_id.get(&id)).is_none_or(|trail| trail.template.is_none()));
        let current: BTreeSet<&str> = current.map(|(flow, _)| flow.as_str()).collect();
        let mut templates = self.templates(organization, current).await?;
        let mut flows: BTreeMap<String, AssertedFlow> = BTreeMap::new();
        for (flow, id) in &trails {
            let trail = id.and_then(|id| by_id.remove(&id));
            let known = flows.entry(flow.clone()).or_default();
            if let Some(Trail { name, template, latest, .. }) = trail {
                (known.trail, known.template, known.attestations) = (Some(name), template, latest);
            }
            known.template = known.template.take().or_else(|| templates.remove(flow));
        }
        for ReportedRow { flow, trail, name, template_name } in reported {
            let is_current = trails.get(&flow) == Some(&trail);
            let known = flows.entry(flow).or_default();
            known.reported_names.push(name);
            known.names.extend(template_name.filter(|_| is_current));
        }
        let mut targets: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for OwnRow { flow, attestation } in own {
            let mut attestation = attestation.parse()?;
            targets.entry(flow.clone()).or_default().extend(attestation.targets.iter().cloned());
            let known = flows.entry(flow).or_default();
            // As in a trail: an attestation by fingerprint is about the reported artifact.
            attestation.targets.extend(known.names.iter().cloned());
            known.attestations.push(attestation);
        }
        for (flow, targets) in targets {
            flows.entry(flow).or_default().names.extend(targets);
        }
        Ok(flows)
    }

    /// Trails by identifier, with their attestations that attest no artifact.
    async fn trails_with_own_attestations(
        &mut self,
        organization: &str,
        trails: &BTreeMap<String, Option<Uuid>>,
    ) -> Result<HashMap<Uuid, Trail>, Error> {
        let ids: Vec<Uuid> = trails.values().flatten().copied().collect();
        let rows: Vec<TrailRow> = fetch_for_all!(
            self,
            |query| {
                query.push(COLUMNS).push(" FROM trails t WHERE t.organization = ").push_bind(organization);
                query.push(" AND t.id IN");
            },
            ids.iter().copied(),
            ""
        );
        let parse = |row: TrailRow| row.parse().map(|trail| (trail.id, trail));
        let mut by_id = rows.into_iter().map(parse).collect::<Result<HashMap<_, _>, _>>()?;
        let attestations: Vec<AttestationRow> = fetch_for_all!(
            self,
            |query| {
                query.push(
                "SELECT trail, id, name, kind, overrides, is_compliant, has_verdict, targets FROM attestations a
                 WHERE superseded_by IS NULL AND targets = '[]'
                   AND NOT EXISTS (SELECT 1 FROM attested_artifacts x WHERE x.attestation = a.id) AND trail IN"
            )
            },
            ids,
            " ORDER BY created_at, id"
        );
        for row in attestations {
            if let Some(trail) = by_id.get_mut(&row.trail) {
                trail.latest.push(row.parse()?);
            }
        }
        Ok(by_id)
    }
}
