//! The evaluation of environments: verdicts, events and notifications that follow from a change.
//!
//! [`Evaluating`] is the only way to evaluate. It acquires, in this order, the organization's lock of this process, a
//! connection for writing, and the organization's verdict lock of the database; its owner then changes rows, evaluates and
//! commits. A heartbeat changes no verdict and takes a connection only. Evaluations therefore cannot
//! deadlock.

use std::collections::BTreeSet;

use super::audit::Audit;
use crate::domain::evidence::compliance::Policy;
use crate::domain::evidence::environment_status::{self, EnvironmentStatus, ReportedArtifacts};
use crate::domain::evidence::event::{self, Event};
use crate::domain::evidence::notification::{Cause, Content};
use crate::domain::model::{EnvironmentName, Timestamp, Trigger};
use crate::service::app::App;
use crate::service::limits::organization_lock::Permit;
use crate::store::events::NewEvent;
use crate::store::reports::LockedEnvironment;
use crate::store::{Error, Transaction, verdicts};

/// Maximum number of environments that are re-evaluated together.
const MAX_ENVIRONMENTS: usize = 16;

/// Maximum number of running artifacts in the environments that are re-evaluated together. Their statuses are kept in
/// memory.
const MAX_ARTIFACTS: usize = 10_000;

/// A change of one or more organizations, with the locks and the transaction that it needs. Dropping it rolls back.
#[must_use = "the change is rolled back without a commit"]
pub(crate) struct Evaluating<'a> {
    app: &'a App,
    /// The transaction of the change.
    pub(crate) transaction: Transaction,
    triggers: Vec<Trigger>,
    notifications: usize,
    audits: Vec<Audit>,
    // Dropped after the transaction.
    locks: Vec<Permit>,
}

/// A locked environment, before and after a change.
pub(crate) struct Subject {
    pub(crate) name: EnvironmentName,
    pub(crate) environment: LockedEnvironment,
    /// The number of its current snapshot.
    pub(crate) snapshot: i64,
    /// Its status before the change.
    pub(crate) before: EnvironmentStatus,
    /// The artifacts that run there after the change.
    pub(crate) seen: ReportedArtifacts,
}

impl<'a> Evaluating<'a> {
    /// Shares the organization with other reports: for a change of one environment.
    pub(crate) async fn shared(app: &'a App, organization: &str) -> Result<Self, Error> {
        let locks = app.organization_locks.shared(organization).await.into();
        let mut transaction = app.site.store.write().await?;
        transaction.lock_verdicts_shared(organization).await?;
        Ok(Self::new(app, transaction, locks))
    }

    /// Excludes all other changes of these organizations: for an attestation, and the bootstrap file.
    pub(crate) async fn exclusive(app: &'a App, organizations: BTreeSet<&str>) -> Result<Self, Error> {
        let mut locks = Vec::new();
        for organization in &organizations {
            locks.push(app.organization_locks.exclusive(organization).await);
        }
        let mut transaction = app.site.store.write().await?;
        for organization in organizations {
            transaction.lock_verdicts(organization).await?;
        }
        Ok(Self::new(app, transaction, locks))
    }

    fn new(app: &'a App, transaction: Transaction, locks: Vec<Permit>) -> Self {
        Self { app, transaction, triggers: vec![], notifications: 0, audits: vec![], locks }
    }

    /// Evaluates environments after a change of what runs there. Records verdicts that differ, and the events.
    pub(crate) async fn evaluate(
        &mut self,
        organization: &str,
        subjects: Vec<Subject>,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<(), Error> {
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        let policies = self.transaction.policies(organization, &names).await?;
        let mut allowances = self.transaction.allowances(organization, &names).await?;
        let required = subjects.iter().filter(|subject| policies.contains_key(subject.name.as_str()));
        let artifacts = required.flat_map(|subject| subject.seen.keys().copied()).collect();
        let policies_in_force: Vec<&Policy> = policies.values().collect();
        let mut evidence = self.transaction.evidence(organization, &policies_in_force, artifacts).await?;
        // The clock decides what is still valid, not `at`, which may be later than the clock.
        let now = self.app.site.now();
        let mut evaluated = Vec::with_capacity(subjects.len());
        for Subject { name, environment, snapshot, before, seen } in subjects {
            let allowed = allowances.remove(name.as_str()).unwrap_or_default();
            for (artifact, allowed) in &allowed {
                evidence.entry(*artifact).or_default().allowed.push(allowed.clone());
            }
            let after = EnvironmentStatus::evaluate(&name, policies.get(name.as_str()), seen, &evidence, now);
            let until = environment_status::next_expiry(&evidence, now);
            // The next one has another list.
            for (artifact, _) in allowed {
                evidence.entry(artifact).or_default().allowed.clear();
            }
            evaluated.push((name, environment, snapshot, before, after, until));
        }
        let standings: Vec<_> = evaluated
            .iter()
            .map(|(_, environment, _, before, after, until)| verdicts::StatusChange {
                environment: environment.id,
                before,
                after,
                until: *until,
            })
            .collect();
        self.transaction.record_status_changes(&standings, at).await?;
        let mut events = Vec::new();
        for (name, environment, snapshot, before, after, _) in &evaluated {
            if *snapshot > environment.snapshot {
                self.transaction
                    .record_snapshot_compliance(environment.id, *snapshot, after.compliance)
                    .await?;
            }
            for Event { trigger, artifacts, total } in event::between(before, after) {
                let content = Content {
                    trigger,
                    occurred_at: at,
                    organization: organization.to_owned(),
                    environment: name.to_string(),
                    snapshot_index: *snapshot,
                    compliance: after.compliance.as_str().to_owned(),
                    cause: cause.clone(),
                    artifacts,
                    artifacts_total: total,
                };
                let content = serde_json::to_string(&content).map_err(|_| Error::Unreadable("an event"))?;
                events.push(NewEvent {
                    environment: environment.id,
                    name: name.to_string(),
                    trigger,
                    content,
                });
            }
        }
        self.triggers.extend(events.iter().map(|event| event.trigger));
        self.notifications += self.transaction.insert_events(organization, &events, at).await?;
        Ok(())
    }

    /// Evaluates environments in which the same artifacts run as before. Skips environments without a report.
    pub(crate) async fn reevaluate(
        &mut self,
        organization: &str,
        names: &[&str],
        cause: &Cause,
    ) -> Result<(), Error> {
        for names in names.chunks(MAX_ENVIRONMENTS) {
            let mut subjects = Vec::with_capacity(names.len());
            let mut total = 0;
            for (name, environment) in self.transaction.lock_environments(organization, names).await? {
                if environment.snapshot == 0 {
                    continue;
                }
                let name = name.parse().map_err(|_| Error::Unreadable("an environment's name"))?;
                let artifacts = self.transaction.running_artifacts(environment.id).await?;
                total += artifacts.len();
                let seen = artifacts.iter().map(|(artifact, is)| (*artifact, (is.name.clone(), is.pods)));
                let (seen, snapshot) = (seen.collect(), environment.snapshot);
                let before = EnvironmentStatus { artifacts, compliance: environment.compliance };
                subjects.push(Subject { name, environment, snapshot, before, seen });
                if total > MAX_ARTIFACTS {
                    self.evaluate_unchanged(organization, std::mem::take(&mut subjects), cause).await?;
                    total = 0;
                }
            }
            self.evaluate_unchanged(organization, subjects, cause).await?;
        }
        Ok(())
    }

    async fn evaluate_unchanged(
        &mut self,
        organization: &str,
        subjects: Vec<Subject>,
        cause: &Cause,
    ) -> Result<(), Error> {
        if subjects.is_empty() {
            return Ok(());
        }
        let last = subjects.iter().filter_map(|subject| subject.environment.evaluated_at).max();
        self.evaluate(organization, subjects, cause, self.app.site.now().after(last)).await
    }

    /// Records an audit entry with the change; [`commit`](Self::commit) logs it.
    pub(crate) async fn audit(&mut self, audit: Audit, at: Timestamp) -> Result<(), Error> {
        audit.record(&mut self.transaction, at).await?;
        self.audits.push(audit);
        Ok(())
    }

    /// Commits and releases the locks. Then logs the audit entries, counts the events and wakes the sender of
    /// notifications.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.commit_and(|| ()).await
    }

    /// As [`commit`](Self::commit), with an action between the commit and the wake-up of the sender.
    pub(crate) async fn commit_and(self, committed: impl FnOnce()) -> Result<(), Error> {
        self.transaction.commit().await?;
        committed();
        drop(self.locks);
        self.audits.into_iter().for_each(Audit::log);
        for trigger in self.triggers {
            self.app.metrics.event(trigger);
        }
        if self.notifications > 0 {
            self.app.outbox.notify_one();
        }
        Ok(())
    }
}
