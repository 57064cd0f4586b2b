//! An environment: what runs there and why it may, or what ran at a moment.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};

use super::parts::allow_list;
use super::parts::environment_status::Present;
use super::parts::escape::text;
use super::parts::format::{badge, count, span, written};
use super::parts::layout;
use super::parts::refusal::Refusal;
use super::parts::table::{Table, extent};
use super::parts::urls::Place;
use super::pure::filter::{Filter, exact};
use super::pure::running::{self, Counts, Shown, Verdicts};
use super::session::Visitor;
use crate::domain::evidence::compliance::{Policy, Requirement};
use crate::domain::evidence::environment_status::{Running, Seen, Standing, Verdict};
use crate::domain::evidence::history_coverage::{Hindsight, Record};
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};
use crate::service::app::App;
use crate::service::http::segments::Segments;
use crate::store::environment_contents::Ran;
use crate::store::overview::Environment;
use crate::store::{self, Transaction};

/// The moment that is asked for.
#[derive(Debug, Clone, Copy)]
struct Past {
    at: Timestamp,
    snapshot: Option<i64>,
    hindsight: Hindsight,
}

/// How much runs, or ran.
#[derive(Debug, Clone, Copy)]
struct Extent {
    artifacts: i64,
    pods: i64,
}

/// What runs in an environment, or ran at `?at=`.
pub(super) async fn page(
    State(app): State<App>,
    Segments((organization, name)): Segments<(String, String)>,
    visitor: Visitor,
    uri: Uri,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let filter = Filter::read(&uri)?;
    let now = app.now();
    let mut transaction = app.store.read().await?;
    let environment = transaction.one_of_overview(&organization, &name).await?.ok_or(Refusal::NotFound)?;
    let present = Present::of(&environment, &app, now);
    let past = match filter.at {
        Some(at) => Some(past(&mut transaction, &environment, present, at).await?),
        None => None,
    };
    let ran = match past {
        Some(past) if !past.hindsight.says_something() => Vec::new(),
        _ => transaction.ran(&organization, environment.id, filter.at, &filter.q).await?,
    };
    let kept = allow_list::verdicts(&mut transaction, environment.id, filter.at).await?;
    let then = past.map(|_| Extent::of(&ran));
    let rows = running::rows(ran);
    let is_confirmed = past.map_or_else(|| present.is_confirmed(), |past| past.hindsight == Hindsight::Known);
    let verdicts = Verdicts { kept: &kept, is_confirmed };
    let shown = running::shown(&rows, verdicts, &filter);
    let policy = transaction.policy(&organization, &name).await?;
    let today = match past {
        Some(_) => {
            Some(today(&mut transaction, &organization, &environment, policy.as_ref(), &shown, now).await?)
        }
        None => None,
    };
    drop(transaction);
    let today = today.as_ref().map(|kept| Verdicts { kept, is_confirmed: present.is_confirmed() });
    let caption = match past {
        Some(past) => format!("What ran in {name} at {}", written(past.at)),
        None => format!("What runs in {name}"),
    };
    let place = Place { app: &app, organization: &organization, environment: &name };
    let path = place.now();
    let artifacts = app.links.page(&[&organization, "artifacts"]);
    let table = Table { caption: &caption, artifacts: &artifacts, shown: &shown, verdicts, today, now };
    let content = html! {
        h1 { (text(&name)) }
        (head(place, &environment, present, policy.as_ref()))
        @if let Some((past, extent)) = past.zip(then) {
            (head_of(place, past, environment.snapshot, extent, running::all(&rows, verdicts), present))
        }
        (filter.form(&path))
        (filter.counts(&path, shown.counts))
        @if shown.runs.is_empty() {
            p { (if rows.is_empty() { "Nothing is listed here." } else { "Nothing fits what was asked for." }) }
        } @else {
            p { (extent(&shown)) }
            (table.markup())
            (shown.paged.links(|page| format!("{path}{}", Filter { page, ..filter.clone() }.query())))
        }
    };
    Ok(layout::page(&app, &name, Some(&visitor), &content))
}

async fn past(
    transaction: &mut Transaction,
    environment: &Environment,
    present: Present,
    at: Timestamp,
) -> Result<Past, store::Error> {
    let around = transaction.around(environment.id, at).await?;
    let record = Record {
        first_report_at: around.first_report_at,
        last_report_at: environment.last_report_at,
        horizon_at: around.horizon_at,
        gap: around.gap,
        silent_after: present.validity.silent_after,
    };
    let hindsight = Hindsight::of(at, present.now, &record);
    Ok(Past { at, snapshot: around.snapshot.filter(|_| hindsight.says_something()), hindsight })
}

/// What is to be said today of what a page shows, whether it still runs or not.
async fn today(
    transaction: &mut Transaction,
    organization: &str,
    environment: &Environment,
    policy: Option<&Policy>,
    shown: &Shown<'_>,
    now: Timestamp,
) -> Result<HashMap<Fingerprint, Verdict>, store::Error> {
    let name: EnvironmentName =
        environment.name.parse().map_err(|_| store::Error::Unreadable("an environment's name"))?;
    let seen: Seen = shown.runs.iter().map(|run| (run.artifact, (run.image.clone(), None))).collect();
    let policies: Vec<&Policy> = policy.into_iter().collect();
    let mut evidence = transaction.evidence(organization, &policies, seen.keys().copied().collect()).await?;
    let allowances = transaction.allowances(organization, &[&environment.name]).await?;
    for (artifact, allowed) in allowances.into_values().flatten() {
        evidence.entry(artifact).or_default().allowed.push(allowed);
    }
    let standing = Standing::judged(&name, policy, seen, &evidence, now);
    let allowed = transaction.allow_list(environment.id, None).await?;
    let verdict = |(artifact, mut running): (Fingerprint, Running)| {
        allow_list::tell(&mut running.verdict, allowed.get(&artifact));
        (artifact, running.verdict)
    };
    Ok(standing.artifacts.into_iter().map(verdict).collect())
}

impl Extent {
    fn of(ran: &[Ran]) -> Self {
        let artifacts: BTreeSet<_> = ran.iter().flat_map(|ran| ran.digests.values()).collect();
        let artifacts = i64::try_from(artifacts.len()).unwrap_or(i64::MAX);
        Self { artifacts, pods: ran.iter().map(|ran| ran.pods).sum() }
    }

    fn said(self) -> String {
        let artifacts = count(self.artifacts, "artifact", "artifacts");
        format!("{artifacts} in {}", count(self.pods, "pod", "pods"))
    }
}

/// How the environment stands now.
fn head(place: Place<'_>, environment: &Environment, present: Present, policy: Option<&Policy>) -> Markup {
    let extent = Extent { artifacts: environment.artifacts, pods: environment.pods };
    html! {
        dl.head {
            dt { "Now" }
            dd { (badge(present.compliance())) }
            dt { "Last report" }
            dd { (present.heard()) }
            dt { "Snapshot" }
            dd {
                @if environment.snapshot > 0 { (place.number(environment.snapshot, environment.snapshot)) }
                @else { "none yet" }
            }
            dt { @if present.is_silent() { "Ran last" } @else { "Runs" } }
            dd { (extent.said()) }
            dt { "Requires" }
            dd { @if let Some(policy) = policy { (requires(policy)) } @else { "nothing: it has no policy" } }
        }
        p { a href=(place.timeline(1)) { "Timeline: what changed, and when" } }
    }
}

/// What a policy requires of each artifact that is not on the allow-list.
fn requires(policy: &Policy) -> Markup {
    html! {
        @for (number, Requirement { flow, name }) in policy.attestations.iter().enumerate() {
            @if number > 0 { ", " }
            (text(name)) " of " (text(flow))
        }
        @if policy.approval { @if !policy.attestations.is_empty() { ", " } "an approval" }
    }
}

/// How it stood at a moment, and how much of that is known.
fn head_of(
    place: Place<'_>,
    past: Past,
    last: i64,
    extent: Extent,
    counts: Counts,
    present: Present,
) -> Markup {
    html! {
        section aria-labelledby="then" {
            h2 id="then" { "At " time datetime=(exact(past.at)) { (exact(past.at).replacen('T', " ", 1).replacen('Z', " UTC", 1)) } }
            @if let Some(sentence) = sentence(past.hindsight, present.validity.silent_after) {
                p.late role="status" { (sentence) }
            }
            @if past.hindsight.says_something() {
                dl.head {
                    dt { "Then" }
                    dd { @if let Some(worst) = counts.worst() { (badge(worst)) } @else { "nothing ran" } }
                    dt { "Snapshot" }
                    dd { @if let Some(number) = past.snapshot { (place.number(number, last)) } @else { "no longer kept" } }
                    dt { "Ran" }
                    dd { (extent.said()) }
                }
            }
        }
    }
}

/// What has to be known of a list of the past; `None`: that it is whole.
fn sentence(hindsight: Hindsight, longest: Duration) -> Option<String> {
    Some(match hindsight {
        Hindsight::Known => return None,
        Hindsight::Future => "This moment has not come yet.".to_owned(),
        Hindsight::NeverReported => "This environment was never reported: nobody knows what ran.".to_owned(),
        Hindsight::BeforeFirst(first) => {
            format!("The first report came at {}: nobody knows what ran before.", written(first))
        }
        Hindsight::BeforeHorizon(horizon) => format!(
            "What ended before {} is past its retention and was removed: this list has only what still ran then, \
             and what was decided about it is not certain.",
            written(horizon)
        ),
        Hindsight::Gap(from, to) => format!(
            "This lies in a gap: nobody reported the environment from {} to {}, longer than {}. The list shows \
             what was reported before; nobody knows what ran.",
            written(from),
            written(to),
            span(longest)
        ),
        Hindsight::Silent(last) => format!(
            "The last report came at {}, longer than {} ago. The list shows what was reported then; nobody knows \
             what ran after it.",
            written(last),
            span(longest)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_a_moment_is_said() {
        let (one, two) = (Timestamp::from_micros(0), Timestamp::from_micros(600_000_000));
        for (hindsight, expected) in [
            (Hindsight::Known, ""),
            (Hindsight::Future, "has not come yet"),
            (Hindsight::NeverReported, "never reported"),
            (Hindsight::BeforeFirst(two), "first report came at 1970-01-01 00:10:00 UTC"),
            (Hindsight::BeforeHorizon(two), "ended before 1970-01-01 00:10:00 UTC is past its retention"),
            (
                Hindsight::Gap(one, two),
                "from 1970-01-01 00:00:00 UTC to 1970-01-01 00:10:00 UTC, longer than 3 min",
            ),
            (Hindsight::Silent(one), "last report came at 1970-01-01 00:00:00 UTC, longer than 3 min ago"),
        ] {
            let said = sentence(hindsight, Duration::from_mins(3)).unwrap_or_default();
            assert!(
                said.contains(expected) && said.is_empty() == expected.is_empty(),
                "{hindsight:?}: {said}"
            );
        }
    }
}
