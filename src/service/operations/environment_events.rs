//! List the events of an environment, and the periods without reports. An extension of the interface.

use std::collections::{BTreeSet, HashMap};

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::escape::Escaped;
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::event::AffectedArtifact;
use crate::domain::evidence::notification::Content;
use crate::domain::evidence::reason::Reason;
use crate::domain::model::{EnvironmentName, Fingerprint, PointInTime, Timestamp, Trigger};
use crate::service::access::{Admitted, Read};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::service::http::snapshot_interval::{EventsLimit, Interval, SnapshotInterval};
use crate::service::selected_snapshot::environment;
use crate::service::site::Site;
use crate::store::Transaction;
use crate::store::artifact_flows::KnownArtifact;
use crate::store::overview::EnvironmentOverview;

/// An event of an environment. A text that does not apply is empty.
#[derive(Debug, Serialize, utoipa::ToSchema)]
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
/// is listed for each. Periods without reports are listed in addition. Not in the interface.
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
    let (page, interval) = (parameters.page()?, SnapshotInterval::parse(&parameters)?);
    let (now, mut transaction) = (site.now(), site.store.read().await?);
    let environment = environment(&mut transaction, &organization, &name).await?;
    let available = transaction.available_snapshots(&organization, environment.id).await?;
    let numbers = interval.numbers(&name, environment.snapshot, &available)?;
    let span =
        Span::read(&mut transaction, (&organization, &environment), (&interval, numbers), &parameters, now)
            .await?;
    let wanted =
        artifacts_of_repositories(&mut transaction, &organization, parameters.all("repo_name")).await?;

    // The event before the page limits the gaps of the page.
    let before = i64::from(page.offset() > 0);
    let range = (page.offset() - before, page.size() + before);
    let mut events = transaction
        .events(&organization, environment.id, (span.from, span.until), interval.is_reversed, range)
        .await?;
    if before > 0 && events.is_empty() {
        return Ok(axum::Json(Vec::new()));
    }
    let is_last_page = i64::try_from(events.len()).is_ok_and(|count| count < range.1);
    let end = events.last().filter(|_| !is_last_page).map(|event| event.occurred_at);
    let start = (before > 0).then(|| events.remove(0).occurred_at);
    let (from, until) = if interval.is_reversed { (start, end) } else { (end, start) };
    let mut silences = Vec::new();
    let gaps = (from.unwrap_or(span.from), until.unwrap_or(span.until));
    for (snapshot, from, to) in transaction.gaps_ended(&organization, environment.id, gaps).await? {
        let description = format!("no reports from {from} to {to}: what ran is unknown");
        silences.push(EnvironmentEvent::new(name.as_str(), "gap", description, to, snapshot));
    }
    let validity = environment.validity(site.silent_after);
    let is_silent = validity.is_silent(now) && until.is_none() && span.until > now;
    if let Some(since) = validity.last_report_at.filter(|_| is_silent) {
        let description = format!("no reports since {since}: what runs is unknown");
        silences.push(EnvironmentEvent::new(name.as_str(), "silent", description, now, environment.snapshot));
    }
    let horizon = available.horizon_at.filter(|horizon| from.is_none() && span.from < *horizon);
    if let Some(horizon) = horizon {
        let description = format!("events before {horizon} were removed by retention");
        silences.push(EnvironmentEvent::new(name.as_str(), "removed", description, horizon, numbers.0));
    }
    let artifacts =
        events.iter().flat_map(|event| event.artifacts.iter().map(|artifact| artifact.fingerprint));
    let known = transaction.known_artifacts(&organization, &artifacts.collect()).await?;
    drop(transaction);

    let listed = events.iter().flat_map(|event| EnvironmentEvent::list(event, &known));
    let is_wanted =
        |event: &EnvironmentEvent| wanted.as_ref().is_none_or(|wanted| wanted.contains(&event.sha256));
    let listed = listed.filter(is_wanted);
    // In a stable order: reports resume before the events of the first one.
    let mut listed: Vec<_> = if interval.is_reversed {
        silences.into_iter().chain(listed).collect()
    } else {
        listed.chain(silences).collect()
    };
    listed.sort_by(|one, other| {
        let order = one.reported_at.cmp(&other.reported_at);
        if interval.is_reversed { order } else { order.reverse() }
    });
    Ok(axum::Json(listed))
}

/// The requested times.
struct Span {
    /// Inclusive.
    from: Timestamp,
    /// Exclusive.
    until: Timestamp,
}

impl Span {
    /// Intersects the interval with the other limits.
    async fn read(
        transaction: &mut Transaction,
        (organization, environment): (&str, &EnvironmentOverview),
        (interval, (first, last)): (&SnapshotInterval, (i64, i64)),
        parameters: &Parameters,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let after = |at: Timestamp| at.after(Some(at));
        let mut span = Self { from: Timestamp::EPOCH, until: after(now) };
        if first > last {
            span.until = span.from;
            return Ok(span);
        }
        let mut limits = Vec::new();
        for parameter in ["start", "end"] {
            let of_interval = match parameter {
                "start" if !interval.is_whole() => Some(first),
                "end" if !interval.includes_latest(environment.snapshot) => Some(last),
                _ => None,
            };
            limits.extend(of_interval.map(|number| (parameter, EventsLimit::Snapshot(number))));
            limits.extend(parameters.parsed(parameter)?.map(|limit| (parameter, limit)));
            let name = format!("{parameter}_ts");
            if let Some(seconds) = parameters.parsed::<f64>(&name)? {
                let at = Timestamp::from_seconds(seconds);
                let at = at.ok_or_else(|| Problem::field(name, "expected seconds since 1970"))?;
                limits.push((parameter, EventsLimit::Time(PointInTime::Absolute(at))));
            }
        }
        for (parameter, limit) in limits {
            let (from, until) = match limit {
                EventsLimit::Time(time) => (time.resolve(now), after(time.resolve(now))),
                EventsLimit::Snapshot(number) => {
                    let found =
                        transaction.snapshots(organization, environment.id, (number, number)).await?.pop();
                    let not_found =
                        || Problem::field(parameter, "expected the number of an available snapshot");
                    let snapshot = found.ok_or_else(not_found)?;
                    (snapshot.received_at, snapshot.superseded_at.unwrap_or(span.until))
                }
            };
            match parameter {
                "start" => span.from = span.from.max(from),
                _ => span.until = span.until.min(until),
            }
        }
        Ok(span)
    }
}

/// The fingerprints of the artifacts of these repositories; `None` without any repository.
async fn artifacts_of_repositories(
    transaction: &mut Transaction,
    organization: &str,
    names: &[String],
) -> Result<Option<BTreeSet<String>>, Problem> {
    let mut artifacts = BTreeSet::new();
    for name in names {
        let repositories = transaction.repositories(organization, name).await?;
        if repositories.is_empty() {
            return Err(Problem::not_found(format!("repository \"{}\" not found", Escaped(name))));
        }
        for repository in repositories {
            let built = transaction.artifacts_of_repository(organization, repository.id).await?;
            artifacts.extend(built.iter().map(ToString::to_string));
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
            artifact_name: String::new(),
            sha256: String::new(),
            description,
            reported_at,
            pipeline: String::new(),
            reasons: Vec::new(),
            artifact_compliance: None,
            snapshot_compliance: None,
            kind,
        }
    }

    /// An event for each artifact; one for the environment if its compliance changed.
    fn list(event: &Content, known: &HashMap<Fingerprint, KnownArtifact>) -> Vec<Self> {
        let of_environment = |kind, description| Self {
            reasons: event.absence.iter().map(Reason::with_text).collect(),
            snapshot_compliance: is_compliant(&event.compliance),
            ..Self::new(&event.environment, kind, description, event.occurred_at, event.snapshot_index)
        };
        match event.trigger {
            Trigger::NonCompliantEnvironment => {
                let artifacts = match event.artifacts_total {
                    1 => "1 artifact is".to_owned(),
                    several => format!("{several} artifacts are"),
                };
                let description = format!("the environment became non-compliant: {artifacts} not compliant");
                return vec![of_environment("environment-non-compliant", description)];
            }
            Trigger::CompliantEnvironment => {
                let description = "the environment became compliant".to_owned();
                return vec![of_environment("environment-compliant", description)];
            }
            _ => {}
        }
        let affected = |artifact: &AffectedArtifact| {
            let compliance = is_compliant(&artifact.compliance);
            let kind = match event.trigger {
                Trigger::StartedArtifact if compliance == Some(true) => "started-compliant",
                Trigger::StartedArtifact => "started-non-compliant",
                Trigger::ExitedArtifact => "exited",
                Trigger::AllowedArtifact => "allowed",
                _ => "changed",
            };
            Self {
                artifact_name: artifact.name.clone(),
                sha256: artifact.fingerprint.to_string(),
                pipeline: known
                    .get(&artifact.fingerprint)
                    .and_then(KnownArtifact::flow)
                    .unwrap_or_default()
                    .to_owned(),
                reasons: artifact.reasons.iter().map(Reason::with_text).collect(),
                artifact_compliance: compliance,
                ..of_environment(kind, description(event.trigger, artifact))
            }
        };
        event.artifacts.iter().map(affected).collect()
    }
}

fn is_compliant(compliance: &str) -> Option<bool> {
    match compliance.parse() {
        Ok(Compliance::Compliant) => Some(true),
        Ok(Compliance::NonCompliant) => Some(false),
        _ => None,
    }
}

/// The number of pods before and after, in the words of the public client.
fn description(trigger: Trigger, artifact: &AffectedArtifact) -> String {
    let (before, after) = (artifact.pods_before, artifact.pods);
    if trigger == Trigger::AllowedArtifact {
        return "the artifact was added to the allow-list".to_owned();
    }
    let count = before.abs_diff(after);
    let instances = if count == 1 { "instance" } else { "instances" };
    let change = if after > before { "started" } else { "stopped" };
    format!("{count} {instances} {change} running (from {before} to {after})")
}
