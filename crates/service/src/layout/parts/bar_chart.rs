//! Test results as a horizontal bar chart, with the same numbers as text.

use maud::{Markup, html};

use crate::layout::parts::format::count;
use model::JunitResult;

/// Width of the bar, in units of its view box.
const WIDTH: u64 = 240;

/// A narrower segment would be invisible.
const MIN_WIDTH: u64 = WIDTH / 60;

#[derive(Debug, PartialEq, Eq)]
struct Segment {
    class: &'static str,
    x: u64,
    width: u64,
}

/// The results as text, failures first.
pub(crate) fn summary(total: &JunitResult) -> String {
    let failed = [(total.failures, "failed"), (total.errors, "with errors")];
    let rest = [(total.skipped, "skipped"), (total.passed(), "passed")];
    let parts = failed.into_iter().chain(rest).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, word)| format!("{number} {word}")).collect();
    let tests = count(total.total, "test", "tests");
    if parts.is_empty() { tests } else { format!("{tests}: {}", parts.join(", ")) }
}

/// `2 of 216 failed`, or `214 passed`.
pub(crate) fn short(total: &JunitResult) -> String {
    match (total.unsuccessful(), total.skipped) {
        (0, 0) => format!("{} passed", total.passed()),
        (0, skipped) => format!("{} passed, {skipped} skipped", total.passed()),
        (failed, _) => format!("{failed} of {} failed", total.total),
    }
}

pub(crate) fn bar(total: &JunitResult) -> Markup {
    html! {
        figure.tests {
            svg viewBox={ "0 0 " (WIDTH) " 8" } preserveAspectRatio="none" aria-hidden="true" {
                @for segment in segments(total) {
                    rect class=(segment.class) x=(segment.x) y="0" width=(segment.width) height="8" {}
                }
            }
            figcaption { (summary(total)) }
        }
    }
}

/// The segments of the bar, from left to right. Every number above 0 has a visible segment.
fn segments(total: &JunitResult) -> Vec<Segment> {
    let numbers = [
        ("failed", total.failures),
        ("error", total.errors),
        ("skipped", total.skipped),
        ("passed", total.passed()),
    ];
    let present: Vec<_> = numbers.into_iter().filter(|(_, number)| *number > 0).collect();
    // The width that is left when each segment has its minimum.
    let free = WIDTH - MIN_WIDTH * u64::try_from(present.len()).unwrap_or_default();
    let total: u64 = present.iter().map(|(_, number)| u64::from(*number)).sum();
    let (mut sum, mut x, mut segments) = (0, 0, Vec::new());
    for (position, (class, number)) in (1..).zip(present) {
        sum += u64::from(number);
        let end = MIN_WIDTH * position + free * sum / total.max(1);
        segments.push(Segment { class, x, width: end - x });
        x = end;
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(failures: u32, errors: u32, skipped: u32, total: u32) -> JunitResult {
        JunitResult { failures, errors, skipped, total, ..JunitResult::default() }
    }

    #[test]
    fn segments_fill_the_bar_and_a_single_failure_is_visible() {
        for result in [
            result(0, 0, 0, 1),
            result(1, 0, 0, 1_000_000_000),
            result(1, 1, 1, 3),
            result(1, 2, 3, 1_000),
            // More failures than tests.
            result(1_000_000_000, 1_000_000_000, 1_000_000_000, 1),
        ] {
            let segments = segments(&result);
            assert!(segments.iter().all(|segment| segment.width >= MIN_WIDTH), "{segments:?}");
            let end = segments.iter().fold(0, |end, segment| {
                assert_eq!(segment.x, end, "{segments:?}");
                end + segment.width
            });
            assert_eq!(end, WIDTH, "{segments:?}");
        }
        assert_eq!(segments(&result(0, 0, 0, 0)), []);
        assert_eq!(
            segments(&result(1, 0, 0, 2)).first().map(|segment| (segment.class, segment.width)),
            Some(("failed", 120))
        );
    }

    #[test]
    fn summary_lists_failures_first() {
        assert_eq!(summary(&result(1, 2, 3, 10)), "10 tests: 1 failed, 2 with errors, 3 skipped, 4 passed");
        assert_eq!(summary(&result(0, 0, 0, 1)), "1 test: 1 passed");
        assert_eq!(summary(&JunitResult::sum(&[])), "0 tests");
        assert_eq!(
            summary(&JunitResult::sum(&[result(1, 0, 0, 2), result(0, 0, 0, 3)])),
            "5 tests: 1 failed, 4 passed"
        );
    }
}
