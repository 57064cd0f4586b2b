//! The results of tests as a bar, and as words that say the same.

use maud::{Markup, html};

use super::format::count;
use crate::domain::model::JunitResult;

/// How wide a bar is, in units of its own.
const WIDTH: u64 = 240;

/// A part of a bar.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    class: &'static str,
    from: u64,
    width: u64,
}

/// The results in words: what went wrong first.
pub(crate) fn said(total: &JunitResult) -> String {
    let wrong = [(total.failures, "failed"), (total.errors, "with an error")];
    let rest = [(total.skipped, "skipped"), (total.passed(), "passed")];
    let parts = wrong.into_iter().chain(rest).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, word)| format!("{number} {word}")).collect();
    let tests = count(i64::from(total.total), "test", "tests");
    if parts.is_empty() { tests } else { format!("{tests}: {}", parts.join(", ")) }
}

/// The bar, with the words below it.
pub(crate) fn bar(total: &JunitResult) -> Markup {
    html! {
        figure.tests {
            svg viewBox={ "0 0 " (WIDTH) " 8" } preserveAspectRatio="none" aria-hidden="true" {
                @for part in parts(total) {
                    rect class=(part.class) x=(part.from) y="0" width=(part.width) height="8" {}
                }
            }
            figcaption { (said(total)) }
        }
    }
}

/// The parts of a bar, from left to right. Each that is there can be seen, however small it is.
fn parts(total: &JunitResult) -> Vec<Part> {
    let numbers = [
        ("failed", total.failures),
        ("error", total.errors),
        ("skipped", total.skipped),
        ("passed", total.passed()),
    ];
    let there: Vec<_> = numbers.into_iter().filter(|(_, number)| *number > 0).collect();
    let least = WIDTH / 60;
    // What is left once each part has its least.
    let free = WIDTH - least * u64::try_from(there.len()).unwrap_or_default();
    let all: u64 = there.iter().map(|(_, number)| u64::from(*number)).sum();
    let (mut seen, mut from, mut parts) = (0, 0, Vec::new());
    for (place, (class, number)) in (1..).zip(there) {
        seen += u64::from(number);
        let until = least * place + free * seen / all.max(1);
        parts.push(Part { class, from, width: until - from });
        from = until;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(failures: u32, errors: u32, skipped: u32, total: u32) -> JunitResult {
        JunitResult { failures, errors, skipped, total, ..JunitResult::default() }
    }

    #[test]
    fn the_parts_fill_the_bar_and_one_failure_among_many_is_seen() {
        for result in [
            result(0, 0, 0, 1),
            result(1, 0, 0, 1_000_000_000),
            result(1, 1, 1, 3),
            result(1, 2, 3, 1_000),
            // More went wrong than there were.
            result(1_000_000_000, 1_000_000_000, 1_000_000_000, 1),
        ] {
            let parts = parts(&result);
            assert!(parts.iter().all(|part| part.width >= WIDTH / 60), "{parts:?}");
            let end = parts.iter().fold(0, |end, part| {
                assert_eq!(part.from, end, "{parts:?}");
                end + part.width
            });
            assert_eq!(end, WIDTH, "{parts:?}");
        }
        assert_eq!(parts(&result(0, 0, 0, 0)), []);
        assert_eq!(
            parts(&result(1, 0, 0, 2)).first().map(|part| (part.class, part.width)),
            Some(("failed", 120))
        );
    }

    #[test]
    fn words_say_what_went_wrong_first() {
        assert_eq!(said(&result(1, 2, 3, 10)), "10 tests: 1 failed, 2 with an error, 3 skipped, 4 passed");
        assert_eq!(said(&result(0, 0, 0, 1)), "1 test: 1 passed");
        assert_eq!(said(&JunitResult::of_all(&[])), "0 tests");
        assert_eq!(
            said(&JunitResult::of_all(&[result(1, 0, 0, 2), result(0, 0, 0, 3)])),
            "5 tests: 1 failed, 4 passed"
        );
    }
}
