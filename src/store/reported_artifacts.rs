//! Records the artifacts that pipelines report, and finds them by their names in templates.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use super::columns::{Json, json};
use super::latest_attestations::{AddedBy, AttestedBy};
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

/// An attestation that attests no artifact yet.
#[derive(sqlx::FromRow)]
struct UnlinkedRow {
    id: Uuid,
    flow: String,
    name: String,
    kind: String,
    is_compliant: bool,
    created_at: Timestamp,
    targets: Json<Vec<String>>,
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
        self.log().row(new.organization, Kind::Artifact, id);
        let artifact = BTreeSet::from([sent.fingerprint]);
        let added = AddedBy { flow: new.flow, trail: new.trail, report: Some(id), at };
        self.add_to_flow(new.organization, &artifact, added).await?;
        let Some(trail) = new.trail else { return Ok(id) };
        self.update_trail(new.organization, trail, sent.git_commit_info.as_ref(), at).await?;
        let Some(name) = name else { return Ok(id) };
        let attestations = self.attestations_by_name(new.organization, trail, name).await?;
        insert!(
            self,
            "INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail, report) ",
            " ON CONFLICT DO NOTHING",
            &attestations,
            |values, attestation| {
                values.push_bind(new.organization).push_bind(sent.fingerprint.bytes().as_slice());
                values.push_bind(attestation.id).push_bind(trail).push_bind(id);
            }
        );
        for attestation in &attestations {
            let attested = AttestedBy {
                id: attestation.id,
                flow: &attestation.flow,
                trail,
                name: &attestation.name,
                kind: &attestation.kind,
                is_compliant: attestation.is_compliant,
                created_at: attestation.created_at,
            };
            self.record_attested(new.organization, &artifact, attested).await?;
        }
        Ok(id)
    }

    /// The attestations of a trail that target an artifact by name and attest no artifact yet.
    async fn attestations_by_name(
        &mut self,
        organization: &str,
        trail: Uuid,
        name: &str,
    ) -> Result<Vec<UnlinkedRow>, Error> {
        const SELECT: &str = "
            SELECT id, flow, name, kind, is_compliant, created_at, targets FROM attestations a
            WHERE organization = $1 AND trail = $2 AND targets <> '[]'
              AND NOT EXISTS (SELECT 1 FROM attested_artifacts x
                              WHERE x.organization = a.organization AND x.attestation = a.id)";
        let mut rows: Vec<UnlinkedRow> = fetch_all!(self, SELECT, organization, trail);
        rows.retain(|row| row.targets.0.iter().any(|target| target == name));
        Ok(rows)
    }

    /// The reports of artifacts in a trail, newest first.
    pub async fn reports_of_trail(
        &mut self,
        organization: &str,
        trail: Uuid,
    ) -> Result<AtMost<TrailReport>, Error> {
        const SELECT: &str = "
            SELECT fingerprint, name, template_name, created_at FROM reported_artifacts
            WHERE organization = $1 AND trail = $2 ORDER BY created_at DESC, id DESC LIMIT $3";
        let rows = fetch_all!(self, SELECT, organization, trail, one_more_than(MAX_ROWS));
        Ok(AtMost::from_rows(MAX_ROWS, rows))
    }

    /// The artifacts of a trail by their names in its template: the last reported one of each name.
    pub async fn artifacts_by_name(
        &mut self,
        organization: &str,
        trail: Uuid,
    ) -> Result<BTreeMap<String, Fingerprint>, Error> {
        const SELECT: &str = "
            SELECT template_name, fingerprint FROM reported_artifacts
            WHERE organization = $1 AND trail = $2 AND template_name IS NOT NULL ORDER BY created_at, id";
        let rows: Vec<NamedRow> = fetch_all!(self, SELECT, organization, trail);
        rows.into_iter().map(|row| Ok((row.template_name, row.fingerprint))).collect()
    }
}
