//! Results, facts and free-form data of one attestation, for its page.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use crate::layout::parts::bar_chart;
use crate::layout::parts::escape::{lines, text, url_link};
use crate::layout::parts::format::{count, timestamp};
use crate::layout::parts::list::{MAX_LISTED, first_note, table};
use model::{FreeForm, JunitResult};
use store::attestations::details::AttestationDetails;
use store::attestations::lists::AttestationSummary;

/// The total as a bar chart, and a table of the suites.
pub(crate) fn results(results: &[JunitResult]) -> Markup {
    html! {
        (bar_chart::bar(&JunitResult::sum(results)))
        (suites(results))
    }
}

/// The rows of a description list: time, targets, links and the attached file, which is at `file_url`.
pub(crate) fn facts(attested: &AttestationDetails, file_url: &str) -> Markup {
    let listed = &attested.attestation;
    html! {
        dt { "Created" }
        dd { (timestamp(listed.created_at)) ", by " (text(&listed.reported_by)) }
        @if !attested.target_artifacts.is_empty() {
            dt { "Targets" }
            dd {
                ul.plain { @for target in attested.target_artifacts.iter().take(MAX_LISTED) { li { (text(target)) } } }
                (first_note(attested.target_artifacts.len(), "names"))
            }
        }
        @if !listed.origin_url.is_empty() {
            dt { "Origin" }
            dd { (url_link(&listed.origin_url)) }
        }
        @if let Some(signed) = &attested.signed_evidence {
            dt { "Signed" }
            dd {
                (text(&signed.to_string())) ", trusted as " (text(&signed.trust))
                @if let Some(at) = signed.signed_at { ", " (timestamp(at)) }
            }
        }
        (external(&attested.external_urls))
        @if let Some(file) = &attested.attachment {
            dt { "File" }
            dd {
                @if let Some(name) = &file.name { (text(name)) ", " }
                (count(file.size, "byte", "bytes"))
                @match file.removed_at {
                    Some(removed) => { ", removed by retention at " (timestamp(removed)) },
                    None => { ", " a href=(file_url) { "download" } },
                }
                br;
                code.whole { "sha256:" (file.sha256) }
            }
        }
    }
}

fn external(urls: &FreeForm) -> Markup {
    let urls: BTreeMap<String, Value> = serde_json::from_str(urls.as_str()).unwrap_or_default();
    html! {
        @if !urls.is_empty() {
            dt { "External URLs" }
            dd {
                ul.plain {
                    @for (name, url) in urls.iter().take(MAX_LISTED) {
                        li { (text(name)) ": " (url_link(url.as_str().unwrap_or(&url.to_string()))) }
                    }
                }
                (first_note(urls.len(), "URLs"))
            }
        }
    }
}

pub(crate) const JUNIT: &str = "junit";

/// The results of an attestation in a list; the type of other attestations.
pub(crate) fn content(attested: &AttestationSummary) -> Markup {
    if attested.kind == JUNIT {
        html! { (bar_chart::summary(&attested.results)) }
    } else {
        text(&attested.kind)
    }
}

/// Free-form JSON, unparsed: numbers keep all their digits.
pub(crate) fn data(title: &str, data: &str) -> Markup {
    let is_empty = matches!(data.trim(), "{}" | "null");
    html! {
        @if !is_empty {
            details open {
                summary { (title) }
                pre { (lines(data)) }
            }
        }
    }
}

fn suites(results: &[JunitResult]) -> Markup {
    let ordered = failures_first(results);
    let rows = html! {
        @for suite in ordered.iter().take(MAX_LISTED) {
            tr {
                th scope="row" {
                    @if suite.name.as_str().is_empty() { "unnamed" } @else { (text(suite.name.as_str())) }
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
    let columns = ["Suite", "Failed", "Errors", "Skipped", "Passed", "Total", "Duration"];
    html! {
        @if !results.is_empty() { (table("Suites", &columns, &rows)) }
        (first_note(results.len(), "suites"))
    }
}

/// Sorts the suites by failures and errors, most first; the sort is stable.
fn failures_first(results: &[JunitResult]) -> Vec<&JunitResult> {
    let mut ordered: Vec<_> = results.iter().collect();
    ordered.sort_by_key(|suite| std::cmp::Reverse(suite.unsuccessful()));
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Text;

    #[test]
    fn suites_are_sorted_by_failures_and_keep_their_order_otherwise() {
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
