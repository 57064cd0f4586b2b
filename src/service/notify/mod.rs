//! Notifications: what is in the outbox is taken in hand, sent, and recorded as sent or to be sent again.
//!
//! `serve` runs `deliver` beside its requests. Each replica takes what is due of the targets whose addresses
//! it has; what one that is killed had in hand comes back by itself. A target is sent one thing at a time, so
//! that one that never answers holds up no other.

mod addresses;
mod email;
mod guard;
mod http;
pub mod signature;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub(super) use addresses::Addresses;
pub use addresses::{Address, AddressBook, Smtp, SmtpTls, TargetKey};
use sqlx::types::Uuid;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::app::{App, now};
use crate::domain::model::Timestamp;
use crate::domain::notification::{ActionName, Content, Notification, SCHEMA_VERSION};
use crate::process::causes;
use crate::store;
use crate::store::outbox::{Leased, Target};

use self::http::Http;

/// What is sent, in every form that it takes.
struct Message<'a> {
    id: String,
    content: &'a Content,
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

/// Sends until `shutdown`; what is under way then is finished.
pub(super) async fn deliver(app: App, shutdown: CancellationToken) {
    let policy = app.policy.delivery;
    let mut sender = Sender::default();
    let mut interval = tokio::time::interval(policy.interval);
    let mut sending = JoinSet::new();
    let mut busy: BTreeSet<Uuid> = BTreeSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = interval.tick() => measure(&app).await,
            () = app.outbox.notified() => {}
            Some(sent) = sending.join_next() => {
                // One that panicked, which it does not, would keep its target until the next start.
                if let Ok(target) = sent {
                    busy.remove(&target);
                }
            }
        }
        let taken = async {
            let taken = take(&app, &busy).await?;
            // As late as can be: what was taken goes where the file says now.
            Ok::<_, Behind>((sender.of(&app, &app.addresses.current())?, taken))
        };
        match taken.await {
            Ok((sender, taken)) => {
                for (target, leased) in taken {
                    busy.insert(target.id);
                    let (app, sender) = (app.clone(), Arc::clone(&sender));
                    sending.spawn(async move {
                        handle(&app, &sender, &target, leased).await;
                        target.id
                    });
                }
            }
            Err(error) => {
                tracing::warn!("notifications are behind: {}", causes::said_once(&error).join(": "));
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
        let longest = backlog.oldest.map_or(Duration::ZERO, |oldest| oldest.distance(now()));
        app.metrics.waiting(backlog.waiting, longest);
    }
}

/// Takes in hand what is due of targets that this replica can send to, and is not sending to.
async fn take(app: &App, busy: &BTreeSet<Uuid>) -> Result<Vec<(Target, Leased)>, store::Error> {
    let (policy, book) = (app.policy.delivery, app.addresses.current());
    let free = policy.at_once.saturating_sub(busy.len());
    if book.targets.is_empty() || free == 0 {
        return Ok(Vec::new());
    }
    let mut transaction = app.store.read().await?;
    let due = transaction.due_targets(now()).await?;
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let known = |target: &Target| book.targets.contains_key(&key(target));
    let targets = transaction.targets().await?.into_iter().filter(known).map(|target| (target.id, target));
    let mut targets: HashMap<Uuid, Target> = targets.collect();
    drop(transaction);
    let wanted: Vec<Uuid> =
        due.into_iter().filter(|id| targets.contains_key(id) && !busy.contains(id)).take(free).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut transaction = app.store.write().await?;
    let leased = transaction.lease(&wanted, now(), policy.lease).await?;
    transaction.commit().await?;
    Ok(leased.into_iter().filter_map(|leased| Some((targets.remove(&leased.target)?, leased))).collect())
}

fn key(target: &Target) -> TargetKey {
    (target.organization.clone(), target.action, target.name.clone())
}

/// Sends one, and records what came of it.
async fn handle(app: &App, ready: &Ready, target: &Target, leased: Leased) {
    let policy = app.policy.delivery;
    let sent = match timeout(policy.timeout, send(app, ready, target, &leased)).await {
        Ok(sent) => sent,
        Err(_) => Err(SendError::TimedOut(policy.timeout)),
    };
    let outcome = if sent.is_ok() { "arrived" } else { "failed" };
    app.metrics.sent(target.kind, outcome);
    if let Err(error) = record(app, target, &leased, sent).await {
        // It is due again once the time is over for which it was taken, and sent once more.
        tracing::warn!(
            "that a notification {outcome} is not recorded: {}",
            causes::said_once(&error).join(": ")
        );
    }
}

async fn send(app: &App, ready: &Ready, target: &Target, leased: &Leased) -> Result<(), SendError> {
    let Ready { http, book } = ready;
    let content: Content = serde_json::from_str(&leased.content).map_err(|_| SendError::Unreadable)?;
    let action = ActionName { number: target.action, name: &target.action_name };
    let id = leased.id.to_string();
    let whole = Notification { schema_version: SCHEMA_VERSION, id: id.clone(), action, content: &content };
    let body = serde_json::to_vec(&whole).unwrap_or_default();
    let message = Message { id, content: &content, body };
    match book.targets.get(&key(target)) {
        Some(Address::Webhook { url, secrets }) => {
            let seconds = now().micros() / 1_000_000;
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
        Ok(()) => transaction.arrived(leased.id, target.id, now()).await?,
        Err(error) => {
            let problem = causes::said_once(&error).join(": ");
            let again = again(app, leased);
            let what = format!("{} of action {} of {}", target.name, target.action, target.organization);
            if again.is_some() {
                tracing::warn!("a notification did not reach {what}, and will be tried again: {problem}");
            } else {
                tracing::error!("a notification to {what} was given up: {problem}");
            }
            transaction.failed(leased.id, target.id, &problem, again, now()).await?;
        }
    }
    transaction.commit().await
}

/// When a notification that failed is tried again, if it is.
fn again(app: &App, leased: &Leased) -> Option<Timestamp> {
    let policy = app.policy.delivery;
    let [.., seed] = leased.id.as_bytes();
    let tries = usize::try_from(leased.tries.saturating_sub(1)).unwrap_or(usize::MAX).min(64);
    let delay = policy.backoff.delays(u64::from(*seed)).nth(tries)?;
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    let again = now().micros().saturating_add(micros(delay));
    let last = leased.created_at.micros().saturating_add(micros(policy.patience));
    (again <= last).then(|| Timestamp::from_micros(again))
}
