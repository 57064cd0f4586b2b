//! The filter of an environment page: search text, verdict, point in time and page number.
//!
//! The filter is the query of the URL, so that links and bookmarks keep it.

use axum::http::Uri;
use maud::{Markup, html};
use url::form_urlencoded::Serializer;

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::layout::parts::format::compliance_name;
use crate::layout::parts::pagination::requested_page;
use model::Timestamp;
use rules::compliance::{Compliance, ComplianceCounts};

/// All verdicts, in the order of pages.
const WORST_FIRST: [Compliance; 3] = [Compliance::NonCompliant, Compliance::Unknown, Compliance::Compliant];

/// Maximum length of a search text, in characters: databases limit the length of patterns.
const MAX_SEARCH_CHARS: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Filter {
    /// The search text; empty for no search.
    pub(crate) q: String,
    /// Shows rows of this verdict only.
    pub(crate) compliance: Option<Compliance>,
    /// The point in time; `None` for now.
    pub(crate) at: Option<Timestamp>,
    /// The page number, from 1.
    pub(crate) page: usize,
}

impl Filter {
    pub(crate) fn parse(uri: &Uri) -> Result<Self, Problem> {
        let parameters = Parameters::read(uri, &["q", "compliance", "at", "page"])?;
        let compliance = parameters.field("compliance").map(|word| {
            let expected = "expected compliant, non-compliant or unknown";
            let named = WORST_FIRST.into_iter().find(|compliance| compliance_name(*compliance) == word);
            named.ok_or_else(|| Problem::field("compliance", expected))
        });
        let at = parameters.field("at").map(|text| {
            let expected = "expected a time such as 2026-10-03T14:00Z; UTC if it has no offset";
            Timestamp::parse(text).ok_or_else(|| Problem::field("at", expected))
        });
        if parameters.field("q").is_some_and(|q| q.chars().count() > MAX_SEARCH_CHARS) {
            return Err(Problem::field("q", &format!("expected at most {MAX_SEARCH_CHARS} characters")));
        }
        Ok(Self {
            q: parameters.field("q").unwrap_or_default().to_owned(),
            compliance: compliance.transpose()?,
            at: at.transpose()?,
            page: requested_page(&parameters)?,
        })
    }

    /// The query of this filter, including the question mark.
    pub(crate) fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        if !self.q.is_empty() {
            query.append_pair("q", &self.q);
        }
        if let Some(compliance) = self.compliance {
            query.append_pair("compliance", compliance_name(compliance));
        }
        if let Some(at) = self.at {
            query.append_pair("at", &at.iso_8601());
        }
        if self.page > 1 {
            query.append_pair("page", &self.page.to_string());
        }
        format!("?{}", query.finish())
    }

    pub(crate) fn form(&self, path: &str) -> Markup {
        html! {
            // Without `autocomplete="off"`, the back button would fill in the values of a later request.
            form.filter method="get" action=(path) role="search" autocomplete="off" {
                div {
                    label for="q" { "Namespace, owner, image, pod or digest" }
                    input id="q" name="q" type="search" value=(self.q);
                }
                div {
                    label for="compliance" { "Compliance" }
                    select id="compliance" name="compliance" {
                        option value="" { "any" }
                        @for choice in WORST_FIRST {
                            option value=(compliance_name(choice)) selected[self.compliance == Some(choice)] { (compliance_name(choice)) }
                        }
                    }
                }
                div {
                    label for="at" { "Point in time (UTC)" }
                    @let (value, step) = self.at.map(datetime_field).unzip();
                    input id="at" name="at" type="datetime-local" step=(step.unwrap_or("1")) value=[value];
                }
                button type="submit" { "Show" }
                a href={ (path) (Filter { at: self.at, ..Filter::default() }.query()) } { "Reset" }
            }
        }
    }

    /// The number of rows of each verdict, as links that select them.
    pub(crate) fn counts(&self, path: &str, counts: ComplianceCounts) -> Markup {
        let ComplianceCounts { compliant, unknown, non_compliant } = counts;
        let all = [non_compliant, unknown, compliant].into_iter().zip(WORST_FIRST);
        html! {
            ul.counts aria-label="Verdicts" {
                @for (number, compliance) in all.filter(|(number, _)| *number > 0) {
                    @let only = Filter { compliance: Some(compliance), page: 1, ..self.clone() };
                    li { a href={ (path) (only.query()) } { (number) " " (compliance_name(compliance)) } }
                }
            }
        }
    }
}

/// The value and step of a `datetime-local` input. Browsers reject a form whose value has more digits than its step
/// (HTML Standard, "Local Date and Time state"). Fractions are rounded up to a millisecond, so that a snapshot that was
/// received within it is included.
fn datetime_field(at: Timestamp) -> (String, &'static str) {
    let micros = at.micros();
    let (at, step) = match micros.rem_euclid(1_000_000) {
        0 => (at, "1"),
        _ => (Timestamp::from_micros(micros.saturating_add(999).div_euclid(1_000) * 1_000), "0.001"),
    };
    (at.iso_8601().trim_end_matches('Z').to_owned(), step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Filter, Problem> {
        Filter::parse(&format!("/ui/acme/environments/prod?{query}").parse().unwrap())
    }

    #[test]
    fn query_round_trips() {
        for query in [
            "",
            "q=a+%26+b",
            "compliance=non-compliant&page=2",
            "q=x&compliance=unknown&at=2026-10-03T14%3A00%3A00Z&page=3",
            "at=2026-10-03T14%3A00%3A00.25Z",
        ] {
            assert_eq!(parse(query).unwrap().query(), format!("?{query}"));
        }
        // A form sends all its fields, also empty ones.
        assert_eq!(parse("q=&compliance=&at=").unwrap(), parse("").unwrap());
    }

    #[test]
    fn time_without_offset_is_utc() {
        let time = parse("at=2026-10-03T14:00:00Z").unwrap();
        for same in
            ["2026-10-03T14:00Z", "2026-10-03T14:00", "2026-10-03T14:00:00", "2026-10-03T16:00%2B02:00"]
        {
            assert_eq!(parse(&format!("at={same}")).unwrap(), time, "{same}");
        }
        assert_eq!(time.at.map(Timestamp::iso_8601).unwrap(), "2026-10-03T14:00:00Z");
    }

    #[test]
    fn invalid_parameters_are_rejected_with_the_expected_value() {
        for (query, expected) in [
            ("at=yesterday", "expected a time such as 2026-10-03T14:00Z"),
            ("at=2026-13-03T14:00Z", "expected a time such as"),
            ("compliance=fine", "expected compliant, non-compliant or unknown"),
            ("page=0", "expected an integer from 1"),
            (&*format!("q={}", "x".repeat(256)), "expected at most 255 characters"),
            ("order=name", "one of q, compliance, at, page"),
        ] {
            let problem = parse(query).unwrap_err().text();
            assert!(problem.contains(expected), "{query}: {problem}");
        }
    }

    #[test]
    fn datetime_field_is_never_before_the_requested_time() {
        for (micros, expected) in [
            (0, ("1970-01-01T00:00:00", "1")),
            (8_380_718, ("1970-01-01T00:00:08.381", "0.001")),
            (8_380_000, ("1970-01-01T00:00:08.38", "0.001")),
            (8_999_999, ("1970-01-01T00:00:09", "0.001")),
        ] {
            let (value, step) = datetime_field(Timestamp::from_micros(micros));
            assert_eq!((value.as_str(), step), expected, "{micros}");
        }
    }
}
