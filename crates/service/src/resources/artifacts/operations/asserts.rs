//! The gate before a deployment: whether an artifact may run.
//!
//! Evaluates one artifact, with the evidence that evaluations of environments keep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::artifacts::flows;
use store::image_indexes;
use store::policies::evidence;

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::engine::found_attestations::FoundAttestations;
use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::reason::{Code, Reason};
use model::{AttestationStatus, ComplianceState, EnvironmentName, Fingerprint, FlowName, PolicyName};
use rules::compliance::Compliance;
use rules::environment_status::{ReportedArtifact, Requirements};
use rules::policy::facts::AllowList;
use rules::policy::resolution::{Outcome, PolicyEvaluation, Resolution, RuleEvaluation};
use rules::policy::{MAX_POLICIES, Needs, Policy, PolicyVersion, Rule};
use rules::verdict::evaluate_artifact;
use store::artifacts::flows::AssertedFlow;
use store::attestations::lists::SignedAttestation;
use store::image_indexes::related;
use store::{Tenant, Transaction};

const ENVIRONMENT: &str = "environment_name";
const POLICY: &str = "policy_name";
const FLOW: &str = "flow_name";

/// Whether an artifact may run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Assertion<'a> {
    /// The requirements that the artifact was checked against.
    scope: AssertionScope,
    /// The environment of scope `environment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'a str>,
    /// The verdict.
    compliant: bool,
    /// The reason for the verdict besides policies and flows: no policy, an allow-list entry, or unknown namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The image, if its name is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_name: Option<String>,
    /// The artifact's page.
    html_url: String,
    #[serde(flatten)]
    evidence: OriginEvidence,
    /// The policies of the scope; empty for scope `flow`.
    policy_evaluations: Vec<PolicyResult<'a>>,
    /// The flows that hold the artifact.
    flows: Vec<FlowResult>,
    /// All flows together.
    compliance_status: ArtifactCompliance,
}

/// What shows where an artifact comes from.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct OriginEvidence {
    /// Verified signatures of the artifact, and of statements about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signed_evidence: Vec<SignedAttestation>,
    /// How many other origins flows named than the one that counts, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    conflicting_origins: Option<i64>,
}

impl OriginEvidence {
    /// Of one artifact, by the digests of its image; in a flow, or in any.
    async fn read(
        tenant: &mut Tenant<'_>,
        artifact: Fingerprint,
        digests: &BTreeSet<Fingerprint>,
        flow: Option<&str>,
    ) -> Result<Self, store::Error> {
        let mut signed_evidence = store::attestations::lists::signed(tenant, digests).await?;
        signed_evidence.retain(|signed| flow.is_none_or(|flow| signed.flow_name == flow));
        let own = BTreeSet::from([artifact]);
        let conflicts = store::provenance::numbers_of_conflicts(tenant, &own).await?;
        let conflicting_origins = conflicts.get(&artifact).copied().filter(|number| *number > 0);
        Ok(Self { signed_evidence, conflicting_origins })
    }
}

/// Requirements that an artifact is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum AssertionScope {
    /// The policies of an environment.
    Environment,
    /// Policies.
    Policy,
    /// The templates of the flows that hold the artifact.
    Flow,
}

/// Whether requirements are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    /// They are.
    Compliant,
    /// They are not.
    NonCompliant,
}

/// The result of a policy.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct PolicyResult<'a> {
    policy_name: &'a str,
    policy_version: i64,
    status: Status,
    /// Why the artifact does not fulfill the policy.
    reasons: Vec<Reason>,
    rule_evaluations: Vec<RuleResult<'a>>,
}

/// The result of a rule.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct RuleResult<'a> {
    rule: RuleDefinition<'a>,
    /// Null if the rule does not apply.
    satisfied: Option<bool>,
    /// Whether the rule does not apply.
    ignored: bool,
    resolutions: Vec<RuleResolution<'a>>,
}

/// A rule as in the policy file.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct RuleDefinition<'a> {
    /// `provenance`, `trail-compliance`, `attestation` or `approval`.
    #[serde(rename = "type")]
    kind: &'static str,
    #[schema(value_type = Object)]
    definition: &'a Rule,
}

/// The result of a rule in one flow and trail.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct RuleResolution<'a> {
    /// The result.
    #[serde(flatten)]
    code: Code,
    context: ResolutionContext<'a>,
}

/// The subject of a result.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ResolutionContext<'a> {
    flow_name: Option<&'a str>,
    trail_name: Option<&'a str>,
    attestation_name: Option<&'a str>,
    /// Always null.
    #[schema(value_type = Option<String>)]
    artifact_status: (),
    /// The control that the attestation is evidence for.
    #[serde(skip_serializing_if = "Option::is_none")]
    for_control: Option<&'a str>,
}

/// The artifact in one flow.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct FlowResult {
    flow: String,
    /// The trail in which the artifact was last reported or attested.
    trail: Option<String>,
    compliance_status: ArtifactCompliance,
}

/// Whether an artifact meets the requirements of a template.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
struct ArtifactCompliance {
    status: Status,
    attestations_statuses: Vec<AttestationStatus>,
}

/// Check whether an artifact may run: by the policies of an environment or by some policies, otherwise by the templates of
/// the flows that hold it.
#[utoipa::path(
    get,
    path = "/asserts/{org}/fingerprint/{fingerprint}",
    tag = "asserts",
    params(
        ("environment_name" = inline(Option<EnvironmentName>), Query, nullable = false, description = "Check the policies of this environment; excludes policy_name"),
        ("policy_name" = inline(Option<Vec<PolicyName>>), Query, description = "Check these policies, at most 10; repeatable"),
        ("flow_name" = inline(Option<FlowName>), Query, description = "Only this flow counts"),
    ),
    responses(
        (status = 200, description = "The verdict, compliant or not", body = Assertion),
        (status = 404, description = "Unknown artifact: no flow holds it, it never ran, and no allow-list names it", body = ErrorBody),
    ),
)]
pub(crate) async fn assert_artifact(
    State(site): State<Site>,
    Admitted { organization, rest: fingerprint, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let artifact: Fingerprint = Problem::parse("fingerprint", &fingerprint)?;
    let parameters = Parameters::read_with_lists(&uri, &[ENVIRONMENT, FLOW], &[POLICY])?;
    let environment: Option<EnvironmentName> = parameters.parsed(ENVIRONMENT)?;
    let only_flow: Option<FlowName> = parameters.parsed(FLOW)?;
    let flow = only_flow.as_ref().map(FlowName::as_str);
    let names = parameters.all(POLICY);
    let scope = scope(environment.as_ref(), names)?;

    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let mut policies: Vec<Arc<Policy>> = Vec::new();
    let mut allowed = AllowList::default();
    let wanted = BTreeSet::from([artifact]);
    // An unknown artifact is 404. An unknown environment or policy is not, since admission webhooks may let unknown
    // artifacts pass.
    if let Some(environment) = &environment {
        let name = environment.as_str();
        policies = site.policies.of(tenant, [name]).await?.remove(name).unwrap_or_default();
        if policies.is_empty() && !store::environments::exists(tenant, name).await? {
            let nearest = not_found::nearest_environments(tenant, name, |_| true).await?;
            return Err(Problem::field(ENVIRONMENT, &not_found::unknown_environment(name, &nearest)));
        }
        let mut lists = evidence::allow_lists(tenant, [name], &wanted).await?;
        allowed = lists.remove(name).unwrap_or_default();
    }
    for name in names {
        policies.push(named_policy(&site, tenant, name).await?);
    }
    let needs = Needs::new(policies.iter().map(|policy| &**policy));
    let mut evidence = evidence::read(tenant, &wanted, &needs).await?;
    let mut evidence = evidence.remove(&artifact).unwrap_or_default();
    if let Some(flow) = flow {
        evidence.retain_flow(flow);
    }
    let mut flows = flows::of_artifacts(tenant, &wanted, flow).await?;
    let flows = flows.remove(&artifact).unwrap_or_default();
    let is_in_flow = !flows.is_empty()
        || !evidence.related.is_empty() && are_other_digests_in(tenant, &wanted, flow).await?;
    let running = store::artifacts::running_in(tenant, artifact).await?;
    let mut known = described(running, environment.as_ref(), &flows);
    let is_named = allowed.names(&artifact) || evidence.is_approved();
    if known.is_none() && flow.is_none() && scope != AssertionScope::Flow {
        // Past runs.
        let names = store::artifacts::image_names(tenant, artifact).await?.listed;
        known = names.into_iter().next().map(|name| ReportedArtifact { name, ..ReportedArtifact::default() });
    }
    let by_flow = flow.is_some() || scope == AssertionScope::Flow;
    if !is_in_flow && (by_flow || known.is_none() && !is_named) {
        return Err(unknown_artifact(tenant, only_flow.as_ref(), artifact).await);
    }

    let known = known.unwrap_or_default();
    let artifact_name = Some(known.name.clone()).filter(|name| !name.is_empty());
    let requirements =
        Requirements { environment: environment.as_ref(), policies: &policies, allowed: &allowed };
    let assessment = requirements.assess(&artifact, &known, &evidence, site.now());
    let verdict = assessment.verdict().0;
    let mut policy_evaluations: Vec<_> = assessment.policies.iter().map(PolicyResult::new).collect();
    let mut digests = wanted;
    if !evidence.related.is_empty() {
        let listed = image_indexes::listed_manifests(tenant, &digests).await?;
        digests.extend(related(&listed));
    }
    let origin = OriginEvidence::read(tenant, artifact, &digests, flow).await?;
    add_findings(&site, transaction, &organization, &digests, &mut policy_evaluations).await?;
    let flows: Vec<FlowResult> =
        flows.into_iter().map(|(flow, known)| FlowResult::new(flow, known)).collect();
    let is_compliant = match scope {
        AssertionScope::Flow => flows.iter().all(|flow| flow.compliance_status.status == Status::Compliant),
        _ => verdict.compliance != Compliance::NonCompliant,
    };
    let message = match &environment {
        Some(name) if verdict.compliance == Compliance::Unknown => {
            Some(format!("no policy is attached to the environment {name}: nothing was checked"))
        }
        _ if verdict.is_allowed => Some(Reason::join(&verdict.reasons, "; ")),
        _ if needs.namespaces && known.namespaces.is_empty() => {
            Some("the artifact does not run there: conditions on namespaces see none".to_owned())
        }
        _ => None,
    };
    let status = |flow: &FlowResult| flow.compliance_status.attestations_statuses.clone();
    let compliance_status = ArtifactCompliance {
        status: Status::new(is_compliant),
        attestations_statuses: flows.iter().flat_map(status).collect(),
    };
    let assertion = Assertion {
        scope,
        environment: environment.as_ref().map(EnvironmentName::as_str),
        compliant: is_compliant,
        message,
        artifact_name,
        html_url: site.links.artifact_page(&organization, artifact),
        evidence: origin,
        policy_evaluations,
        flows,
        compliance_status,
    };
    Ok(axum::Json(assertion).into_response())
}

async fn unknown_artifact(
    tenant: &mut Tenant<'_>,
    flow: Option<&FlowName>,
    artifact: Fingerprint,
) -> Problem {
    if let Some(flow) = flow
        && let Err(unknown) = not_found::require_flow(tenant, flow).await
    {
        return unknown;
    }
    let flow = flow.map_or_else(|| "any flow".to_owned(), |flow| format!("flow \"{flow}\""));
    Problem::not_found(format!(
        "artifact \"{artifact}\" not found in {flow} of organization \"{}\"",
        tenant.name
    ))
}

/// Adds to the reasons what attestations found.
async fn add_findings(
    site: &Site,
    mut transaction: Transaction,
    organization: &str,
    artifacts: &BTreeSet<Fingerprint>,
    policies: &mut [PolicyResult<'_>],
) -> Result<(), Problem> {
    let reasons = policies.iter().flat_map(|policy| &policy.reasons);
    let found = FoundAttestations::read(site, &mut transaction.of(organization), artifacts, reasons).await?;
    drop(transaction);
    found.complete(policies.iter_mut().flat_map(|policy| &mut policy.reasons)).await;
    for reason in policies.iter_mut().flat_map(|policy| &mut policy.reasons) {
        reason.text = reason.to_string();
    }
    Ok(())
}

async fn named_policy(site: &Site, tenant: &mut Tenant<'_>, name: &str) -> Result<Arc<Policy>, Problem> {
    let name: PolicyName = Problem::parse(POLICY, name)?;
    if let Some(policy) = site.policies.current(tenant, name.as_str()).await? {
        return Ok(policy);
    }
    let unknown = not_found::unknown_policy(tenant, name.as_str()).await?;
    Err(Problem::field(POLICY, &unknown))
}

/// What is asserted: by an environment, policies or neither.
fn scope<T>(environment: Option<&EnvironmentName>, policies: &[T]) -> Result<AssertionScope, Problem> {
    match (environment, policies) {
        (Some(_), []) => Ok(AssertionScope::Environment),
        (None, [_, ..]) if policies.len() > MAX_POLICIES => {
            Err(Problem::field(POLICY, &format!("expected at most {MAX_POLICIES} policies")))
        }
        (None, [_, ..]) => Ok(AssertionScope::Policy),
        (None, []) => Ok(AssertionScope::Flow),
        (Some(_), [_, ..]) => {
            Err(Problem::field(POLICY, &format!("expected no policy together with {ENVIRONMENT}")))
        }
    }
}

/// Whether a flow, or any, holds another digest of the image.
async fn are_other_digests_in(
    tenant: &mut Tenant<'_>,
    artifact: &BTreeSet<Fingerprint>,
    flow: Option<&str>,
) -> Result<bool, store::Error> {
    let others = related(&image_indexes::listed_manifests(tenant, artifact).await?).collect();
    Ok(!flows::of_artifacts(tenant, &others, flow).await?.is_empty())
}

/// The artifact as it runs in the environment; else as it runs elsewhere or was reported, without namespaces.
fn described(
    mut running: BTreeMap<String, ReportedArtifact>,
    environment: Option<&EnvironmentName>,
    flows: &BTreeMap<String, AssertedFlow>,
) -> Option<ReportedArtifact> {
    if let Some(there) = environment.and_then(|name| running.remove(name.as_str())) {
        return Some(there);
    }
    let reported = || flows.values().find_map(|flow| flow.reported_names.last().cloned());
    let name = running.into_values().next().map(|running| running.name).or_else(reported)?;
    Some(ReportedArtifact { name, ..ReportedArtifact::default() })
}

impl Status {
    fn new(is_compliant: bool) -> Self {
        if is_compliant { Self::Compliant } else { Self::NonCompliant }
    }
}

impl FlowResult {
    fn new(flow: String, known: AssertedFlow) -> Self {
        let AssertedFlow { trail, template, names, attestations, .. } = known;
        let (state, attestations_statuses) = evaluate_artifact(template.as_ref(), &attestations, &names);
        let status = Status::new(state == ComplianceState::Compliant);
        Self { flow, trail, compliance_status: ArtifactCompliance { status, attestations_statuses } }
    }
}

impl<'a> PolicyResult<'a> {
    fn new(evaluated: &PolicyEvaluation<'a>) -> Self {
        let PolicyVersion { name, version } = &evaluated.policy.name;
        Self {
            policy_name: name,
            policy_version: *version,
            status: Status::new(evaluated.is_fulfilled()),
            reasons: evaluated.reasons().collect(),
            rule_evaluations: evaluated.rules.iter().map(RuleResult::new).collect(),
        }
    }
}

impl<'a> RuleResult<'a> {
    fn new(evaluated: &RuleEvaluation<'a>) -> Self {
        let &RuleEvaluation { rule, outcome, ref resolutions, .. } = evaluated;
        let for_control = match rule {
            Rule::Attestation(required) => required.for_control.as_deref(),
            _ => None,
        };
        let resolution = |found: &Resolution<'a>| RuleResolution {
            code: found.code.clone(),
            context: ResolutionContext {
                flow_name: found.flow,
                trail_name: found.trail,
                attestation_name: found.attestation,
                artifact_status: (),
                for_control,
            },
        };
        Self {
            rule: RuleDefinition { kind: rule.kind(), definition: rule },
            satisfied: (outcome != Outcome::Ignored).then_some(outcome == Outcome::Satisfied),
            ignored: outcome == Outcome::Ignored,
            resolutions: resolutions.iter().map(resolution).collect(),
        }
    }
}
