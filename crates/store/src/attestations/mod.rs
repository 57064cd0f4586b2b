//! Records attestations and lists them (operation 2).

pub mod attachments;
pub(crate) mod authors;
pub mod details;
pub mod latest;
pub mod lists;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use sqlx::types::Uuid;

use crate::attestations::latest::{AddedBy, AttestedBy};
use crate::database::columns::{Json, json};
use crate::database::row_limit::PageBudget;
use crate::database::rows::Id;
use crate::database::transaction::{
    execute, fetch_all, fetch_one, fetch_optional, fetch_optional_scalar, fetch_scalar, insert, on,
};
use crate::provenance::{ArtifactOrigin, OriginEffect};
use crate::repositories::{RecordError, RepositorySource};
use crate::trails::writes::StoredTrail;
use crate::{Error, Tenant};
use model::log::Kind;
use model::{
    AnyJson, AttestationFields, Fingerprint, FreeForm, GitCommit, JunitResult, Page, RepositoryInfo,
    SignedEvidence, Text, Timestamp, UrlText,
};
use rules::ownership::Owned;

/// The version of the stored form of an attestation.
const SCHEMA_VERSION: i64 = 1;

#[derive(Debug)]
pub struct NewAttestation<'a> {
    /// The flow, created with its first trail.
    pub flow: &'a str,
    /// The trail, created with its first attestation.
    pub trail: &'a str,
    /// The fields of all types.
    pub fields: &'a AttestationFields,
    /// The names of its artifacts in the template of the trail.
    pub targets: &'a BTreeSet<String>,
    pub artifacts: &'a BTreeSet<Fingerprint>,
    pub kind: &'a str,
    pub results: &'a [JunitResult],
    /// A JSON object of its other fields.
    pub other: &'a str,
    /// Whether it passes; `None` if its type has no verdict.
    pub passes: Option<bool>,
    pub repository: Option<&'a RepositoryInfo>,
    /// Who signed it, if the service verified a signature.
    pub signed: Option<&'a SignedEvidence>,
    /// The URL of a page about the commit.
    pub commit_url: Option<String>,
    /// The attachment's hash, and its file name if there is one.
    pub attachment: Option<(Fingerprint, Option<&'a str>)>,
    /// The token's name.
    pub reported_by: &'a str,
    /// The hash of the token.
    pub token: Fingerprint,
    /// The repositories and images that the flow owns.
    pub owned: &'a Owned,
}

impl<'a> NewAttestation<'a> {
    fn reporter(&self) -> RepositorySource<'a> {
        let Self { flow, reported_by, owned, .. } = *self;
        RepositorySource { flow, reported_by, owned }
    }
}

/// The time range of a list, in microseconds of Unix time.
#[derive(Debug, Clone, Copy)]
pub struct TimeRange {
    /// Inclusive.
    pub from: i64,
    /// Exclusive.
    pub until: i64,
}

impl TimeRange {
    /// All times.
    pub const ALL: Self = Self { from: 0, until: i64::MAX };
}

/// An attestation in a list (interface, "Attestation").
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Attestation {
    #[schema(value_type = String)]
    pub attestation_id: Id,
    pub attestation_name: String,
    pub attestation_type: String,
    pub created_at: Timestamp,
    pub description: String,
    pub has_audit_package: bool,
    /// Its page.
    #[sqlx(skip)]
    pub html_url: String,
    /// Null if its type has no verdict.
    pub is_compliant: Option<bool>,
    pub origin_url: String,
    /// The repository that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(try_from = "Json<Option<RepositoryInfo>>")]
    pub repo_info: Option<RepositoryInfo>,
    pub reported_by: String,
    pub schema_version: i64,
    pub user_data: AnyJson,
}

/// An attestation, and the trail that it is in.
#[derive(sqlx::FromRow)]
struct ListedAttestation {
    #[sqlx(flatten)]
    attestation: Attestation,
    trail_name: String,
}

/// The columns of [`Attestation`].
macro_rules! columns {
    () => {
        "a.id AS attestation_id, a.name AS attestation_name, a.kind AS attestation_type, a.created_at, a.description,
         a.attachment IS NOT NULL AS has_audit_package, CASE WHEN a.has_verdict THEN a.is_compliant END AS is_compliant,
         a.origin_url, a.repo_info, a.reported_by, a.schema_version, a.user_data"
    };
}
pub(crate) use columns;

/// The columns of an attestation that a request determines, besides its trail and name.
#[derive(PartialEq, Eq, sqlx::FromRow)]
struct Content {
    kind: String,
    /// The template's artifacts that it is about, as JSON.
    targets: String,
    reported_by: String,
    is_compliant: bool,
    has_verdict: bool,
    results: String,
    description: String,
    origin_url: String,
    user_data: String,
    annotations: String,
    external_urls: String,
    git_commit_info: Option<String>,
    attachment: Option<Fingerprint>,
    attachment_name: Option<String>,
    other_fields: String,
    repo_info: Option<String>,
    signed_evidence: Option<String>,
}

impl Content {
    fn new(new: &NewAttestation<'_>) -> Result<Self, Error> {
        let data = new.fields;
        let object = |object: &Option<FreeForm>| object.as_ref().map_or("{}", FreeForm::as_str).to_owned();
        Ok(Self {
            kind: new.kind.to_owned(),
            targets: json(new.targets)?,
            reported_by: new.reported_by.to_owned(),
            // A row without a verdict does not pass.
            is_compliant: new.passes == Some(true),
            has_verdict: new.passes.is_some(),
            results: json(new.results)?,
            description: data.description.as_ref().map_or("", Text::as_str).to_owned(),
            origin_url: data.origin_url.as_ref().map_or("", UrlText::as_str).to_owned(),
            user_data: data.user_data.as_ref().map_or("{}", AnyJson::as_str).to_owned(),
            annotations: object(&data.annotations),
            external_urls: object(&data.external_urls),
            git_commit_info: data.git_commit_info.as_ref().map(json).transpose()?,
            attachment: new.attachment.map(|(sha256, _)| sha256),
            attachment_name: new.attachment.and_then(|(_, name)| name).map(str::to_owned),
            other_fields: new.other.to_owned(),
            repo_info: data.repo_info.as_ref().map(json).transpose()?,
            signed_evidence: new.signed.map(json).transpose()?,
        })
    }
}

/// The columns of an attestation that are determined when it is recorded.
struct Record {
    id: Uuid,
    trail: Uuid,
    repository: Option<Uuid>,
    /// The attestation with the same name and targets that it supersedes.
    overrides: Option<Uuid>,
    at: Timestamp,
}

/// Locks the trail, creating it and its flow if necessary. No other attestation can lock it until the
/// transaction ends: the order of the times is the order of recording.
pub async fn lock_trail(
    tenant: &mut Tenant<'_>,
    new: &NewAttestation<'_>,
    now: Timestamp,
) -> Result<StoredTrail, Error> {
    // The update changes nothing and locks the row.
    const TRAIL: &str = "
        INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by, created_by_token)
        VALUES ($1, $2, $3, $4, $5, $5, $6, $7)
        ON CONFLICT (organization, flow, name) DO UPDATE SET last_modified_at = trails.last_modified_at
        RETURNING id, last_modified_at";
    crate::flows::create(tenant, new.flow, new.token, now).await?;
    let (id, NewAttestation { flow, trail, reported_by, token, .. }) = (crate::new_id(), new);
    let locked: StoredTrail =
        fetch_one!(tenant.tx, TRAIL, id, tenant.name, flow, trail, now, reported_by, token);
    if locked.id == id {
        tenant.tx.log().revision(tenant.name, Kind::Trail, id, now);
    }
    Ok(locked)
}

/// When the last attestation of the flow, or of any of the artifacts, was received.
pub async fn last_time(
    tenant: &mut Tenant<'_>,
    new: &NewAttestation<'_>,
) -> Result<Option<Timestamp>, Error> {
    const LAST: &str = "
        SELECT created_at FROM attestations WHERE organization = $1 AND flow = $2
        ORDER BY created_at DESC, id DESC LIMIT 1";
    let of_flow: Option<Timestamp> = fetch_optional_scalar!(tenant.tx, LAST, tenant.name, new.flow);
    let of_artifacts = crate::attestations::latest::last_time(tenant, new.artifacts).await?;
    Ok(of_flow.max(of_artifacts))
}

/// Records an attestation, and the repository and origin that it names.
///
/// # Errors
///
/// Returns [`RecordError`] if its repository is ambiguous or closed, or if the database fails.
pub async fn insert(
    tenant: &mut Tenant<'_>,
    new: &NewAttestation<'_>,
    trail: StoredTrail,
    at: Timestamp,
) -> Result<OriginEffect, RecordError> {
    let repository = match new.repository {
        Some(named) => Some((named, crate::repositories::record(tenant, new.reporter(), named, at).await?)),
        None => None,
    };
    let content = Content::new(new)?;
    let superseded = latest(tenant, trail.id, new.fields.attestation_name.as_str(), &content.targets).await?;
    let id = crate::new_id();
    let repository_id = repository.as_ref().map(|(_, repository)| repository.id);
    let record = Record { id, trail: trail.id, repository: repository_id, overrides: superseded, at };
    insert_record(tenant, new, content, record).await?;
    update_trail(tenant, trail.id, new.fields.git_commit_info.as_ref(), at).await?;
    link(tenant, new, id, trail.id).await?;
    let attested = AttestedBy {
        id,
        flow: new.flow.to_owned(),
        trail: trail.id,
        name: new.fields.attestation_name.as_str().to_owned(),
        kind: new.kind.to_owned(),
        is_compliant: new.passes == Some(true),
        created_at: at,
        attachment: new.attachment.map(|(sha256, _)| sha256),
    };
    crate::attestations::latest::record(tenant, new.artifacts, &attested).await?;
    let added = AddedBy { flow: new.flow, trail: Some(trail.id), report: None, at };
    crate::attestations::latest::add_to_flow(tenant, new.artifacts, added).await?;
    let commit = new.fields.git_commit_info.as_ref();
    crate::attestations::authors::record_attested(tenant, id, None, commit).await?;
    tenant.tx.log().row(tenant.name, Kind::Attestation, id);
    let Some((named, repository)) = repository else { return Ok(OriginEffect::default()) };
    let origin = ArtifactOrigin {
        reporter: new.reporter(),
        named,
        commit: new.fields.git_commit_info.as_ref(),
        commit_url: new.commit_url.as_deref(),
        attestation: Some(id),
        report: None,
        at,
    };
    Ok(crate::provenance::record(tenant, repository, origin, new.artifacts).await?)
}

/// Updates a trail after a request, and its commit if the request has one.
pub(crate) async fn update_trail(
    tenant: &mut Tenant<'_>,
    trail: Uuid,
    commit: Option<&GitCommit>,
    at: Timestamp,
) -> Result<(), Error> {
    const TOUCH: &str = "UPDATE trails SET last_modified_at = $1 WHERE organization = $2 AND id = $3";
    const COMMIT: &str = "
        UPDATE trails SET git_commit_info = $1
        WHERE organization = $2 AND id = $3 AND git_commit_info IS DISTINCT FROM $1";
    execute!(tenant.tx, TOUCH, at, tenant.name, trail);
    let Some(commit) = commit else { return Ok(()) };
    let commit = json(commit)?;
    let changed = execute!(tenant.tx, COMMIT, commit, tenant.name, trail);
    if changed > 0 {
        tenant.tx.log().revision(tenant.name, Kind::Trail, trail, at);
    }
    Ok(())
}

/// The current attestation with this name and these targets.
async fn latest(
    tenant: &mut Tenant<'_>,
    trail: Uuid,
    name: &str,
    targets: &str,
) -> Result<Option<Uuid>, Error> {
    const LATEST: &str = "
        SELECT id FROM attestations
        WHERE organization = $1 AND trail = $2 AND superseded_by IS NULL AND name = $3 AND targets = $4";
    Ok(fetch_optional_scalar!(tenant.tx, LATEST, tenant.name, trail, name, targets))
}

/// Time after which an equal attestation is a new one.
const MAX_REPETITION: Duration = Duration::from_hours(1);

/// Whether an attestation equals the newest one of its trail, name and artifacts, of the same token within an hour, and would
/// change no verdict.
pub async fn is_repeated(
    tenant: &mut Tenant<'_>,
    new: &NewAttestation<'_>,
    trail: Uuid,
    now: Timestamp,
) -> Result<bool, Error> {
    const OF_ARTIFACT: &str = "
        SELECT attestation FROM latest_attestations
        WHERE organization = $1 AND flow = $2 AND name = $3 AND fingerprint = $4";
    // A file that the retention removed is stored again. The trail is judged by the newest attestation of the name, also if
    // that is about another artifact.
    const CONTENT: &str = "
        SELECT kind, targets, reported_by, is_compliant, has_verdict, results, description, origin_url, user_data, annotations,
               external_urls, git_commit_info, attachment, attachment_name, other_fields, repo_info,
               signed_evidence
        FROM attestations a
        WHERE organization = $1 AND id = $2 AND trail = $3 AND created_at >= $4 AND created_at <= $5
          AND (attachment IS NULL OR EXISTS (SELECT 1 FROM attachments x
                                             WHERE x.organization = a.organization AND x.sha256 = a.attachment))
          AND NOT EXISTS
            (SELECT 1 FROM attestations n
             WHERE n.organization = a.organization AND n.trail = a.trail AND n.superseded_by IS NULL AND n.name = a.name
               AND (n.created_at, n.id) > (a.created_at, a.id)
               AND (n.kind, n.has_verdict, n.is_compliant) <> (a.kind, a.has_verdict, a.is_compliant))";
    // The artifacts of an attestation, and whether it is the newest one of each. The template of an artifact's last trail
    // counts.
    const ARTIFACTS: &str = "
        SELECT x.fingerprint,
               EXISTS (SELECT 1 FROM latest_attestations l
                       WHERE l.organization = $1 AND l.flow = $3 AND l.name = $4
                         AND l.fingerprint = x.fingerprint AND l.attestation = $2)
               AND EXISTS (SELECT 1 FROM flow_artifacts f
                           WHERE f.organization = $1 AND f.flow = $3 AND f.fingerprint = x.fingerprint
                             AND f.trail = x.trail) AS is_newest
        FROM attested_artifacts x WHERE x.organization = $1 AND x.attestation = $2";
    let name = new.fields.attestation_name.as_str();
    let content = Content::new(new)?;
    let newest = match new.artifacts.first() {
        None => latest(tenant, trail, name, &content.targets).await?,
        Some(first) => fetch_optional_scalar!(tenant.tx, OF_ARTIFACT, tenant.name, new.flow, name, *first),
    };
    let Some(newest) = newest else { return Ok(false) };
    let (since, until) = (now.earlier(MAX_REPETITION), now.later(MAX_REPETITION));
    let stored: Option<Content> =
        fetch_optional!(tenant.tx, CONTENT, tenant.name, newest, trail, since, until);
    if stored.is_none_or(|stored| stored != content) {
        return Ok(false);
    }
    let artifacts: Vec<(Fingerprint, bool)> =
        fetch_all!(tenant.tx, ARTIFACTS, tenant.name, newest, new.flow, name);
    Ok(artifacts.len() == new.artifacts.len()
        && artifacts.iter().all(|(artifact, is_newest)| *is_newest && new.artifacts.contains(artifact)))
}

async fn insert_record(
    tenant: &mut Tenant<'_>,
    new: &NewAttestation<'_>,
    content: Content,
    record: Record,
) -> Result<(), Error> {
    const INSERT: &str = "
        INSERT INTO attestations
            (id, organization, flow, trail, name, kind, targets, created_at, reported_by, schema_version,
             is_compliant, has_verdict, results, description, origin_url, user_data, annotations, external_urls,
             git_commit_info, repository, attachment, attachment_name, overrides, other_fields, repo_info,
             signed_evidence)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                $23, $24, $25, $26)";
    const SUPERSEDE: &str = "UPDATE attestations SET superseded_by = $1 WHERE organization = $2 AND id = $3";
    let name = new.fields.attestation_name.as_str();
    on!(tenant.tx, |connection| {
        let insert = sqlx::query(INSERT).bind(record.id).bind(tenant.name).bind(new.flow).bind(record.trail);
        let insert = insert.bind(name).bind(content.kind).bind(content.targets).bind(record.at.micros());
        let insert = insert.bind(content.reported_by).bind(SCHEMA_VERSION);
        let insert = insert.bind(content.is_compliant).bind(content.has_verdict).bind(content.results);
        let insert = insert.bind(content.description).bind(content.origin_url).bind(content.user_data);
        let insert = insert.bind(content.annotations).bind(content.external_urls);
        let insert = insert.bind(content.git_commit_info).bind(record.repository).bind(content.attachment);
        let insert = insert.bind(content.attachment_name).bind(record.overrides);
        let insert = insert.bind(content.other_fields).bind(content.repo_info);
        let insert = insert.bind(content.signed_evidence);
        insert.execute(connection).await?;
    });
    if let Some(superseded) = record.overrides {
        execute!(tenant.tx, SUPERSEDE, record.id, tenant.name, superseded);
    }
    Ok(())
}

async fn link(tenant: &mut Tenant<'_>, new: &NewAttestation<'_>, id: Uuid, trail: Uuid) -> Result<(), Error> {
    insert!(
        tenant.tx,
        "INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail) ",
        "",
        new.artifacts,
        |values, artifact| {
            values.push_bind(tenant.name).push_bind(artifact.bytes().as_slice());
            values.push_bind(id).push_bind(trail);
        }
    );
    Ok(())
}

/// The number of a flow's attestations.
pub async fn count(tenant: &mut Tenant<'_>, flow: &str, span: TimeRange) -> Result<u64, Error> {
    const COUNT: &str = "
        SELECT COUNT(*) FROM attestations
        WHERE organization = $1 AND flow = $2 AND created_at >= $3 AND created_at < $4";
    let total: i64 = fetch_scalar!(tenant.tx, COUNT, tenant.name, flow, span.from, span.until);
    Ok(total.unsigned_abs())
}

/// A page of a flow's attestations, newest first.
pub async fn list(
    tenant: &mut Tenant<'_>,
    flow: &str,
    span: TimeRange,
    page: Page,
    html_url: impl Fn(&str, Uuid) -> String,
) -> Result<Vec<Attestation>, Error> {
    // A control character takes six bytes in JSON.
    const SELECT: &str = concat!(
        "SELECT ",
        columns!(),
        ",
               (SELECT t.name FROM trails t
                WHERE t.organization = a.organization AND t.id = a.trail) AS trail_name,
               CAST(6 * (octet_length(a.description) + octet_length(a.origin_url)) + octet_length(a.user_data)
                    + COALESCE(octet_length(a.repo_info), 0) AS BIGINT) AS size
        FROM attestations a
        WHERE a.organization = $1 AND a.flow = $2 AND a.created_at >= $3 AND a.created_at < $4
        ORDER BY a.created_at DESC, a.id DESC LIMIT $5 OFFSET $6"
    );
    let rows: Vec<ListedAttestation> = on!(tenant.tx, |connection| {
        let select = sqlx::query(SELECT).bind(tenant.name).bind(flow).bind(span.from).bind(span.until);
        let select = select.bind(page.size()).bind(page.offset());
        PageBudget::of_page().read(select.fetch(connection)).await?
    });
    let attestation = |ListedAttestation { attestation, trail_name }| Attestation {
        html_url: html_url(&trail_name, attestation.attestation_id.0),
        ..attestation
    };
    Ok(rows.into_iter().map(attestation).collect())
}
