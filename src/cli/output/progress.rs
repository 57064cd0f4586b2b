//! Progress of long operations: a spinner or bar on a terminal, log lines otherwise.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// ASCII, for terminals of any locale.
const TICKS: &str = "-\\|/ ";

/// A spinner for an operation of unknown length.
pub(in crate::cli) struct Progress {
    bar: ProgressBar,
    is_visible: bool,
}

impl Progress {
    pub(in crate::cli) fn start() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style.tick_chars(TICKS));
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        // Hidden without a terminal, and on a dumb one.
        let is_visible = !bar.is_hidden();
        Self { bar, is_visible }
    }

    /// Updates the spinner's message.
    pub(in crate::cli) fn update(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Updates the spinner's message; logs it if there is no spinner.
    pub(in crate::cli) fn log(&self, message: &str) {
        self.update(message.to_owned());
        if !self.is_visible {
            tracing::info!("{message}");
        }
    }

    /// Prints a warning above the spinner.
    pub(in crate::cli) fn warn(&self, message: &str) {
        if self.is_visible {
            self.bar.println(format!("warning: {message}"));
        } else {
            tracing::warn!("{message}");
        }
    }

    pub(in crate::cli) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    /// The next output starts on a line of its own.
    fn drop(&mut self) {
        self.end();
    }
}

/// Smaller uploads have no progress bar, in bytes.
const MIN_UPLOAD_WITH_BAR: u64 = 256 * 1024;

/// Progress bar of an upload.
pub(in crate::cli) struct Upload(ProgressBar);

impl Upload {
    pub(in crate::cli) fn start(bytes: u64) -> Self {
        if bytes < MIN_UPLOAD_WITH_BAR {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(bytes);
        if let Ok(style) = ProgressStyle::with_template("sending [{bar:40}] {bytes}/{total_bytes}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// Callback for the number of additional bytes sent.
    pub(in crate::cli) fn on_progress(&self) -> impl Fn(u64) + Send + Sync + Unpin + 'static {
        let bar = self.0.clone();
        move |bytes| bar.inc(bytes)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
