//! Logs on stderr, as text or JSON.
//!
//! `main` starts the logs once and flushes them at the end. A separate thread writes: if stderr blocks,
//! lines are dropped and counted, and the rest of the process continues. Libraries are not logged by
//! default; `RUST_LOG` overrides the filter.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use tracing::field::Field;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, filter};

use crate::colors::Color;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Plain text
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Default filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Warnings of supercargo, for a command with its own output on stdout. Failed notifications are
    /// excluded: they are retried, and the API shows their state.
    Warnings,
    /// Info messages of supercargo.
    #[default]
    Info,
    /// Debug messages of supercargo.
    Debug,
    /// Debug messages of supercargo and its libraries.
    Libraries,
    Trace,
}

/// What a line of text has before its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// Time and level, for the logs of a daemon.
    TimeAndLevel,
    /// `warning` of a warning and nothing of others, for a person at a terminal.
    Warning,
}

#[derive(Debug, thiserror::Error)]
#[error("invalid RUST_LOG: expected a log filter such as \"supercargo=debug\"")]
pub struct InvalidFilter(#[source] filter::ParseError);

/// Starts the logs of this process.
///
/// # Errors
///
/// [`InvalidFilter`] for an invalid `RUST_LOG`.
pub fn start(format: Format, prefix: Prefix, verbosity: Verbosity) -> Result<(), InvalidFilter> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => EnvFilter::builder().parse(filter).map_err(InvalidFilter)?,
        _ => EnvFilter::new(match verbosity {
            Verbosity::Warnings => "off,supercargo=warn,supercargo_service::engine::notify=error",
            Verbosity::Info => "off,supercargo=info",
            Verbosity::Debug => "off,supercargo=debug",
            Verbosity::Libraries => "debug",
            Verbosity::Trace => "trace",
        }),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer());
    // A failure to log cannot be logged. The default is to panic if stderr is closed.
    let builder = builder.log_internal_errors(false);
    match format {
        Format::Json => builder.json().flatten_event(true).with_span_list(false).init(),
        Format::Text => builder.with_ansi(is_colored(&io::stderr())).event_format(TextFormat(prefix)).init(),
    }
    Ok(())
}

/// Maximum number of lines that wait to be written; further lines are dropped.
const MAX_QUEUED_LINES: usize = 1_024;

/// The writer, and the guard that flushes it when dropped.
static LOGS: Mutex<Option<(NonBlocking, WorkerGuard)>> = Mutex::new(None);

fn writer() -> NonBlocking {
    let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(MAX_QUEUED_LINES);
    let (writer, _) = logs.get_or_insert_with(|| builder.thread_name("logs").finish(io::stderr()));
    writer.clone()
}

/// Flushes the logs, within about a second. Later lines are not written.
pub fn finish() {
    drop(LOGS.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Number of lines dropped because stderr was blocked.
#[must_use]
pub fn dropped() -> u64 {
    let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    logs.as_ref().map_or(0, |(writer, _)| writer.error_counter().dropped_lines() as u64)
}

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Whether a stream is a terminal with colors; `NO_COLOR` (no-color.org) and `TERM=dumb` disable them.
pub fn is_colored(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_none_or(|v| v != "dumb")
}

/// Prints the error that ended the process, with its causes and hint. Ignores the filter and write errors.
pub fn fail(format: Format, causes: &[String], hint: Option<&str>) {
    let mut stderr = writer();
    if format == Format::Json {
        let line = serde_json::json!({
            "timestamp": jiff::Timestamp::now().to_string(),
            "level": "ERROR",
            "message": causes.join(": "),
            "hint": hint,
        });
        let _ = writeln!(stderr, "{line}");
        return;
    }
    let (red, dim, plain) = if is_colored(&io::stderr()) {
        (format!("{BOLD}{}", Color::Red), DIM, PLAIN)
    } else {
        (String::new(), "", "")
    };
    for (depth, cause) in causes.iter().enumerate() {
        let _ = match depth {
            0 => writeln!(stderr, "{red}error{plain}: {cause}"),
            _ => writeln!(stderr, "  {dim}caused by{plain}: {cause}"),
        };
    }
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "  {dim}hint{plain}: {hint}");
    }
}

/// Text lines such as `2026-01-31T12:00:00.000000Z  WARN prod: …` or `warning: …`. Messages of supercargo contain the values of
/// their fields, but not of those of their spans, such as the request ID.
struct TextFormat(Prefix);

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let level = *metadata.level();
        let (color, plain) = match level {
            _ if !to.has_ansi_escapes() => (String::new(), ""),
            Level::ERROR => (format!("{BOLD}{}", Color::Red), PLAIN),
            Level::WARN => (format!("{BOLD}{}", Color::Amber), PLAIN),
            Level::INFO => (Color::Green.to_string(), PLAIN),
            _ => (DIM.to_owned(), PLAIN),
        };
        match self.0 {
            Prefix::TimeAndLevel => {
                SystemTime.format_time(&mut to)?;
                write!(to, " {color}{level:>5}{plain} ")?;
            }
            Prefix::Warning if level <= Level::WARN => write!(to, "{color}warning{plain}: ")?,
            Prefix::Warning => {}
        }
        let is_own = |metadata: &Metadata<'_>| metadata.target().starts_with("supercargo");
        if is_own(metadata) {
            event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
                if field.name() == "message" {
                    let _ = write!(to, "{value:?}");
                }
            });
        } else {
            write!(to, "{}: ", metadata.target())?;
            ctx.field_format().format_fields(to.by_ref(), event)?;
        }
        for span in ctx.event_scope().into_iter().flatten().filter(|span| is_own(span.metadata())) {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                write!(to, " {fields}")?;
            }
        }
        writeln!(to)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    fn lines(prefix: Prefix) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        let writer = file.try_clone().unwrap();
        let format = TextFormat(prefix);
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(writer).event_format(format).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(environment = "prod", "prod: report failed");
            tracing::info!("stopped");
            let _request = tracing::error_span!("request", request_id = %"42").entered();
            tracing::info!(status = 200, "GET /");
        });
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn text_line_has_an_rfc_3339_timestamp_in_utc_a_level_and_a_message() {
        let lines = lines(Prefix::TimeAndLevel);
        let expected = [" WARN prod: report failed", " INFO stopped", " INFO GET / request_id=42"];
        assert_eq!(lines.len(), expected.len());
        for (line, expected) in lines.iter().zip(expected) {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(), "{line}");
            assert_eq!(rest, expected);
        }
    }

    #[test]
    fn message_of_a_command_is_bare_and_a_warning_is_marked() {
        let expected = ["warning: prod: report failed", "stopped", "GET / request_id=42"];
        assert_eq!(lines(Prefix::Warning), expected);
    }
}
