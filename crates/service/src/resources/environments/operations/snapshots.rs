//! List the snapshots of an environment: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::engine::selected_snapshot::environment;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::http::snapshot_interval::Interval;
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{EnvironmentName, Timestamp};
use rules::compliance::Compliance;
use store::environments::timeline::ReportGap;

/// A snapshot in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ListedSnapshot {
    /// Its number
    index: i64,
    /// When it was received
    from: Timestamp,
    /// When it ended: with the next snapshot, or with the last report before a gap; 0 while it is current
    to: Timestamp,
    /// Whether it is compliant: now if it is the latest, or else when it was received
    compliant: bool,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`; null if it was not evaluated
    compliance: Option<&'static str>,
    /// In seconds
    duration: u64,
    /// The name of the token that reported it
    reported_by: String,
    /// The latest periods without reports while it was current: what ran then is unknown
    gaps: Vec<ReportGap>,
    /// Whether retention removed the snapshots before it
    earlier_removed: bool,
}

/// List the snapshots of an environment, newest first.
#[utoipa::path(
    get,
    path = "/snapshots/{org}/{env_name}",
    tag = "environments",
    params(
        ("interval" = inline(Option<Interval>), Query, description = "A..B, each a number, ~N (before the latest) or NOW; or one of them"),
        ("reverse" = Option<bool>, Query, description = "Oldest first"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Vec<ListedSnapshot>),
        (status = 404, description = "No such environment, or the snapshots were removed", body = ErrorBody),
    ),
)]
pub(crate) async fn list_snapshots(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Vec<ListedSnapshot>>, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    let parameters = Parameters::read(&uri, &["interval", "reverse", "page", "per_page"])?;
    let (page, interval) =
        (parameters.page()?, parameters.parsed::<Interval>("interval")?.unwrap_or_default());
    let is_reversed = parameters.parsed("reverse")?.unwrap_or_default();
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let environment = environment(tenant, &name).await?;
    let available = store::environments::timeline::available_snapshots(tenant, environment.id).await?;
    let (first, last) = interval.numbers(&name, environment.snapshot, &available)?;
    let (from, to) = if is_reversed {
        let from = first.saturating_add(page.offset());
        (from, last.min(from.saturating_add(page.size() - 1)))
    } else {
        let to = last.saturating_sub(page.offset());
        (first.max(to.saturating_sub(page.size() - 1)), to)
    };
    let mut snapshots = store::environments::timeline::snapshots(tenant, environment.id, from, to).await?;
    drop(transaction);
    if is_reversed {
        snapshots.reverse();
    }
    let (now, validity) = (site.now(), environment.validity(site.silent_after));
    let listed = snapshots.into_iter().map(|snapshot| {
        let ended_at = snapshot.ended_at(&validity, now);
        let compliance = if snapshot.number == environment.snapshot {
            Some(environment.compliance.confirmed(validity.is_valid(now)))
        } else {
            snapshot.compliance
        };
        ListedSnapshot {
            index: snapshot.number,
            from: snapshot.received_at,
            to: ended_at.unwrap_or(Timestamp::EPOCH),
            compliant: compliance == Some(Compliance::Compliant),
            compliance: compliance.map(Compliance::as_str),
            duration: snapshot.duration(ended_at, now).as_secs(),
            reported_by: snapshot.reported_by,
            gaps: snapshot.gaps,
            earlier_removed: snapshot.number > 1 && available.first == Some(snapshot.number),
        }
    });
    Ok(axum::Json(listed.collect()))
}
