//! A snapshot on the timeline and the comparison page: status, facts, and the form that selects two snapshots.

use std::ops::RangeInclusive;

use maud::{Markup, html};

use crate::layout::parts::environment_status::CurrentStatus;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::{badge, compliance_badge, count, duration, timestamp};
use crate::layout::parts::urls::EnvironmentLinks;
use store::environments::timeline::Snapshot;

/// The status of the environment at the time of the snapshot.
pub(crate) fn status_badge(snapshot: &Snapshot) -> Markup {
    html! {
        @match snapshot.compliance {
            Some(compliance) => { (compliance_badge(compliance)) span.when { " when it was received" } },
            None => (badge("open", "not evaluated")),
        }
    }
}

/// The times of a snapshot, and the token that reported it.
pub(crate) fn facts(snapshot: &Snapshot, status: CurrentStatus) -> Markup {
    let ended_at = snapshot.ended_at(&status.validity, status.now);
    let confirmed =
        snapshot.confirmed_at.or(status.validity.last_report_at.filter(|_| snapshot.superseded_at.is_none()));
    html! {
        dl.facts {
            div { dt { "Received" } dd { (timestamp(snapshot.received_at)) ", by " (text(&snapshot.reported_by)) } }
            @for confirmation in &snapshot.confirmations {
                div {
                    dt { "Also reported" }
                    dd {
                        "by " (text(&confirmation.reported_by)) ", first " (timestamp(confirmation.first_at))
                        @if confirmation.last_at > confirmation.first_at {
                            ", last since " (timestamp(confirmation.last_at))
                        }
                    }
                }
            }
            div {
                dt { "Confirmed until" }
                dd { @if let Some(confirmed) = confirmed { (timestamp(confirmed)) } @else { "not recorded" } }
            }
            div {
                dt { "Superseded" }
                dd { @if let Some(superseded) = snapshot.superseded_at { (timestamp(superseded)) } @else { "not yet" } }
            }
            div {
                dt { "Current for" }
                dd {
                    (duration(snapshot.duration(ended_at, status.now))) @if ended_at.is_none() { " so far" }
                    @if snapshot.gaps_within > 0 {
                        ", with " (count(snapshot.gaps_within, "gap", "gaps")) " of " (duration(snapshot.sum_within))
                        @if snapshot.gaps_within > 1 { " in total" }
                    }
                }
            }
        }
    }
}

/// The form that selects two of the available snapshots to compare.
pub(crate) fn comparison_form(
    links: EnvironmentLinks<'_>,
    available: &RangeInclusive<i64>,
    from: i64,
    to: i64,
) -> Markup {
    let (first, last) = (*available.start(), *available.end());
    let field = |name: &str, label: &str, value: i64| {
        html! {
            div {
                label for=(name) { (label) }
                input id=(name) name=(name) type="number" required min=(first) max=(last) value=(value);
            }
        }
    };
    html! {
        @if last > 0 {
            form.filter action=(links.comparison_form()) {
                (field("from", "Compare snapshot", from))
                (field("to", "with snapshot", to))
                button type="submit" { "Compare" }
            }
        }
    }
}
