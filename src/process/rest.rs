//! A process that rests: what arrives while it has nothing to do gathers, and is then taken all at once.
//!
//! `main` lets its one thread rest before it waits for the next thing to happen. An open watch of a busy
//! cluster otherwise wakes it for each event, and that costs more than to read it. Nothing rests until
//! somebody says for how long, nor while anything is under way that shall not wait: a list, a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long the process rests, for all that share it.
#[derive(Debug, Clone, Default)]
pub struct Rest(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    micros: AtomicU64,
    hurried: AtomicUsize,
}

/// As long as it lives, the process does not rest.
#[derive(Debug)]
#[must_use]
pub struct Hurry(Rest);

impl Rest {
    /// From now on it rests for so long at a time.
    pub fn set(&self, pause: Duration) {
        self.0.micros.store(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Something is under way that shall not wait.
    pub fn hurry(&self) -> Hurry {
        self.0.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(self.clone())
    }

    /// Rests, unless it shall not; it blocks the thread.
    pub fn take(&self) {
        let pause = Duration::from_micros(self.0.micros.load(Ordering::Relaxed));
        if !pause.is_zero() && self.0.hurried.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(pause);
        }
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.0.hurried.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const PAUSE: Duration = Duration::from_millis(20);

    fn rests(rest: &Rest) -> bool {
        let start = Instant::now();
        rest.take();
        start.elapsed() >= PAUSE
    }

    #[test]
    fn it_rests_once_it_is_told_for_how_long_and_while_nobody_hurries() {
        let rest = Rest::default();
        // No claim that it takes no time: other processes may have theirs.
        rest.take();
        rest.set(PAUSE);
        assert!(rests(&rest));
        rest.set(Duration::from_hours(1));
        let (first, second) = (rest.hurry(), rest.hurry());
        rest.take();
        drop(first);
        rest.clone().take();
        drop(second);
        rest.set(PAUSE);
        assert!(rests(&rest));
    }
}
