//! Tables of JSON objects: each column has a heading, the JSON pointer of its value, and a format.

use std::cmp::Ordering;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::output::{COMPLIANT, Cell, NON_COMPLIANT, Table, UNKNOWN, ago, details, now, state};
use model::Timestamp;
use model::reason::Reason;

/// A column of a table, or a line of details.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    pointer: &'static str,
    format: Format,
    /// The rank of a column that may be left out where the words do not fit, the lowest first; 0 for others.
    rank: u8,
    is_wide: bool,
    is_key: bool,
}

/// The format of a value. A missing value is `-`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    /// A text or number; of a list its items, of an object its keys and values.
    Text,
    /// Reasons, which may contain commas.
    Reasons,
    /// The reasons of an artifact of a snapshot: data, or the text of another service.
    ReasonsOfSnapshot,
    Count,
    /// The age of a time; 0 is none.
    Ago,
    /// A duration in seconds.
    Seconds,
    Digest,
    Commit,
    /// A state as the service names it.
    State,
    Compliant,
    /// Whether an attestation passes; null if its type has no verdict.
    Passes,
    /// A missing value is null.
    Custom(fn(&Value) -> Cell),
    /// A line of details for a value, or for each item of a list; no line for a missing value.
    Lines(fn(&Value) -> Cell),
}

impl Column {
    pub(crate) const fn new(heading: &'static str, pointer: &'static str, format: Format) -> Self {
        Self { heading, pointer, format, rank: 0, is_wide: false, is_key: false }
    }

    /// A part of what identifies an item of a list, other fields of which differ from response to response.
    pub(super) const fn key(self) -> Self {
        Self { is_key: true, ..self }
    }

    /// Only in the wide table.
    pub(super) const fn wide(self) -> Self {
        Self { is_wide: true, ..self }
    }

    pub(crate) const fn optional(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Cell {
        let value = at(object, self.pointer);
        match self.format {
            Format::Custom(cell) => cell(value),
            Format::Passes => Cell::result(value.as_bool()),
            _ if value.is_null() => Cell::none(),
            Format::Text | Format::Lines(_) => Cell::maybe(Some(text(value)).filter(|text| !text.is_empty())),
            Format::Reasons => {
                let reasons: Vec<_> = items(value, "").map(reason_text).collect();
                Cell::maybe(Some(reasons.join("; ")).filter(|reasons| !reasons.is_empty()))
            }
            Format::ReasonsOfSnapshot => {
                let is_data = at(value, "/reasons").is_array();
                let pointer = if is_data { "/reasons" } else { "/reasons_for_incompliance" };
                Self { pointer, format: Format::Reasons, ..*self }.cell(value, now)
            }
            Format::Count => Cell::text(items(value, "").count().to_string()),
            Format::Ago => Cell::ago(time(value), now),
            Format::Seconds => {
                Cell::maybe(time(value).map(|end| ago(Timestamp::EPOCH, end).replace(" ago", "")))
            }
            Format::Digest => Cell::digest(value.as_str().filter(|digest| !digest.is_empty())),
            Format::Commit => Cell::commit(value.as_str()),
            Format::State => value.as_str().map_or_else(Cell::none, Cell::state),
            Format::Compliant => Cell::compliance(value.as_bool()),
        }
    }

    fn lines(&self, object: &Value, now: Timestamp) -> Vec<(&'static str, Cell)> {
        let cells = match (self.format, at(object, self.pointer)) {
            (Format::Lines(_), Value::Null) => Vec::new(),
            (Format::Lines(cell), Value::Array(items)) => items.iter().map(cell).collect(),
            (Format::Lines(cell), value) => vec![cell(value)],
            _ => vec![self.cell(object, now)],
        };
        cells.into_iter().map(|cell| (self.heading, cell)).collect()
    }
}

/// A time in seconds; a time outside the supported range is none, so that other fields are still shown.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_f64().filter(|seconds| *seconds > 0.0).and_then(Timestamp::from_seconds)
}

/// The value at a JSON pointer.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// A response with its list in `data`.
#[derive(Debug, Deserialize)]
pub(super) struct Data {
    pub(super) data: Objects,
}

/// A response with its list in `artifacts`.
#[derive(Debug, Deserialize)]
pub(super) struct Artifacts {
    pub(super) artifacts: Objects,
}

/// A list of objects. Another value is an error, so that a response of another form is not taken for an empty one.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Vec<Map<String, Value>>")]
pub(crate) struct Objects(pub(crate) Vec<Value>);

impl From<Vec<Map<String, Value>>> for Objects {
    fn from(objects: Vec<Map<String, Value>>) -> Self {
        Self(objects.into_iter().map(Value::Object).collect())
    }
}

/// The items of the list at a JSON pointer.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    at(value, pointer).as_array().into_iter().flatten()
}

/// A reason in words, from its data. Of a type that this version does not know, it is the text that the service sends.
pub(crate) fn reason_text(value: &Value) -> String {
    let sent = || text(if value.is_object() { at(value, "/text") } else { value });
    Reason::deserialize(value).map_or_else(|_| sent(), |reason| reason.to_string())
}

/// What was found, as in [`reason_text`] without the policy that requires it.
pub(crate) fn finding(value: &Value) -> String {
    Reason::deserialize(value).map_or_else(|_| reason_text(value), |reason| reason.finding())
}

/// What was found about an artifact.
pub(super) fn findings(artifact: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for text in items(artifact, "/reasons").map(finding) {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    if found.is_empty() {
        found = items(artifact, "/reasons_for_incompliance").map(text).collect();
    }
    found
}

/// A value in words. An integer may have the form `3.0`.
pub(crate) fn text(value: &Value) -> String {
    let join = |items: Vec<String>| items.join(", ");
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        Value::Array(items) => join(items.iter().map(text).collect()),
        Value::Object(fields) => {
            join(fields.iter().map(|(key, value)| format!("{key}={}", text(value))).collect())
        }
        other => other.to_string(),
    }
}

/// What identifies an item of a list: its keys, or all fields of an item without keys.
pub(super) fn identity(columns: &[Column], item: &Value) -> Value {
    let keys = columns.iter().filter(|column| column.is_key).map(|column| at(item, column.pointer));
    let keys: Vec<_> = keys.cloned().collect();
    if keys.is_empty() || keys.contains(&Value::Null) { item.clone() } else { keys.into() }
}

/// The state of a snapshot or an artifact. Other services have only `compliant`.
pub(crate) fn state_of(object: &Value) -> String {
    at(object, "/compliance").as_str().map_or_else(|| of_bool(at(object, "/compliant")).to_owned(), state)
}

fn of_bool(is_compliant: &Value) -> &'static str {
    match is_compliant.as_bool() {
        Some(true) => COMPLIANT,
        Some(false) => NON_COMPLIANT,
        None => UNKNOWN,
    }
}

/// The state of an environment: null if it is unknown.
pub(super) fn environment_state(is_compliant: &Value) -> Cell {
    Cell::state(of_bool(is_compliant))
}

/// The order of two values by the text at a JSON pointer.
pub(super) fn by_name(pointer: &str, one: &Value, other: &Value) -> Ordering {
    at(one, pointer).as_str().cmp(&at(other, pointer).as_str())
}

/// A table with one row per value.
pub(crate) fn table<'a>(columns: &[Column], values: impl IntoIterator<Item = &'a Value>) -> Table {
    let mut optional: Vec<_> = columns.iter().filter(|column| column.rank > 0).collect();
    optional.sort_by_key(|column| column.rank);
    let mut table = Table::new(columns.iter().map(|column| column.heading))
        .leaving_out(optional.into_iter().map(|column| column.heading))
        .only_wide(columns.iter().filter(|column| column.is_wide).map(|column| column.heading));
    let now = now();
    for value in values {
        table.row(columns.iter().map(|column| column.cell(value, now)));
    }
    table
}

/// The fields of one value, one per line.
pub(crate) fn fields(columns: &[Column], value: &Value) -> Table {
    let now = now();
    details(columns.iter().flat_map(|column| column.lines(value, now)))
}
