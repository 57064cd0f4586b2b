//! Two-stage shutdown: the first signal shuts down gracefully, the second one exits immediately.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::logs;

/// Returns a token that the first SIGTERM or SIGINT cancels, with `message` in the log. The second signal ends
/// the process with exit code 1.
///
/// # Errors
///
/// If the signal handlers cannot be installed.
pub fn shutdown(message: &'static str) -> io::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = CancellationToken::new();
    let cancelled = token.clone();
    // Not awaited, because it runs as long as the process.
    tokio::spawn(async move {
        for stage in 1_u8.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stage > 1 {
                tracing::warn!("received a second signal: exiting immediately");
                logs::finish();
                std::process::exit(1);
            }
            tracing::info!("{message}");
            cancelled.cancel();
        }
    });
    Ok(token)
}

/// Logged by a server at the first signal.
pub const SHUTTING_DOWN: &str = "shutting down: finishing open requests first";

/// The stream of SIGHUPs, which request a reload of files.
///
/// # Errors
///
/// If the signal handler cannot be installed.
pub fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
