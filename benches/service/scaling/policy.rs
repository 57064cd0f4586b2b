//! Environments that require one attestation, and the attestation.

use std::fmt::Display;

use crate::cluster::attestation;
use crate::server::Connection;

/// Flow and name of the attestation.
pub(super) const FLOW: &str = "builds";
pub(super) const NAME: &str = "unit";

/// Maximum number of artifacts of an attestation.
const MAX_ATTESTED: usize = 500;

/// Settings of an organization whose environments require one attestation. A long silence is allowed, because the bench
/// inserts rows between reports.
pub(crate) fn environments_with_policy(names: impl IntoIterator<Item = impl Display>) -> String {
    let policy = format!("{{attestations: [{{flow: {FLOW}, name: {NAME}}}]}}");
    let names = names.into_iter();
    let lines = names.map(|name| format!("      - {{name: {name}, silentAfter: 7d, policy: {policy}}}\n"));
    format!("    environments:\n{}", lines.collect::<String>())
}

/// Attests artifacts, before the measurement.
pub(super) fn attest_all(
    connection: &mut Connection,
    organization: &str,
    artifacts: impl IntoIterator<Item = u64>,
) {
    let artifacts: Vec<u64> = artifacts.into_iter().collect();
    for (n, artifacts) in artifacts.chunks(MAX_ATTESTED).enumerate() {
        let data = attestation(NAME, true, artifacts.iter().copied());
        connection.attest(organization, FLOW, &format!("all-{n}"), &data).expect(201);
    }
}
