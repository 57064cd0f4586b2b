//! Tables of JSON objects: each column has a heading, the JSON pointer of its value, and a format.

use serde_json::Value;

use crate::cli::output::{Cell, Table, ago, details, now};
use crate::domain::model::Timestamp;

/// A column of a table, or a line of details.
pub(in crate::cli) type Column = (&'static str, &'static str, Format);

/// The format of a value. A missing value is `-`.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum Format {
    /// A text or number; of a list its items, of an object its keys and values.
    Text,
    /// The number of items.
    Count,
    /// The age of a time; 0 is none.
    Ago,
    /// A duration in seconds.
    Seconds,
    Digest,
    Commit,
    /// A state as the service names it.
    State,
    /// Whether it is compliant.
    Compliant,
}

impl Format {
    fn cell(self, value: Option<&Value>, now: Timestamp) -> Cell {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Cell::none() };
        let time = || value.as_f64().filter(|seconds| *seconds > 0.0).and_then(Timestamp::from_seconds);
        match self {
            Self::Text => Cell::maybe(Some(text(value)).filter(|text| !text.is_empty())),
            Self::Count => Cell::text(value.as_array().map_or(0, Vec::len).to_string()),
            Self::Ago => Cell::ago(time(), now),
            Self::Seconds => Cell::maybe(time().map(|end| ago(Timestamp::EPOCH, end).replace(" ago", ""))),
            Self::Digest => Cell::digest(value.as_str().filter(|digest| !digest.is_empty())),
            Self::Commit => Cell::commit(value.as_str()),
            Self::State => value.as_str().map_or_else(Cell::none, Cell::state),
            Self::Compliant => Cell::compliance(value.as_bool()),
        }
    }
}

fn text(value: &Value) -> String {
    let join = |items: Vec<String>| items.join(", ");
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => join(items.iter().map(text).collect()),
        Value::Object(fields) => {
            join(fields.iter().map(|(key, value)| format!("{key}={}", text(value))).collect())
        }
        other => other.to_string(),
    }
}

/// A table with one row per value.
pub(super) fn table<'a>(columns: &[Column], values: impl IntoIterator<Item = &'a Value>) -> Table {
    let (mut table, now) = (Table::new(columns.iter().map(|(heading, ..)| *heading)), now());
    for value in values {
        table.row(columns.iter().map(|(_, pointer, format)| format.cell(value.pointer(pointer), now)));
    }
    table
}

/// The fields of one value, one per line.
pub(in crate::cli) fn fields(columns: &[Column], value: &Value) -> Table {
    let now = now();
    details(columns.iter().map(|(name, pointer, format)| (*name, format.cell(value.pointer(pointer), now))))
}
