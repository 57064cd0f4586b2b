//! Which part of what runs is shown: it lives in the URL.

use axum::http::Uri;
use url::form_urlencoded::Serializer;

use super::paged::asked;
use super::words::word;
use crate::domain::compliance::Compliance;
use crate::domain::model::Timestamp;
use crate::service::parameters::Parameters;
use crate::service::problem::Problem;

/// The longest search, in characters: databases take no pattern of any length.
const LONGEST: usize = 255;

/// Which part is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Filter {
    /// What is searched for; empty: nothing.
    pub(super) q: String,
    /// Only this verdict.
    pub(super) compliance: Option<Compliance>,
    /// What ran then; `None`: what runs now.
    pub(super) at: Option<Timestamp>,
    /// Which page, from 1.
    pub(super) page: usize,
}

impl Filter {
    /// Reads a query.
    pub(super) fn read(uri: &Uri) -> Result<Self, Problem> {
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
    pub(super) fn query(&self) -> String {
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
}

fn parsed(text: &str) -> Option<Compliance> {
    let all = [Compliance::Compliant, Compliance::Unknown, Compliance::NonCompliant];
    all.into_iter().find(|compliance| word(*compliance) == text)
}

/// A moment in UTC, as exact as it was asked for.
pub(super) fn exact(at: Timestamp) -> String {
    let instant = jiff::Timestamp::from_microsecond(at.micros()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
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
}
