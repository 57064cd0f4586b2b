//! Attests in a trail: operation 5, and the other types of the public client.
//!
//! All types share a route, whose last segment is the type. `data` reads what a type sends, `form` describes it in the
//! OpenAPI document.

mod bill;
mod bundle;
pub(crate) mod data;
mod form;

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as UnknownVariant, StrDeserializer};

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::check_limit;
use crate::engine::guard::Evaluating;
use crate::engine::origin;
use crate::engine::repeated::{self, KeyedRequest};
use crate::http::form::{File, Form, Parts};
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Attest, Caller};
use crate::resources::attestations::operations::attest::bill::Bill;
use crate::resources::attestations::operations::attest::data::{AttestationData, DATA};
use crate::resources::attestations::operations::attest::form::AttestationForm;
use model::{
    AttestationFields, BundleFields, CustomFields, Fingerprint, FlowName, GenericFields, JiraFields,
    JunitFields, PullRequestFields, SignedEvidence, SnykFields, SonarFields, SystemFields, TrailName,
    commit_url,
};
use rules::notification::{Cause, CauseKind};
use store::Tenant;
use store::attestations::NewAttestation;
use store::quotas::Created;

/// The types of attestations, as paths name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum PathType {
    /// Test results
    Junit,
    /// A verdict
    Generic,
    /// A bill of materials as the file of a verdict; an extension, which creates its flow and trail
    Sbom,
    /// Signed evidence, whose type is that of its statement; an extension, which creates its flow and trail
    Bundle,
    /// Data of a type that the organization defines
    Custom,
    /// A software bill of materials or a decision
    System,
    /// The results of a vulnerability scan
    Snyk,
    /// The issues that a commit refers to
    Jira,
    /// The result of a code analysis
    Sonar,
    /// The pull requests of a commit
    PullRequest,
}

impl PathType {
    fn parse(name: &str) -> Result<Self, Problem> {
        let name: StrDeserializer<'_, UnknownVariant> = name.into_deserializer();
        Self::deserialize(name)
            .map_err(|error| Problem::not_found(format!("no such type of attestations: {error}")))
    }

    /// Whether the first attestation creates its flow and trail, as in the interface. Others need a trail.
    fn creates_trail(self) -> bool {
        matches!(self, Self::Junit | Self::Sbom | Self::Bundle)
    }

    fn read(self, data: &[u8]) -> Result<AttestationData, Problem> {
        match self {
            Self::Junit => AttestationData::read::<JunitFields>(data),
            Self::Generic | Self::Sbom => AttestationData::read::<GenericFields>(data),
            Self::Bundle => AttestationData::read::<BundleFields>(data),
            Self::Custom => AttestationData::read::<CustomFields>(data),
            Self::System => AttestationData::read::<SystemFields>(data),
            Self::Snyk => AttestationData::read::<SnykFields>(data),
            Self::Jira => AttestationData::read::<JiraFields>(data),
            Self::Sonar => AttestationData::read::<SonarFields>(data),
            Self::PullRequest => AttestationData::read::<PullRequestFields>(data),
        }
    }
}

/// Attest in a trail. The interface has the type `junit`, whose first attestation creates the flow and the trail; the other
/// types need a trail.
#[utoipa::path(
    post,
    path = "/attestations/{org}/{flow_name}/trail/{trail_name}/{type_or_name}",
    tag = "attestations",
    params(
        ("type_or_name" = inline(PathType), Path, description = "Type of the attestation"),
        ("Idempotency-Key" = Option<String>, Header, description = "Key of the request, the same when it is repeated", min_length = 1, max_length = 255, pattern = "^[!-~]+$"),
    ),
    request_body(content = AttestationForm, content_type = "multipart/form-data"),
    responses(
        (
            status = 201,
            description = "Recorded",
            body = String,
            content_type = "application/json",
            headers(
                ("x-supercargo-bill-of-materials" = String, description = "What was read of an attached bill of materials, such as `CycloneDX 1.6, 123 packages`"),
                ("x-supercargo-signed-evidence" = String, description = "What was verified, such as `slsa-provenance signed by …`"),
                ("x-supercargo-warning" = String, description = "Why an attached bill of materials was not read"),
            ),
        ),
        (status = 404, description = "No such type or trail", body = ErrorBody),
        (status = 422, description = "Another request had this Idempotency-Key", body = ErrorBody),
    ),
)]
pub(crate) async fn attest(
    State(app): State<App>,
    Admitted { organization, rest, caller, .. }: Admitted<Attest, (FlowName, TrailName, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let (flow, trail, kind_of_path) = rest;
    let path_type = PathType::parse(&kind_of_path)?;
    let key = KeyedRequest::read(request.headers(), &caller)?;
    let parts = Parts { data: DATA, file: "attachment_file", max_file: app.limits.attachment };
    let mut form = Form::read(&app, &organization, parts, request).await?;
    let Sent { data, attachment, bill, signed, receipt } =
        Sent::read(&app, &organization, path_type, &mut form).await?;
    app.unknown_fields.warn(caller.token, &caller.name, &organization, data.unknown);
    let AttestationData { fields, kind, passes, results, other, .. } = data;
    let commit_url =
        fields.git_commit_info.as_ref().and_then(|commit| commit_url(fields.repo_info.as_ref(), commit));
    let attachment = attachment.as_ref();
    let hash = attachment.map(|attachment| Fingerprint::from_content(&attachment.content));
    let content = repeated::hash(&[
        b"attestation",
        flow.as_str().as_bytes(),
        trail.as_str().as_bytes(),
        kind_of_path.as_bytes(),
        form.data()?,
        attachment.and_then(|attachment| attachment.name.as_deref()).unwrap_or_default().as_bytes(),
        hash.as_ref().map_or(&[][..], |hash| hash.bytes()),
    ]);
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    if let Some(key) = &key
        && key.is_recorded(tenant, content, app.site.now()).await?
    {
        return Ok(created(receipt));
    }
    let stored = store::trails::writes::stored(tenant, flow.as_str(), trail.as_str()).await?;
    match stored {
        Some(_) => {}
        None if path_type.creates_trail() => {
            check_limits(&app, tenant, &caller, &flow).await?;
        }
        None => return Err(Problem::not_found(origin::missing_trail(&flow, &trail))),
    }
    let by_name = match stored {
        Some(trail) => store::artifacts::reported::by_name(tenant, trail.id).await?,
        None => BTreeMap::new(),
    };
    let Attested { artifacts, targets } = Attested::new(&fields, &by_name);
    let repository = fields.repo_info.as_ref();
    let commit = fields.git_commit_info.as_ref();
    let (mut evaluating, owned) =
        origin::check(evaluating, &caller, &organization, &flow, repository, commit, &artifacts).await?;
    let new = NewAttestation {
        flow: flow.as_str(),
        trail: trail.as_str(),
        fields: &fields,
        targets: &targets,
        artifacts: &artifacts,
        kind: &kind,
        results: &results,
        other: &other,
        passes,
        repository,
        signed: signed.as_ref(),
        commit_url,
        attachment: hash.map(|hash| (hash, attachment.and_then(|a| a.name.as_deref()))),
        reported_by: &caller.name,
        token: caller.token,
        owned: &owned,
    };
    let tenant = &mut evaluating.transaction.of(&organization);
    // Without a key, a request may only repeat the latest one: after another result, it is a new one.
    if let (None, Some(trail)) = (&key, stored)
        && store::attestations::is_repeated(tenant, &new, trail.id, app.site.now()).await?
    {
        return Ok(created(receipt));
    }
    let trail = store::attestations::lock_trail(tenant, &new, app.site.now()).await?;
    let before = evaluating.trail_compliance(&organization, trail.id).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    // The latest attestation of a flow and artifact counts: times increase strictly, whatever the clocks of replicas.
    let at = app
        .site
        .now()
        .after(Some(trail.last_modified_at).max(store::attestations::last_time(tenant, &new).await?));
    if let (Some(hash), Some(attachment)) = (hash, attachment) {
        store::attestations::attachments::insert(tenant, hash, &attachment.content, at).await?;
        bill.record(tenant, hash).await?;
    }
    let effect = store::attestations::insert(tenant, &new, trail, at).await?;
    if let Some(key) = &key {
        key.record(tenant, content, app.site.now()).await?;
    }
    let cause = Cause { kind: CauseKind::Attestation, by: Some(caller.name.clone()) };
    evaluating.evaluate_attestation(&organization, trail.id, before, &artifacts, &cause, at).await?;
    let audit = Audit::from_caller(&caller, &organization, || {
        format!("attested {} in {flow}/{}", fields.attestation_name.as_str(), new.trail)
    });
    evaluating.audit(audit, at).await?;
    let what = format!("attestation \"{}\"", fields.attestation_name.as_str());
    origin::commit_with_warning(evaluating, &caller, &organization, &flow, &what, effect, at).await?;
    app.metrics.attestation(passes);
    Ok(created(receipt))
}

/// The parts of a form, checked and read.
struct Sent {
    data: AttestationData,
    attachment: Option<File>,
    /// What the file is.
    bill: Bill,
    /// Who signed it, as verified.
    signed: Option<SignedEvidence>,
    /// What the response says about the file.
    receipt: HeaderMap,
}

impl Sent {
    async fn read(
        app: &App,
        organization: &str,
        path_type: PathType,
        form: &mut Form,
    ) -> Result<Self, Problem> {
        let (mut data, mut file) = (path_type.read(form.data()?)?, form.take_file());
        let (mut receipt, mut signed) = (HeaderMap::new(), None);
        let (attachment, bill) = match path_type {
            // Test results are no bill, and often large.
            PathType::Junit => (file, Bill::Other),
            PathType::Bundle => {
                let verified = bundle::verify(app, organization, &mut data, &mut file, &mut receipt).await?;
                signed = Some(verified.evidence);
                let bill = verified.bill.map(|text| File { name: None, content: text.into_bytes() });
                let (_, bill) = bill::read(bill, app.limits.attachment).await?;
                (file, bill)
            }
            _ => bill::read(file, app.limits.attachment).await?,
        };
        receipt.extend(bill.headers());
        Ok(Self { data, attachment, bill, signed, receipt })
    }
}

/// Checks whether a trail may be created, and its flow if there is none.
async fn check_limits(
    app: &App,
    tenant: &mut Tenant<'_>,
    caller: &Caller,
    flow: &FlowName,
) -> Result<(), Problem> {
    check_limit(app, tenant, caller, Created::Trails).await?;
    if store::flows::get(tenant, flow.as_str()).await?.is_none() {
        check_limit(app, tenant, caller, Created::Flows).await?;
    }
    Ok(())
}

fn created(receipt: HeaderMap) -> Response {
    (StatusCode::CREATED, receipt, axum::Json("Creation Success")).into_response()
}

/// The artifacts that an attestation is about.
struct Attested {
    artifacts: BTreeSet<Fingerprint>,
    /// Their names in the template of the trail.
    targets: BTreeSet<String>,
}

impl Attested {
    /// `by_name` has the reported artifacts of the trail. Without a fingerprint, an attestation by name is about the artifact
    /// of that name; with one, it gets the names of the artifact.
    fn new(fields: &AttestationFields, by_name: &BTreeMap<String, Fingerprint>) -> Self {
        let (mut artifacts, named) = (fields.fingerprints(), fields.template_targets());
        let mut targets: BTreeSet<String> = named.iter().map(|name| (*name).to_owned()).collect();
        if artifacts.is_empty() {
            artifacts.extend(named.iter().filter_map(|name| by_name.get(*name)));
        } else {
            let matching = by_name.iter().filter(|(_, artifact)| artifacts.contains(artifact));
            targets.extend(matching.map(|(name, _)| name.clone()));
        }
        Self { artifacts, targets }
    }
}
