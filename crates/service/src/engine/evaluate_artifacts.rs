//! The evaluation of attested artifacts in the environments that run them. Other artifacts keep their verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use store::image_indexes;
use store::policies::evaluation_queue;
use store::policies::verdicts;

use sqlx::types::Uuid;

use crate::engine::guard::{
    self, Evaluating, MAX_ARTIFACTS, MAX_ENVIRONMENTS, environment_name, validity_time,
};
use crate::engine::inputs::Inputs;
use model::{Fingerprint, Timestamp};
use rules::compliance::ComplianceCounts;
use rules::environment_status::{EnvironmentStatus, Expiry, Requirements};
use rules::notification::Cause;
use rules::policy::facts::Evidence;
use store::Error;
use store::image_indexes::related;
use store::policies::verdicts::{ExpiryChange, GovernedArtifact, GovernedEnvironment, StatusChange};

impl Evaluating<'_> {
    /// Evaluates attested artifacts, and other digests of their images, in the environments of this range; other artifacts keep
    /// their verdicts. Queues environments above [`MAX_ENVIRONMENTS`] and [`MAX_ARTIFACTS`], and all artifacts of those that are
    /// queued for others.
    pub(crate) async fn evaluate_attested(
        &mut self,
        organization: &str,
        artifacts: &BTreeSet<Fingerprint>,
        environments: &RangeInclusive<Uuid>,
        cause: &Cause,
    ) -> Result<(), Error> {
        let tenant = &mut self.transaction.of(organization);
        let now = self.app.site.now();
        let attested = artifacts;
        let mut artifacts = attested.clone();
        artifacts.extend(related(&image_indexes::listed_manifests(tenant, attested).await?));
        let artifacts = &artifacts;
        let limit = MAX_ARTIFACTS + 1;
        let governed = verdicts::governed_artifacts(tenant, artifacts, environments, limit).await?;
        if governed.len() > MAX_ARTIFACTS {
            let names = verdicts::governed_environments(tenant, artifacts, environments).await?;
            let names = names.iter().map(String::as_str);
            // An environment that was queued for these artifacts would be queued for them again.
            let is_divisible = *environments == guard::ALL && attested.len() <= MAX_ARTIFACTS;
            let attested = is_divisible.then_some(attested);
            return evaluation_queue::push(tenant, names, attested, cause, now).await;
        }
        // Only what runs: an attestation may name more artifacts.
        let running: BTreeSet<Fingerprint> = governed.iter().map(|governed| governed.artifact).collect();
        let names: BTreeSet<String> =
            governed.iter().map(|governed| governed.environment.name.clone()).collect();
        let (site, environments) = (&self.app.site, names.iter().map(String::as_str));
        let inputs = Inputs::read(site, tenant, environments, &running).await?;
        let mut affected: BTreeMap<Uuid, Affected> = BTreeMap::new();
        let mut incomplete = BTreeSet::new();
        for GovernedArtifact { environment, artifact, running } in governed {
            if environment.is_queued {
                incomplete.insert(environment.name);
            } else {
                let affected = affected.entry(environment.id).or_insert_with(|| Affected::new(environment));
                affected.before.artifacts.insert(artifact, running);
            }
        }
        let mut evaluated = Vec::new();
        for (id, affected) in affected {
            let environment = &affected.environment;
            if incomplete.contains(&environment.name) {
                continue;
            }
            let name = environment_name(&environment.name)?;
            let now = validity_time(now, now.after(Some(environment.changed_at)));
            if let Some(after) = affected.evaluate(inputs.requirements(&name), &inputs.evidence, now) {
                evaluated.push((id, affected, after));
            }
        }
        // Queuing an environment that is in progress would prolong its evaluation.
        evaluated.sort_by_key(|(_, affected, _)| !affected.environment.is_in_progress);
        let later = evaluated.split_off(evaluated.len().min(MAX_ENVIRONMENTS));
        let later = later.iter().map(|(_, affected, _)| affected.environment.name.as_str());
        let of = (attested.len() <= MAX_ARTIFACTS).then_some(attested);
        evaluation_queue::push(tenant, later, of, cause, now).await?;
        let incomplete = incomplete.iter().map(String::as_str);
        evaluation_queue::push(tenant, incomplete, of, cause, now).await?;
        if evaluated.is_empty() {
            return Ok(());
        }
        let ids = evaluated.iter().map(|(id, ..)| *id);
        let at = now.after(Some(verdicts::lock_environments(tenant, ids).await?));
        for (id, affected, (.., expiry)) in &evaluated {
            if affected.environment.is_in_progress {
                evaluation_queue::add_expiry(tenant, *id, *expiry).await?;
            }
        }
        let changes: Vec<_> = evaluated
            .iter()
            .map(|(id, Affected { environment, before }, (after, counts, expiry))| {
                let (counts, expiry) = (*counts, ExpiryChange::Some(*expiry));
                let change = StatusChange { environment: *id, before, after, counts, expiry };
                (change, environment.name.as_str(), environment.snapshot)
            })
            .collect();
        self.record(organization, &changes, cause, at).await
    }
}

/// An environment that runs attested artifacts.
struct Affected {
    environment: GovernedEnvironment,
    /// Its compliance, and the attested artifacts, before.
    before: EnvironmentStatus,
}

impl Affected {
    fn new(mut environment: GovernedEnvironment) -> Self {
        let (compliance, absence) = (environment.compliance, environment.absence.take());
        Self { environment, before: EnvironmentStatus { artifacts: BTreeMap::new(), compliance, absence } }
    }

    /// The status and the counts after the attestation, and the expiry of the attested artifacts; `None` if no verdict changes or expires.
    fn evaluate(
        &self,
        requirements: Requirements<'_>,
        evidence: &BTreeMap<Fingerprint, Evidence>,
        now: Timestamp,
    ) -> Option<(EnvironmentStatus, ComplianceCounts, Expiry)> {
        let no_evidence = Evidence::default();
        let (mut after, mut counts, mut expiry) =
            (self.before.clone(), self.environment.counts, Expiry::default());
        for (artifact, running) in &mut after.artifacts {
            let evidence = evidence.get(artifact).unwrap_or(&no_evidence);
            let (verdict, own) = requirements.assess(artifact, &running.reported, evidence, now).verdict();
            expiry = expiry.earlier(own);
            counts.add(running.verdict.compliance, -1);
            counts.add(verdict.compliance, 1);
            running.verdict = verdict;
        }
        // The same verdict may depend on other evidence now, which expires.
        if after.artifacts == self.before.artifacts && expiry == Expiry::default() {
            return None;
        }
        let compliance = counts.environment(!requirements.policies.is_empty());
        after.compliance = compliance.confirmed(after.absence.is_none());
        if self.environment.is_in_progress {
            after.compliance = guard::partial_compliance(self.before.compliance, after.compliance);
        }
        Some((after, counts, expiry))
    }
}
