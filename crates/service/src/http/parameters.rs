//! Query parameters; errors name the invalid parameter.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::http::Uri;
use serde::de::DeserializeOwned;
use serde::de::value::{self, StrDeserializer};
use url::form_urlencoded;

use crate::http::problem::Problem;
use model::Page;
use store::attestations::TimeRange;

/// The query of a request whose parameters are all known, each with its values.
#[derive(Debug)]
pub(crate) struct Parameters(BTreeMap<String, Vec<String>>);

impl Parameters {
    /// Parses a query. Unknown parameters are rejected, since an ignored filter would return wrong results; so are
    /// duplicates.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        Self::read_with_lists(uri, known, &[])
    }

    /// Parses a query in which some parameters may occur repeatedly.
    pub(crate) fn read_with_lists(uri: &Uri, known: &[&str], repeatable: &[&str]) -> Result<Self, Problem> {
        let known: Vec<&str> = known.iter().chain(repeatable).copied().collect();
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let expected = match known.as_slice() {
                    [] => "none".to_owned(),
                    known => format!("one of {}", known.join(", ")),
                };
                return Err(Problem::field(name, &format!("unknown parameter: expected {expected}")));
            }
            if value.contains('\0') {
                return Err(Problem::field(name, "must not contain a NUL character"));
            }
            let values = parameters.entry(name.clone().into_owned()).or_default();
            if !values.is_empty() && !repeatable.contains(&&*name) {
                return Err(Problem::field(name, "must not occur twice"));
            }
            values.push(value.into_owned());
        }
        Ok(Self(parameters))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).first().map(String::as_str)
    }

    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether the list is requested in pages.
    pub(crate) fn is_paged(&self) -> bool {
        self.text("page").or(self.text("per_page")).is_some()
    }

    /// A field of a form, trimmed; `None` if it is empty.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.text(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// A form field with an integer from 1.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.field(name).map(|text| Problem::number(name, text)).transpose()
    }

    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.text(name).map(|text| Problem::parse(name, text)).transpose()
    }

    /// The values of a parameter, each one of several words.
    pub(crate) fn words<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, Problem> {
        let parse = |word: &String| T::deserialize(StrDeserializer::<value::Error>::new(word));
        self.all(name)
            .iter()
            .map(parse)
            .collect::<Result<_, _>>()
            .map_err(|error| Problem::field(name, &error))
    }

    /// A nullable parameter, parsed. An empty value means that it is absent.
    pub(crate) fn nullable<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        if self.text(name) == Some("") { Ok(None) } else { self.parsed(name) }
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Problem> {
        let expected = || Problem::field(name, "expected an integer");
        self.text(name).map(|text| text.parse().map_err(|_| expected())).transpose()
    }

    /// `from_timestamp` and `to_timestamp`, in seconds, both inclusive.
    pub(crate) fn span(&self) -> Result<TimeRange, Problem> {
        let micros = |name: &str| match self.integer(name)? {
            Some(seconds) if seconds < 0 => Err(Problem::field(name, "expected seconds since 1970")),
            seconds => Ok(seconds.map(|seconds| seconds.saturating_mul(1_000_000))),
        };
        // Includes the whole second.
        let until = micros("to_timestamp")?.map_or(i64::MAX, |second| second.saturating_add(1_000_000));
        Ok(TimeRange { from: micros("from_timestamp")?.unwrap_or(0), until })
    }

    /// `page` and `per_page`.
    pub(crate) fn page(&self) -> Result<Page, Problem> {
        Page::new(self.integer("page")?, self.integer("per_page")?)
            .map_err(|error| Problem::field(error.parameter, &error))
    }
}
