//! Records the artifacts that pipelines report, and finds them by their names in templates.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::columns::{Json, json};
use super::row_limit::{AtMost, MAX_ROWS, one_more_than};
use super::transaction::{fetch_all, insert, on};
use super::{Error, Transaction};
use crate::domain::evidence::log::Kind;
use crate::domain::model::{Fingerprint, ReportedArtifact, ShortText, Timestamp};

/// The report of an artifact to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewReport<'a> {
    /// The organization.
    pub organization: &'a str,
    /// The flow.
    pub flow: &'a str,
    /// The trail; `None` in the form of older clients.
    pub trail: Option<Uuid>,
    /// The request.
    pub sent: &'a ReportedArtifact,
    /// The token's name.
    pub reported_by: &'a str,
}

/// The report of an artifact in a trail.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct TrailReport {
    /// The artifact.
    #[sqlx(rename = "fingerprint")]
    pub artifact: Fingerprint,
    /// The name of the file or the image.
    pub name: String,
    /// Its name in the template of the trail.
    pub template_name: Option<String>,
    /// When it was received.
    pub created_at: Timestamp,
}

#[derive(sqlx::FromRow)]
struct NamedRow {
    template_name: String,
    fingerprint: Fingerprint,
}

impl Transaction {
    /// Records a report, and returns its identifier. In a trail, the attestations by the artifact's name then attest it, if they attest no other.
    pub async fn insert_reported_artifact(
        &mut self,
        new: NewReport<'_>,
        at: Timestamp,
    ) -> Result<Uuid, Error> {
        const INSERT: &str = "
            INSERT INTO reported_artifacts
                (id, organization, flow, trail, fingerprint, name, template_name, created_at, reported_by, content)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let sent = new.sent;
        let name = sent.template_reference_name.as_ref().map(ShortText::as_str);
        let id = Uuid::now_v7();
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(id).bind(new.organization).bind(new.flow);
            let insert = insert.bind(new.trail).bind(sent.fingerprint.bytes().as_slice());
            let insert = insert.bind(sent.filename.as_str()).bind(name).bind(at.micros());
            insert.bind(new.reported_by).bind(json(sent)?).execute(connection).await?;
        });
        self.log().row(Kind::Artifact, id);
        let Some(trail) = new.trail else { return Ok(id) };
        self.update_trail(trail, sent.git_commit_info.as_ref(), at).await?;
        let Some(name) = name else { return Ok(id) };
        let attestations = self.attestations_by_name(trail, name).await?;
        insert!(
            self,
            "INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail, report) ",
            " ON CONFLICT DO NOTHING",
            attestations,
            |values, attestation| {
                values.push_bind(new.organization).push_bind(sent.fingerprint.bytes().as_slice());
                values.push_bind(*attestation).push_bind(trail).push_bind(id);
            }
        );
        Ok(id)
    }

    /// The attestations of a trail that target an artifact by name and attest no artifact yet.
    async fn attestations_by_name(&mut self, trail: Uuid, name: &str) -> Result<Vec<Uuid>, Error> {
        const SELECT: &str = "
            SELECT id, targets FROM attestations a
            WHERE trail = $1 AND targets <> '[]'
              AND NOT EXISTS (SELECT 1 FROM attested_artifacts x WHERE x.attestation = a.id)";
        let rows: Vec<(Uuid, Json<Vec<String>>)> = fetch_all!(self, SELECT, trail);
        let is_about = |targets: &[String]| targets.iter().any(|target| target == name);
        Ok(rows.into_iter().filter(|(_, targets)| is_about(&targets.0)).map(|(id, _)| id).collect())
    }

    /// The reports of artifacts in a trail, newest first.
    pub async fn reports_of_trail(&mut self, trail: Uuid) -> Result<AtMost<TrailReport>, Error> {
        const SELECT: &str = "
            SELECT fingerprint, name, template_name, created_at FROM reported_artifacts WHERE trail = $1
            ORDER BY created_at DESC, id DESC LIMIT $2";
        Ok(AtMost::from_rows(MAX_ROWS, fetch_all!(self, SELECT, trail, one_more_than(MAX_ROWS))))
    }

    /// The artifacts of a trail by their names in its template: the last reported one of each name.
    pub async fn artifacts_by_name(&mut self, trail: Uuid) -> Result<BTreeMap<String, Fingerprint>, Error> {
        const SELECT: &str = "
            SELECT template_name, fingerprint FROM reported_artifacts
            WHERE trail = $1 AND template_name IS NOT NULL ORDER BY created_at, id";
        let rows: Vec<NamedRow> = fetch_all!(self, SELECT, trail);
        rows.into_iter().map(|row| Ok((row.template_name, row.fingerprint))).collect()
    }
}
