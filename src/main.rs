//! Arguments in, exit code out.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use supercargo::cli::{Cli, Exit, Failure};
use supercargo::process::causes;
use supercargo::process::logs::{self, Format};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (format, verbosity) = cli.logging();
    if let Err(error) = logs::start(format, verbosity) {
        say(Format::Text, &causes::said_once(&error), None);
        return Exit::Usage.into();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(format, &[format!("the runtime cannot be started: {error}")], None);
            return Exit::Unexpected.into();
        }
    };
    let outcome = runtime.block_on(cli.run());
    // A credential plugin that hangs is not waited for.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failures) => {
            for failure in &failures {
                say(format, &failure.causes(), failure.hint());
            }
            failures.first().map_or(Exit::Unexpected, Failure::exit).into()
        }
    }
}

/// Says what went wrong, each cause once, on stderr. That nobody may be listening there is no reason
/// to fail in another way.
fn say(format: Format, causes: &[String], hint: Option<&str>) {
    if format == Format::Json {
        tracing::error!(hint, "{}", causes.join(": "));
        return;
    }
    let (red, dim, plain) =
        if logs::is_coloured() { ("\x1b[1;31m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
    let mut stderr = std::io::stderr().lock();
    for (depth, cause) in causes.iter().enumerate() {
        let _ = if depth == 0 {
            writeln!(stderr, "{red}error{plain}: {cause}")
        } else {
            writeln!(stderr, "  {dim}caused by{plain}: {cause}")
        };
    }
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "  {dim}hint{plain}: {hint}");
    }
}
