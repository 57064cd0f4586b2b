//! The table of running artifacts, or of those at a point in time.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};

use crate::layout::parts::bar_chart;
use crate::layout::parts::environment_status::verdict_reason;
use crate::layout::parts::escape::{image_name, text};
use crate::layout::parts::format::{compliance_badge, count, short_digest, timestamp, timestamp_with_age};
use crate::layout::parts::urls::commit_link;
use crate::resources::environments::pages::running::{RunningPage, RunningRow, Verdicts, Workload};
use model::escape::Escaped;
use model::image_id::short_name;
use model::{Fingerprint, JunitResult, Timestamp};
use store::artifacts::flows::KnownArtifact;

/// Maximum number of workloads in a row.
const MAX_WORKLOADS: usize = 3;

/// Maximum number of attestations of tests in a row.
const MAX_TESTS: usize = 3;

/// What pipelines recorded of the artifacts on the page.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) known: HashMap<Fingerprint, KnownArtifact>,
    /// By the name of the attestation.
    pub(crate) tests: HashMap<Fingerprint, BTreeMap<String, JunitResult>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) caption: &'a str,
    /// The path below which the pages of artifacts are.
    pub(crate) artifacts_path: &'a str,
    pub(crate) page: &'a RunningPage,
    pub(crate) recorded: &'a Recorded,
    /// The verdicts of the point in time that the table shows.
    pub(crate) verdicts: Verdicts<'a>,
    /// The current verdicts, if the table shows the past.
    pub(crate) today: Option<Verdicts<'a>>,
    pub(crate) now: Timestamp,
}

impl Table<'_> {
    pub(crate) fn markup(&self) -> Markup {
        let verdicts: &[&str] = if self.today.is_some() { &["Then", "Today"] } else { &["Compliance"] };
        html! {
            // Scrolls horizontally if it is too wide; the tab index makes it scrollable by keyboard.
            div.scroll id="artifacts" tabindex="0" role="region" aria-label=(Escaped(self.caption).to_string()) {
                table.runs.artifacts {
                    caption { (text(self.caption)) }
                    thead {
                        tr {
                            @for column in ["Workload", "Image", "Commit", "Tests"].iter().chain(verdicts).chain(&["Running since"]) {
                                th scope="col" { (column) }
                            }
                        }
                    }
                    tbody { @for run in &self.page.rows { (self.row(run)) } }
                }
            }
        }
    }

    fn row(&self, run: &RunningRow) -> Markup {
        let missing = if self.today.is_some() { "not evaluated" } else { "" };
        let page = format!("{}/{}", self.artifacts_path, run.artifact);
        let (commit, commit_url) =
            self.recorded.known.get(&run.artifact).map(|known| known.commit(None)).unwrap_or_default();
        html! {
            tr {
                td.workload {
                    @for workload in run.workloads.iter().take(MAX_WORKLOADS) { div { (name(workload)) } }
                    @if run.workloads.len() > MAX_WORKLOADS {
                        span.reason { "and " (count(run.workloads.len() - MAX_WORKLOADS, "workload", "workloads")) " more" }
                    }
                    span.reason { (count(run.pods, "pod", "pods")) @if let Some(pod) = &run.matching_pod { ", pod " (text(pod)) } }
                    @if self.page.has_several_reporters {
                        @for reporter in &run.reporters { span.reason { "reported by " (text(reporter)) } }
                    }
                }
                td.image {
                    a href=(page) { (image_name(short_name(run.image()))) }
                    (digest(run))
                }
                td.commit { @if let Some(commit) = commit { (commit_link(commit, commit_url)) } }
                td.results {
                    @if let Some(tests) = self.recorded.tests.get(&run.artifact) { (tests_by_name(tests)) }
                }
                td.verdict data-name=[self.today.map(|_| "Then")] { (verdict(&self.verdicts, &run.artifact, missing)) }
                @if let Some(today) = &self.today {
                    td.verdict data-name="Today" { (verdict(today, &run.artifact, "")) }
                }
                td.since {
                    @if self.today.is_some() { (timestamp(run.since)) } @else { (timestamp_with_age(run.since, self.now)) }
                }
            }
        }
    }
}

/// The results; with their names, failures first, if there are several.
fn tests_by_name(tests: &BTreeMap<String, JunitResult>) -> Markup {
    let mut sorted: Vec<_> = tests.iter().collect();
    sorted.sort_by_key(|(_, results)| results.unsuccessful() == 0);
    html! {
        @for (name, results) in sorted.iter().take(MAX_TESTS) {
            div { @if tests.len() > 1 { (text(name)) ": " } (bar_chart::short(results)) }
        }
        @if tests.len() > MAX_TESTS { "and " (tests.len() - MAX_TESTS) " more" }
    }
}

/// `shop / deploy/cart`.
fn name(workload: &Workload) -> Markup {
    html! {
        (text(&workload.namespace)) " / "
        @match &workload.owner {
            Some(owner) => span title=(Escaped(&owner.to_string()).to_string()) { (text(&owner.short())) },
            None => "pods without an owner",
        }
    }
}

/// The start of a digest; a click shows all of it, and the full names of the image.
fn digest(run: &RunningRow) -> Markup {
    let whole = run.artifact.to_string();
    html! {
        details.digest {
            summary title=(whole) { code { (short_digest(&run.artifact)) } }
            @for image in &run.images { div { (image_name(image)) } }
            code.whole { (whole) }
        }
    }
}

/// A verdict with its reason. `missing` is the reason if nothing was stored.
pub(crate) fn verdict(verdicts: &Verdicts<'_>, artifact: &Fingerprint, missing: &str) -> Markup {
    let compliance = verdicts.compliance(artifact);
    html! { (compliance_badge(compliance)) span.reason { (text(&verdict_reason(verdicts.stored.get(artifact), compliance, missing))) } }
}

/// The number of artifacts, and which page this is.
pub(crate) fn artifact_count(page: &RunningPage) -> String {
    let total = count(page.total, "artifact", "artifacts");
    format!("{total}{}", page.pagination.label())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::reason::Code;
    use model::reason::Reason;
    use rules::compliance::Compliance;
    use rules::environment_status::Verdict;

    #[test]
    fn reason_explains_the_verdict() {
        let verdict = |compliance, is_allowed, reasons: &[Code]| Verdict {
            compliance,
            is_allowed,
            reasons: reasons.iter().cloned().map(Reason::from).collect(),
        };
        let allowed = Code::Allowed { author: "a".to_owned(), comment: "b".to_owned(), until: None };
        let missing = [Code::MissingProvenance, Code::MissingTrail];
        let (good, open, bad) = (Compliance::Compliant, Compliance::Unknown, Compliance::NonCompliant);
        let table = [
            (None, open, "", "the environment has no policy"),
            (None, open, "not evaluated", "not evaluated"),
            (
                Some(verdict(bad, false, &missing)),
                bad,
                "",
                "no flow holds the artifact; no trail holds the artifact",
            ),
            (Some(verdict(good, false, &[])), good, "", "meets the policy"),
            (Some(verdict(good, true, &[allowed])), good, "", "on the allow-list; allowed by a: b"),
            (Some(verdict(good, true, &[])), open, "", "was compliant; not confirmed since"),
        ];
        for (stored, shown, missing, expected) in table {
            assert_eq!(verdict_reason(stored.as_ref(), shown, missing), expected);
        }
    }
}
