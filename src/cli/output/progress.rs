//! What is under way: on a terminal a line that moves, in a pipe a log line where it matters.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Every terminal has these, whatever its locale.
const TICKS: &str = "-\\|/ ";

/// Long work.
pub(in crate::cli) struct Progress {
    bar: ProgressBar,
    is_shown: bool,
}

impl Progress {
    /// Work of which nobody knows how long it takes.
    pub(in crate::cli) fn begin() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style.tick_chars(TICKS));
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        // A dumb terminal shows no line that moves either.
        let is_shown = !bar.is_hidden();
        Self { bar, is_shown }
    }

    /// Says how far it is, to a person who looks.
    pub(in crate::cli) fn moved(&self, how_far: String) {
        self.bar.set_message(how_far);
    }

    /// Says what has changed, also to who reads it later.
    pub(in crate::cli) fn changed(&self, what: &str) {
        self.moved(what.to_owned());
        if !self.is_shown {
            tracing::info!("{what}");
        }
    }

    /// Warns, above the line that moves.
    pub(in crate::cli) fn warn(&self, what: &str) {
        if self.is_shown {
            self.bar.println(format!("warning: {what}"));
        } else {
            tracing::warn!("{what}");
        }
    }

    pub(in crate::cli) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    /// What is said next begins on a line of its own.
    fn drop(&mut self) {
        self.end();
    }
}

/// From how many bytes on a person may have to wait for them to be sent.
const WORTH_A_LOOK: u64 = 256 * 1024;

/// Bytes that are sent.
pub(in crate::cli) struct Upload(ProgressBar);

impl Upload {
    /// So many bytes; a few are nothing to look at.
    pub(in crate::cli) fn begin(bytes: u64) -> Self {
        if bytes < WORTH_A_LOOK {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(bytes);
        if let Ok(style) = ProgressStyle::with_template("sending [{bar:40}] {bytes}/{total_bytes}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// What is to be told how many more bytes were sent.
    pub(in crate::cli) fn told(&self) -> impl Fn(u64) + Send + Sync + Unpin + 'static {
        let bar = self.0.clone();
        move |bytes| bar.inc(bytes)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
