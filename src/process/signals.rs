//! Two-stage shutdown: the first signal asks for an end in order, the second ends at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::logs;

/// A token that is cancelled by the first SIGTERM or SIGINT, at which `says` is logged; the second one
/// ends the process with exit code 1.
///
/// # Errors
///
/// Where signals cannot be received.
pub fn shutdown(says: &'static str) -> io::Result<CancellationToken> {
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
                logs::finish();
                std::process::exit(1);
            }
            tracing::info!("{says}");
            cancelled.cancel();
        }
    });
    Ok(token)
}

/// What a server says that finishes the requests under way.
pub const FINISHING: &str = "stopping: requests under way are finished first";

/// Each SIGHUP, by which an operator asks for a file to be read again.
///
/// # Errors
///
/// Where signals cannot be received.
pub fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
