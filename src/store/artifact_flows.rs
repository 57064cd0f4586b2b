//! Reads the flows and trails that artifacts belong to, and the commits that they were built from.

use std::collections::{BTreeSet, HashMap};

use super::columns::Json;
use super::transaction::fetch_for_all;
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, GitCommit, ReportedArtifact, ShortText, Text, Timestamp, UrlText};

/// An artifact in a flow: in its last trail there.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ArtifactFlow {
    /// The flow.
    pub flow: String,
    /// The trail; `None` if an older client reported the artifact without one.
    pub trail: Option<String>,
    /// When it was last attested or reported in the flow.
    pub modified_at: Timestamp,
    /// Its last report in the flow.
    #[sqlx(rename = "content", try_from = "Json<Option<ReportedArtifact>>")]
    pub report: Option<ReportedArtifact>,
}

/// The flows of an artifact, and its origin.
#[derive(Debug, Clone, Default)]
pub struct KnownArtifact {
    /// By name.
    pub flows: Vec<ArtifactFlow>,
    origin: Option<OriginRow>,
}

impl ArtifactFlow {
    /// Its name in the template of the trail.
    #[must_use]
    pub fn template_name(&self) -> Option<&str> {
        self.report.as_ref()?.template_reference_name.as_ref().map(ShortText::as_str)
    }

    /// The page of the build.
    #[must_use]
    pub fn build_url(&self) -> Option<&str> {
        self.report.as_ref()?.build_url.as_ref().map(UrlText::as_str)
    }
}

impl KnownArtifact {
    /// The flow whose origin counts, or else the one that attested it last.
    #[must_use]
    pub fn flow(&self) -> Option<&str> {
        let last = self.flows.iter().max_by_key(|flow| flow.modified_at).map(|flow| flow.flow.as_str());
        self.origin.as_ref().map(|origin| origin.flow.as_str()).or(last)
    }

    /// The hash of the commit, and its page: of the report in this flow, or else of the artifact's origin.
    #[must_use]
    pub fn commit<'a>(&'a self, flow: Option<&'a ArtifactFlow>) -> (Option<&'a str>, Option<&'a str>) {
        let report = flow.and_then(|flow| flow.report.as_ref());
        let hash = report.and_then(|report| report.git_commit.as_ref()).map(Text::as_str);
        let url = report.and_then(|report| report.commit_url.as_ref()).map(UrlText::as_str);
        // The public client fails on an empty hash.
        let hash = hash.filter(|hash| hash.len() >= 7);
        let origin = self.origin.as_ref();
        let (commit, page) = origin.map(|origin| (&origin.commit_sha, &origin.commit_url)).unzip();
        (hash.or(commit.and_then(Option::as_deref)), url.or(page.and_then(Option::as_deref)))
    }
}

/// The origin that counts.
#[derive(Debug, Clone, sqlx::FromRow)]
struct OriginRow {
    fingerprint: Fingerprint,
    flow: String,
    commit_sha: Option<String>,
    commit_url: Option<String>,
}

#[derive(sqlx::FromRow)]
struct FlowRow {
    fingerprint: Fingerprint,
    #[sqlx(flatten)]
    flow: ArtifactFlow,
}

impl Transaction {
    /// The commits that the latest attestations of artifacts name.
    pub async fn attested_commits(
        &mut self,
        organization: &str,
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<HashMap<Fingerprint, Vec<GitCommit>>, Error> {
        const SELECT: &str = "
            SELECT l.fingerprint, a.git_commit_info
            FROM latest_attestations l
              JOIN attestations a ON a.organization = l.organization AND a.id = l.attestation
            WHERE a.git_commit_info IS NOT NULL AND l.organization = ? AND l.fingerprint IN (?)
            ORDER BY l.created_at, l.attestation";
        let rows: Vec<(Fingerprint, Json<GitCommit>)> =
            fetch_for_all!(self, SELECT, artifacts.iter().copied(), organization);
        let mut commits: HashMap<Fingerprint, Vec<GitCommit>> = HashMap::new();
        for (artifact, Json(commit)) in rows {
            commits.entry(artifact).or_default().push(commit);
        }
        Ok(commits)
    }

    /// The flows and origins of artifacts. Artifacts of which no flow knows anything are absent.
    pub async fn known_artifacts(
        &mut self,
        organization: &str,
        artifacts: &BTreeSet<Fingerprint>,
    ) -> Result<HashMap<Fingerprint, KnownArtifact>, Error> {
        const SELECT: &str = "
            SELECT fingerprint, flow, commit_sha, commit_url FROM provenance
            WHERE organization = ? AND fingerprint IN (?) ORDER BY recorded_at";
        const FLOW_ARTIFACTS: &str = "
            SELECT f.fingerprint, f.flow, t.name AS trail, f.modified_at, r.content
            FROM flow_artifacts f
              LEFT JOIN trails t ON t.organization = f.organization AND t.id = f.trail
              LEFT JOIN reported_artifacts r ON r.organization = f.organization AND r.id = f.report
            WHERE f.organization = ? AND f.fingerprint IN (?)";
        let keys = || artifacts.iter().copied();
        let mut known: HashMap<Fingerprint, KnownArtifact> = HashMap::new();
        let origins: Vec<OriginRow> = fetch_for_all!(self, SELECT, keys(), organization);
        for row in origins {
            let artifact = known.entry(row.fingerprint).or_default();
            artifact.origin = Some(row);
        }
        let rows: Vec<FlowRow> = fetch_for_all!(self, FLOW_ARTIFACTS, keys(), organization);
        for FlowRow { fingerprint, flow } in rows {
            known.entry(fingerprint).or_default().flows.push(flow);
        }
        // Sorted here: the database's order depends on its locale.
        for artifact in known.values_mut() {
            artifact.flows.sort_unstable_by(|one, other| one.flow.cmp(&other.flow));
        }
        Ok(known)
    }
}
