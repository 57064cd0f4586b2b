//! The retention: removes rows that are past it, every hour, one batch per transaction. The replica with the lease does.

use std::time::Duration;

use sqlx::types::Uuid;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::engine::guard::Evaluating;
use crate::engine::repeated::KEY_RETENTION;
use crate::maintenance::lease::Task;
use crate::maintenance::periodic::Ticks;
use model::Fingerprint;
use runtime::error_causes;
use store::Transaction;
use store::retention::MAX_WORKLOADS;

/// Age at which notifications are removed, whether or not they were sent. Their events stay.
const NOTIFICATION_RETENTION: Duration = Duration::from_hours(30 * 24);

pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut ticks = Ticks::new(app.limits.retention_interval);
    // Workloads may have lost their pods to a process that was killed between two batches.
    let mut sweep_is_due = true;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = ticks.tick() => {}
        }
        let mut round = Round { app: &app, shutdown: &shutdown, removed: 0, is_incomplete: false };
        if let Err(error) = round.run(sweep_is_due).await {
            round.record_failure(&error);
        }
        sweep_is_due = round.is_incomplete;
        let removed = round.removed;
        if removed > 0 {
            tracing::info!(removed, "removed {removed} rows past their retention");
        }
    }
}

/// One pass over all environments and organizations.
struct Round<'a> {
    app: &'a App,
    shutdown: &'a CancellationToken,
    removed: u64,
    /// A batch failed, or another replica has the lease.
    is_incomplete: bool,
}

/// Rows that are removed without a lock.
#[derive(Debug, Clone, Copy)]
enum Rows {
    /// The history of an environment.
    History(Uuid),
    Audit,
    Notifications,
    IdempotencyKeys,
}

impl<'a> Round<'a> {
    /// Removes rows. A failure of one environment or organization does not stop the others.
    async fn run(&mut self, sweep_is_due: bool) -> Result<(), store::Error> {
        let mut transaction = self.app.site.store.read().await?;
        let environments = store::retention::environments(&mut transaction).await?;
        let organizations = store::retention::organizations(&mut transaction).await?;
        drop(transaction);
        for (environment, organization) in environments {
            if let Err(error) = self.remove(&organization, Rows::History(environment)).await {
                self.record_failure(&error);
            }
        }
        for organization in organizations {
            let mut removed = vec![
                self.remove_attachments(&organization).await,
                self.remove(&organization, Rows::Audit).await,
                self.remove(&organization, Rows::Notifications).await,
                self.remove(&organization, Rows::IdempotencyKeys).await,
            ];
            if sweep_is_due {
                removed.push(self.sweep_workloads(&organization).await);
            }
            for error in removed.into_iter().filter_map(Result::err) {
                self.record_failure(&error);
            }
        }
        Ok(())
    }

    fn record_failure(&mut self, error: &store::Error) {
        self.is_incomplete = true;
        tracing::warn!("failed to remove rows past their retention: {}", error_causes::describe(error));
    }

    /// Takes or renews the lease in the transaction of a batch; false if another replica has it.
    async fn has_lease(&mut self, transaction: &mut Transaction) -> Result<bool, store::Error> {
        let has_lease = Task::Retention.lease(self.app, transaction).await?;
        self.is_incomplete |= !has_lease;
        Ok(has_lease)
    }

    fn count(&mut self, rows: u64) {
        self.app.metrics.removed_rows(rows);
        self.removed += rows;
    }

    /// Removes rows without a lock.
    async fn remove(&mut self, organization: &str, rows: Rows) -> Result<(), store::Error> {
        let now = self.app.site.now();
        while !self.shutdown.is_cancelled() {
            let mut transaction = self.app.site.store.write().await?;
            if !self.has_lease(&mut transaction).await? {
                break;
            }
            let tenant = &mut transaction.of(organization);
            // For each batch: a bootstrap file may have changed it since the last one.
            let retention = store::retention::locked(tenant).await?;
            let retention = match rows {
                Rows::History(_) => retention.history,
                Rows::Audit => retention.audit,
                Rows::Notifications => Some(NOTIFICATION_RETENTION),
                Rows::IdempotencyKeys => Some(KEY_RETENTION),
            };
            let Some(horizon) = retention.map(|retention| now.earlier(retention)) else { break };
            let mut workloads = Vec::new();
            let removed = match rows {
                Rows::History(environment) => {
                    let removed = store::retention::remove_before(tenant, environment, horizon, now).await?;
                    workloads = removed.workloads;
                    removed.rows
                }
                Rows::Audit => store::retention::remove_audit(tenant, horizon, now).await?,
                Rows::Notifications => store::retention::remove_notifications(tenant, horizon).await?,
                Rows::IdempotencyKeys => store::retention::remove_idempotency_keys(tenant, horizon).await?,
            };
            transaction.commit().await?;
            self.count(removed);
            self.remove_orphans(organization, &workloads).await?;
            if removed == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Excludes all other changes of an organization; `None` if another replica has the lease.
    async fn exclude(&mut self, organization: &str) -> Result<Option<Evaluating<'a>>, store::Error> {
        let (organizations, timeout) = ([organization].into(), self.app.limits.background_permit_timeout);
        let mut evaluating = Evaluating::exclusive_within(self.app, organizations, timeout).await?;
        let has_lease = self.has_lease(&mut evaluating.transaction).await?;
        Ok(has_lease.then_some(evaluating))
    }

    /// Removes all workloads of an organization that no pod refers to.
    async fn sweep_workloads(&mut self, organization: &str) -> Result<(), store::Error> {
        let mut last = None;
        while !self.shutdown.is_cancelled() {
            let workloads = store::retention::workloads_after(
                &mut self.app.site.store.read().await?.of(organization),
                last,
            )
            .await?;
            self.remove_orphans(organization, &workloads).await?;
            last = workloads.last().copied();
            if last.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Removes the workloads among these that no pod refers to. Excludes reports only if there are any.
    async fn remove_orphans(
        &mut self,
        organization: &str,
        workloads: &[Fingerprint],
    ) -> Result<(), store::Error> {
        for workloads in workloads.chunks(MAX_WORKLOADS) {
            let mut transaction = self.app.site.store.read().await?;
            let orphans =
                store::retention::orphaned_workloads(&mut transaction.of(organization), workloads).await?;
            drop(transaction);
            if orphans.is_empty() {
                continue;
            }
            let Some(mut evaluating) = self.exclude(organization).await? else { break };
            let rows = store::retention::remove_orphaned_workloads(
                &mut evaluating.transaction.of(organization),
                &orphans,
            )
            .await?;
            evaluating.commit().await?;
            self.count(rows);
        }
        Ok(())
    }

    async fn remove_attachments(&mut self, organization: &str) -> Result<(), store::Error> {
        let now = self.app.site.now();
        while !self.shutdown.is_cancelled() {
            let mut transaction = self.app.site.store.read().await?;
            let tenant = &mut transaction.of(organization);
            let Some(retention) = store::retention::of_organization(tenant).await?.attachments else {
                break;
            };
            let expired = store::retention::expired_attachments(tenant, now.earlier(retention)).await?;
            drop(transaction);
            if expired.is_empty() {
                break;
            }
            let Some(mut evaluating) = self.exclude(organization).await? else { break };
            // A bootstrap file may have changed the retention while this waited for the lock.
            let Some(retention) =
                store::retention::locked(&mut evaluating.transaction.of(organization)).await?.attachments
            else {
                break;
            };
            let horizon = now.earlier(retention);
            let rows = store::retention::remove_attachments(
                &mut evaluating.transaction.of(organization),
                horizon,
                now,
            )
            .await?;
            evaluating.commit().await?;
            self.count(rows);
        }
        Ok(())
    }
}
