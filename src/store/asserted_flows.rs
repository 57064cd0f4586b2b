//! Reads what the flows that hold artifacts require of them and know about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use super::trails::{AttestationRow, COLUMNS, Trail};
use super::transaction::fetch_for_all;
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
    fingerprint: Fingerprint,
    flow: String,
    #[sqlx(flatten)]
    attestation: AttestationRow,
}

#[derive(sqlx::FromRow)]
struct ReportedRow {
    fingerprint: Fingerprint,
    flow: String,
    trail: Option<Uuid>,
    name: String,
    template_name: Option<String>,
}

/// An artifact in a flow.
type Key = (Fingerprint, String);

/// Flows by name, by artifact.
type AssertedFlows = BTreeMap<Fingerprint, BTreeMap<String, AssertedFlow>>;

impl Transaction {
    /// The flows that hold artifacts; with `flow`: only this one.
    pub async fn flows_of_artifacts(
        &mut self,
        organization: &str,
        artifacts: &BTreeSet<Fingerprint>,
        flow: Option<&str>,
    ) -> Result<AssertedFlows, Error> {
        const SELECT: &str = "
            SELECT l.fingerprint, l.flow, a.trail, a.id, a.name, a.kind, a.overrides, a.is_compliant,
                   a.has_verdict, a.targets
            FROM latest_attestations l
              JOIN attestations a ON a.organization = l.organization AND a.id = l.attestation
            WHERE l.organization = ? AND l.fingerprint IN (?) ORDER BY a.created_at, a.id";
        const REPORTED_ARTIFACTS: &str = "
            SELECT fingerprint, flow, trail, name, template_name FROM reported_artifacts
            WHERE organization = ? AND fingerprint IN (?) ORDER BY created_at, id";
        let keys = || artifacts.iter().copied();
        let own: Vec<OwnRow> = fetch_for_all!(self, SELECT, keys(), organization);
        let reported: Vec<ReportedRow> = fetch_for_all!(self, REPORTED_ARTIFACTS, keys(), organization);
        let is_wanted = |of: &str| flow.is_none_or(|flow| flow == of);
        let mut attested: Vec<(Key, LatestAttestation, Uuid)> = Vec::new();
        for OwnRow { fingerprint: artifact, flow, attestation } in own {
            if is_wanted(&flow) {
                let trail = attestation.trail;
                attested.push(((artifact, flow), attestation.into(), trail));
            }
        }
        let mut reports: Vec<(Key, ReportedRow)> = Vec::new();
        for row in reported.into_iter().filter(|row| is_wanted(&row.flow)) {
            reports.push(((row.fingerprint, row.flow.clone()), row));
        }
        // The last trail of each flow replaces earlier ones.
        let mut trails: BTreeMap<Key, Option<Uuid>> = BTreeMap::new();
        trails.extend(reports.iter().map(|(key, _)| (key.clone(), None)));
        trails.extend(attested.iter().map(|(key, _, trail)| (key.clone(), Some(*trail))));
        let with_trail = reports.iter().filter(|(_, row)| row.trail.is_some());
        trails.extend(with_trail.map(|(key, row)| (key.clone(), row.trail)));
        let ids: BTreeSet<Uuid> = trails.values().flatten().copied().collect();
        let by_id = self.trails_with_own_attestations(organization, &ids).await?;
        let current = trails
            .iter()
            .filter(|(_, id)| id.and_then(|id| by_id.get(&id)).is_none_or(|trail| trail.template.is_none()));
        let current: BTreeSet<&str> = current.map(|((_, flow), _)| flow.as_str()).collect();
        let templates = self.templates(organization, current).await?;
        let mut flows: BTreeMap<Key, AssertedFlow> = BTreeMap::new();
        for (key, id) in &trails {
            let trail = id.and_then(|id| by_id.get(&id));
            let template = trail.and_then(|trail| trail.template.as_ref()).or_else(|| templates.get(&key.1));
            let known = AssertedFlow {
                trail: trail.map(|trail| trail.name.clone()),
                template: template.cloned(),
                attestations: trail.map(|trail| trail.latest.clone()).unwrap_or_default(),
                ..AssertedFlow::default()
            };
            flows.insert(key.clone(), known);
        }
        for (key, ReportedRow { trail, name, template_name, .. }) in reports {
            let is_current = trails.get(&key) == Some(&trail);
            let known = flows.entry(key).or_default();
            known.reported_names.push(name);
            known.names.extend(template_name.filter(|_| is_current));
        }
        let mut targets: BTreeMap<Key, BTreeSet<String>> = BTreeMap::new();
        for (key, mut attestation, _) in attested {
            targets.entry(key.clone()).or_default().extend(attestation.targets.iter().cloned());
            let known = flows.entry(key).or_default();
            // As in a trail: an attestation by fingerprint is about the reported artifact.
            attestation.targets.extend(known.names.iter().cloned());
            known.attestations.push(attestation);
        }
        for (key, targets) in targets {
            flows.entry(key).or_default().names.extend(targets);
        }
        let mut by_artifact = AssertedFlows::new();
        for ((artifact, flow), known) in flows {
            by_artifact.entry(artifact).or_default().insert(flow, known);
        }
        Ok(by_artifact)
    }

    /// Trails by identifier, with their attestations that attest no artifact.
    async fn trails_with_own_attestations(
        &mut self,
        organization: &str,
        ids: &BTreeSet<Uuid>,
    ) -> Result<HashMap<Uuid, Trail>, Error> {
        const SELECT: &str = "
            SELECT trail, id, name, kind, overrides, is_compliant, has_verdict, targets FROM attestations a
            WHERE superseded_by IS NULL AND targets = '[]'
              AND NOT EXISTS (SELECT 1 FROM attested_artifacts x
                              WHERE x.organization = a.organization AND x.attestation = a.id)
              AND organization = ? AND trail IN (?) ORDER BY created_at, id";
        let select = format!("{COLUMNS} FROM trails t WHERE t.organization = ? AND t.id IN (?)");
        let trails: Vec<Trail> = fetch_for_all!(self, select, ids.iter().copied(), organization);
        let mut by_id: HashMap<Uuid, _> = trails.into_iter().map(|trail| (trail.id, trail)).collect();
        let attestations: Vec<AttestationRow> =
            fetch_for_all!(self, SELECT, ids.iter().copied(), organization);
        for row in attestations {
            if let Some(trail) = by_id.get_mut(&row.trail) {
                trail.latest.push(row.into());
            }
        }
        Ok(by_id)
    }
}
