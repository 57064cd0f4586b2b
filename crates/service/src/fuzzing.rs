//! Entry points of `supercargo_fuzz`: parsers of the service.

use crate::http::json;
use crate::http::problem::Problem;
use crate::resources::attestations::operations::attest::data::AttestationData;
use model::{JunitAttestation, JunitFields};
use rules::snapshot::report::{K8sReport, NormalizedReport};

#[derive(Debug)]
pub struct Rejection {
    pub status: u16,
    pub text: String,
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self { status: problem.status().as_u16(), text: problem.text() }
    }
}

/// Reads the `data_json` of test results.
pub fn attestation(bytes: &[u8]) -> Result<JunitAttestation, Rejection> {
    let AttestationData { fields, results, .. } = AttestationData::read::<JunitFields>(bytes)?;
    Ok(JunitAttestation { fields, own: JunitFields { junit_results: results } })
}

/// Reads the body of a report.
pub fn report(bytes: &[u8]) -> Result<NormalizedReport, Rejection> {
    json::read_with::<K8sReport<'_>, _>("the report", bytes, NormalizedReport::parse).map_err(Rejection::from)
}
