//! Records the artifacts that pipelines report, and finds them by their names in templates.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::attestations::latest::{AddedBy, AttestedBy};
use crate::database::columns::{Json, json};
use crate::database::row_limit::{AtMost, MAX_ROWS, one_more_than};
use crate::database::transaction::{fetch_all, fetch_optional, fetch_optional_scalar, insert, on};
use crate::provenance::{ArtifactOrigin, OriginEffect};
use crate::repositories::{RecordError, RepositorySource};
use crate::{Error, Tenant};
use model::log::Kind;
use model::{Fingerprint, GitCommit, ReportedArtifact, ShortText, Timestamp, commit_url};

/// The report of an artifact to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewReport<'a> {
    /// The flow and the token.
    pub reporter: RepositorySource<'a>,
    /// The trail; `None` in the form of older clients.
    pub trail: Option<Uuid>,
    pub sent: &'a ReportedArtifact,
    /// The commit that it names.
    pub commit: &'a GitCommit,
}

/// The report of an artifact in a trail.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct TrailReport {
    pub artifact: Fingerprint,
    /// The name of the file or the image.
    pub name: String,
    /// Its name in the template of the trail.
    pub template_name: Option<String>,
    pub created_at: Timestamp,
}

/// An attestation that attests no artifact yet.
#[derive(sqlx::FromRow)]
struct UnlinkedRow {
    #[sqlx(flatten)]
    attestation: AttestedBy,
    targets: Json<Vec<String>>,
    git_commit_info: Json<Option<GitCommit>>,
}

/// Records a report, and the repository and origin that it names.
///
/// # Errors
///
/// Returns [`RecordError`] if its repository is ambiguous or closed, or if the database fails.
pub async fn insert(
    tenant: &mut Tenant<'_>,
    new: NewReport<'_>,
    at: Timestamp,
) -> Result<OriginEffect, RecordError> {
    let NewReport { reporter, sent, commit, .. } = new;
    let report = Some(insert_report(tenant, new, at).await?);
    let Some(named) = &sent.repo_info else { return Ok(OriginEffect::default()) };
    let repository = crate::repositories::record(tenant, reporter, named, at).await?;
    let commit_url = commit_url(Some(named), commit);
    let (commit, commit_url) = (Some(commit), commit_url.as_deref());
    let origin = ArtifactOrigin { reporter, named, commit, commit_url, attestation: None, report, at };
    Ok(crate::provenance::record(tenant, repository, origin, &[sent.fingerprint].into()).await?)
}

/// The newest report of an artifact in a flow.
#[derive(sqlx::FromRow)]
struct NewestReport {
    id: Uuid,
    trail: Option<Uuid>,
    reported_by: String,
    content: Json<ReportedArtifact>,
}

/// Whether a report equals the newest one of its artifact, and would change nothing. One without a trail has no effect on
/// trails and names in templates, so it also equals one in a trail.
pub async fn is_repeated(tenant: &mut Tenant<'_>, new: NewReport<'_>) -> Result<bool, Error> {
    const NEWEST: &str = "
        SELECT id, trail, reported_by, content FROM reported_artifacts
        WHERE organization = $1 AND fingerprint = $2 AND flow = $3 ORDER BY created_at DESC, id DESC LIMIT 1";
    const NAMED: &str = "
        SELECT id FROM reported_artifacts WHERE organization = $1 AND trail = $2 AND template_name = $3
        ORDER BY created_at DESC, id DESC LIMIT 1";
    let NewReport { reporter: RepositorySource { flow, reported_by, .. }, trail, sent, .. } = new;
    let newest: Option<NewestReport> =
        fetch_optional!(tenant.tx, NEWEST, tenant.name, sent.fingerprint, flow);
    let Some(newest) = newest else { return Ok(false) };
    let id = newest.id;
    match sent.template_reference_name.as_ref().filter(|_| trail.is_some()) {
        _ if newest.reported_by != reported_by || !newest.equals(new) => Ok(false),
        None => Ok(true),
        // The last report of a name counts.
        Some(name) => {
            let last: Option<Uuid> =
                fetch_optional_scalar!(tenant.tx, NAMED, tenant.name, trail, name.as_str());
            Ok(last == Some(id))
        }
    }
}

impl NewestReport {
    fn equals(self, NewReport { trail, sent, .. }: NewReport<'_>) -> bool {
        let Json(mut content) = self.content;
        if trail.is_none() {
            content.trail_name = None;
            content.template_reference_name.take_if(|_| sent.template_reference_name.is_none());
        } else if self.trail != trail {
            return false;
        }
        content == *sent
    }
}

/// Records a report, and returns its identifier. In a trail, the attestations by the artifact's name then attest it, if they
/// attest no other.
async fn insert_report(tenant: &mut Tenant<'_>, new: NewReport<'_>, at: Timestamp) -> Result<Uuid, Error> {
    const INSERT: &str = "
        INSERT INTO reported_artifacts
            (id, organization, flow, trail, fingerprint, name, template_name, created_at, reported_by, content)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let NewReport { reporter: RepositorySource { flow, reported_by, .. }, sent, .. } = new;
    let name = sent.template_reference_name.as_ref().map(ShortText::as_str);
    let id = crate::new_id();
    on!(tenant.tx, |connection| {
        let insert = sqlx::query(INSERT).bind(id).bind(tenant.name).bind(flow);
        let insert = insert.bind(new.trail).bind(sent.fingerprint.bytes().as_slice());
        let insert = insert.bind(sent.filename.as_str()).bind(name).bind(at.micros());
        insert.bind(reported_by).bind(json(sent)?).execute(connection).await?;
    });
    tenant.tx.log().row(tenant.name, Kind::Artifact, id);
    let artifact = BTreeSet::from([sent.fingerprint]);
    let added = AddedBy { flow, trail: new.trail, report: Some(id), at };
    crate::attestations::latest::add_to_flow(tenant, &artifact, added).await?;
    crate::attestations::authors::record_reported(tenant, id, sent).await?;
    let Some(trail) = new.trail else { return Ok(id) };
    crate::attestations::update_trail(tenant, trail, sent.git_commit_info.as_ref(), at).await?;
    let Some(name) = name else { return Ok(id) };
    let attestations = attestations_by_name(tenant, trail, name).await?;
    insert!(
        tenant.tx,
        "INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail, report) ",
        " ON CONFLICT DO NOTHING",
        &attestations,
        |values, attestation| {
            values.push_bind(tenant.name).push_bind(sent.fingerprint.bytes().as_slice());
            values.push_bind(attestation.attestation.id).push_bind(trail).push_bind(id);
        }
    );
    for UnlinkedRow { attestation, git_commit_info: Json(commit), .. } in &attestations {
        crate::attestations::latest::record(tenant, &artifact, attestation).await?;
        let (attestation, commit) = (attestation.id, commit.as_ref());
        crate::attestations::authors::record_attested(tenant, attestation, Some(id), commit).await?;
    }
    Ok(id)
}

/// The attestations of a trail that target an artifact by name and attest no artifact yet.
async fn attestations_by_name(
    tenant: &mut Tenant<'_>,
    trail: Uuid,
    name: &str,
) -> Result<Vec<UnlinkedRow>, Error> {
    const SELECT: &str = "
        SELECT id, flow, trail, name, kind, is_compliant, created_at, targets, git_commit_info, attachment
        FROM attestations a
        WHERE organization = $1 AND trail = $2 AND targets <> '[]'
          AND NOT EXISTS (SELECT 1 FROM attested_artifacts x
                          WHERE x.organization = a.organization AND x.attestation = a.id)";
    let mut rows: Vec<UnlinkedRow> = fetch_all!(tenant.tx, SELECT, tenant.name, trail);
    rows.retain(|row| row.targets.0.iter().any(|target| target == name));
    Ok(rows)
}

/// The reports of artifacts in a trail, newest first.
pub async fn of_trail(tenant: &mut Tenant<'_>, trail: Uuid) -> Result<AtMost<TrailReport>, Error> {
    const SELECT: &str = "
        SELECT fingerprint AS artifact, name, template_name, created_at FROM reported_artifacts
        WHERE organization = $1 AND trail = $2 ORDER BY created_at DESC, id DESC LIMIT $3";
    let rows = fetch_all!(tenant.tx, SELECT, tenant.name, trail, one_more_than(MAX_ROWS));
    Ok(AtMost::from_rows(MAX_ROWS, rows))
}

/// The artifacts of a trail by their names in its template: the last reported one of each name.
pub async fn by_name(tenant: &mut Tenant<'_>, trail: Uuid) -> Result<BTreeMap<String, Fingerprint>, Error> {
    const SELECT: &str = "
        SELECT template_name, fingerprint FROM reported_artifacts
        WHERE organization = $1 AND trail = $2 AND template_name IS NOT NULL ORDER BY created_at, id";
    let rows: Vec<(String, Fingerprint)> = fetch_all!(tenant.tx, SELECT, tenant.name, trail);
    Ok(rows.into_iter().collect())
}
