//! The table of what runs, or ran.

use maud::{Markup, html};

use super::escape::{name, text};
use super::format::{aged, badge, count, short, stamp};
use crate::domain::escape::Visible;
use crate::domain::evidence::compliance::{Compliance, Reason};
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::service::pages::pure::running::{Run, Shown, Verdicts};

/// What a table is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    /// What it shows, in words.
    pub(crate) caption: &'a str,
    /// The path that artifacts' pages lie below.
    pub(crate) artifacts: &'a str,
    pub(crate) shown: &'a Shown<'a>,
    /// Those of the moment that it shows.
    pub(crate) verdicts: Verdicts<'a>,
    /// Those of today, beside verdicts of the past.
    pub(crate) today: Option<Verdicts<'a>>,
    pub(crate) now: Timestamp,
}

impl Table<'_> {
    /// As markup: a group for each namespace and owner.
    pub(crate) fn markup(&self) -> Markup {
        let columns = if self.today.is_some() { 6 } else { 5 };
        html! {
            // It scrolls by itself where it is too wide, with the keyboard too.
            div.scroll tabindex="0" role="region" aria-label=(Visible(self.caption).to_string()) {
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
                    @for group in self.shown.runs.chunk_by(|one, next| one.group() == next.group()) {
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

    fn row(&self, run: &Run) -> Markup {
        let missing = if self.today.is_some() { "nothing was decided about it" } else { "" };
        html! {
            tr {
                td.image {
                    a href={ (self.artifacts) "/" (run.artifact.to_string()) } { (name(&run.image)) }
                    @if let Some(pod) = &run.found { span.why { "pod " (text(pod)) } }
                }
                td { (digest(&run.artifact)) }
                td data-name="Pods" { (run.pods) }
                td data-name="Since" {
                    @if self.today.is_some() { (stamp(run.since)) } @else { (aged(run.since, self.now)) }
                }
                td data-name=[self.today.map(|_| "Then")] { (verdict(&self.verdicts, &run.artifact, missing)) }
                @if let Some(today) = &self.today { td data-name="Today" { (verdict(today, &run.artifact, "")) } }
            }
        }
    }
}

/// Whose pods these are, and where.
fn heading(run: &Run) -> Markup {
    html! {
        (text(&run.namespace)) " / "
        @if run.owner.is_empty() { "pods without an owner" } @else { (text(&run.owner)) }
    }
}

/// The start of a digest, which opens to the whole.
fn digest(artifact: &Fingerprint) -> Markup {
    let whole = artifact.to_string();
    html! {
        details.digest {
            summary title=(whole) { code { (short(artifact)) } }
            code.whole { (whole) }
        }
    }
}

/// A verdict, and why.
pub(crate) fn verdict(verdicts: &Verdicts<'_>, artifact: &Fingerprint, missing: &str) -> Markup {
    let compliance = verdicts.of(artifact);
    html! { (badge(compliance)) span.why { (text(&why(verdicts.kept.get(artifact), compliance, missing))) } }
}

/// Why this is said of an artifact of which that was decided. `missing` is said where nothing was; where it is
/// empty, that there is no policy.
pub(crate) fn why(kept: Option<&Verdict>, said: Compliance, missing: &str) -> String {
    match kept {
        None if !missing.is_empty() => missing.to_owned(),
        Some(Verdict { compliance: Compliance::NonCompliant, reasons, .. }) => reasons.join("; "),
        Some(Verdict { compliance: Compliance::Compliant, .. }) if said != Compliance::Compliant => {
            "it was compliant, and nobody confirms that it still is".to_owned()
        }
        Some(Verdict { compliance: Compliance::Compliant, is_allowed: true, reasons }) => {
            ["it is on the allow-list"]
                .into_iter()
                .chain(reasons.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join("; ")
        }
        Some(Verdict { compliance: Compliance::Compliant, .. }) => "it has all that is required".to_owned(),
        _ => Reason::NoPolicy.to_string(),
    }
}

/// Which of how many rows a page has.
pub(crate) fn extent(shown: &Shown<'_>) -> String {
    let total = count(i64::try_from(shown.total).unwrap_or(i64::MAX), "row", "rows");
    format!("{total}{}", shown.paged.said())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_said_in_words() {
        let verdict = |compliance, is_allowed, reasons: &[&str]| Verdict {
            compliance,
            is_allowed,
            reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
        };
        let (good, open, bad) = (Compliance::Compliant, Compliance::Unknown, Compliance::NonCompliant);
        let table = [
            (None, open, "", "the environment has no policy"),
            (None, open, "nothing was decided", "nothing was decided"),
            (Some(verdict(bad, false, &["a fails", "b is missing"])), bad, "", "a fails; b is missing"),
            (Some(verdict(good, false, &[])), good, "", "it has all that is required"),
            (Some(verdict(good, true, &[])), good, "", "it is on the allow-list"),
            (Some(verdict(good, true, &["a allowed it"])), good, "", "it is on the allow-list; a allowed it"),
            (
                Some(verdict(good, true, &[])),
                open,
                "",
                "it was compliant, and nobody confirms that it still is",
            ),
        ];
        for (kept, said, missing, expected) in table {
            assert_eq!(why(kept.as_ref(), said, missing), expected);
        }
    }
}
