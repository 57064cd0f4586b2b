//! What was attested, as a trail and an attestation's own page show it.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::bar_chart;
use super::escape::{address, lines, text};
use super::format::{count, stamp};
use super::list::{LISTED, first, table};
use crate::domain::model::{FreeForm, JunitResult};
use crate::store::attested_artifacts::Attested;

/// The results: all as a bar, and the suites, those with failures first.
pub(crate) fn results(results: &[JunitResult]) -> Markup {
    html! {
        (bar_chart::bar(&JunitResult::of_all(results)))
        (suites(results))
    }
}

/// When it came, what it is about, and where more is said.
pub(crate) fn facts(attested: &Attested) -> Markup {
    html! {
        dt { "When" }
        dd { (stamp(attested.created_at)) ", by " (text(&attested.reported_by)) }
        @if !attested.targets.is_empty() {
            dt { "Of" }
            dd {
                ul.plain { @for target in attested.targets.iter().take(LISTED) { li { (text(target)) } } }
                (first(attested.targets.len(), "names"))
            }
        }
        @if !attested.origin_url.is_empty() {
            dt { "From" }
            dd { (address(&attested.origin_url)) }
        }
        (external(&attested.external_urls))
        @if let Some(size) = attested.attachment {
            dt { "File" }
            dd {
                @if let Some(name) = &attested.attachment_name { (text(name)) ", " }
                (count(size, "byte", "bytes"))
            }
        }
    }
}

/// The addresses that were sent by name.
fn external(urls: &FreeForm) -> Markup {
    let urls: BTreeMap<String, Value> = serde_json::from_str(urls.as_str()).unwrap_or_default();
    html! {
        @if !urls.is_empty() {
            dt { "Elsewhere" }
            dd {
                ul.plain {
                    @for (name, url) in urls.iter().take(LISTED) {
                        li { (text(name)) ": " (address(url.as_str().unwrap_or(&url.to_string()))) }
                    }
                }
                (first(urls.len(), "addresses"))
            }
        }
    }
}

/// Free-form data as it came: its numbers keep their digits.
pub(crate) fn data(data: &FreeForm) -> Markup {
    let is_empty =
        serde_json::from_str::<BTreeMap<String, Value>>(data.as_str()).is_ok_and(|map| map.is_empty());
    html! {
        @if !is_empty {
            details open {
                summary { "Data" }
                pre { (lines(data.as_str())) }
            }
        }
    }
}

/// The suites, those with failures first.
fn suites(results: &[JunitResult]) -> Markup {
    let ordered = failures_first(results);
    let rows = html! {
        @for suite in ordered.iter().take(LISTED) {
            tr {
                th scope="row" {
                    @if suite.name.as_str().is_empty() { "without a name" } @else { (text(suite.name.as_str())) }
                }
                td class=[(suite.failures > 0).then_some("bad")] { (suite.failures) }
                td class=[(suite.errors > 0).then_some("bad")] { (suite.errors) }
                td { (suite.skipped) }
                td { (suite.passed()) }
                td { (suite.total) }
                td { @if let Some(seconds) = suite.duration { (format!("{seconds:.3} s")) } }
            }
        }
    };
    let columns = ["Suite", "Failed", "Errors", "Skipped", "Passed", "All", "Took"];
    html! {
        @if !results.is_empty() { (table("Suites", &columns, &rows)) }
        (first(results.len(), "suites"))
    }
}

/// The suites in which most went wrong first, and the others in their order.
fn failures_first(results: &[JunitResult]) -> Vec<&JunitResult> {
    let mut ordered: Vec<_> = results.iter().collect();
    ordered.sort_by_key(|suite| std::cmp::Reverse(suite.wrong()));
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::Text;

    #[test]
    fn suites_with_failures_come_first_and_the_others_stay_in_order() {
        let suite = |name: &str, failures, errors| JunitResult {
            name: Text::new(name).unwrap(),
            failures,
            errors,
            total: 9,
            ..JunitResult::default()
        };
        let results =
            [suite("a", 0, 0), suite("b", 1, 0), suite("c", 0, 0), suite("d", 1, 1), suite("e", 0, 1)];
        let names: Vec<_> = failures_first(&results).iter().map(|suite| suite.name.as_str()).collect();
        assert_eq!(names, ["d", "b", "e", "a", "c"]);
    }
}
