//! Which part of what runs is shown: it lives in the URL.

use axum::http::Uri;
use maud::{Markup, html};
use url::form_urlencoded::Serializer;

use super::running::{Counts, WORST_FIRST};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::model::Timestamp;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::Problem;
use crate::service::pages::parts::format::word;
use crate::service::pages::parts::pagination::asked;

/// The longest search, in characters: databases take no pattern of any length.
const LONGEST: usize = 255;

/// Which part is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Filter {
    /// What is searched for; empty: nothing.
    pub(crate) q: String,
    /// Only this verdict.
    pub(crate) compliance: Option<Compliance>,
    /// What ran then; `None`: what runs now.
    pub(crate) at: Option<Timestamp>,
    /// Which page, from 1.
    pub(crate) page: usize,
}

impl Filter {
    /// Reads a query.
    pub(crate) fn read(uri: &Uri) -> Result<Self, Problem> {
        let parameters = Parameters::read(uri, &["q", "compliance", "at", "page"])?;
        let compliance = parameters.field("compliance").map(|word| {
            let expected = "compliant, non-compliant or unknown was expected";
            parsed(word).ok_or_else(|| Problem::field("compliance", expected))
        });
        let at = parameters.field("at").map(|text| {
            let expected = "a time like 2026-10-03T14:00Z was expected; without an offset it is UTC";
            Timestamp::parse(text).ok_or_else(|| Problem::field("at", expected))
        });
        if parameters.field("q").is_some_and(|q| q.chars().count() > LONGEST) {
            return Err(Problem::field("q", &format!("at most {LONGEST} characters were expected")));
        }
        Ok(Self {
            q: parameters.field("q").unwrap_or_default().to_owned(),
            compliance: compliance.transpose()?,
            at: at.transpose()?,
            page: asked(&parameters)?,
        })
    }

    /// The query that says this, from its question mark on.
    pub(crate) fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        if !self.q.is_empty() {
            query.append_pair("q", &self.q);
        }
        if let Some(compliance) = self.compliance {
            query.append_pair("compliance", word(compliance));
        }
        if let Some(at) = self.at {
            query.append_pair("at", &exact(at));
        }
        if self.page > 1 {
            query.append_pair("page", &self.page.to_string());
        }
        format!("?{}", query.finish())
    }

    /// Asks for another part, or another moment.
    pub(crate) fn form(&self, path: &str) -> Markup {
        html! {
            // A browser that goes back would fill in what was asked for later.
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
                            option value=(word(choice)) selected[self.compliance == Some(choice)] { (word(choice)) }
                        }
                    }
                }
                div {
                    label for="at" { "What ran at (UTC)" }
                    @let (value, step) = self.at.map(field).unzip();
                    input id="at" name="at" type="datetime-local" step=(step.unwrap_or("1")) value=[value];
                }
                button type="submit" { "Show" }
                @if self.at.is_some() { a href={ (path) (Filter { at: None, page: 1, ..self.clone() }.query()) } { "Now" } }
                a href={ (path) (Filter { at: self.at, ..Filter::default() }.query()) } { "Everything" }
            }
        }
    }

    /// How many there are of each verdict, each number a way to them.
    pub(crate) fn counts(&self, path: &str, counts: Counts) -> Markup {
        let all = WORST_FIRST.map(|compliance| (counts.of(compliance), compliance));
        html! {
            ul.counts aria-label="Verdicts" {
                @for (number, compliance) in all.into_iter().filter(|(number, _)| *number > 0) {
                    @let only = Filter { compliance: Some(compliance), page: 1, ..self.clone() };
                    li { a href={ (path) (only.query()) } { (number) " " (word(compliance)) } }
                }
            }
        }
    }
}

fn parsed(text: &str) -> Option<Compliance> {
    WORST_FIRST.into_iter().find(|compliance| word(*compliance) == text)
}

/// A moment in UTC as a field for dates and times takes it, and the field's step: what is more exact would keep the
/// form from being sent (HTML Standard, "Local Date and Time state"). Of a part of a second it is the millisecond after
/// it, since what came with it is there from then on.
fn field(at: Timestamp) -> (String, &'static str) {
    let micros = at.micros();
    let (at, step) = match micros.rem_euclid(1_000_000) {
        0 => (at, "1"),
        _ => (Timestamp::from_micros(micros.saturating_add(999).div_euclid(1_000) * 1_000), "0.001"),
    };
    (exact(at).trim_end_matches('Z').to_owned(), step)
}

/// A moment in UTC, as exact as it was asked for.
pub(crate) fn exact(at: Timestamp) -> String {
    let instant = jiff::Timestamp::from_microsecond(at.micros()).unwrap_or(jiff::Timestamp::MAX);
    instant.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Filter, Problem> {
        Filter::read(&format!("/ui/acme/environments/prod?{query}").parse().unwrap())
    }

    #[test]
    fn a_query_is_read_as_it_is_written() {
        for query in [
            "",
            "q=a+%26+b",
            "compliance=non-compliant&page=2",
            "q=x&compliance=unknown&at=2026-10-03T14%3A00%3A00Z&page=3",
            "at=2026-10-03T14%3A00%3A00.25Z",
        ] {
            assert_eq!(read(query).unwrap().query(), format!("?{query}"));
        }
        // A form sends all of its fields.
        assert_eq!(read("q=&compliance=&at=").unwrap(), read("").unwrap());
    }

    #[test]
    fn a_time_is_utc_unless_it_says_otherwise() {
        let moment = read("at=2026-10-03T14:00:00Z").unwrap();
        for same in
            ["2026-10-03T14:00Z", "2026-10-03T14:00", "2026-10-03T14:00:00", "2026-10-03T16:00%2B02:00"]
        {
            assert_eq!(read(&format!("at={same}")).unwrap(), moment, "{same}");
        }
        assert_eq!(moment.at.map(exact).unwrap(), "2026-10-03T14:00:00Z");
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_was_expected() {
        for (query, expected) in [
            ("at=yesterday", "a time like 2026-10-03T14:00Z was expected"),
            ("at=2026-13-03T14:00Z", "a time like"),
            ("compliance=fine", "compliant, non-compliant or unknown"),
            ("page=0", "a whole number from 1"),
            (&*format!("q={}", "x".repeat(256)), "at most 255 characters"),
            ("order=name", "one of q, compliance, at, page"),
        ] {
            let told = read(query).unwrap_err().told();
            assert!(told.contains(expected), "{query}: {told}");
        }
    }

    #[test]
    fn a_field_holds_no_moment_before_the_one_that_was_asked_for() {
        for (micros, expected) in [
            (0, ("1970-01-01T00:00:00", "1")),
            (8_380_718, ("1970-01-01T00:00:08.381", "0.001")),
            (8_380_000, ("1970-01-01T00:00:08.38", "0.001")),
            (8_999_999, ("1970-01-01T00:00:09", "0.001")),
        ] {
            let (value, step) = field(Timestamp::from_micros(micros));
            assert_eq!((value.as_str(), step), expected, "{micros}");
        }
    }
}
