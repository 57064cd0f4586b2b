//! What a command prints: a table for a person, or all that the service sent as JSON or YAML.
//!
//! Data goes to standard output and everything else to standard error. Whoever stops reading, as
//! `head` does, has had enough: that is no failure.

mod age;
mod progress;
mod table;

use std::io::{self, Write};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use serde_json::Value;

pub(super) use self::age::ago;
pub(super) use self::progress::{Progress, Upload};
pub(super) use self::table::{Cell, Table, details};

use super::Failure;
use crate::domain::escape::is_steering;
use crate::domain::model::Timestamp;
use crate::process::logs::is_coloured;

#[derive(Debug, Args)]
pub(super) struct Output {
    /// How it looks; json and yaml hold all that was sent
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Table,
    /// JSON, indented
    Json,
    /// YAML
    Yaml,
}

/// Something cannot be printed.
#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[error("standard output cannot be written")]
    Stdout(#[source] io::Error),
    #[error("the answer cannot be written as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
}

impl Output {
    /// Whether it is for a program to read.
    pub(super) fn is_data(&self) -> bool {
        self.format != Format::Table
    }

    /// Prints what was sent, or the table of it.
    pub(super) fn print(&self, sent: &Value, table: impl FnOnce() -> Table) -> Result<(), Failure> {
        let stdout = io::stdout();
        let text = match self.format {
            Format::Table => {
                // What is not read by a person keeps its rows whole.
                table().render(terminal_width(), is_coloured(&stdout))
            }
            Format::Json => json(sent),
            Format::Yaml => match yaml(sent).map_err(|e| Failure::unexpected(OutputError::Yaml(e)))? {
                // JSON is YAML, and has a way to write them.
                text if text.chars().any(is_unseen) => json(sent),
                text => text,
            },
        };
        write(&text).map_err(|e| Failure::unexpected(OutputError::Stdout(e)))
    }
}

/// Indented. What would steer a terminal can only be in a string, and is escaped there.
fn json(value: &Value) -> String {
    let text = format!("{value:#}\n");
    if !text.chars().any(is_unseen) {
        return text;
    }
    let escaped = |c: char| if is_unseen(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// What is so is below U+10000.
fn is_unseen(c: char) -> bool {
    c != '\n' && is_steering(c)
}

/// Each value on a line of its own, long ones too: a digest is found by search.
fn yaml(value: &Value) -> Result<String, serde_saphyr::ser::Error> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options)
}

/// Writes to standard output, for as long as somebody reads.
pub(super) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// How many columns the terminal has that standard output is, where it is one and says so.
pub(super) fn terminal_width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(columns), _)| columns)
}

/// What the clock says.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::EPOCH.later(since)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_has_a_line_for_each_value_and_quotes_what_would_be_read_as_something_else() {
        let value = json!({"a": "x ".repeat(60), "b": ["yes", "012", "1e3", "null", "", "a\nb"], "c": 1.5, "d": null});
        let text = yaml(&value).unwrap();
        assert_eq!(text.lines().count(), 10, "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn what_would_steer_a_terminal_is_escaped_and_means_the_same() {
        let value = json!({"a\u{202e}": "\u{9b}31m \u{feff}é\u{1f600}\n"});
        let text = super::json(&value);
        assert_eq!(text, "{\n  \"a\\u202e\": \"\\u009b31m \\ufeffé\u{1f600}\\n\"\n}\n");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["\\PC{0,12}", ".{0,6}", "[0-9eE.+_:x-]{0,8}", Just("~".to_owned())];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e15..1e15_f64).prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_as_yaml_is_read_as_it_was(value in any_value()) {
            let text = yaml(&value).unwrap();
            prop_assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{}", text);
        }
    }
}
