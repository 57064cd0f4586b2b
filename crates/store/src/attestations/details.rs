//! Reads single attestations with all of their fields, and their attached files.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::types::Uuid;

use crate::attestations::{Attestation, columns};
use crate::database::columns::Json;
use crate::database::row_limit::{AtMost, MAX_ROWS, one_more_than};
use crate::database::rows::Id;
use crate::database::transaction::{fetch_all, fetch_optional, fetch_optional_scalar, fetch_scalars};
use crate::{Error, Tenant};
use model::{Fingerprint, FreeForm, JunitResult, SignedEvidence, Timestamp, TrailCommit};

/// An attestation with all of its fields.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct AttestationDetails {
    /// The fields of a list.
    #[serde(flatten)]
    #[sqlx(flatten)]
    pub attestation: Attestation,
    /// The flow.
    pub flow_name: String,
    /// The trail.
    pub trail_name: String,
    /// The artifact that it is about; the first of several.
    #[sqlx(skip)]
    pub artifact_fingerprint: Option<Fingerprint>,
    /// The artifacts that it is about, at most 100.
    #[sqlx(skip)]
    pub artifact_fingerprints: Vec<Fingerprint>,
    /// Their names in the template.
    #[sqlx(try_from = "Json<Vec<String>>")]
    pub target_artifacts: Vec<String>,
    /// The commit that it is about.
    #[sqlx(try_from = "Json<Option<TrailCommit>>")]
    pub git_commit_info: Option<TrailCommit>,
    /// The results of an attestation of type `junit`, one per suite.
    #[sqlx(try_from = "Json<Vec<JunitResult>>")]
    pub junit_results: Vec<JunitResult>,
    /// The fields of its type, and those that the service does not know.
    #[sqlx(try_from = "Json<Box<RawValue>>")]
    #[schema(value_type = FreeForm)]
    pub other_fields: Box<RawValue>,
    /// Who signed it, and what that says of builder and source; null unless the service verified a signature.
    #[sqlx(try_from = "Json<Option<SignedEvidence>>")]
    pub signed_evidence: Option<SignedEvidence>,
    /// URLs by name.
    pub external_urls: FreeForm,
    /// The attached file.
    #[sqlx(flatten, try_from = "AttachmentRow")]
    pub attachment: Option<AttachedFile>,
    /// Whether a later one of the same name and targets superseded it.
    pub is_superseded: bool,
    /// The earlier one that it superseded.
    #[schema(value_type = Option<String>)]
    pub overridden_attestation_id: Option<Id>,
}

/// A file that is attached to an attestation, without its content.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AttachedFile {
    /// The file name.
    pub name: Option<String>,
    /// The hash of the content.
    pub sha256: Fingerprint,
    /// In bytes.
    pub size: i64,
    /// When the retention removed its content.
    pub removed_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct AttachmentRow {
    attachment: Option<Fingerprint>,
    attachment_name: Option<String>,
    attachment_size: Option<i64>,
    attachment_removed_at: Option<Timestamp>,
}

impl From<AttachmentRow> for Option<AttachedFile> {
    fn from(row: AttachmentRow) -> Self {
        let (sha256, size) = row.attachment.zip(row.attachment_size)?;
        Some(AttachedFile { name: row.attachment_name, sha256, size, removed_at: row.attachment_removed_at })
    }
}

/// Selects attestations without their attachments.
macro_rules! select_details {
    ($condition:expr) => {
        concat!(
            "SELECT ",
            columns!(),
            ", a.flow AS flow_name, t.name AS trail_name, a.targets AS target_artifacts, a.git_commit_info,
                    a.results AS junit_results, a.other_fields, a.signed_evidence, a.external_urls,
                    a.superseded_by IS NOT NULL AS is_superseded, a.overrides AS overridden_attestation_id,
                    a.attachment, a.attachment_name,
                    COALESCE(CAST(length(x.content) AS BIGINT), r.size) AS attachment_size,
                    CASE WHEN x.sha256 IS NULL THEN r.removed_at END AS attachment_removed_at
             FROM attestations a JOIN trails t ON t.organization = a.organization AND t.id = a.trail
               LEFT JOIN attachments x ON x.organization = a.organization AND x.sha256 = a.attachment
               LEFT JOIN removed_attachments r ON r.organization = a.organization AND r.sha256 = a.attachment
             WHERE ",
            $condition
        )
    };
}

/// Maximum number of attestations of one name that are read: twenty never exceed the maximum size of a response.
const MAX_NAMED: i64 = 20;

/// Selects the latest attestations of a name: `$2`, or `$3` for the artifact `$4`, whose name an attestation by fingerprint
/// gets from the report of the artifact. `$5` is the limit.
macro_rules! select_named {
    ($condition:literal) => {
        select_details!(concat!(
            "(a.name = $2 OR (a.name = $3 AND (
               EXISTS (SELECT 1 FROM reported_artifacts p
                       WHERE p.organization = a.organization AND p.trail = a.trail AND p.template_name = $4
                         AND EXISTS (SELECT 1 FROM attested_artifacts y
                                     WHERE y.organization = a.organization AND y.fingerprint = p.fingerprint
                                       AND y.attestation = a.id))
               OR a.targets <> REPLACE(a.targets, '\"' || $4 || '\"', '')))) AND ",
            $condition,
            " ORDER BY a.created_at DESC, a.id DESC LIMIT $5"
        ))
    };
}

/// One attestation of an organization.
pub async fn get(tenant: &mut Tenant<'_>, id: Uuid) -> Result<Option<AttestationDetails>, Error> {
    const SELECT: &str = select_details!("a.organization = $1 AND a.id = $2");
    Ok(fetch_optional!(tenant.tx, SELECT, tenant.name, id))
}

/// The attestations of a name in a trail, newest first, at most 20: `unit`, or `app.unit` for the artifact `app` of the
/// template.
pub async fn named_in_trail(
    tenant: &mut Tenant<'_>,
    trail: Uuid,
    name: &str,
) -> Result<Vec<AttestationDetails>, Error> {
    const SELECT: &str = select_named!("a.trail = $6 AND a.organization = $1");
    let (target, last) = name.split_once('.').unwrap_or_default();
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, name, last, target, MAX_NAMED, trail))
}

/// The attestations of a name of an artifact in a flow, newest first, at most 20. `COALESCE` keeps SQLite from
/// reading all attestations of the flow.
pub async fn named_of_artifact(
    tenant: &mut Tenant<'_>,
    flow: &str,
    artifact: Fingerprint,
    name: &str,
) -> Result<Vec<AttestationDetails>, Error> {
    const SELECT: &str = select_named!(
        "a.organization = $1 AND COALESCE(a.flow, '') = $6
         AND a.id IN (SELECT attestation FROM attested_artifacts WHERE organization = $1 AND fingerprint = $7)"
    );
    let (target, last) = name.split_once('.').unwrap_or_default();
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, name, last, target, MAX_NAMED, flow, artifact))
}

/// The artifacts that an attestation is about.
pub async fn artifacts(tenant: &mut Tenant<'_>, id: Uuid) -> Result<AtMost<Fingerprint>, Error> {
    const SELECT: &str = "
        SELECT fingerprint FROM attested_artifacts WHERE organization = $1 AND attestation = $2
        ORDER BY fingerprint LIMIT $3";
    let rows = fetch_scalars!(tenant.tx, SELECT, tenant.name, id, one_more_than(MAX_ROWS));
    Ok(AtMost::from_rows(MAX_ROWS, rows))
}

/// The content of the file that is attached to an attestation; `None` if there is none, or if it was removed.
pub async fn attachment(tenant: &mut Tenant<'_>, id: Uuid) -> Result<Option<Vec<u8>>, Error> {
    const SELECT: &str = "
        SELECT x.content FROM attestations a
          JOIN attachments x ON x.organization = a.organization AND x.sha256 = a.attachment
        WHERE a.organization = $1 AND a.id = $2";
    Ok(fetch_optional_scalar!(tenant.tx, SELECT, tenant.name, id))
}
