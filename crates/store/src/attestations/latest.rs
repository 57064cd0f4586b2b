//! Derives the latest attestations of artifacts, and the artifacts of flows, from attestations and reports.
//!
//! An evaluation reads what pipelines sent only through these rows and the trails that they name, so its cost does not
//! grow with the trails and attestations of an artifact.

use std::collections::BTreeSet;

use sqlx::types::Uuid;

use crate::database::transaction::{fetch_for_all, insert};
use crate::{Error, Tenant};
use model::{Fingerprint, Timestamp};

/// An attestation or report of artifacts in a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddedBy<'a> {
    pub(crate) flow: &'a str,
    pub(crate) trail: Option<Uuid>,
    /// The report; `None`: an attestation.
    pub(crate) report: Option<Uuid>,
    pub(crate) at: Timestamp,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct AttestedBy {
    pub(crate) id: Uuid,
    pub(crate) flow: String,
    pub(crate) trail: Uuid,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) is_compliant: bool,
    pub(crate) created_at: Timestamp,
    /// The hash of its attachment.
    pub(crate) attachment: Option<Fingerprint>,
}

/// When any of these artifacts was last attested or reported, in any flow. Later requests get later times, whatever the clocks
/// of replicas, so that the times of an artifact have the order of recording.
pub async fn last_time(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Option<Timestamp>, Error> {
    const LAST: &str = "SELECT modified_at FROM flow_artifacts WHERE organization = ? AND fingerprint IN (?)";
    let times: Vec<(Timestamp,)> = fetch_for_all!(tenant.tx, LAST, artifacts.iter().copied(), tenant.name);
    Ok(times.into_iter().map(|(at,)| at).max())
}

/// Makes an attestation the latest of its artifacts, unless a later one has its flow and name.
pub(crate) async fn record(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
    by: &AttestedBy,
) -> Result<(), Error> {
    insert!(
        tenant.tx,
        "INSERT INTO latest_attestations (organization, fingerprint, flow, name, attestation, created_at,
                                          is_compliant, kind, trail, attachment) ",
        " ON CONFLICT (organization, fingerprint, flow, name) DO UPDATE
          SET attestation = excluded.attestation, created_at = excluded.created_at,
              is_compliant = excluded.is_compliant, kind = excluded.kind, trail = excluded.trail,
              attachment = excluded.attachment
          WHERE (excluded.created_at, excluded.attestation)
              > (latest_attestations.created_at, latest_attestations.attestation)",
        artifacts,
        |values, artifact| {
            values.push_bind(tenant.name).push_bind(artifact.bytes().as_slice());
            values
                .push_bind(by.flow.as_str())
                .push_bind(by.name.as_str())
                .push_bind(by.id)
                .push_bind(by.created_at.micros());
            values.push_bind(by.is_compliant).push_bind(by.kind.as_str()).push_bind(by.trail);
            values.push_bind(by.attachment.map(crate::packages::first_half));
        }
    );
    Ok(())
}

/// Adds artifacts to a flow; those that it has keep the time of their addition. A report without a trail does not replace
/// one with a trail, whose compliance counts.
pub(crate) async fn add_to_flow(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
    by: AddedBy<'_>,
) -> Result<(), Error> {
    insert!(
        tenant.tx,
        "INSERT INTO flow_artifacts (organization, flow, fingerprint, created_at, modified_at, trail, report) ",
        " ON CONFLICT (organization, flow, fingerprint) DO UPDATE
          SET modified_at = excluded.modified_at, trail = COALESCE(excluded.trail, flow_artifacts.trail),
              report = CASE WHEN excluded.trail IS NULL AND EXISTS
                              (SELECT 1 FROM reported_artifacts r WHERE r.organization = flow_artifacts.organization
                                 AND r.id = flow_artifacts.report AND r.trail IS NOT NULL)
                         THEN flow_artifacts.report ELSE COALESCE(excluded.report, flow_artifacts.report) END",
        artifacts,
        |values, artifact| {
            values.push_bind(tenant.name).push_bind(by.flow).push_bind(artifact.bytes().as_slice());
            values.push_bind(by.at.micros()).push_bind(by.at.micros());
            values.push_bind(by.trail).push_bind(by.report);
        }
    );
    Ok(())
}
