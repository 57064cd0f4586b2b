//! The evaluation of environments: verdicts, events and notifications that follow from a change.
//!
//! [`Evaluating`] is the only way to evaluate. It acquires, in this order, the organization's lock of this process, a
//! connection for writing, and the organization's verdict lock of the database; its owner then changes rows, evaluates and
//! commits. A heartbeat changes no verdict and takes a connection only. Evaluations therefore cannot deadlock. Each of
//! these waits has a timeout.
//!
//! A report evaluates its environment. Any other transaction evaluates at most [`MAX_ARTIFACTS`] in [`MAX_ENVIRONMENTS`]:
//! an attestation the attested artifacts ([`crate::engine::evaluate_artifacts`]). Further ones, and changes that concern all artifacts of
//! many environments, are queued ([`crate::engine::queue`]).
//!
//! Reports and queued evaluations share the locks. Attestations, changes of policies, the bootstrap file and the
//! retention exclude all others: a report and an attestation that do not see each other could leave a verdict that
//! matches neither, and the retention could remove a row that they rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use sqlx::types::Uuid;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::inputs::Inputs;
use crate::limits::permit::Permit;
use model::{EnvironmentName, Fingerprint, Timestamp, Trigger};
use rules::compliance::Compliance;
use rules::environment_status::{EnvironmentStatus, Evaluation, Expiry, ReportedArtifacts, Verdict};
use rules::event::{self, StatusEvent};
use rules::notification::{Cause, Content, EventContent};
use store::environments::events::{NewEvent, Queued};
use store::environments::reports::{IfLocked, LockedEnvironment};
use store::policies::evaluation_queue::Progress;
use store::policies::verdicts::{ExpiryChange, StatusChange};
use store::{Error, Transaction};

/// Maximum time for which a change of several organizations holds the locks of some while it waits for another.
const MAX_HELD: Duration = Duration::from_secs(1);

/// Maximum number of environments whose verdicts one transaction changes.
pub(crate) const MAX_ENVIRONMENTS: usize = 50;

/// Maximum number of running artifacts that one transaction evaluates, except after a report of more.
pub(crate) const MAX_ARTIFACTS: usize = 1_000;

/// Maximum difference between the clocks of replicas: the lease of a notification exceeds the timeout of its attempt by as
/// much.
pub(crate) const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(20);

/// All environments.
pub(crate) const ALL: RangeInclusive<Uuid> = Uuid::nil()..=Uuid::max();

/// A change of one or more organizations, with the locks and the transaction that it needs. Dropping it rolls back.
#[must_use = "the change is rolled back without a commit"]
pub(crate) struct Evaluating<'a> {
    pub(crate) app: &'a App,
    pub(crate) transaction: Transaction,
    triggers: Vec<Trigger>,
    queued: Queued,
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
    pub(crate) before: EnvironmentStatus,
    /// The artifacts that run there after the change.
    pub(crate) seen: ReportedArtifacts,
    /// The artifacts that keep their verdicts.
    pub(crate) kept: BTreeMap<Fingerprint, Verdict>,
    pub(crate) coverage: Coverage,
}

/// How much of an environment was evaluated after a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Coverage {
    /// All artifacts. This is the expiry of those that keep their verdicts.
    Complete(Expiry),
    /// Some artifacts keep outdated verdicts.
    Partial,
}

impl<'a> Evaluating<'a> {
    /// Shares the organization: for a report or a queued evaluation, each of one environment. Returns [`Error::Busy`] if other
    /// changes of the organization take too long.
    pub(crate) async fn shared(app: &'a App, organization: &'a str) -> Result<Self, Error> {
        let locks = app.organization_locks.shared(organization, app.limits.permit_timeout).await?;
        let mut transaction = app.site.store.write().await?;
        store::policies::verdicts::lock_shared(&mut transaction.of(organization)).await?;
        Ok(Self::new(app, transaction, locks.into()))
    }

    /// Excludes all other changes of the organization: for an attestation. Returns [`Error::Busy`] if they take too long.
    pub(crate) async fn exclusive(app: &'a App, organization: &str) -> Result<Self, Error> {
        Self::exclusive_within(app, BTreeSet::from([organization]), app.limits.permit_timeout).await
    }

    /// Excludes all other changes of these organizations: for the bootstrap file or the retention. Returns [`Error::Busy`]
    /// after `timeout`.
    pub(crate) async fn exclusive_within(
        app: &'a App,
        organizations: BTreeSet<&str>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let locks = Self::lock(app, &organizations, timeout).await?;
        let mut transaction = app.site.store.write().await?;
        for organization in organizations {
            store::policies::verdicts::lock(&mut transaction.of(organization)).await?;
        }
        Ok(Self::new(app, transaction, locks))
    }

    /// Locks these organizations in this process.
    async fn lock(
        app: &App,
        organizations: &BTreeSet<&str>,
        timeout: Duration,
    ) -> Result<Vec<Permit>, Error> {
        let deadline = Instant::now() + timeout;
        let mut contended = None;
        'retry: loop {
            let mut locks = Vec::new();
            let others =
                organizations.iter().copied().filter(|organization| Some(*organization) != contended);
            for organization in contended.into_iter().chain(others) {
                // One busy organization must not block those that are locked already.
                let remaining = deadline.saturating_duration_since(Instant::now());
                let wait = if locks.is_empty() { remaining } else { remaining.min(MAX_HELD) };
                match app.organization_locks.exclusive(organization, wait).await {
                    Ok(lock) => locks.extend(lock),
                    Err(error) if wait == remaining => return Err(error),
                    Err(_) => {
                        contended = Some(organization);
                        continue 'retry;
                    }
                }
            }
            return Ok(locks);
        }
    }

    fn new(app: &'a App, transaction: Transaction, locks: Vec<Permit>) -> Self {
        Self { app, transaction, triggers: vec![], queued: Queued::default(), audits: vec![], locks }
    }

    /// Evaluates the artifacts of an environment after a change of what runs there, except those that keep their verdicts.
    /// Records verdicts that differ, and the events. Returns the expiry of the evaluated artifacts.
    pub(crate) async fn evaluate(
        &mut self,
        organization: &str,
        subject: Subject,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<Expiry, Error> {
        let tenant = &mut self.transaction.of(organization);
        let Subject { name, environment, snapshot, before, seen, kept, coverage } = subject;
        let artifacts = seen.keys().filter(|artifact| !kept.contains_key(artifact)).copied().collect();
        let (site, environments) = (&self.app.site, [name.as_str()]);
        let inputs = Inputs::read(site, tenant, environments, &artifacts).await?;
        let (expected, now) = (environment.expected, validity_time(self.app.site.now(), at));
        let Evaluation { mut status, counts, expiry, reference } =
            Evaluation::new(inputs.requirements(&name), seen, &kept, &inputs.evidence, expected, now);
        if (&status.absence, reference) != (&before.absence, expected.reference) {
            store::environments::reports::record_absence(
                tenant,
                environment.id,
                status.absence.as_ref(),
                reference,
            )
            .await?;
        }
        if snapshot > environment.snapshot {
            store::environments::reports::record_compliance(
                tenant,
                environment.id,
                snapshot,
                status.compliance,
            )
            .await?;
        }
        let expiry_change = match coverage {
            Coverage::Complete(of_kept) => ExpiryChange::All(expiry.earlier(of_kept)),
            Coverage::Partial => {
                status.compliance = partial_compliance(before.compliance, status.compliance);
                ExpiryChange::Some(expiry)
            }
        };
        if environment.is_queued && matches!(coverage, Coverage::Complete(_)) {
            store::policies::evaluation_queue::remove(tenant, environment.id).await?;
        }
        let change = StatusChange {
            environment: environment.id,
            before: &before,
            after: &status,
            counts,
            expiry: expiry_change,
        };
        self.record(organization, &[(change, name.as_str(), snapshot)], cause, at).await?;
        Ok(expiry)
    }

    /// Evaluates an environment in which the same artifacts run as before, and queues those above [`MAX_ARTIFACTS`]. Skips an
    /// environment without a report.
    pub(crate) async fn reevaluate(
        &mut self,
        organization: &str,
        name: &str,
        cause: &Cause,
    ) -> Result<(), Error> {
        let tenant = &mut self.transaction.of(organization);
        let Some(environment) = store::environments::reports::lock(tenant, name, IfLocked::Wait).await?
        else {
            return Ok(());
        };
        self.evaluate_next(organization, name, environment, Progress::default(), cause).await
    }

    /// Continues the queued evaluation of an environment. Returns whether it did: another replica may have completed it, or
    /// be evaluating it.
    pub(crate) async fn evaluate_queued(
        &mut self,
        organization: &str,
        name: &str,
        cause: &Cause,
    ) -> Result<bool, Error> {
        let tenant = &mut self.transaction.of(organization);
        let Some(environment) = store::environments::reports::lock(tenant, name, IfLocked::Skip).await?
        else {
            return Ok(false);
        };
        let Some(progress) = store::policies::evaluation_queue::progress(tenant, environment.id).await?
        else {
            return Ok(false);
        };
        self.evaluate_next(organization, name, environment, progress, cause).await?;
        Ok(true)
    }

    /// Evaluates the next artifacts of a locked environment, and queues the others.
    async fn evaluate_next(
        &mut self,
        organization: &str,
        name: &str,
        environment: LockedEnvironment,
        progress: Progress,
        cause: &Cause,
    ) -> Result<(), Error> {
        let tenant = &mut self.transaction.of(organization);
        let (id, snapshot) = (environment.id, environment.snapshot);
        if snapshot == 0 {
            return store::policies::evaluation_queue::remove(tenant, id).await;
        }
        let name = environment_name(name)?;
        let artifacts = store::policies::verdicts::running_artifacts(tenant, id).await?;
        let mut next: Vec<Fingerprint> = progress.rest(&artifacts).take(MAX_ARTIFACTS + 1).collect();
        let is_partial = next.len() > MAX_ARTIFACTS;
        next.truncate(MAX_ARTIFACTS);
        let coverage = if is_partial { Coverage::Partial } else { Coverage::Complete(progress.expiry) };
        let position = next.last().copied();
        let next: BTreeSet<Fingerprint> = next.into_iter().collect();
        let kept = artifacts.iter().filter(|(artifact, _)| !next.contains(artifact));
        let kept = kept.map(|(artifact, running)| (*artifact, running.verdict.clone())).collect();
        let seen = artifacts.iter().map(|(artifact, is)| (*artifact, is.reported.clone())).collect();
        let at = self.app.site.now().after(Some(environment.changed_at));
        let (compliance, absence) = (environment.compliance, environment.absence.clone());
        let before = EnvironmentStatus { artifacts, compliance, absence };
        let subject = Subject { name, environment, snapshot, before, seen, kept, coverage };
        let expiry = self.evaluate(organization, subject, cause, at).await?.earlier(progress.expiry);
        if is_partial {
            let progress = Progress { position, expiry, ..progress };
            store::policies::evaluation_queue::push_rest(
                &mut self.transaction.of(organization),
                id,
                progress,
                cause,
                at,
            )
            .await?;
        }
        Ok(())
    }

    /// Records changes of environments, each with its name and current snapshot, and their events.
    pub(crate) async fn record(
        &mut self,
        organization: &str,
        changes: &[(StatusChange<'_>, &str, i64)],
        cause: &Cause,
        at: Timestamp,
    ) -> Result<(), Error> {
        let tenant = &mut self.transaction.of(organization);
        store::policies::verdicts::record(tenant, changes.iter().map(|(change, ..)| *change).collect(), at)
            .await?;
        let mut events = Vec::new();
        for (change, name, snapshot) in changes {
            for StatusEvent { trigger, artifacts, total } in event::between(change.before, change.after) {
                let content = Content {
                    trigger,
                    occurred_at: at,
                    organization: organization.to_owned(),
                    environment: (*name).to_owned(),
                    snapshot_index: *snapshot,
                    compliance: change.after.compliance.as_str().to_owned(),
                    absence: change.after.absence.clone(),
                    silent_since: None,
                    cause: cause.clone(),
                    artifacts,
                    artifacts_total: total,
                };
                self.triggers.push(trigger);
                let content = EventContent::Environment(content);
                events.push(NewEvent { environment: change.environment, content });
            }
        }
        let queued = store::environments::events::insert(tenant, &events, at).await?;
        self.queued.notifications += queued.notifications;
        self.queued.merged += queued.merged;
        Ok(())
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
        self.app.committed(&self.triggers, self.queued);
        Ok(())
    }
}

pub(crate) fn environment_name(name: &str) -> Result<EnvironmentName, Error> {
    name.parse().map_err(|_| Error::Unreadable("an environment's name"))
}

/// The compliance of an environment of which some artifacts have outdated verdicts: it does not become compliant.
pub(crate) fn partial_compliance(before: Compliance, after: Compliance) -> Compliance {
    if after == Compliance::Compliant { before } else { after }
}

/// The time as of which evidence is valid. `at` is the time of the evaluation, which is later than the clock if another
/// replica evaluated before with a clock that is ahead: what had expired then must not become valid again. A clock that was
/// set back by more decides itself.
pub(crate) fn validity_time(now: Timestamp, at: Timestamp) -> Timestamp {
    if at.since(now) <= MAX_CLOCK_DIFFERENCE { now.max(at) } else { now }
}
