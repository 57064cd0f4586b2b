//! Output of the commands: a table, also in Markdown, or the complete response of the service as JSON or YAML.
//!
//! Data goes to standard output, everything else to standard error. A closed pipe is not a failure.

mod age;
mod table;

use std::fmt::Display;
use std::io::{self, Write};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use serde_json::Value;

pub(crate) use self::age::ago;
pub(crate) use self::table::{COMPLIANT, Cell, NON_COMPLIANT, Table, UNKNOWN, details, markdown, state};

use crate::cli::exit::Failure;
use model::Timestamp;
use model::escape::needs_escape;
use runtime::logs::is_colored;

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Table of the main fields
    #[default]
    Table,
    /// Table of all fields, not fitted to the terminal
    Wide,
    /// Complete data as JSON
    Json,
    /// Complete data as YAML
    Yaml,
    /// Table of the main fields in Markdown
    Markdown,
}

/// The markup of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Markup {
    Terminal,
    Markdown,
}

#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[error("failed to write to standard output")]
    Stdout(#[source] io::Error),
    #[error("failed to format the response as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
}

impl Output {
    /// Whether the format is JSON or YAML.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self.format, Format::Json | Format::Yaml)
    }

    /// Prints the last line of a result, unless standard output has data.
    pub(crate) fn conclude(&self, result: &str) -> Result<(), Failure> {
        if self.is_data() {
            tracing::info!("{result}");
            return Ok(());
        }
        say(result)
    }

    /// Prints the raw value, its table if that is asked for, or else a text.
    pub(crate) fn print_text(
        &self,
        raw: &Value,
        text: impl FnOnce(Markup) -> String,
        table: impl FnOnce() -> Table,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table => write(&text(Markup::Terminal)),
            Format::Markdown => write(&text(Markup::Markdown)),
            _ => self.print(raw, table),
        }
    }

    /// Prints a text if Markdown is asked for.
    pub(crate) fn print_markdown(&self, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if let Format::Markdown = self.format { write(&text()) } else { Ok(()) }
    }

    /// Prints the raw value, or its table.
    pub(crate) fn print(&self, raw: &Value, table: impl FnOnce() -> Table) -> Result<(), Failure> {
        let stdout = io::stdout();
        let text = match self.format {
            Format::Table => table().render(terminal_width(), is_colored(&stdout)),
            Format::Wide => table().render_wide(is_colored(&stdout)),
            Format::Markdown => table().markdown(),
            Format::Json => json(raw, utf_16_escape),
            Format::Yaml => match yaml(raw).map_err(|e| Failure::unexpected(OutputError::Yaml(e)))? {
                // JSON with escapes of YAML is valid YAML, and can escape control characters.
                text if text.chars().any(is_invisible) => json(raw, yaml_escape),
                text => text,
            },
        };
        write(&text)
    }
}

/// Indented JSON. Terminal control characters occur only within strings, and are escaped there.
fn json(value: &Value, escape: fn(char) -> String) -> String {
    let text = format!("{value:#}\n");
    if !text.chars().any(is_invisible) {
        return text;
    }
    text.chars().map(|c| if is_invisible(c) { escape(c) } else { c.to_string() }).collect()
}

fn is_invisible(c: char) -> bool {
    c != '\n' && needs_escape(c)
}

/// JSON has no escape for a whole character beyond U+FFFF (RFC 8259, section 7).
fn utf_16_escape(c: char) -> String {
    let units: Vec<_> = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    units.concat()
}

/// YAML has no escape for half a character (YAML 1.2, section 5.7).
fn yaml_escape(c: char) -> String {
    let code = u32::from(c);
    if code > 0xffff { format!("\\U{code:08x}") } else { format!("\\u{code:04x}") }
}

/// YAML with one line per value, so that `grep` finds digests.
fn yaml(value: &Value) -> Result<String, serde_saphyr::ser::Error> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options)
}

/// Prints the result of a command that has no table, in one line.
pub(crate) fn say(result: impl Display) -> Result<(), Failure> {
    write(&format!("{result}\n"))
}

/// Writes to standard output. Ignores a closed pipe.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::unexpected(OutputError::Stdout(error)))
        }
        _ => Ok(()),
    }
}

/// Width of the terminal on standard output, in columns; `None` if there is no terminal.
pub(crate) fn terminal_width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(columns), _)| columns)
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::EPOCH.later(since)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_has_one_line_per_value_and_quotes_ambiguous_strings() {
        let value = json!({"a": "x ".repeat(60), "b": ["yes", "012", "1e3", "null", "", "a\nb"], "c": 1.5, "d": null});
        let text = yaml(&value).unwrap();
        assert_eq!(text.lines().count(), 10, "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn terminal_control_characters_are_escaped_without_changing_the_value() {
        let value = json!({"a\u{202e}": "\u{9b}31m \u{feff}é\u{1f600}\u{e0041}\n"});
        let text = super::json(&value, utf_16_escape);
        assert_eq!(text, "{\n  \"a\\u202e\": \"\\u009b31m \\ufeffé\u{1f600}\\udb40\\udc41\\n\"\n}\n");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        let text = super::json(&value, yaml_escape);
        assert!(!text.chars().any(is_invisible), "{text}");
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
        fn yaml_output_round_trips(value in any_value()) {
            let text = yaml(&value).unwrap();
            prop_assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{}", text);
        }
    }
}
