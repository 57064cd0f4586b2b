//! Notifications: what is in the outbox is taken in hand, sent, and recorded as sent or to be sent again.
//!
//! `serve` runs `deliver` beside its requests. Each replica takes what is due of the targets whose addresses
//! it has; what one that is killed had in hand comes back by itself. A target is sent one thing at a time, so
//! that one that never answers holds up no other.

mod email;
mod guard;
mod http;
pub mod signature;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub(super) use crate::service::addresses::Addresses;
pub use crate::service::addresses::{Address, AddressBook, Smtp, SmtpTls, TargetKey};
use sqlx::types::Uuid;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::app::{App, Delivery};
use crate::domain::evidence::notification::{ActionName, Content, Notification, SCHEMA_VERSION};
use crate::domain::failure_log::{Outage, Say};
use crate::domain::retry::Backoff;
use crate::process::error_causes;
use crate::store;
use crate::store::outbox::{Failed, Leased, Target};

use self::http::Http;

/// What is sent, in every form that it takes.
struct Message<'a> {
    id: String,
    content: &'a Content,
    /// The page of the environment.
    html_url: &'a str,
    /// As a webhook gets it.
    body: Vec<u8>,
}

/// The JSON Schema of what a webhook gets.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Notification<'_>).to_value()
}

/// Why a notification did not arrive. No address and no secret is in it.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("it answered {0}")]
    Status(u16),
    #[error("it did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("it cannot be reached")]
    Http(#[source] reqwest::Error),
    #[error("it cannot be reached")]
    Address(#[source] io::Error),
    #[error("the mail server did not take it")]
    Smtp(#[source] lettre::transport::smtp::Error),
    #[error("no mail can be made of it")]
    Mail(#[source] lettre::error::Error),
    #[error("no mail server is configured: the bootstrap file has no smtp")]
    NoMailServer,
    #[error("its address is no URL")]
    NoUrl,
    #[error("its address is not known here any more")]
    Unknown,
    #[error("what is to be sent cannot be read")]
    Unreadable,
}

/// From one line about a database that does not answer to the next.
const REMIND: Duration = Duration::from_mins(1);

/// Why nothing is sent for now.
#[derive(Debug, thiserror::Error)]
enum Behind {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("no client can be made that trusts the authorities of the bootstrap file")]
    Client(#[from] reqwest::Error),
}

/// What sends, and where to.
struct Ready {
    http: Http,
    book: Arc<AddressBook>,
}

/// What sends, made anew with each address book.
#[derive(Default)]
struct Sender(Option<Arc<Ready>>);

impl Sender {
    fn of(&mut self, app: &App, book: &Arc<AddressBook>) -> Result<Arc<Ready>, reqwest::Error> {
        match &self.0 {
            Some(ready) if Arc::ptr_eq(&ready.book, book) => Ok(Arc::clone(ready)),
            _ => {
                let http = Http::new(&app.allowed_internal, &book.authorities)?;
                let ready = Arc::new(Ready { http, book: Arc::clone(book) });
                self.0 = Some(Arc::clone(&ready));
                Ok(ready)
            }
        }
    }
}

/// The targets that are not to be sent to for now.
#[derive(Default)]
struct Resting {
    /// One thing at a time; with the organization of each.
    busy: BTreeMap<Uuid, String>,
    /// How often in a row sending failed, and until when that target is left alone: what waits for one that does
    /// not answer is not all tried in turn.
    failing: HashMap<Uuid, (u32, Instant)>,
}

impl Resting {
    fn takes(&self, target: Uuid, now: Instant) -> bool {
        let rests = self.failing.get(&target).is_some_and(|(_, until)| now < *until);
        !rests && !self.busy.contains_key(&target)
    }

    fn is_over(&mut self, target: Uuid, has_arrived: bool, policy: &Delivery) {
        self.busy.remove(&target);
        let failures = self.failing.remove(&target).map_or(0, |(failures, _)| failures);
        if !has_arrived {
            let failures = failures.saturating_add(1);
            let rest = delay(policy.backoff, target, failures.into()).min(policy.rest);
            self.failing.insert(target, (failures, Instant::now() + rest));
        }
    }
}

/// Sends until `shutdown`; what is under way then is finished.
pub(super) async fn deliver(app: App, shutdown: CancellationToken) {
    let policy = app.policy.delivery;
    let mut sender = Sender::default();
    let mut interval = tokio::time::interval(policy.interval);
    let mut sending = JoinSet::new();
    let mut resting = Resting::default();
    let mut outage = Outage::new(REMIND);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = interval.tick() => measure(&app).await,
            () = app.outbox.notified() => {}
            Some(sent) = sending.join_next() => {
                // One that panicked, which it does not, would keep its target until the next start.
                if let Ok((target, has_arrived)) = sent {
                    resting.is_over(target, has_arrived, &policy);
                }
            }
        }
        let taken = async {
            let taken = take(&app, &resting).await?;
            // As late as can be: what was taken goes where the file says now.
            Ok::<_, Behind>((sender.of(&app, &app.addresses.current())?, taken))
        };
        match taken.await {
            Ok((sender, taken)) => {
                outage.over(std::time::Instant::now());
                for (target, leased) in taken {
                    resting.busy.insert(target.id, target.organization.clone());
                    let (app, sender) = (app.clone(), Arc::clone(&sender));
                    sending.spawn(async move {
                        let has_arrived = handle(&app, &sender, &target, leased).await;
                        (target.id, has_arrived)
                    });
                }
            }
            Err(error) => {
                let words = error_causes::said_once(&error).join(": ");
                if outage.failed(&words, std::time::Instant::now()) != Say::Nothing {
                    tracing::warn!("notifications are behind: {words}");
                }
            }
        }
    }
    while sending.join_next().await.is_some() {}
}

/// Counts what waits, for the metrics.
async fn measure(app: &App) {
    let backlog = async { app.store.read().await?.backlog().await };
    // Where the database does not answer, the next try says so.
    let measured: Result<store::outbox::Backlog, store::Error> = backlog.await;
    if let Ok(backlog) = measured {
        let longest = backlog.oldest.map_or(Duration::ZERO, |oldest| app.now().since(oldest));
        app.metrics.waiting(backlog.waiting, longest);
    }
}

/// Takes in hand what is due of targets that this replica can send to now.
async fn take(app: &App, resting: &Resting) -> Result<Vec<(Target, Leased)>, store::Error> {
    let (policy, book) = (app.policy.delivery, app.addresses.current());
    let free = policy.at_once.saturating_sub(resting.busy.len());
    if book.targets.is_empty() || free == 0 {
        return Ok(Vec::new());
    }
    let mut transaction = app.store.read().await?;
    let due = transaction.due_targets(app.now()).await?;
    drop(transaction);
    let is_ours =
        |target: &Target| book.targets.contains_key(&key(target)) && resting.takes(target.id, Instant::now());
    let due = due.into_iter().filter(is_ours);
    // Those that did not answer get what is left, and a quarter of all at most: they may take as long again, and their
    // organization has as much for those that do.
    let (mut failing, mut well): (Vec<_>, Vec<_>) =
        due.partition(|target| resting.failing.contains_key(&target.id));
    // However many targets of one organization answer slowly, half of all is left to others.
    let mut busy = HashMap::<String, usize>::new();
    for organization in resting.busy.values() {
        *busy.entry(organization.clone()).or_default() += 1;
    }
    let mut may = |target: &Target| {
        let busy = busy.entry(target.organization.clone()).or_default();
        *busy += 1;
        *busy <= (policy.at_once / 2).max(1)
    };
    well.retain(&mut may);
    failing.retain(&mut may);
    let is_failing = |id: &&Uuid| resting.failing.contains_key(*id);
    let for_failing = (policy.at_once / 4).max(1);
    let for_failing = for_failing.saturating_sub(resting.busy.keys().filter(is_failing).count());
    let targets = well.into_iter().chain(failing.into_iter().take(for_failing)).take(free);
    let mut targets: BTreeMap<Uuid, Target> = targets.map(|target| (target.id, target)).collect();
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<Uuid> = targets.keys().copied().collect();
    let mut transaction = app.store.write().await?;
    let leased = transaction.lease(&wanted, app.now(), policy.lease).await?;
    transaction.commit().await?;
    Ok(leased.into_iter().filter_map(|leased| Some((targets.remove(&leased.target)?, leased))).collect())
}

fn key(target: &Target) -> TargetKey {
    (target.organization.clone(), target.action, target.name.clone())
}

/// Sends one, and records what came of it; says whether it arrived.
async fn handle(app: &App, ready: &Ready, target: &Target, leased: Leased) -> bool {
    let policy = app.policy.delivery;
    let sent = match timeout(policy.timeout, send(app, ready, target, &leased)).await {
        Ok(sent) => sent,
        Err(_) => Err(SendError::TimedOut(policy.timeout)),
    };
    let has_arrived = sent.is_ok();
    let outcome = if has_arrived { "arrived" } else { "failed" };
    app.metrics.sent(target.kind, outcome);
    if let Err(error) = record(app, target, &leased, sent).await {
        // It is due again once the time is over for which it was taken, and sent once more.
        tracing::warn!(
            "that a notification {outcome} is not recorded: {}",
            error_causes::said_once(&error).join(": ")
        );
    }
    has_arrived
}

async fn send(app: &App, ready: &Ready, target: &Target, leased: &Leased) -> Result<(), SendError> {
    let Ready { http, book } = ready;
    let content: Content = serde_json::from_str(&leased.content).map_err(|_| SendError::Unreadable)?;
    let action = ActionName { number: target.action, name: &target.action_name };
    let id = leased.id.to_string();
    let html_url = &app.links.environment_page(&content.organization, &content.environment);
    let whole =
        Notification { schema_version: SCHEMA_VERSION, id: id.clone(), action, html_url, content: &content };
    let body = serde_json::to_vec(&whole).unwrap_or_default();
    let message = Message { id, content: &content, html_url, body };
    match book.targets.get(&key(target)) {
        Some(Address::Webhook { url, secrets }) => {
            let seconds = app.now().micros() / 1_000_000;
            http.webhook(url, secrets, &message, seconds).await
        }
        Some(Address::Slack { url }) => http.chat(url, &message).await,
        Some(Address::Email { recipients }) => {
            let smtp = book.smtp.as_ref().ok_or(SendError::NoMailServer)?;
            let timeout = app.policy.delivery.timeout;
            email::send(smtp, &app.allowed_internal, &book.authorities, recipients, &message, timeout).await
        }
        None => Err(SendError::Unknown),
    }
}

async fn record(
    app: &App,
    target: &Target,
    leased: &Leased,
    sent: Result<(), SendError>,
) -> Result<(), store::Error> {
    let mut transaction = app.store.write().await?;
    match sent {
        Ok(()) => transaction.arrived(leased.id, target.id, app.now()).await?,
        Err(error) => {
            let problem = error_causes::said_once(&error).join(": ");
            let (id, policy) = (leased.id, app.policy.delivery);
            let again = app.now().later(delay(policy.backoff, id, leased.tries));
            // What would only be tried again after its time is given up.
            let oldest = again.earlier(policy.patience);
            let failed = Failed { notification: id, target: target.id, problem: &problem, again, oldest };
            let dropped = transaction.failed(&failed, app.now()).await?;
            let what = format!("{} of action {} of {}", target.name, target.action, target.organization);
            tracing::warn!(notification = %id, "the notification {id} did not reach {what}: {problem}");
            if dropped > 0 {
                tracing::error!(dropped, "{dropped} notifications to {what} were given up");
            }
        }
    }
    transaction.commit().await
}

/// How long to wait after so many failures in a row; not all wait for as long.
fn delay(backoff: Backoff, of: Uuid, failures: i64) -> Duration {
    let [.., seed] = of.as_bytes();
    let earlier = usize::try_from(failures.saturating_sub(1)).unwrap_or_default().min(64);
    backoff.delays(u64::from(*seed)).nth(earlier).unwrap_or(backoff.most)
}
