//! Query parameters, each with its name in the error that refuses it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::http::Uri;
use url::form_urlencoded;

use super::problem::Problem;
use crate::domain::model::Page;

/// The query of a request whose parameters are all known.
#[derive(Debug)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads a query. A parameter that the operation does not know would silently filter nothing, so
    /// it is refused, as is one that is there twice.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let mut parameters = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let expected = match known {
                    [] => "none".to_owned(),
                    known => format!("one of {}", known.join(", ")),
                };
                return Err(Problem::field(name, &format!("no such parameter; {expected} was expected")));
            }
            if value.contains('\0') {
                return Err(Problem::field(name, "it holds a NUL character"));
            }
            if parameters.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Problem::field(name, "it is there twice"));
            }
        }
        Ok(Self(parameters))
    }

    /// A parameter as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A field of a form, without the space around it. One that is left empty is one that is absent.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.text(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// A field with a whole number from 1.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.field(name).map(|text| Problem::number(name, text)).transpose()
    }

    /// A parameter of a type of its own.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.text(name).map(|text| Problem::parse(name, text)).transpose()
    }

    /// A whole number.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Problem> {
        let expected = || Problem::field(name, "a whole number was expected");
        self.text(name).map(|text| text.parse().map_err(|_| expected())).transpose()
    }

    /// `page` and `per_page`.
    pub(crate) fn page(&self) -> Result<Page, Problem> {
        Page::new(self.integer("page")?, self.integer("per_page")?)
            .map_err(|error| Problem::field(error.parameter, &error))
    }
}
