//! Completes reasons with the attestations that they are about, for people who read them.
//!
//! Reasons are stored without, since a later attestation would change them.

use std::collections::BTreeSet;

use crate::engine::failed_tests::{FailedTests, read_failed_tests};
use crate::site::Site;
use junit::FailedTest;
use model::escape::shortened;
use model::reason::{Code, FoundAttestation, Reason};
use model::{Fingerprint, JunitResult};
use store::Tenant;
use store::attestations::details::{AttestationDetails, attachment, named_of_artifact};

/// Maximum number of failed tests that a reason names.
const MAX_FAILED_TESTS: usize = 3;

/// Maximum length of the name of a test, in characters.
const MAX_TEST_CHARS: usize = 80;

/// Maximum number of attached files that are read for one answer.
const MAX_FILES: usize = 3;

/// For each reason its attestation, and the attached file if tests failed.
pub(crate) struct FoundAttestations(Vec<Option<(FoundAttestation, Option<Vec<u8>>)>>);

impl FoundAttestations {
    /// Reads the attestations. `artifacts` are the artifact and the other digests of its image.
    pub(crate) async fn read<'a>(
        site: &Site,
        tenant: &mut Tenant<'_>,
        artifacts: &BTreeSet<Fingerprint>,
        reasons: impl Iterator<Item = &'a Reason>,
    ) -> Result<Self, store::Error> {
        let (mut all, mut files) = (Vec::new(), 0);
        for reason in reasons {
            let attested = latest(tenant, artifacts, reason).await?;
            let Some(AttestationDetails { attestation, flow_name, trail_name, junit_results, .. }) =
                &attested
            else {
                all.push(None);
                continue;
            };
            let total = JunitResult::sum(junit_results);
            let id = attestation.attestation_id.0;
            let mut file = None;
            if total.unsuccessful() > 0 && attestation.has_audit_package && files < MAX_FILES {
                file = attachment(tenant, id).await?;
                files += 1;
            }
            let found = FoundAttestation {
                attestation_id: id.to_string(),
                html_url: site.links.attestation(tenant.name, flow_name, trail_name, id),
                trail_name: trail_name.clone(),
                tests: total.total,
                failed: total.unsuccessful(),
                failed_tests: Vec::new(),
            };
            all.push(Some((found, file)));
        }
        Ok(Self(all))
    }

    /// Reads the failed tests, and completes the same reasons.
    pub(crate) async fn complete(self, reasons: impl Iterator<Item = &mut Reason>) {
        for (reason, found) in reasons.zip(self.0) {
            let Some((mut found, file)) = found else { continue };
            if let Some(file) = file
                && let FailedTests::Found(tests) = read_failed_tests(file).await
            {
                found.failed_tests = tests.iter().take(MAX_FAILED_TESTS).map(named).collect();
            }
            reason.attestation = Some(found);
        }
    }
}

/// The latest attestation that the reason is about: one that does not pass, if that is the reason.
async fn latest(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
    reason: &Reason,
) -> Result<Option<AttestationDetails>, store::Error> {
    let is_about_one = matches!(
        reason.code,
        Code::NonCompliantAttestation
            | Code::ExpiredAttestation { .. }
            | Code::TooFewTests { .. }
            | Code::TooManySkippedTests { .. }
            | Code::NotSigned
            | Code::UnexpectedEvidence { .. }
    );
    let (Some(flow), Some(name), true) = (&reason.flow_name, &reason.attestation_name, is_about_one) else {
        return Ok(None);
    };
    let must_fail = reason.code == Code::NonCompliantAttestation;
    let mut all = Vec::new();
    for artifact in artifacts {
        let named = named_of_artifact(tenant, flow, *artifact, name).await?;
        all.extend(named.into_iter().find(|attested| {
            let listed = &attested.attestation;
            listed.attestation_name == *name && !(must_fail && listed.is_compliant == Some(true))
        }));
    }
    Ok(all.into_iter().max_by_key(|attested| attested.attestation.created_at))
}

/// A test by its class without packages: `PriceTest.rounds`.
fn named(test: &FailedTest) -> String {
    let class = test.class.rsplit(['.', '/', ':']).next().unwrap_or_default();
    let name = if test.name.is_empty() { &test.suite } else { &test.name };
    let full = if class.is_empty() { name.clone() } else { format!("{class}.{name}") };
    shortened(&full, MAX_TEST_CHARS)
}
