//! The service's source of the current time.
//!
//! It is the system's clock, and a caller that embeds the service can set it back. Timers and measured durations use tokio's
//! and the system's monotonic clocks, which are not affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use model::Timestamp;

/// The system's clock, or one behind it. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    behind_micros: Arc<AtomicU64>,
}

impl Clock {
    /// Sets the clock back by this much from the system's time.
    pub fn set_back(&self, by: Duration) {
        self.behind_micros.store(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Not before 1970: stored times and times in tokens cannot be earlier.
    pub(crate) fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let behind = Duration::from_micros(self.behind_micros.load(Ordering::Relaxed));
        Timestamp::EPOCH.later(since).earlier(behind).max(Timestamp::EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_set_back_with_its_clones() {
        let (real, clock) = (Clock::default(), Clock::default());
        let of_app = clock.clone();
        clock.set_back(Duration::from_hours(1));
        let behind = of_app.now().distance(real.now());
        assert!(behind >= Duration::from_mins(59), "{behind:?}");
        clock.set_back(Duration::from_hours(24 * 365 * 100));
        assert_eq!(clock.now(), Timestamp::EPOCH);
        clock.set_back(Duration::ZERO);
        let apart = [&of_app, &clock].map(|clock| clock.now().distance(real.now()));
        assert!(apart.iter().all(|apart| *apart < Duration::from_mins(1)), "{apart:?}");
    }
}
