//! Search by fingerprint or commit, and by name: extensions of the interface.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::engine::artifact_details::{ArtifactEvent, ArtifactHistory, KnownArtifacts};
use crate::http::hex_prefix::HexPrefix;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::resources::search::results::{MAX_QUERY_CHARS, SearchResults};
use crate::site::Site;
use model::{ComplianceState, Fingerprint, RelatedDigests};
use store::AtMost;
use store::attestations::lists::SignedAttestation;
use store::search::{Artifact, PodRun, Trail};

/// The artifacts that a search found.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SearchResult {
    resolved_to: Resolution,
    /// Each artifact in each flow that holds it
    artifacts: Vec<FoundArtifact>,
}

/// The fingerprints and commits that start with the digits of a search.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Resolution {
    /// `fingerprint` or `commit` if there is one match, otherwise `multiple`
    #[serde(rename = "type")]
    kind: &'static str,
    /// The match, if there is only one
    full_match: Option<String>,
    fingerprints: HashList,
    commits: HashList,
}

/// Fingerprints or commits, in order.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct HashList {
    /// `fingerprint` or `commit`
    #[serde(rename = "type")]
    kind: &'static str,
    count: usize,
    matches: Vec<String>,
    /// Whether there are more
    has_more: bool,
}

/// An artifact in a flow; or one that no flow knows, whose `has_provenance` is false.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct FoundArtifact {
    fingerprint: Fingerprint,
    name: String,
    has_provenance: bool,
    flow: Option<String>,
    git_commit: Option<String>,
    commit_url: Option<String>,
    build_url: Option<String>,
    html_url: String,
    compliance_state: Option<ComplianceState>,
    /// Names of environments
    running_in: BTreeSet<String>,
    /// Names of environments, within the retention
    exited_from: BTreeSet<String>,
    /// Oldest first
    history: Vec<ArtifactEvent>,
    #[serde(flatten)]
    digests: RelatedDigests,
    /// Verified signatures of the artifact, and of statements about it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signed_evidence: Vec<SignedAttestation>,
    /// How many other origins flows named than the one that counts, if any
    #[serde(skip_serializing_if = "Option::is_none")]
    conflicting_origins: Option<i64>,
}

/// Search artifacts by the first digits of a fingerprint or a commit.
#[utoipa::path(
    get,
    path = "/search/{org}/sha/{sha}",
    tag = "artifacts",
    params(("sha" = inline(HexPrefix), Path, description = "The first hex digits of a fingerprint or a commit, or all")),
    responses(
        (status = 200, description = "The artifacts, at most 50 by fingerprint and 50 by commit", body = SearchResult),
        (status = 404, description = "No such artifact", body = ErrorBody),
    ),
)]
pub(crate) async fn search(
    State(site): State<Site>,
    Admitted { organization, rest: sha, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<SearchResult>, Problem> {
    let prefix: HexPrefix = Problem::parse("sha", &sha)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let (first, last) = Fingerprint::range(prefix.as_str()).ok_or_else(Problem::defect)?;
    let found = store::search::artifacts(tenant, first, last).await?;
    let built = store::search::artifacts_of_commit(tenant, prefix.as_str(), None).await?;
    let fingerprints: BTreeSet<Fingerprint> =
        found.listed.iter().map(|artifact| artifact.fingerprint).collect();
    let commits: BTreeSet<&String> = built.listed.iter().map(|(commit, _)| commit).collect();
    let mut all = fingerprints.clone();
    all.extend(built.listed.iter().map(|(_, artifact)| *artifact));
    if all.is_empty() {
        let prefix = prefix.as_str();
        return Err(Problem::not_found(format!(
            "no artifact has a fingerprint or commit that starts with \"{prefix}\""
        )));
    }
    let known = KnownArtifacts::read(tenant, &all, None).await?;
    let conflicts = store::provenance::numbers_of_conflicts(tenant, &all).await?;
    let mut artifacts = Vec::new();
    for artifact in all {
        let signed = store::attestations::lists::signed(tenant, &[artifact].into()).await?;
        let history = ArtifactHistory::read(tenant, artifact).await?;
        let environments = history.running(&site).into_iter().map(|run| run.environment_name);
        let former = history.past_runs.listed.iter().map(|run| run.environment_name.clone());
        let unknown = FoundArtifact {
            fingerprint: artifact,
            name: known.image(artifact).to_owned(),
            has_provenance: false,
            flow: None,
            git_commit: None,
            commit_url: None,
            build_url: None,
            html_url: site.links.artifact_page(&organization, artifact),
            compliance_state: None,
            running_in: environments.collect(),
            exited_from: former.collect(),
            history: history.events(None),
            digests: known.digests(artifact),
            signed_evidence: Vec::new(),
            conflicting_origins: conflicts.get(&artifact).copied().filter(|number| *number > 0),
        };
        let in_flows = known.flows(artifact).map(|flow| {
            let found = known.in_flow(&site, &organization, artifact, flow);
            let is_here = |signed: &&SignedAttestation| signed.flow_name == flow;
            FoundArtifact {
                signed_evidence: signed.iter().filter(is_here).cloned().collect(),
                history: history.events(Some(&found)),
                name: found.filename,
                has_provenance: true,
                flow: Some(found.flow_name),
                git_commit: Some(found.git_commit),
                commit_url: Some(found.commit_url),
                build_url: Some(found.build_url),
                compliance_state: Some(found.state),
                ..unknown.clone()
            }
        });
        artifacts.extend(in_flows);
        if known.flows(artifact).next().is_none() {
            artifacts.push(unknown);
        }
    }
    let fingerprints = HashList::new("fingerprint", &fingerprints, found.has_more);
    let commits = HashList::new("commit", &commits, built.has_more);
    let resolved_to = match (fingerprints.matches.as_slice(), commits.matches.as_slice()) {
        ([only], []) => Some(("fingerprint", only.clone())),
        ([], [only]) => Some(("commit", only.clone())),
        _ => None,
    };
    let (kind, full_match) = resolved_to.map_or(("multiple", None), |(kind, only)| (kind, Some(only)));
    let resolved_to = Resolution { kind, full_match, fingerprints, commits };
    Ok(axum::Json(SearchResult { resolved_to, artifacts }))
}

/// The matches of a text.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct TextMatches {
    /// At most 50 of each kind
    data: Vec<TextMatch>,
    /// Kinds with further matches
    truncated: BTreeSet<&'static str>,
}

/// Something that matches a text.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct TextMatch {
    /// `environment`, `digest`, `commit` (of an artifact), `image`, `pod`, `flow`, `repository` or `trail`
    kind: &'static str,
    /// The name of the environment, image, pod, flow, repository or trail, or the commit; empty if the artifact neither ran nor
    /// was reported
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Fingerprint>,
    /// The flow of a trail
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<PodRun>,
    /// Absent for a flow or repository
    #[serde(skip_serializing_if = "Option::is_none")]
    html_url: Option<String>,
}

/// Search names of environments, images, pods, flows, repositories and trails that contain a text, and digests and commits that
/// start with it. Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/search/{org}",
    tag = "artifacts",
    params(
        ("q" = String, Query, description = "The text; case is ignored", pattern = "^[^\\x00]*$", min_length = 1, max_length = 255),
    ),
    responses((status = 200, description = "The matches", body = TextMatches)),
)]
pub(crate) async fn search_text(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<TextMatches>, Problem> {
    let parameters = Parameters::read(&uri, &["q"])?;
    let query = parameters.text("q").unwrap_or_default();
    if query.is_empty() || query.chars().count() > MAX_QUERY_CHARS {
        return Err(Problem::field("q", &format!("expected 1 to {MAX_QUERY_CHARS} characters")));
    }
    let mut transaction = site.store.read().await?;
    let found = SearchResults::read(&mut transaction.of(&organization), query).await?;
    drop(transaction);
    let of = |kind, name: String| TextMatch { kind, name, ..TextMatch::default() };
    let page = |artifact| Some(site.links.artifact_page(&organization, artifact));
    let artifact = |kind, name, fingerprint| TextMatch {
        fingerprint: Some(fingerprint),
        html_url: page(fingerprint),
        ..of(kind, name)
    };
    let trail = |Trail { flow, name }: Trail| TextMatch {
        html_url: Some(site.links.trail(&organization, &flow, &name)),
        flow: Some(flow),
        ..of("trail", name)
    };
    let named = |kind| move |Artifact { fingerprint, name }| artifact(kind, name, fingerprint);
    let mut matches = TextMatches::default();
    matches.add("environment", found.environments, |name| {
        let html_url = Some(site.links.environment_page(&organization, &name));
        TextMatch { html_url, ..of("environment", name) }
    });
    matches.add("digest", found.digests, named("digest"));
    matches.add("commit", found.built, |(commit, built)| artifact("commit", commit, built));
    matches.add("trail", found.trails_of_commits, trail);
    matches.add("image", found.images, named("image"));
    matches.add("pod", found.pods, |pod| {
        let html_url = Some(site.links.environment_page(&organization, &pod.environment));
        TextMatch { html_url, pod: Some(pod.clone()), ..of("pod", pod.name) }
    });
    matches.add("flow", found.flows, |flow| of("flow", flow));
    matches.add("repository", found.repositories, |name| of("repository", name));
    matches.add("trail", found.trails, trail);
    Ok(axum::Json(matches))
}

impl TextMatches {
    fn add<T>(&mut self, kind: &'static str, found: AtMost<T>, describe: impl Fn(T) -> TextMatch) {
        self.truncated.extend(found.has_more.then_some(kind));
        self.data.extend(found.listed.into_iter().map(describe));
    }
}

impl HashList {
    fn new(kind: &'static str, matches: &BTreeSet<impl ToString>, has_more: bool) -> Self {
        let matches: Vec<String> = matches.iter().map(ToString::to_string).collect();
        Self { kind, count: matches.len(), matches, has_more }
    }
}
