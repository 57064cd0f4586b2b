//! Arguments in, exit code out.

use std::process::ExitCode;

use supercargo::cli::{Cli, Exit, Failure, Threads};
use supercargo::process::error_causes;
use supercargo::process::logs;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    // Where files are short, tokio panics as it starts: that is no exit code of its own either.
    let code = std::panic::catch_unwind(run).unwrap_or_else(|_| Exit::Unexpected.into());
    logs::finish();
    code
}

fn run() -> ExitCode {
    let cli = Cli::of_process();
    let (format, verbosity) = cli.logging();
    if let Err(error) = logs::start(format, verbosity) {
        logs::fail(format, &error_causes::said_once(&error), None);
        return Exit::Usage.into();
    }
    let runtime = match runtime(cli.threads()) {
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

fn runtime(threads: Threads) -> std::io::Result<Runtime> {
    let mut builder = match threads {
        Threads::One => Builder::new_current_thread(),
        #[cfg(feature = "service")]
        Threads::Many => Builder::new_multi_thread(),
    };
    builder.enable_all().build()
}
