//! Formats times, durations, counts, digests and verdicts for pages.

use std::fmt::Display;
use std::time::Duration;

use jiff::{Timestamp as Instant, tz::TimeZone};
use maud::{Markup, html};

use model::escape::shortened;
use model::{Fingerprint, Timestamp};
use rules::compliance::Compliance;
use store::environments::RunningTotals;

/// A time in UTC, and how long ago it was.
pub(crate) fn timestamp_with_age(time: Timestamp, now: Timestamp) -> Markup {
    html! { (timestamp(time)) " " span.age { "(" (age(now, time)) ")" } }
}

/// A time in UTC. The script adds the local time as a title.
pub(crate) fn timestamp(time: Timestamp) -> Markup {
    html! { time datetime=(rfc3339(time)) { (utc(time)) } }
}

/// A point in time that a reader asked for, with its fraction of a second.
pub(crate) fn precise(time: Timestamp) -> Markup {
    let at = time.iso_8601();
    html! { time datetime=(at) { (at.replacen('T', " ", 1).replacen('Z', " UTC", 1)) } }
}

fn age(now: Timestamp, time: Timestamp) -> String {
    if time > now || now.distance(time).as_secs() < 10 {
        return "now".to_owned();
    }
    format!("{} ago", elapsed(now, time))
}

/// The time since another one, in its largest unit.
pub(crate) fn elapsed(now: Timestamp, time: Timestamp) -> String {
    let seconds = if time > now { 0 } else { now.distance(time).as_secs() };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A time as RFC 3339: `2026-10-03T14:00:00Z`.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let instant = Instant::from_microsecond(time.micros()).unwrap_or(Instant::MAX);
    instant.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as readable text: `2026-10-03 14:00:00 UTC`.
pub(crate) fn utc(time: Timestamp) -> String {
    time.to_string()
}

/// A duration in its two largest units.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let parts = match seconds {
        0..60 => [(seconds, "s"), (0, "")],
        60..3_600 => [(minutes, "min"), (seconds % 60, "s")],
        3_600..86_400 => [(hours, "h"), (minutes, "min")],
        _ => [(days, if days == 1 { "day" } else { "days" }), (hours, "h")],
    };
    let shown = parts.iter().enumerate().filter(|(index, (number, _))| *index == 0 || *number > 0);
    shown.map(|(_, (number, unit))| format!("{number} {unit}")).collect::<Vec<_>>().join(" ")
}

/// The name of a verdict, on badges and in URLs.
pub(crate) fn compliance_name(compliance: Compliance) -> &'static str {
    match compliance {
        Compliance::Compliant => "compliant",
        Compliance::Unknown => "unknown",
        Compliance::NonCompliant => "non-compliant",
    }
}

/// The place of a verdict in lists: what needs attention first.
pub(crate) fn severity(compliance: Compliance) -> u8 {
    match compliance {
        Compliance::NonCompliant => 0,
        Compliance::Unknown => 1,
        Compliance::Compliant => 2,
    }
}

/// A badge. The text is sufficient without its color.
pub(crate) fn badge(class: &str, word: &str) -> Markup {
    html! { span class={ "badge " (class) } { (word) } }
}

pub(crate) fn compliance_badge(compliance: Compliance) -> Markup {
    let class = match compliance {
        Compliance::Compliant => "good",
        Compliance::Unknown => "open",
        Compliance::NonCompliant => "bad",
    };
    badge(class, compliance_name(compliance))
}

/// The badge of an attestation; one of a type without a verdict does not pass.
pub(crate) fn result_badge(passes: Option<bool>) -> Markup {
    let (class, word) = match passes {
        Some(true) => ("good", "passed"),
        Some(false) => ("bad", "failed"),
        None => ("open", "no verdict"),
    };
    badge(class, word)
}

/// The first 12 digits of a digest.
pub(crate) fn short_digest(artifact: &Fingerprint) -> String {
    shortened(&artifact.to_string(), 12)
}

pub(crate) fn running_totals(RunningTotals { artifacts, pods }: RunningTotals) -> String {
    format!("{} in {}", count(artifacts, "artifact", "artifacts"), count(pods, "pod", "pods"))
}

/// A number with its noun.
pub(crate) fn count(number: impl Display + Copy + PartialEq + From<u8>, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1_u8.into() { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_one_unit() {
        let now = Timestamp::from_micros(1_000_000_000_000);
        for (seconds, expected) in [
            (0, "now"),
            (9, "now"),
            (10, "10 s ago"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (3_600, "1 h ago"),
            (172_799, "47 h ago"),
            (172_800, "2 days ago"),
            (-5, "now"),
        ] {
            let time = Timestamp::from_micros(now.micros() - seconds * 1_000_000);
            assert_eq!(age(now, time), expected, "{seconds}");
        }
    }

    #[test]
    fn timestamp_is_in_utc_with_its_age() {
        let time = Timestamp::from_micros(1_000_000_000_000);
        let markup = timestamp_with_age(time, Timestamp::from_micros(1_000_060_000_000)).into_string();
        assert_eq!(
            markup,
            "<time datetime=\"1970-01-12T13:46:40Z\">1970-01-12 13:46:40 UTC</time> \
             <span class=\"age\">(1 min ago)</span>"
        );
    }

    #[test]
    fn duration_has_two_units() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (61, "1 min 1 s"),
            (3_600, "1 h"),
            (7_260, "2 h 1 min"),
            (86_400, "1 day"),
            (180_000, "2 days 2 h"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), expected);
        }
    }
}
