//! List the events of an environment, and the periods without reports. An extension of the interface.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use sqlx::types::Uuid;

use crate::engine::not_found;
use crate::engine::selected_snapshot::environment;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::http::snapshot_interval::{EventsLimit, Interval};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::reason::Reason;
use model::{EnvironmentName, Fingerprint, PointInTime, Timestamp, Trigger, decoded_name, pluralize};
use rules::compliance::Compliance;
use rules::event::AffectedArtifact;
use rules::notification::Content;
use store::Tenant;
use store::artifacts::flows::KnownArtifact;
use store::environments::timeline::{EventOrder, ReportGap, SelectedEvents};

/// An event of an environment. A text that does not apply is empty.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct EnvironmentEvent {
    environment_name: String,
    /// The snapshot that was current
    snapshot_index: i64,
    artifact_name: String,
    /// The artifact
    sha256: String,
    description: String,
    reported_at: Timestamp,
    /// The flow of the artifact
    pipeline: String,
    /// Why the artifact is not compliant, or the environment runs too few artifacts
    reasons: Vec<Reason>,
    artifact_compliance: Option<bool>,
    snapshot_compliance: Option<bool>,
    /// `started-compliant`, `started-non-compliant`, `changed`, `exited`, `allowed`, `environment-compliant`,
    /// `environment-non-compliant`; `gap` or `silent` for a period without reports; `removed` where the retention starts
    #[serde(rename = "type")]
    kind: &'static str,
}

const PARAMETERS: [&str; 8] =
    ["interval", "reverse", "page", "per_page", "start", "end", "start_ts", "end_ts"];

/// List the events of an environment, newest first. A page has this number of events; one that affects several artifacts
/// is listed for each. Periods without reports are listed in addition.
#[utoipa::path(
    get,
    path = "/environments/{org}/{env_name}/events",
    tag = "environments",
    params(
        ("interval" = inline(Option<Interval>), Query, description = "Snapshots A..B, each a number, ~N (before the latest) or NOW; or one of them"),
        ("reverse" = Option<bool>, Query, description = "Oldest first"),
        ("start" = inline(Option<EventsLimit>), Query, description = "From this snapshot or time on"),
        ("end" = inline(Option<EventsLimit>), Query, description = "Up to this snapshot or time"),
        ("start_ts" = inline(Option<Timestamp>), Query, description = "At or after this time"),
        ("end_ts" = inline(Option<Timestamp>), Query, description = "At or before this time"),
        ("repo_name" = Option<Vec<String>>, Query, description = "Only artifacts of this repository; may be repeated"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Vec<EnvironmentEvent>),
        (status = 404, description = "No such environment or repository, or the events were removed", body = ErrorBody),
    ),
)]
pub(crate) async fn list_events(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Vec<EnvironmentEvent>>, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    let parameters = Parameters::read_with_lists(&uri, &PARAMETERS, &["repo_name"])?;
    let (page, interval) =
        (parameters.page()?, parameters.parsed::<Interval>("interval")?.unwrap_or_default());
    let is_reversed = parameters.parsed("reverse")?.unwrap_or_default();
    let (now, mut transaction) = (site.now(), site.store.read().await?);
    let tenant = &mut transaction.of(&organization);
    let environment = environment(tenant, &name).await?;
    let available = store::environments::timeline::available_snapshots(tenant, environment.id).await?;
    let numbers = interval.numbers(&name, environment.snapshot, &available)?;
    let of_interval = (!interval.is_whole()).then_some(numbers);
    let times = times(tenant, environment.id, of_interval, &parameters, now).await?;
    let wanted = artifacts_of_repositories(tenant, parameters.all("repo_name")).await?;

    // The event before the page limits the gaps of the page.
    let before = i64::from(page.offset() > 0);
    let (offset, limit) = (page.offset() - before, page.size() + before);
    let order = if is_reversed { EventOrder::OldestFirst } else { EventOrder::NewestFirst };
    let selected = SelectedEvents { times: times.clone(), artifacts: wanted.as_ref(), order, offset, limit };
    let mut events = store::environments::timeline::events(tenant, environment.id, selected).await?;
    if before > 0 && events.is_empty() {
        return Ok(axum::Json(Vec::new()));
    }
    let is_last_page = i64::try_from(events.len()).is_ok_and(|count| count < limit);
    let end = events.last().filter(|_| !is_last_page).map(|event| event.occurred_at);
    let start = (before > 0).then(|| events.remove(0).occurred_at);
    let (from, until) = if is_reversed { (start, end) } else { (end, start) };
    let mut silences = Vec::new();
    let gaps = from.unwrap_or(times.start)..until.unwrap_or(times.end);
    for (snapshot, ReportGap { from, to }) in
        store::environments::timeline::gaps_ended(tenant, environment.id, gaps).await?
    {
        let description = format!("no reports from {from} to {to}: what ran is unknown");
        silences.push(EnvironmentEvent::new(name.as_str(), "gap", description, to, snapshot));
    }
    let validity = environment.validity(site.silent_after);
    let is_silent = validity.is_silent(now) && until.is_none() && times.end > now;
    if let Some(since) = validity.last_report_at.filter(|_| is_silent) {
        let description = format!("no reports since {since}: what runs is unknown");
        silences.push(EnvironmentEvent::new(name.as_str(), "silent", description, now, environment.snapshot));
    }
    if let Some(horizon) = available.horizon_at.filter(|at| from.is_none() && times.start < *at) {
        let description = format!("events before {horizon} were removed by retention");
        silences.push(EnvironmentEvent::new(name.as_str(), "removed", description, horizon, numbers.0));
    }
    let artifacts = events.iter().flat_map(|event| &event.artifacts).map(|artifact| artifact.fingerprint);
    let known = store::artifacts::flows::known(tenant, &artifacts.collect()).await?;
    drop(transaction);

    if is_reversed {
        events.reverse();
    }
    if let Some(wanted) = &wanted {
        for event in &mut events {
            event.artifacts.retain(|artifact| wanted.contains(&artifact.fingerprint));
        }
    }
    let listed = events.iter().flat_map(|event| EnvironmentEvent::list(event, &known));
    // In a stable order: reports resume before the events of the first one.
    let mut listed: Vec<_> = listed.chain(silences).collect();
    listed.sort_by_key(|event| Reverse(event.reported_at));
    if is_reversed {
        listed.reverse();
    }
    Ok(axum::Json(listed))
}

/// The requested times: those of the snapshots of an interval, within the other limits.
async fn times(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    interval: Option<(i64, i64)>,
    parameters: &Parameters,
    now: Timestamp,
) -> Result<Range<Timestamp>, Problem> {
    let mut times = Timestamp::EPOCH..after(now);
    if interval.is_some_and(|(first, last)| first > last) {
        return Ok(Timestamp::EPOCH..Timestamp::EPOCH);
    }
    let (first, last) = interval.unzip();
    for limit in limits(tenant, environment, parameters, "start", first, now).await? {
        times.start = times.start.max(limit.start);
    }
    for limit in limits(tenant, environment, parameters, "end", last, now).await? {
        times.end = times.end.min(limit.end);
    }
    Ok(times)
}

/// The times of a parameter, of the one in seconds, and of a snapshot of the interval.
async fn limits(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    parameters: &Parameters,
    parameter: &str,
    number: Option<i64>,
    now: Timestamp,
) -> Result<Vec<Range<Timestamp>>, Problem> {
    let name = format!("{parameter}_ts");
    let seconds = parameters.parsed::<f64>(&name)?.map(|seconds| {
        let at = Timestamp::from_seconds(seconds);
        at.ok_or_else(|| Problem::field(name, "expected seconds since 1970"))
    });
    let at = seconds.transpose()?.map(|at| EventsLimit::Time(PointInTime::Absolute(at)));
    let limits = [number.map(EventsLimit::Snapshot), parameters.parsed(parameter)?, at];
    let mut times = Vec::new();
    for limit in limits.into_iter().flatten() {
        times.push(match limit {
            EventsLimit::Time(time) => time.resolve(now)..after(time.resolve(now)),
            EventsLimit::Snapshot(number) => {
                let found = store::environments::timeline::snapshots(tenant, environment, number, number)
                    .await?
                    .pop();
                let snapshot = found.ok_or_else(|| {
                    Problem::field(parameter, "expected the number of an available snapshot")
                })?;
                snapshot.received_at..snapshot.superseded_at.unwrap_or(after(now))
            }
        });
    }
    Ok(times)
}

fn after(at: Timestamp) -> Timestamp {
    at.after(Some(at))
}

/// The artifacts of these repositories; `None` without any repository.
async fn artifacts_of_repositories(
    tenant: &mut Tenant<'_>,
    names: &[String],
) -> Result<Option<BTreeSet<Fingerprint>>, Problem> {
    let mut artifacts = BTreeSet::new();
    for name in names {
        let repositories = store::artifacts::live::repositories(tenant, &decoded_name(name)).await?;
        if repositories.is_empty() {
            return Err(not_found::repository(tenant, name, None, "").await);
        }
        for repository in repositories {
            artifacts.extend(store::artifacts::live::of_repository(tenant, repository.id).await?);
        }
    }
    Ok((!names.is_empty()).then_some(artifacts))
}

impl EnvironmentEvent {
    /// An event without an artifact.
    fn new(
        environment: &str,
        kind: &'static str,
        description: String,
        reported_at: Timestamp,
        snapshot_index: i64,
    ) -> Self {
        Self {
            environment_name: environment.to_owned(),
            snapshot_index,
            description,
            reported_at,
            kind,
            ..Self::default()
        }
    }

    /// An event for each artifact; one for the environment if its compliance changed.
    fn list(event: &Content, known: &HashMap<Fingerprint, KnownArtifact>) -> Vec<Self> {
        let of_environment = |kind, description| Self {
            reasons: event.absence.iter().map(Reason::with_text).collect(),
            snapshot_compliance: is_compliant(&event.compliance),
            ..Self::new(&event.environment, kind, description, event.occurred_at, event.snapshot_index)
        };
        let affected = |artifact: &AffectedArtifact| {
            let compliance = is_compliant(&artifact.compliance);
            let kind = match event.trigger {
                Trigger::StartedArtifact if compliance == Some(true) => "started-compliant",
                Trigger::StartedArtifact => "started-non-compliant",
                Trigger::ExitedArtifact => "exited",
                Trigger::AllowedArtifact => "allowed",
                _ => "changed",
            };
            let flow = known.get(&artifact.fingerprint).and_then(KnownArtifact::flow);
            Self {
                artifact_name: artifact.name.clone(),
                sha256: artifact.fingerprint.to_string(),
                pipeline: flow.unwrap_or_default().to_owned(),
                reasons: artifact.reasons.iter().map(Reason::with_text).collect(),
                artifact_compliance: compliance,
                ..of_environment(kind, description(event.trigger, artifact))
            }
        };
        let total = event.artifacts_total;
        match event.trigger {
            Trigger::NonCompliantEnvironment => {
                let (artifacts, are) =
                    (pluralize(total as u64, "artifact"), if total == 1 { "is" } else { "are" });
                let description =
                    format!("the environment became non-compliant: {artifacts} {are} not compliant");
                vec![of_environment("environment-non-compliant", description)]
            }
            Trigger::CompliantEnvironment => {
                vec![of_environment("environment-compliant", "the environment became compliant".to_owned())]
            }
            _ => event.artifacts.iter().map(affected).collect(),
        }
    }
}

fn is_compliant(compliance: &str) -> Option<bool> {
    match compliance.parse() {
        Ok(Compliance::Compliant) => Some(true),
        Ok(Compliance::NonCompliant) => Some(false),
        Ok(Compliance::Unknown) | Err(_) => None,
    }
}

/// The number of pods before and after, in the words of the public client.
fn description(trigger: Trigger, artifact: &AffectedArtifact) -> String {
    let (before, after) = (artifact.pods_before, artifact.pods);
    if trigger == Trigger::AllowedArtifact {
        return "the artifact was added to the allow-list".to_owned();
    }
    let instances = pluralize(before.abs_diff(after), "instance");
    let change = if after > before { "started" } else { "stopped" };
    format!("{instances} {change} running (from {before} to {after})")
}
