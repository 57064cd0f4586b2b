//! Attestations that change the compliance of their trail: policies may require it of all artifacts of the trail.

use std::collections::BTreeSet;

use sqlx::types::Uuid;

use crate::engine::guard::{self, Evaluating, MAX_ARTIFACTS};
use model::{ComplianceState, Fingerprint, Timestamp};
use rules::notification::Cause;
use store::Error;

impl Evaluating<'_> {
    /// Whether a trail complies with its flow's template; `None` if no policy of the organization requires it.
    pub(crate) async fn trail_compliance(
        &mut self,
        organization: &str,
        trail: Uuid,
    ) -> Result<Option<bool>, Error> {
        let tenant = &mut self.transaction.of(organization);
        if !store::policies::needs_trails(tenant).await? {
            return Ok(None);
        }
        let trails = store::trails::compliance::read(tenant, &[trail].into()).await?;
        Ok(trails.get(&trail).map(|(_, state)| *state == ComplianceState::Compliant))
    }

    /// Evaluates after an attestation: the attested artifacts, and all artifacts of its trail if the trail's compliance is not
    /// as `before`.
    pub(crate) async fn evaluate_attestation(
        &mut self,
        organization: &str,
        trail: Uuid,
        before: Option<bool>,
        artifacts: &BTreeSet<Fingerprint>,
        cause: &Cause,
        now: Timestamp,
    ) -> Result<(), Error> {
        let is_unchanged = before.is_none() || self.trail_compliance(organization, trail).await? == before;
        if is_unchanged {
            return self.evaluate_attested(organization, artifacts, &guard::ALL, cause).await;
        }
        let tenant = &mut self.transaction.of(organization);
        let mut all = store::policies::evidence::artifacts_of_trail(tenant, trail, MAX_ARTIFACTS + 1).await?;
        if all.len() > MAX_ARTIFACTS {
            let environments = store::policies::environments_that_need_trails(tenant).await?;
            let environments = environments.iter().map(String::as_str);
            store::policies::evaluation_queue::push(tenant, environments, None, cause, now).await?;
            return self.evaluate_attested(organization, artifacts, &guard::ALL, cause).await;
        }
        all.extend(artifacts);
        self.evaluate_attested(organization, &all, &guard::ALL, cause).await
    }
}
