//! Arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use supercargo::cli::{Cli, Exit, Failure};
use supercargo::process::causes;
use supercargo::process::logs;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (format, verbosity) = cli.logging();
    if let Err(error) = logs::start(format, verbosity) {
        logs::fail(format, &causes::said_once(&error), None);
        return Exit::Usage.into();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            logs::fail(format, &[format!("the runtime cannot be started: {error}")], None);
            return Exit::Unexpected.into();
        }
    };
    let outcome = runtime.block_on(cli.run());
    // What runs on threads of its own and hangs (a credential plugin, a name server, a silent pipe)
    // is not waited for.
    runtime.shutdown_background();
    let failures = outcome.err().unwrap_or_default();
    for failure in &failures {
        logs::fail(format, &failure.causes(), failure.hint());
    }
    failures.first().map_or(ExitCode::SUCCESS, |failure| Failure::exit(failure).into())
}
