//! How an environment stands, judged anew in the transaction that changed something, and what follows from
//! that: verdicts, events, notifications.

use crate::domain::evidence::compliance::Policy;
use crate::domain::evidence::environment_status::{self, Seen, Standing};
use crate::domain::evidence::event::{self, Event};
use crate::domain::evidence::notification::{Cause, Content};
use crate::domain::model::{EnvironmentName, Timestamp, Trigger};
use crate::service::app::App;
use crate::service::maintenance::clock::Clock;
use crate::store::events::NewEvent;
use crate::store::reports::Environment;
use crate::store::{Error, Transaction, verdicts};

/// What judging led to, to be told once the transaction is committed.
#[derive(Debug, Default)]
#[must_use = "the outbox has to be told"]
pub(crate) struct Judged {
    triggers: Vec<Trigger>,
    notifications: usize,
}

/// As many environments are judged together.
const TOGETHER: usize = 16;

/// Or fewer, once so many artifacts run in them: their standings have to fit into memory.
const ARTIFACTS_TOGETHER: usize = 10_000;

/// An environment that is held, and what is seen of it.
pub(crate) struct Subject {
    pub(crate) name: EnvironmentName,
    pub(crate) environment: Environment,
    /// Its current snapshot.
    pub(crate) snapshot: i64,
    /// How it stood.
    pub(crate) before: Standing,
    /// What runs there now.
    pub(crate) seen: Seen,
}

/// Judges environments of which this is now seen.
pub(crate) async fn environments(
    transaction: &mut Transaction,
    organization: &str,
    subjects: Vec<Subject>,
    cause: &Cause,
    clock: &Clock,
    at: Timestamp,
) -> Result<Judged, Error> {
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
    let policies = transaction.policies(organization, &names).await?;
    let mut allowances = transaction.allowances(organization, &names).await?;
    let required = subjects.iter().filter(|subject| policies.contains_key(subject.name.as_str()));
    let artifacts = required.flat_map(|subject| subject.seen.keys().copied()).collect();
    let policies_in_force: Vec<&Policy> = policies.values().collect();
    let mut evidence = transaction.evidence(organization, &policies_in_force, artifacts).await?;
    // By the clock, and not by when it is recorded, which may be later than what another clock wrote.
    let now = clock.now();
    let mut judged = Vec::with_capacity(subjects.len());
    for Subject { name, environment, snapshot, before, seen } in subjects {
        let allowed = allowances.remove(name.as_str()).unwrap_or_default();
        for (artifact, allowed) in &allowed {
            evidence.entry(*artifact).or_default().allowed.push(allowed.clone());
        }
        let after = Standing::judged(&name, policies.get(name.as_str()), seen, &evidence, now);
        let until = environment_status::until(&evidence, now);
        // The next one has another list.
        for (artifact, _) in allowed {
            evidence.entry(artifact).or_default().allowed.clear();
        }
        judged.push((name, environment, snapshot, before, after, until));
    }
    let standings: Vec<_> = judged
        .iter()
        .map(|(_, environment, _, before, after, until)| verdicts::Judged {
            environment: environment.id,
            before,
            after,
            until: *until,
        })
        .collect();
    transaction.keep_standings(&standings, at).await?;
    let mut events = Vec::new();
    for (name, environment, snapshot, before, after, _) in &judged {
        if *snapshot > environment.snapshot {
            transaction.keep_with_snapshot(environment.id, *snapshot, after.compliance).await?;
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
            events.push(NewEvent { environment: environment.id, name: name.to_string(), trigger, content });
        }
    }
    let triggers = events.iter().map(|event| event.trigger).collect();
    let notifications = transaction.insert_events(organization, &events, at).await?;
    Ok(Judged { triggers, notifications })
}

/// Judges environments in which the same runs as before, if ever anything did.
pub(crate) async fn again(
    transaction: &mut Transaction,
    organization: &str,
    names: &[&str],
    cause: &Cause,
    clock: &Clock,
) -> Result<Judged, Error> {
    let mut judged = Judged::default();
    for names in names.chunks(TOGETHER) {
        let mut subjects = Vec::with_capacity(names.len());
        let mut artifacts_of_these = 0;
        for (name, environment) in transaction.environments(organization, names).await? {
            if environment.snapshot == 0 {
                continue;
            }
            let name = name.parse().map_err(|_| Error::Unreadable("an environment's name"))?;
            let artifacts = transaction.standing(environment.id).await?;
            artifacts_of_these += artifacts.len();
            let seen = artifacts.iter().map(|(artifact, is)| (*artifact, (is.name.clone(), is.pods)));
            let (seen, snapshot) = (seen.collect(), environment.snapshot);
            let before = Standing { artifacts, compliance: environment.compliance };
            subjects.push(Subject { name, environment, snapshot, before, seen });
            if artifacts_of_these > ARTIFACTS_TOGETHER {
                let these = std::mem::take(&mut subjects);
                judged = judged.and(as_they_run(transaction, organization, these, cause, clock).await?);
                artifacts_of_these = 0;
            }
        }
        judged = judged.and(as_they_run(transaction, organization, subjects, cause, clock).await?);
    }
    Ok(judged)
}

/// Judges environments in which the same runs as before.
async fn as_they_run(
    transaction: &mut Transaction,
    organization: &str,
    subjects: Vec<Subject>,
    cause: &Cause,
    clock: &Clock,
) -> Result<Judged, Error> {
    if subjects.is_empty() {
        return Ok(Judged::default());
    }
    let at = clock.now().after(subjects.iter().filter_map(|subject| subject.environment.judged_at).max());
    environments(transaction, organization, subjects, cause, clock, at).await
}

impl Judged {
    /// This and what judging others led to.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.triggers.extend(other.triggers);
        self.notifications += other.notifications;
        self
    }

    /// Counts what happened, and wakes those who send notifications: once all of it is committed.
    pub(crate) fn tell(self, app: &App) {
        for trigger in self.triggers {
            app.metrics.happened(trigger);
        }
        if self.notifications > 0 {
            app.outbox.notify_one();
        }
    }
}
