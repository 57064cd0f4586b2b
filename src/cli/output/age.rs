//! How long ago something was, as a table says it.

use crate::domain::model::Timestamp;

/// In one unit, rounded down: `now`, `59s ago`, `3m ago`, `47h ago`, `12d ago`; of what has not come yet,
/// as the service's clock has it, `in 5m`.
pub(in crate::cli) fn ago(then: Timestamp, now: Timestamp) -> String {
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
    fn an_age_has_one_unit_and_a_time_to_come_is_none() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let now = at(1_000_000_000);
        for (seconds, said) in [
            (0, "now"),
            (59, "59s ago"),
            (60, "1m ago"),
            (3_599, "59m ago"),
            (3_600, "1h ago"),
            (172_799, "47h ago"),
            (172_800, "2d ago"),
            (-300, "in 5m"),
        ] {
            assert_eq!(ago(at(1_000_000_000 - seconds), now), said);
        }
    }
}
