//! The effect of a policy before it is attached: an extension of the interface.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::engine::not_found;
use crate::engine::selected_snapshot;
use crate::http::blocking::compute;
use crate::http::json::{Contents, Sent};
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use model::reason::Reason;
use model::{EnvironmentName, Fingerprint, PolicyName, Timestamp};
use rules::compliance::{Compliance, ComplianceCounts};
use rules::environment_status::{Requirements, running_artifacts};
use rules::history_coverage::HistoryCoverage;
use rules::policy::facts::Evidence;
use rules::policy::{Needs, Policy, PolicyVersion};
use store::environments::contents::PodGroup;

/// Maximum number of artifacts in a response.
const MAX_LISTED: usize = 1_000;

/// Maximum number of reasons for each artifact.
const MAX_REASONS: usize = 20;

/// The name of a policy without one, in reasons.
const UNNAMED: &str = "candidate";

/// A policy to be checked.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    /// The policy file, YAML
    #[schema(max_length = 131_072)]
    policy_file: String,
    environment_name: EnvironmentName,
    /// The policy whose new version the file would be; otherwise it would be added to the policies of the environment
    policy_name: Option<PolicyName>,
    /// Check the artifacts that ran at this time, by the evidence of now
    at: Option<Timestamp>,
}

impl Contents for Candidate {
    const WHAT: &'static str = "the policy";
}

/// The effect of a policy on the artifacts of an environment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct PolicyEffect {
    environment: String,
    /// The requested time
    at: Option<Timestamp>,
    /// Why the list of artifacts may be incomplete: a gap, silence, or retention
    warning: Option<String>,
    /// The compliance of all artifacts together: `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`
    before: &'static str,
    after: &'static str,
    /// Number of artifacts
    artifacts_total: usize,
    /// Number of artifacts whose compliance changes
    changed_total: usize,
    /// Artifacts whose compliance changes, then others that are not compliant; at most 1,000
    artifacts: Vec<ArtifactEffect>,
}

/// The effect of a policy on an artifact.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ArtifactEffect {
    name: String,
    fingerprint: Fingerprint,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`
    before: &'static str,
    after: &'static str,
    /// The reasons for the compliance after, at most 20
    reasons: Vec<Reason>,
}

/// Check what a policy would change in an environment, without recording it. Not in Kosli's API.
#[utoipa::path(
    post,
    path = "/policies/{org}/check",
    tag = "policies",
    request_body(content = Candidate, content_type = "application/json"),
    responses(
        (status = 200, description = "The effect", body = PolicyEffect),
        (status = 404, description = "No such environment, or nothing is known of the time", body = ErrorBody),
    ),
)]
pub(crate) async fn check_policy(
    State(app): State<App>,
    Admitted { organization, .. }: Admitted<Read>,
    Sent(sent, _share): Sent<Candidate>,
) -> Result<axum::Json<PolicyEffect>, Problem> {
    let (name, now) = (sent.environment_name.as_str(), app.site.now());
    let replaced = sent.policy_name.as_ref().map(PolicyName::as_str);
    let mut transaction = app.site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let environment = selected_snapshot::environment(tenant, &sent.environment_name).await?;
    let mut version = 1;
    if let Some(replaced) = replaced {
        let current = store::policies::current(tenant, replaced).await?;
        let Some(current) = current else {
            let unknown = not_found::unknown_policy(tenant, replaced).await?;
            return Err(Problem::field("policy_name", &unknown));
        };
        version = current.version + 1;
    }
    let version = PolicyVersion { name: replaced.unwrap_or(UNNAMED).to_owned(), version };
    let candidate =
        Policy::parse(version, &sent.policy_file).map_err(|error| Problem::field("policy_file", &error))?;
    let mut warning = None;
    if let Some(at) = sent.at {
        let history = store::environments::contents::history(tenant, environment.id, at).await?;
        let validity = environment.validity(app.site.silent_after);
        let coverage = HistoryCoverage::new(at, now, &history, validity.silent_after);
        warning = coverage.warning();
        if !coverage.has_data() {
            let why = warning.unwrap_or_default();
            return Err(Problem::not_found(format!("no data of environment \"{name}\" at {at}: {why}")));
        }
    }
    let groups = store::environments::contents::pod_groups(tenant, environment.id, sent.at, "").await?;
    let mut policies = app.site.policies.of(tenant, [name]).await?;
    let before = policies.remove(name).unwrap_or_default();
    let is_replaced = |policy: &&Arc<Policy>| Some(policy.name.name.as_str()) == replaced;
    let mut after: Vec<_> = before.iter().filter(|policy| !is_replaced(policy)).map(Arc::clone).collect();
    after.push(Arc::new(candidate));
    let needs = Needs::new(before.iter().chain(&after).map(|policy| &**policy));
    let artifacts = groups.iter().flat_map(|group| group.digests.values().copied()).collect();
    let evidence = store::policies::evidence::read(tenant, &artifacts, &needs).await?;
    let mut allowed = store::policies::evidence::allow_lists(tenant, [name], &artifacts).await?;
    let allowed = allowed.remove(name).unwrap_or_default();
    drop(transaction);
    let effect = move || {
        let requirements =
            Requirements { environment: Some(&sent.environment_name), policies: &before, allowed: &allowed };
        let candidate = Requirements { policies: &after, ..requirements };
        PolicyEffect {
            at: sent.at,
            warning,
            ..PolicyEffect::new(requirements, candidate, &groups, &evidence, now)
        }
    };
    // An environment may run many artifacts: use a blocking thread.
    Ok(axum::Json(compute(effect).await?))
}

impl PolicyEffect {
    /// The effect of the requirements `after` instead of those `before`.
    fn new(
        before: Requirements<'_>,
        after: Requirements<'_>,
        groups: &[PodGroup],
        evidence: &BTreeMap<Fingerprint, Evidence>,
        now: Timestamp,
    ) -> Self {
        let none = Evidence::default();
        let mut counts = [ComplianceCounts::default(); 2];
        let (mut changed, mut others) = (Vec::new(), Vec::new());
        let runs = groups.iter().flat_map(|PodGroup { namespace, digests, .. }| {
            digests.iter().map(move |(name, fingerprint)| (&**name, *fingerprint, namespace.as_str()))
        });
        let running = running_artifacts(runs);
        let artifacts_total = running.len();
        for (fingerprint, artifact) in running {
            let evidence = evidence.get(&fingerprint).unwrap_or(&none);
            let [old, new] = [before, after]
                .map(|required| required.assess(&fingerprint, &artifact, evidence, now).verdict().0);
            for (counts, verdict) in counts.iter_mut().zip([&old, &new]) {
                counts.add(verdict.compliance, 1);
            }
            let listed = match (old.compliance, new.compliance) {
                (before, after) if before != after => &mut changed,
                (_, Compliance::NonCompliant) => &mut others,
                _ => continue,
            };
            listed.push(ArtifactEffect {
                name: artifact.name,
                fingerprint,
                before: old.compliance.as_str(),
                after: new.compliance.as_str(),
                reasons: new.reasons.iter().take(MAX_REASONS).map(Reason::with_text).collect(),
            });
        }
        // Worst first.
        changed.sort_by_cached_key(|artifact| (Reverse(artifact.after), artifact.name.clone()));
        others.sort_by(|one, other| one.name.cmp(&other.name));
        let changed_total = changed.len();
        let [old, new] = counts;
        Self {
            environment: before.environment.map(|name| name.as_str().to_owned()).unwrap_or_default(),
            at: None,
            warning: None,
            before: old.environment(!before.policies.is_empty()).as_str(),
            after: new.environment(true).as_str(),
            artifacts_total,
            changed_total,
            artifacts: changed.into_iter().chain(others).take(MAX_LISTED).collect(),
        }
    }
}
