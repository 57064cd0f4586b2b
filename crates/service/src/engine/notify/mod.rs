//! Delivery of notifications from the outbox.
//!
//! `service` runs `deliver` in every replica. A replica leases due notifications of the targets whose addresses it knows,
//! sends them and records the outcome; the leases of a killed replica expire. Each target gets one notification at a time
//! from all replicas, so a slow target does not delay the others, and only a failed notification arrives after later ones.

pub(crate) mod addresses;
mod email;
mod http;
mod message;
mod payloads;
pub mod signature;
pub(crate) mod test;

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

pub use crate::engine::notify::addresses::{Address, AddressBook, Smtp, SmtpTls, TargetKey};
use futures_util::FutureExt;
use secrecy::ExposeSecret;
use sqlx::types::Uuid;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::limits::Delivery;
use crate::maintenance::periodic::{REMINDER_INTERVAL, TaskFailures, Ticks};
use crate::outbound::GuardedClient;
use model::TargetKind;
use model::escape::Escaped;
use model::retry::Backoff;
use rules::notification::{
    ActionName, CheckpointContent, EventContent, Notification, SCHEMA_VERSION, TestContent,
};
use runtime::error_causes;
use store::notifications::outbox::{self, DueTarget, FailedAttempt, LeasedNotification, Recipients};

use crate::engine::notify::email::MailServer;
use crate::engine::notify::message::{Message, SendError, ShownArtifact};

/// The JSON Schema of a webhook's body.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Notification<'_>).to_value()
}

/// A failure that stops the delivery to all targets.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("failed to create an HTTP client with the certificate authorities of the bootstrap file")]
    Client(#[from] reqwest::Error),
}

/// A client with the addresses that it sends to.
struct Sender {
    client: GuardedClient,
    book: Arc<AddressBook>,
}

impl Sender {
    /// The sender of the current addresses, which is the last one unless they changed.
    fn current(app: &App, last: Option<Arc<Self>>) -> Result<Arc<Self>, reqwest::Error> {
        let book = app.addresses.current();
        if let Some(last) = last.filter(|last| Arc::ptr_eq(&last.book, &book)) {
            return Ok(last);
        }
        let client = GuardedClient::new(&app.allowed_internal, &book.authorities)?;
        Ok(Arc::new(Self { client, book }))
    }
}

/// The targets that get no notification at the moment.
#[derive(Default)]
struct Unavailable {
    /// Targets with an attempt in progress, and their organizations.
    busy: BTreeMap<Uuid, String>,
    /// Consecutive failures per target, and the end of its pause: the backlog of an unreachable target is not attempted
    /// one by one.
    failing: HashMap<Uuid, (u32, Instant)>,
}

impl Unavailable {
    fn is_ready(&self, target: Uuid, now: Instant) -> bool {
        let pauses = self.failing.get(&target).is_some_and(|(_, until)| now < *until);
        !pauses && !self.busy.contains_key(&target)
    }

    fn finished(&mut self, target: Uuid, has_arrived: bool, limits: &Delivery) {
        self.busy.remove(&target);
        let failures = self.failing.remove(&target).map_or(0, |(failures, _)| failures);
        if !has_arrived {
            let failures = failures.saturating_add(1);
            let pause = delay(limits.backoff, target, failures.into()).min(limits.max_pause);
            self.failing.insert(target, (failures, Instant::now() + pause));
        }
    }
}

/// Returns the target of an attempt, and whether the notification arrived. One that panics has failed; its notification is
/// sent again when the lease expires.
async fn catching_panics(target: Uuid, attempt: impl Future<Output = bool>) -> (Uuid, bool) {
    let ended = AssertUnwindSafe(attempt).catch_unwind().await;
    let has_arrived = ended.unwrap_or_else(|_| {
        tracing::error!("the task that sends a notification panicked; the notification is sent again");
        false
    });
    (target, has_arrived)
}

/// Sends until `shutdown`; attempts in progress are completed.
pub(crate) async fn deliver(app: App, shutdown: CancellationToken) {
    let limits = app.limits.delivery;
    let mut sender = None;
    let mut ticks = Ticks::new(limits.interval);
    let mut sending = JoinSet::new();
    let mut unavailable = Unavailable::default();
    let mut failures = TaskFailures::new("send notifications", REMINDER_INTERVAL);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = ticks.tick() => measure(&app).await,
            () = app.outbox.notified() => {}
            Some(Ok((target, has_arrived))) = sending.join_next() => {
                unavailable.finished(target, has_arrived, &limits);
            }
        }
        let leasing = async {
            let leased = lease(&app, &unavailable).await?;
            // After the lease, so that notifications use the addresses of the current file.
            Ok::<_, DeliveryError>((Sender::current(&app, sender.take())?, leased))
        };
        let leased = leasing.await;
        failures.log(&leased);
        let Ok((current, leased)) = leased else { continue };
        for (target, leased) in leased {
            unavailable.busy.insert(target.id, target.organization.clone());
            let (app, sender) = (app.clone(), Arc::clone(&current));
            sending.spawn(catching_panics(target.id, async move {
                attempt(&app, &sender, &target, leased).await
            }));
        }
        sender = Some(current);
    }
    while sending.join_next().await.is_some() {}
}

/// Updates the metrics of waiting notifications.
async fn measure(app: &App) {
    // The next lease reports an unavailable database.
    let Ok(mut transaction) = app.site.store.read().await else { return };
    let Ok(backlog) = outbox::backlog(&mut transaction).await else { return };
    let oldest = backlog.oldest.map_or(Duration::ZERO, |oldest| app.site.now().since(oldest));
    app.metrics.set_waiting(backlog.waiting, oldest);
}

/// Leases due notifications of the targets that this replica can send to now.
async fn lease(
    app: &App,
    unavailable: &Unavailable,
) -> Result<Vec<(DueTarget, LeasedNotification)>, store::Error> {
    let (limits, book) = (app.limits.delivery, app.addresses.current());
    let free = limits.max_targets.saturating_sub(unavailable.busy.len());
    if book.targets.is_empty() || free == 0 {
        return Ok(Vec::new());
    }
    let mut transaction = app.site.store.read().await?;
    let due =
        outbox::due_targets(&mut transaction, app.site.now(), limits.lease, limits.backoff.max_retry_after)
            .await?;
    drop(transaction);
    let is_ours = |target: &DueTarget| {
        book.targets.contains_key(&key(target)) && unavailable.is_ready(target.id, Instant::now())
    };
    let due = due.into_iter().filter(is_ours);
    // Failing targets may block until the timeout: they get the remaining slots, and at most a quarter of all.
    let (mut failing, mut healthy): (Vec<_>, Vec<_>) =
        due.partition(|target| unavailable.failing.contains_key(&target.id));
    // One organization uses at most half of the slots.
    let mut busy = HashMap::<String, usize>::new();
    for organization in unavailable.busy.values() {
        *busy.entry(organization.clone()).or_default() += 1;
    }
    let mut may = |target: &DueTarget| {
        let busy = busy.entry(target.organization.clone()).or_default();
        *busy += 1;
        *busy <= (limits.max_targets / 2).max(1)
    };
    healthy.retain(&mut may);
    failing.retain(&mut may);
    let is_failing = |id: &&Uuid| unavailable.failing.contains_key(*id);
    let for_failing = (limits.max_targets / 4).max(1);
    let for_failing = for_failing.saturating_sub(unavailable.busy.keys().filter(is_failing).count());
    let targets = healthy.into_iter().chain(failing.into_iter().take(for_failing)).take(free);
    let mut targets: BTreeMap<Uuid, DueTarget> = targets.map(|target| (target.id, target)).collect();
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let mut transaction = app.site.store.write().await?;
    let leased = outbox::lease(&mut transaction, targets.values(), app.site.now(), limits.lease).await?;
    transaction.commit().await?;
    Ok(leased.into_iter().filter_map(|leased| Some((targets.remove(&leased.target)?, leased))).collect())
}

fn key(target: &DueTarget) -> TargetKey {
    (target.organization.clone(), target.action, target.name.clone())
}

/// Sends one notification and records the outcome. Returns whether it arrived.
async fn attempt(app: &App, sender: &Sender, target: &DueTarget, leased: LeasedNotification) -> bool {
    let sent = read_and_send(app, sender, target, &leased).await;
    let has_arrived = sent.is_ok();
    let outcome = if has_arrived { "arrived" } else { "failed" };
    app.metrics.notification(target.kind, outcome);
    if let Err(error) = record(app, target, &leased, sent).await {
        // The notification is sent again when the lease expires.
        tracing::warn!("failed to record that a notification {outcome}: {}", error_causes::describe(&error));
    }
    has_arrived
}

async fn read_and_send(
    app: &App,
    sender: &Sender,
    target: &DueTarget,
    leased: &LeasedNotification,
) -> Result<Recipients, SendError> {
    let limit = app.limits.delivery.timeout;
    let (content, artifacts) = read(app, target, leased).await?;
    let sending = send(app, sender, target, leased, &content, artifacts);
    timeout(limit, sending).await.unwrap_or(Err(SendError::TimedOut(limit)))
}

/// The event as it is sent, with texts and owners, and the artifacts as people see them.
async fn read(
    app: &App,
    target: &DueTarget,
    leased: &LeasedNotification,
) -> Result<(EventContent, Vec<ShownArtifact>), SendError> {
    let mut content: EventContent =
        serde_json::from_str(&leased.content).map_err(|_| SendError::Unreadable)?;
    content.add_texts();
    message::add_owners(&app.site, leased.environment, &mut content).await?;
    let artifacts = match target.kind {
        TargetKind::Webhook => Vec::new(),
        _ => ShownArtifact::read(&app.site, &content).await?,
    };
    Ok((content, artifacts))
}

async fn send(
    app: &App,
    sender: &Sender,
    target: &DueTarget,
    leased: &LeasedNotification,
    content: &EventContent,
    artifacts: Vec<ShownArtifact>,
) -> Result<Recipients, SendError> {
    let Sender { client, book } = sender;
    let now = app.site.now();
    let html_url = &match content {
        EventContent::Environment(event) => {
            app.site.links.environment_page(&event.organization, &event.environment)
        }
        EventContent::Checkpoint(CheckpointContent { organization, .. })
        | EventContent::Test(TestContent { organization, .. }) => {
            app.site.links.organization_page(organization)
        }
    };
    let notification = Notification {
        schema_version: SCHEMA_VERSION,
        id: leased.id.to_string(),
        action: ActionName { number: target.action, name: &target.action_name },
        html_url,
        merged_events: leased.merged_events,
        content,
    };
    let message = Message { notification, artifacts };
    match book.targets.get(&key(target)) {
        Some(Address::Webhook { url, secrets }) => {
            http::send_webhook(client, url, secrets, &message, now).await?;
        }
        Some(Address::Slack { url }) => {
            http::send_json(client, url, &message, &payloads::slack(&message), now).await?;
        }
        Some(Address::Teams { url }) => {
            http::send_json(client, url, &message, &payloads::teams(&message), now).await?;
        }
        Some(Address::PagerDuty { url, routing_key }) => {
            // A late event must not open an incident again that a later one has resolved.
            if outbox::is_superseded(&mut app.site.store.read().await?.of(&leased.organization), leased.id)
                .await?
            {
                return Ok(Recipients::new());
            }
            let event = payloads::pagerduty(&message, routing_key.expose_secret());
            http::send_json(client, url, &message, &event.ok_or(SendError::NoIncident)?, now).await?;
        }
        Some(Address::Email { recipients }) => {
            let smtp = book.smtp.as_ref().ok_or(SendError::NoMailServer)?;
            let server = MailServer { smtp, allowed: &app.allowed_internal, authorities: &book.authorities };
            let timeout = app.limits.delivery.timeout;
            return email::send(server, recipients, &leased.recipients, &message, timeout).await;
        }
        None => return Err(SendError::Unknown),
    }
    Ok(Recipients::new())
}

/// The recipients of a mail that the server refused, as an error.
fn refusal(recipients: &Recipients) -> Option<String> {
    let refused = Some(message::refusals(recipients)).filter(|refused| !refused.is_empty());
    refused.map(|refused| Escaped(&format!("the mail server refused {refused}")).to_string())
}

async fn record(
    app: &App,
    target: &DueTarget,
    leased: &LeasedNotification,
    sent: Result<Recipients, SendError>,
) -> Result<(), store::Error> {
    let mut transaction = app.site.store.write().await?;
    let what = format!("{} of action {} of {}", target.name, target.action, target.organization);
    match sent {
        Ok(recipients) => {
            let refused = refusal(&recipients);
            if let Some(refused) = &refused {
                tracing::warn!(notification = %leased.id, "sent notification {} to {what}, but {refused}", leased.id);
            }
            outbox::record_sent(&mut transaction, leased, refused.as_deref(), app.site.now()).await?;
        }
        Err(error) => {
            let cause = error_causes::describe(&error);
            let (id, limits, at) = (leased.id, app.limits.delivery, app.site.now());
            let (wanted, recipients) = match &error {
                SendError::Status { retry_after, .. } => (*retry_after, &leased.recipients),
                SendError::Recipients { done, .. } => (None, done),
                _ => (None, &leased.recipients),
            };
            let delay = delay(limits.backoff, id, leased.attempts);
            let retry_at = at.later(limits.backoff.with_retry_after(delay, wanted));
            let paused_until =
                wanted.map(|wanted| at.later(limits.backoff.with_retry_after(Duration::ZERO, Some(wanted))));
            // Notifications whose next attempt would be past their maximum age are dropped.
            let drop_before = retry_at.earlier(limits.max_age);
            let failed = FailedAttempt { error: &cause, at, retry_at, paused_until, drop_before, recipients };
            let dropped = outbox::record_failure(&mut transaction, leased, failed).await?;
            tracing::warn!(notification = %id, "failed to send notification {id} to {what}: {cause}");
            if dropped > 0 {
                tracing::error!(dropped, "dropped {dropped} notifications to {what}");
            }
        }
    }
    transaction.commit().await
}

/// The delay after this many consecutive failures, with jitter from the identifier.
fn delay(backoff: Backoff, id: Uuid, failures: i64) -> Duration {
    let [.., seed] = id.as_bytes();
    let earlier = usize::try_from(failures.saturating_sub(1)).unwrap_or_default().min(64);
    backoff.delays(u64::from(*seed)).nth(earlier).unwrap_or(backoff.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn target_is_released_and_paused_after_its_attempt_panicked() {
        let limits = Delivery::default();
        let [panics, arrives] = [1, 2].map(Uuid::from_u128);
        let (mut attempts, mut unavailable) = (JoinSet::new(), Unavailable::default());
        for target in [panics, arrives] {
            unavailable.busy.insert(target, "acme".to_owned());
            attempts.spawn(catching_panics(target, async move {
                assert!(target == arrives, "this attempt panics");
                true
            }));
        }
        while let Some(ended) = attempts.join_next().await {
            let (target, has_arrived) = ended.unwrap();
            assert_eq!(has_arrived, target == arrives);
            unavailable.finished(target, has_arrived, &limits);
        }
        assert!(unavailable.busy.is_empty());
        // The failed target pauses, and is sent to again afterwards.
        let now = Instant::now();
        assert!(unavailable.is_ready(arrives, now) && !unavailable.is_ready(panics, now));
        assert!(unavailable.is_ready(panics, now + limits.max_pause));
    }
}
