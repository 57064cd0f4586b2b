//! The table of running artifacts, or of those at a point in time.

use maud::{Markup, html};

use crate::layout::parts::environment_status::verdict_reason;
use crate::layout::parts::escape::{image_name, text};
use crate::layout::parts::format::{compliance_badge, count, short_digest, timestamp, timestamp_with_age};
use crate::resources::environments::pages::running::{RunningPage, RunningRow, Verdicts};
use model::escape::Escaped;
use model::{Fingerprint, Timestamp};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) caption: &'a str,
    /// The path below which the pages of artifacts are.
    pub(crate) artifacts_path: &'a str,
    pub(crate) page: &'a RunningPage,
    /// The verdicts of the point in time that the table shows.
    pub(crate) verdicts: Verdicts<'a>,
    /// The current verdicts, if the table shows the past.
    pub(crate) today: Option<Verdicts<'a>>,
    pub(crate) now: Timestamp,
}

impl Table<'_> {
    /// One row group for each namespace and owner.
    pub(crate) fn markup(&self) -> Markup {
        let columns = if self.today.is_some() { 6 } else { 5 };
        html! {
            // Scrolls horizontally if it is too wide; the tab index makes it scrollable by keyboard.
            div.scroll tabindex="0" role="region" aria-label=(Escaped(self.caption).to_string()) {
                table.runs {
                    caption { (text(self.caption)) }
                    thead {
                        tr {
                            th scope="col" { "Image" }
                            th scope="col" { "Digest" }
                            th scope="col" { "Pods" }
                            th scope="col" { "Since" }
                            th scope="col" { @if self.today.is_some() { "Then" } @else { "Compliance" } }
                            @if self.today.is_some() { th scope="col" { "Today" } }
                        }
                    }
                    @for group in self.page.rows.chunk_by(|one, next| one.group() == next.group()) {
                        tbody {
                            @if let Some(first) = group.first() {
                                tr { th.group scope="rowgroup" colspan=(columns) { (heading(first)) } }
                            }
                            @for run in group { (self.row(run)) }
                        }
                    }
                }
            }
        }
    }

    fn row(&self, run: &RunningRow) -> Markup {
        let missing = if self.today.is_some() { "not evaluated" } else { "" };
        html! {
            tr {
                td.image {
                    a href={ (self.artifacts_path) "/" (run.artifact.to_string()) } { (image_name(&run.image)) }
                    @if let Some(pod) = &run.matching_pod { span.reason { "pod " (text(pod)) } }
                    @if self.page.has_several_reporters {
                        @for reporter in &run.reporters { span.reason { "reported by " (text(reporter)) } }
                    }
                }
                td { (digest(&run.artifact)) }
                td data-name="Pods" { (run.pods) }
                td data-name="Since" {
                    @if self.today.is_some() { (timestamp(run.since)) } @else { (timestamp_with_age(run.since, self.now)) }
                }
                td data-name=[self.today.map(|_| "Then")] { (verdict(&self.verdicts, &run.artifact, missing)) }
                @if let Some(today) = &self.today { td data-name="Today" { (verdict(today, &run.artifact, "")) } }
            }
        }
    }
}

/// The namespace and owner of a group.
fn heading(run: &RunningRow) -> Markup {
    html! {
        (text(&run.namespace)) " / "
        @if run.owner.is_empty() { "pods without an owner" } @else { (text(&run.owner)) }
    }
}

/// The start of a digest; a click shows all of it.
fn digest(artifact: &Fingerprint) -> Markup {
    let whole = artifact.to_string();
    html! {
        details.digest {
            summary title=(whole) { code { (short_digest(artifact)) } }
            code.whole { (whole) }
        }
    }
}

/// A verdict with its reason. `missing` is the reason if nothing was stored.
pub(crate) fn verdict(verdicts: &Verdicts<'_>, artifact: &Fingerprint, missing: &str) -> Markup {
    let compliance = verdicts.compliance(artifact);
    html! { (compliance_badge(compliance)) span.reason { (text(&verdict_reason(verdicts.stored.get(artifact), compliance, missing))) } }
}

/// The number of rows, and which page this is.
pub(crate) fn row_count(page: &RunningPage) -> String {
    let total = count(page.total, "row", "rows");
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
