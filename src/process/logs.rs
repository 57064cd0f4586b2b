//! Logs: to stderr, for people or as JSON.
//!
//! A thread of its own writes them: where nobody reads stderr any more, lines are dropped and counted, and
//! nothing else waits. `main` starts them once, and finishes them at the end. Libraries stay silent unless
//! asked for; the filter is `RUST_LOG`'s where that is set.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use tracing::field::Field;
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, filter};

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A sentence, for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// What may need a person, of supercargo alone: for a command that shows on stdout what it does. That a
    /// notification did not arrive is none of that: it is tried again, and its action says so.
    Warnings,
    /// What supercargo did.
    #[default]
    Usual,
    /// Its own details.
    Details,
    /// What libraries say of theirs.
    Libraries,
    /// Everything.
    Everything,
}

/// `RUST_LOG` holds something that is no filter.
#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG is no log filter; one such as \"supercargo=debug\" was expected")]
pub struct InvalidFilter(#[source] filter::ParseError);

/// Starts the logs of this process.
///
/// # Errors
///
/// [`InvalidFilter`] where `RUST_LOG` cannot be read.
pub fn start(format: Format, verbosity: Verbosity) -> Result<(), InvalidFilter> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => EnvFilter::builder().parse(filter).map_err(InvalidFilter)?,
        _ => EnvFilter::new(match verbosity {
            Verbosity::Warnings => "off,supercargo=warn,supercargo::service::notify=error",
            Verbosity::Usual => "off,supercargo=info",
            Verbosity::Details => "off,supercargo=debug",
            Verbosity::Libraries => "debug",
            Verbosity::Everything => "trace",
        }),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer());
    // What cannot be said cannot be said either; the default is to panic over it.
    let builder = builder.log_internal_errors(false);
    match format {
        Format::Json => builder.json().flatten_event(true).init(),
        Format::Text => builder.with_ansi(is_coloured(&io::stderr())).event_format(Sentence).init(),
    }
    Ok(())
}

/// How many lines wait to be written; those that come then are dropped.
const MOST_WAITING: usize = 1_024;

/// What writes, and what has it written to the end.
static LOGS: Mutex<Option<(NonBlocking, WorkerGuard)>> = Mutex::new(None);

/// What writes to stderr, on a thread of its own.
fn writer() -> NonBlocking {
    let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(MOST_WAITING);
    let (writer, _) = logs.get_or_insert_with(|| builder.thread_name("logs").finish(io::stderr()));
    writer.clone()
}

/// Has all lines written that wait, as far as that takes no longer than about a second. What is said
/// afterwards is not.
pub fn finish() {
    drop(LOGS.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// How many lines were dropped, since nobody read those before them.
#[must_use]
pub fn dropped() -> u64 {
    let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    logs.as_ref().map_or(0, |(writer, _)| writer.error_counter().dropped_lines() as u64)
}

/// Whether a stream shows colours: a terminal does, unless `NO_COLOR` is set (no-color.org) or it
/// says that it is a dumb one.
pub fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_none_or(|v| v != "dumb")
}

/// Says what ended the process: each cause once, and what to do about it. No filter hides it, and
/// that nobody may be listening is no reason to fail in another way.
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
    let (red, dim, plain) =
        if is_coloured(&io::stderr()) { ("\x1b[1;31m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
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

/// A line for a person: the sentence, with its level in front where that says something.
struct Sentence;

impl<S, N> FormatEvent<S, N> for Sentence
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let (word, colour) = match *metadata.level() {
            Level::ERROR => ("error", "31"),
            Level::WARN => ("warning", "33"),
            Level::INFO => ("", ""),
            Level::DEBUG => ("debug", "2"),
            Level::TRACE => ("trace", "2"),
        };
        match (word.is_empty(), to.has_ansi_escapes()) {
            (true, _) => {}
            (false, true) => write!(to, "\x1b[1;{colour}m{word}\x1b[0m: ")?,
            (false, false) => write!(to, "{word}: ")?,
        }
        if metadata.target().starts_with(env!("CARGO_PKG_NAME")) {
            // Our own sentences say all that their fields say.
            event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
                if field.name() == "message" {
                    let _ = write!(to, "{value:?}");
                }
            });
        } else {
            write!(to, "{}: ", metadata.target())?;
            ctx.field_format().format_fields(to.by_ref(), event)?;
        }
        writeln!(to)
    }
}
