//! Parses the arguments, runs the command, and turns its failures into messages and an exit code.

use std::process::ExitCode;

use runtime::error_causes;
use runtime::logs;
use supercargo::cli::{Cli, Exit, Failure, Threads};
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    // tokio panics at its start if the process is out of file descriptors.
    let code = std::panic::catch_unwind(run).unwrap_or_else(|_| Exit::Unexpected.into());
    logs::finish();
    code
}

fn run() -> ExitCode {
    let cli = Cli::from_args();
    let (format, prefix, verbosity) = cli.logging();
    if let Err(error) = logs::start(format, prefix, verbosity) {
        logs::fail(format, &error_causes::causes(&error), None);
        return Exit::Usage.into();
    }
    let runtime = match runtime(cli.threads()) {
        Ok(runtime) => runtime,
        Err(error) => {
            logs::fail(format, &[format!("failed to start the runtime: {error}")], None);
            return Exit::Unexpected.into();
        }
    };
    let outcome = runtime.block_on(cli.run());
    // Blocking threads may hang (credential plugin, name server, silent pipe): do not wait for them.
    runtime.shutdown_background();
    let failures = outcome.err().unwrap_or_default();
    for failure in &failures {
        logs::fail(format, &failure.causes(), failure.hint());
    }
    failures.first().map_or(ExitCode::SUCCESS, |failure| Failure::exit(failure).into())
}

fn runtime(threads: Threads) -> std::io::Result<Runtime> {
    let mut builder = match threads {
        Threads::One => Builder::new_current_thread(),
        #[cfg(feature = "service")]
        Threads::Many => Builder::new_multi_thread(),
    };
    builder.enable_all().build()
}
