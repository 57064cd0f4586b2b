//! Artifacts as operations describe them: in a flow, with commit and state, and where they run or ran.
//!
//! Used by the operations that list, get and search artifacts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::site::Site;
use model::{
    Approval, ApprovalState, ComplianceState, Fingerprint, ListedManifest, RelatedDigests, Timestamp,
};
use rules::verdict::evaluate_artifact;
use store::artifacts::flows::{ArtifactFlow, AssertedFlow, KnownArtifact};
use store::artifacts::{CurrentRun, PastRun};
use store::attestations::lists::AttestationSummary;
use store::{AtMost, Error, Tenant};

/// The commit of an artifact whose commit is unknown: the public client fails on fewer than 7 characters.
pub(crate) const UNKNOWN_COMMIT: &str = "unknown";

/// An artifact in a flow. A text that is unknown is empty.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct FlowArtifact {
    /// Its fingerprint
    pub(crate) id: Fingerprint,
    pub(crate) fingerprint: Fingerprint,
    /// The name of the file or the image
    pub(crate) filename: String,
    pub(crate) flow_name: String,
    /// Its last trail in the flow
    pub(crate) trail_name: Option<String>,
    pub(crate) template_reference_name: Option<String>,
    /// When it was first attested or reported
    pub(crate) created_at: Timestamp,
    /// `unknown` if no commit is known
    pub(crate) git_commit: String,
    pub(crate) commit_url: String,
    pub(crate) build_url: String,
    pub(crate) html_url: String,
    pub(crate) state: ComplianceState,
}

/// An environment in which an artifact runs.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct RunningIn {
    pub(crate) environment_name: String,
    /// The current snapshot
    snapshot_index: i64,
    started_at: Timestamp,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`
    compliance: &'static str,
    /// Whether the environment is silent: what runs is unknown
    is_silent: bool,
}

/// An event of an artifact.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct ArtifactEvent {
    /// In words
    event: String,
    timestamp: Timestamp,
}

/// Artifacts, with the flows that hold them.
pub(crate) struct KnownArtifacts {
    known: HashMap<Fingerprint, KnownArtifact>,
    flows: BTreeMap<Fingerprint, BTreeMap<String, AssertedFlow>>,
    images: HashMap<Fingerprint, String>,
    listed: Vec<ListedManifest>,
}

impl KnownArtifacts {
    /// Reads artifacts; with `flow`: only in this flow.
    pub(crate) async fn read(
        tenant: &mut Tenant<'_>,
        artifacts: &BTreeSet<Fingerprint>,
        flow: Option<&str>,
    ) -> Result<Self, Error> {
        let known = store::artifacts::flows::known(tenant, artifacts).await?;
        let flows = store::artifacts::flows::of_artifacts(tenant, artifacts, flow).await?;
        let is_named = |artifact: &&Fingerprint| {
            known.get(artifact).is_some_and(|known| known.flows.iter().any(|flow| flow.report.is_some()))
        };
        let unnamed = artifacts.iter().filter(|artifact| !is_named(artifact)).copied().collect();
        let mut images = store::provenance::names(tenant, &unnamed).await?;
        // The last of several names counts, in any order of rows.
        images.sort_unstable();
        let listed = store::image_indexes::listed_manifests(tenant, artifacts).await?;
        Ok(Self { known, flows, images: images.into_iter().collect(), listed })
    }

    pub(crate) fn flows(&self, artifact: Fingerprint) -> impl Iterator<Item = &str> {
        self.flows.get(&artifact).into_iter().flat_map(|flows| flows.keys().map(String::as_str))
    }

    /// The flow whose origin counts, or else the last one.
    pub(crate) fn main_flow(&self, artifact: Fingerprint) -> Option<&str> {
        self.known.get(&artifact)?.flow()
    }

    /// The name of an artifact of no flow: of the image under which it ran; empty if it never ran.
    pub(crate) fn image(&self, artifact: Fingerprint) -> &str {
        self.images.get(&artifact).map_or("", String::as_str)
    }

    /// The other digests of the image of an artifact.
    pub(crate) fn digests(&self, artifact: Fingerprint) -> RelatedDigests {
        RelatedDigests::new(&self.listed, artifact)
    }

    pub(crate) fn in_flow(
        &self,
        site: &Site,
        organization: &str,
        artifact: Fingerprint,
        flow: &str,
    ) -> FlowArtifact {
        let known = self.known.get(&artifact);
        let here = known.and_then(|known| known.flows.iter().find(|known| known.flow == flow));
        let (commit, commit_url) = known.map(|known| known.commit(here)).unwrap_or_default();
        let report = here.and_then(|here| here.report.as_ref());
        let state = self.flows.get(&artifact).and_then(|flows| flows.get(flow)).map(|asserted| {
            evaluate_artifact(asserted.template.as_ref(), &asserted.attestations, &asserted.names).0
        });
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        FlowArtifact {
            id: artifact,
            fingerprint: artifact,
            filename: report.map_or_else(|| self.image(artifact), |sent| sent.filename.as_str()).to_owned(),
            flow_name: flow.to_owned(),
            trail_name: here.and_then(|here| here.trail.clone()),
            template_reference_name: here.and_then(ArtifactFlow::template_name).map(str::to_owned),
            created_at: here.map_or(Timestamp::EPOCH, |here| here.created_at),
            git_commit: commit.unwrap_or(UNKNOWN_COMMIT).to_owned(),
            commit_url: owned(commit_url),
            build_url: owned(here.and_then(ArtifactFlow::build_url)),
            html_url: site.links.artifact_page(organization, artifact),
            state: state.unwrap_or(ComplianceState::Incomplete),
        }
    }
}

/// The runs, attestations and approvals of an artifact.
pub(crate) struct ArtifactHistory {
    pub(crate) current_runs: AtMost<CurrentRun>,
    pub(crate) past_runs: AtMost<PastRun>,
    pub(crate) attestations: AtMost<AttestationSummary>,
    pub(crate) approvals: AtMost<Approval>,
}

impl ArtifactHistory {
    pub(crate) async fn read(tenant: &mut Tenant<'_>, artifact: Fingerprint) -> Result<Self, Error> {
        Ok(Self {
            current_runs: store::artifacts::current_runs(tenant, artifact).await?,
            past_runs: store::artifacts::past_runs(tenant, artifact).await?,
            attestations: store::attestations::lists::of_artifact(tenant, artifact).await?,
            approvals: store::approvals::of_artifact(tenant, artifact).await?,
        })
    }

    /// The environments in which it runs, by name.
    pub(crate) fn running(&self, site: &Site) -> Vec<RunningIn> {
        let now = site.now();
        let running = |run: &CurrentRun| {
            let validity = run.environment.validity(site.silent_after);
            RunningIn {
                environment_name: run.environment.name.clone(),
                snapshot_index: run.environment.snapshot,
                started_at: run.started_at,
                compliance: run.artifact.verdict.compliance.confirmed(validity.is_valid(now)).as_str(),
                is_silent: validity.is_silent(now),
            }
        };
        self.current_runs.listed.iter().map(running).collect()
    }

    /// The events of the artifact, oldest first. In a flow: without attestations and approvals of other flows.
    pub(crate) fn events(&self, added: Option<&FlowArtifact>) -> Vec<ArtifactEvent> {
        let is_here = |flow: &str| added.is_none_or(|here| here.flow_name == flow);
        let mut events: Vec<(Timestamp, String)> = Vec::new();
        let created =
            |here: &FlowArtifact| (here.created_at, format!("Artifact created in flow {}", here.flow_name));
        events.extend(added.map(created));
        for attested in self.attestations.listed.iter().filter(|attested| is_here(&attested.flow)) {
            let result = match attested.passes {
                Some(true) => "passed",
                Some(false) => "failed",
                None => "has no verdict",
            };
            events.push((attested.created_at, format!("Attestation {} {result}", attested.name)));
        }
        for approval in self.approvals.listed.iter().filter(|approval| is_here(&approval.flow)) {
            let state = match approval.state {
                ApprovalState::Approved => "approved",
                ApprovalState::Unapproved => "not approved",
                ApprovalState::Pending => "pending",
            };
            events.push((
                approval.last_modified_at,
                format!("Approval {} is {state}", approval.release_number),
            ));
        }
        let current = self.current_runs.listed.iter().map(|run| (&run.environment.name, run.started_at));
        let past = self.past_runs.listed.iter().map(|run| (&run.environment_name, run.started_at));
        for (environment, started_at) in current.chain(past) {
            events.push((started_at, format!("Started running in {environment}")));
        }
        for run in &self.past_runs.listed {
            events.push((run.exited_at, format!("Stopped running in {}", run.environment_name)));
        }
        events.sort();
        let is_cut = self.current_runs.has_more
            || self.past_runs.has_more
            || self.attestations.has_more
            || self.approvals.has_more;
        if let Some((first, _)) = events.first().filter(|_| is_cut) {
            events.insert(0, (*first, "Older events are not listed".to_owned()));
        }
        events.into_iter().map(|(timestamp, event)| ArtifactEvent { event, timestamp }).collect()
    }
}
