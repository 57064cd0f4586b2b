//! Converts between column values and types of the model.
//!
//! Times are microseconds in BIGINT, identifiers are UUIDs of version 7, and objects are JSON in TEXT: PostgreSQL's JSONB
//! would change them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Type};

use crate::Error;
use model::access::Scope;
use model::{JunitResult, Timestamp};
use rules::compliance::Compliance;
use rules::notification::{Cause, Content, EventContent};

/// A value that is stored as JSON; `NULL` is `null`.
#[derive(Debug, Clone)]
pub(crate) struct Json<T>(pub(crate) T);

/// A duration that is stored in microseconds, or a time in JSON from SQLite.
#[derive(Debug, Clone, Copy, sqlx::Type, Deserialize)]
#[sqlx(transparent, no_pg_array)]
pub(crate) struct Micros(Option<i64>);

impl<DB: Database, T> Type<DB> for Json<T>
where
    String: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        String::type_info()
    }

    fn compatible(other: &DB::TypeInfo) -> bool {
        String::compatible(other)
    }
}

impl<'r, DB: Database, T: DeserializeOwned> Decode<'r, DB> for Json<T>
where
    &'r str: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = Option::<&str>::decode(value)?;
        Ok(Self(serde_json::from_str(text.unwrap_or("null"))?))
    }
}

/// Reads a value of [`rows`](crate::database::rows), where the column is a text in JSON.
impl<'de, T: DeserializeOwned> Deserialize<'de> for Json<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
        let value = serde_json::from_str(text.as_deref().unwrap_or("null"));
        value.map(Self).map_err(serde::de::Error::custom)
    }
}

impl<T> From<Json<Vec<T>>> for Vec<T> {
    fn from(Json(values): Json<Vec<T>>) -> Self {
        values
    }
}

impl<T> From<Json<Option<T>>> for Option<T> {
    fn from(Json(value): Json<Option<T>>) -> Self {
        value
    }
}

impl<K, V> From<Json<BTreeMap<K, V>>> for BTreeMap<K, V> {
    fn from(Json(values): Json<BTreeMap<K, V>>) -> Self {
        values
    }
}

impl From<Json<Self>> for Box<RawValue> {
    fn from(Json(json): Json<Self>) -> Self {
        json
    }
}

/// The sum of the results of all suites.
impl From<Json<Option<Vec<Self>>>> for JunitResult {
    fn from(Json(results): Json<Option<Vec<Self>>>) -> Self {
        Self::sum(&results.unwrap_or_default())
    }
}

impl From<Json<Self>> for Content {
    fn from(Json(content): Json<Self>) -> Self {
        content
    }
}

impl From<Json<Self>> for EventContent {
    fn from(Json(content): Json<Self>) -> Self {
        content
    }
}

impl From<Json<Self>> for Cause {
    fn from(Json(cause): Json<Self>) -> Self {
        cause
    }
}

impl From<Json<Self>> for Scope {
    fn from(Json(scope): Json<Self>) -> Self {
        scope
    }
}

impl From<Micros> for Duration {
    fn from(Micros(micros): Micros) -> Self {
        duration(micros.unwrap_or_default())
    }
}

impl From<Micros> for Option<Duration> {
    fn from(Micros(micros): Micros) -> Self {
        micros.map(duration)
    }
}

impl From<Micros> for Timestamp {
    fn from(Micros(micros): Micros) -> Self {
        Self::from_micros(micros.unwrap_or_default())
    }
}

impl From<Micros> for Option<Timestamp> {
    fn from(Micros(micros): Micros) -> Self {
        micros.map(Timestamp::from_micros)
    }
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Reads a compliance from JSON of SQLite.
pub(crate) fn read_compliance<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Compliance, D::Error> {
    let text = Option::<&str>::deserialize(deserializer)?;
    text.map_or(Ok(Compliance::Unknown), str::parse).map_err(serde::de::Error::custom)
}

/// Serializes a value to be stored.
pub(crate) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::Serialize)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn value_that_is_not_json_is_an_error_instead_of_an_empty_text() {
        let keyed_by_a_list = HashMap::from([(vec![1], 2)]);
        assert!(matches!(json(&keyed_by_a_list), Err(Error::Serialize(_))));
    }
}
