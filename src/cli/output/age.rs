//! Formats the age of a timestamp for tables.

use model::Timestamp;

/// Formats an age in one unit, rounded down: `now`, `59s ago`, `3m ago`, `47h ago`, `12d ago`. A time in the future, by
/// clock skew of the service, is `in 5m`.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let length = match now.distance(then).as_secs() {
        0 => return "now".to_owned(),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    };
    if then > now { format!("in {length}") } else { format!("{length} ago") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_one_unit_and_future_time_is_marked() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let now = at(1_000_000_000);
        for (seconds, expected) in [
            (0, "now"),
            (59, "59s ago"),
            (60, "1m ago"),
            (3_599, "59m ago"),
            (3_600, "1h ago"),
            (172_799, "47h ago"),
            (172_800, "2d ago"),
            (-300, "in 5m"),
        ] {
            assert_eq!(ago(at(1_000_000_000 - seconds), now), expected);
        }
    }
}
