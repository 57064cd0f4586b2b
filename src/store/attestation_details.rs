//! Reads single attestations with all of their fields, and their attached files.

use sqlx::types::Uuid;

use super::columns::Json;
use super::row_limit::{AtMost, MAX_ROWS, one_more_than};
use super::rows::{Bytes, rows};
use super::transaction::{fetch_all, fetch_optional, fetch_optional_scalar, on};
use super::{Error, Transaction};
use crate::domain::model::{
    AnyJson, Fingerprint, FreeForm, GitCommit, JunitResult, RepositoryInfo, Timestamp,
};
use crate::store::from_row::all_from_rows;

/// An attestation without its attachment.
#[derive(Debug, Clone)]
pub struct AttestationDetails {
    /// Its identifier.
    pub id: Uuid,
    /// Its flow.
    pub flow: String,
    /// Its trail.
    pub trail: String,
    /// Its name.
    pub name: String,
    /// The template's artifacts that it is about, by name.
    pub targets: Vec<String>,
    /// Its type.
    pub kind: String,
    /// Whether it passes; `None` if its type has no verdict.
    pub passes: Option<bool>,
    /// The test results, one per suite.
    pub results: Vec<JunitResult>,
    /// When it was received.
    pub created_at: Timestamp,
    /// The name of the reporter's token.
    pub reported_by: String,
    /// Whether a later one superseded it.
    pub is_superseded: bool,
    /// The reporter's description.
    pub description: String,
    /// The URL of its source, such as a CI job.
    pub origin_url: String,
    /// Free-form data.
    pub user_data: AnyJson,
    /// URLs by name.
    pub external_urls: FreeForm,
    /// JSON object of its other fields.
    pub other_fields: String,
    /// The commit that it is about.
    pub commit: Option<GitCommit>,
    /// The repository that it names.
    pub repo_info: Option<RepositoryInfo>,
    /// The version of its stored form.
    pub schema_version: i64,
    /// The earlier one of the same name and targets that it superseded.
    pub overrides: Option<Uuid>,
    /// The attached file.
    pub attachment: Option<Attachment>,
}

/// An attached file without its content.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// The hash of the content.
    pub sha256: Fingerprint,
    /// The file name.
    pub name: Option<String>,
    /// The size in bytes.
    pub size: i64,
    /// When the retention removed the content.
    pub removed_at: Option<Timestamp>,
}

/// Selects attestations without their attachments.
macro_rules! select_details {
    ($condition:expr) => {
        concat!(
            "SELECT a.id, a.flow, t.name AS trail, a.name, a.kind, a.targets, a.is_compliant, a.has_verdict, a.results,
                    a.created_at, a.reported_by, a.superseded_by IS NOT NULL AS is_superseded, a.description,
                    a.origin_url, a.user_data, a.other_fields, a.external_urls, a.git_commit_info, a.repo_info,
                    a.schema_version, a.overrides, a.attachment, a.attachment_name,
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

/// The name of an attestation, such as `unit`, or `app.unit` for the artifact `app` of the template.
#[derive(Debug, Clone, Copy)]
pub struct AttestationName<'a> {
    whole: &'a str,
    target: &'a str,
    last: &'a str,
}

impl<'a> From<&'a str> for AttestationName<'a> {
    fn from(whole: &'a str) -> Self {
        let (target, last) = whole.split_once('.').unwrap_or_default();
        Self { whole, target, last }
    }
}

impl Transaction {
    /// One attestation of an organization.
    pub async fn attestation(
        &mut self,
        organization: &str,
        id: Uuid,
    ) -> Result<Option<AttestationDetails>, Error> {
        const SELECT: &str = select_details!("a.organization = $1 AND a.id = $2");
        let row: Option<DetailsRow> = fetch_optional!(self, SELECT, organization, id);
        Ok(row.map(AttestationDetails::from))
    }

    /// The attestations of a name in a trail, newest first, at most 20.
    pub async fn attestations_named_in_trail(
        &mut self,
        organization: &str,
        trail: Uuid,
        name: AttestationName<'_>,
    ) -> Result<Vec<AttestationDetails>, Error> {
        const SELECT: &str = select_named!("a.trail = $6 AND a.organization = $1");
        let rows: Vec<DetailsRow> =
            fetch_all!(self, SELECT, organization, name.whole, name.last, name.target, MAX_NAMED, trail);
        Ok(rows.into_iter().map(AttestationDetails::from).collect())
    }

    /// The attestations of a name of an artifact in a flow, newest first, at most 20. `COALESCE` keeps SQLite from
    /// reading all attestations of the flow.
    pub async fn attestations_named_of_artifact(
        &mut self,
        organization: &str,
        flow: &str,
        artifact: Fingerprint,
        name: AttestationName<'_>,
    ) -> Result<Vec<AttestationDetails>, Error> {
        const SELECT: &str = select_named!(
            "a.organization = $1 AND COALESCE(a.flow, '') = $6
             AND a.id IN (SELECT attestation FROM attested_artifacts WHERE organization = $1 AND fingerprint = $7)"
        );
        let rows: Vec<DetailsRow> = on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(name.whole).bind(name.last);
            let select = select.bind(name.target).bind(MAX_NAMED).bind(flow);
            let select = select.bind(artifact.bytes().as_slice());
            select.fetch_all(connection).await.and_then(all_from_rows)?
        });
        Ok(rows.into_iter().map(AttestationDetails::from).collect())
    }

    /// The artifacts that an attestation is about.
    pub async fn artifacts_of_attestation(
        &mut self,
        organization: &str,
        id: Uuid,
    ) -> Result<AtMost<Fingerprint>, Error> {
        let rows: Vec<(Bytes,)> = rows!(
            self,
            "hex(fingerprint)",
            "SELECT fingerprint FROM attested_artifacts WHERE organization = $1 AND attestation = $2
             ORDER BY fingerprint LIMIT $3",
            |query| query.bind(organization).bind(id).bind(one_more_than(MAX_ROWS))
        );
        Ok(AtMost::from_rows(MAX_ROWS, rows.into_iter().map(|(Bytes(artifact),)| artifact).collect()))
    }

    /// The content of the file that is attached to an attestation; `None` if there is none, or if it was removed.
    pub async fn attachment(&mut self, organization: &str, id: Uuid) -> Result<Option<Vec<u8>>, Error> {
        const SELECT: &str = "
            SELECT x.content FROM attestations a
              JOIN attachments x ON x.organization = a.organization AND x.sha256 = a.attachment
            WHERE a.organization = $1 AND a.id = $2";
        Ok(fetch_optional_scalar!(self, SELECT, organization, id))
    }
}

#[derive(sqlx::FromRow)]
struct DetailsRow {
    id: Uuid,
    flow: String,
    trail: String,
    name: String,
    kind: String,
    targets: Json<Vec<String>>,
    is_compliant: bool,
    has_verdict: bool,
    results: Json<Vec<JunitResult>>,
    created_at: Timestamp,
    reported_by: String,
    is_superseded: bool,
    description: String,
    origin_url: String,
    user_data: Json<AnyJson>,
    other_fields: String,
    external_urls: Json<FreeForm>,
    git_commit_info: Json<Option<GitCommit>>,
    repo_info: Json<Option<RepositoryInfo>>,
    schema_version: i64,
    overrides: Option<Uuid>,
    attachment: Option<Fingerprint>,
    attachment_name: Option<String>,
    attachment_size: Option<i64>,
    attachment_removed_at: Option<Timestamp>,
}

impl From<DetailsRow> for AttestationDetails {
    fn from(row: DetailsRow) -> Self {
        let attachment = match (row.attachment, row.attachment_size) {
            (Some(sha256), Some(size)) => Some(Attachment {
                sha256,
                name: row.attachment_name,
                size,
                removed_at: row.attachment_removed_at,
            }),
            _ => None,
        };
        Self {
            id: row.id,
            flow: row.flow,
            trail: row.trail,
            name: row.name,
            kind: row.kind,
            targets: row.targets.0,
            passes: row.has_verdict.then_some(row.is_compliant),
            results: row.results.0,
            created_at: row.created_at,
            reported_by: row.reported_by,
            is_superseded: row.is_superseded,
            description: row.description,
            origin_url: row.origin_url,
            user_data: row.user_data.0,
            other_fields: row.other_fields,
            external_urls: row.external_urls.0,
            commit: row.git_commit_info.0,
            repo_info: row.repo_info.0,
            schema_version: row.schema_version,
            overrides: row.overrides,
            attachment,
        }
    }
}
