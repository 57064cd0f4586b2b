//! The facts about an artifact that policies are evaluated with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::authorship::Authorship;
use crate::ownership::Pattern;
use model::reason::{Code, Reason};
use model::{EnvironmentName, Fingerprint, ListedManifest, SignedEvidence, Timestamp};

/// An artifact in an environment, with its evidence.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The environment; `None` if the policies are evaluated for none, so that only approvals for all environments count.
    pub environment: Option<&'a EnvironmentName>,
    pub name: &'a str,
    pub fingerprint: &'a Fingerprint,
    /// The namespaces in which it runs.
    pub namespaces: &'a [String],
    pub evidence: &'a Evidence,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The flows that hold the artifact: it was attested or reported there.
    pub flows: BTreeMap<String, FlowEvidence>,
    /// Approvals in the state APPROVED, in any order.
    pub approvals: Vec<ApprovalEvidence>,
    /// Only if a policy needs it.
    pub authorship: Authorship,
    /// For an index: the evidence with that of each manifest, which must all fulfill a rule. For a manifest: the evidence with
    /// that of its indexes. Empty for other artifacts.
    pub related: Vec<Evidence>,
    /// In `related`: the platform of the manifest of an index.
    pub platform: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowEvidence {
    pub tags: Arc<BTreeMap<String, String>>,
    pub attestations: BTreeMap<String, AttestationEvidence>,
    /// The trail of its latest report, and those of other digests of the image; only if a policy needs them.
    pub trails: Vec<TrailEvidence>,
}

impl FlowEvidence {
    /// The trails of the latest attestations in the order of these, and those of reports.
    #[must_use]
    pub fn all_trails(&self) -> Vec<&TrailEvidence> {
        let mut attested: Vec<_> = self.attestations.values().collect();
        attested.sort_by_key(|latest| latest.created_at);
        let mut trails: Vec<&TrailEvidence> = Vec::new();
        for trail in attested.into_iter().filter_map(|latest| latest.trail.as_ref()).chain(&self.trails) {
            trails.retain(|known| *known != trail);
            trails.push(trail);
        }
        trails
    }
}

impl Evidence {
    /// Keeps the evidence of one flow.
    pub fn retain_flow(&mut self, flow: &str) {
        self.flows.retain(|name, _| name == flow);
        self.related.iter_mut().for_each(|related| related.retain_flow(flow));
    }

    /// Whether any digest of the image is approved.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        !self.approvals.is_empty() || self.related.iter().any(|image| !image.approvals.is_empty())
    }

    /// Adds the evidence for another digest of the image.
    fn add(&mut self, other: &Self) {
        for (name, flow) in &other.flows {
            let own = self.flows.entry(name.clone()).or_default();
            own.tags = Arc::clone(&flow.tags);
            own.trails.extend(flow.trails.iter().cloned());
            for (name, latest) in &flow.attestations {
                if own.attestations.get(name).is_none_or(|known| known.created_at < latest.created_at) {
                    own.attestations.insert(name.clone(), latest.clone());
                }
            }
        }
        self.approvals.extend(other.approvals.iter().cloned());
        self.authorship.add(&other.authorship);
    }
}

/// Fills [`Evidence::related`] of artifacts that are indexes or manifests of indexes.
pub fn relate(
    evidence: &mut BTreeMap<Fingerprint, Evidence>,
    artifacts: &BTreeSet<Fingerprint>,
    listed: &[ListedManifest],
) {
    let none = Evidence::default();
    let mut bases: BTreeMap<Fingerprint, Evidence> = BTreeMap::new();
    let mut manifests: BTreeMap<Fingerprint, Vec<&ListedManifest>> = BTreeMap::new();
    let evidence_of = |artifact| evidence.get(artifact).unwrap_or(&none);
    for pair in listed {
        if artifacts.contains(&pair.manifest) && pair.counts {
            let base = bases.entry(pair.manifest).or_insert_with(|| evidence_of(&pair.manifest).clone());
            base.add(evidence_of(&pair.index));
        }
        if artifacts.contains(&pair.index) {
            manifests.entry(pair.index).or_default().push(pair);
            bases.entry(pair.index).or_insert_with(|| evidence_of(&pair.index).clone());
        }
    }
    let mut related = Vec::new();
    for (artifact, base) in bases {
        let platforms = manifests.get(&artifact).into_iter().flatten().map(|pair| {
            let mut whole = Evidence { platform: Some(pair.platform.clone()), ..base.clone() };
            whole.add(if pair.counts { evidence_of(&pair.manifest) } else { &none });
            whole
        });
        let platforms: Vec<_> = platforms.collect();
        related.push((artifact, if platforms.is_empty() { vec![base] } else { platforms }));
    }
    for (artifact, related) in related {
        evidence.entry(artifact).or_default().related = related;
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailEvidence {
    pub name: String,
    /// Whether it complies with the template of its flow.
    pub is_compliant: bool,
}

/// The latest attestation of a flow and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttestationEvidence {
    pub kind: String,
    pub passes: bool,
    pub created_at: Timestamp,
    /// Number of tests that ran; 0 unless a policy limits the number of tests.
    pub tests: u32,
    /// Number of skipped tests; 0 unless a policy limits the number of tests.
    pub skipped: u32,
    /// Who signed it; only if a policy needs it.
    pub signed: Option<SignedEvidence>,
    /// Its trail; only if a policy needs it.
    pub trail: Option<TrailEvidence>,
}

/// An approval of an artifact, in the state APPROVED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalEvidence {
    /// The approved environment; `None` for any.
    pub environment: Option<EnvironmentName>,
    /// The name of the token that made it, or `issuer/subject`; `None` if the bootstrap file declares it.
    pub created_by: Option<String>,
    pub approvers: Vec<String>,
}

/// The allow-list of an environment: artifacts that are compliant without attestations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowList(pub Vec<AllowListEntry>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowListEntry {
    pub subject: AllowListSubject,
    pub reason: String,
    pub author: String,
    /// Expiry time; `None` for never.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowListSubject {
    Artifact(Fingerprint),
    /// The artifacts that run under a name without tag and digest, such as `registry.k8s.io/**`.
    Image(Pattern),
}

impl AllowListEntry {
    fn covers(&self, fingerprint: &Fingerprint, name: &str) -> bool {
        match &self.subject {
            AllowListSubject::Artifact(artifact) => artifact == fingerprint,
            AllowListSubject::Image(pattern) => pattern.matches_image(name),
        }
    }
}

impl AllowList {
    /// Whether an entry is for this artifact and no other.
    #[must_use]
    pub fn names(&self, artifact: &Fingerprint) -> bool {
        self.0.iter().any(|entry| entry.subject == AllowListSubject::Artifact(*artifact))
    }

    /// The valid entries for an artifact.
    pub fn valid<'a>(
        &'a self,
        facts: &Facts<'a>,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a AllowListEntry> {
        let (fingerprint, name) = (facts.fingerprint, facts.name);
        self.0.iter().filter(move |entry| {
            entry.until.is_none_or(|until| now < until) && entry.covers(fingerprint, name)
        })
    }
}

impl From<&AllowListEntry> for Reason {
    fn from(AllowListEntry { reason, author, until, .. }: &AllowListEntry) -> Self {
        Code::Allowed { author: author.clone(), comment: reason.clone(), until: *until }.into()
    }
}
