//! Two-stage shutdown: the first signal asks for an end in order, the second ends at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM or SIGINT; the second one ends the process with
/// exit code 1.
///
/// # Errors
///
/// Where signals cannot be received.
pub fn shutdown() -> io::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = CancellationToken::new();
    let cancelled = token.clone();
    // It lives as long as the process: there is nothing to wait for.
    tokio::spawn(async move {
        for stage in 1_u8.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stage > 1 {
                tracing::warn!("a second signal: ending at once");
                std::process::exit(1);
            }
            tracing::info!("stopping: requests under way are finished first");
            cancelled.cancel();
        }
    });
    Ok(token)
}

/// Each SIGHUP, by which an operator asks for a file to be read again.
///
/// # Errors
///
/// Where signals cannot be received.
pub fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
