//! The service's source of the current time.
//!
//! The default is the system's clock. A caller that embeds the service can inject a clock and set it back with its
//! [`ClockControl`]. Timers and measured durations use tokio's and the system's monotonic clocks, which are not affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::domain::model::Timestamp;

/// A clock: the system's, or one that its [`ClockControl`] sets back.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<AtomicU64>>);

/// Sets a clock back. Dropping it returns the clock to the system's time.
#[derive(Debug)]
pub struct ClockControl(Arc<AtomicU64>);

impl Clock {
    /// A clock that can be set back, and its control.
    #[must_use]
    pub fn adjustable() -> (Self, ClockControl) {
        let behind = Arc::new(AtomicU64::new(0));
        (Self(Some(Arc::clone(&behind))), ClockControl(behind))
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let behind = self.0.as_ref().map_or(0, |behind| behind.load(Ordering::Relaxed));
        Timestamp::EPOCH.later(since).earlier(Duration::from_micros(behind))
    }
}

impl ClockControl {
    /// Sets the clock back by this much from the system's time.
    pub fn set_back(&self, by: Duration) {
        self.0.store(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Drop for ClockControl {
    fn drop(&mut self) {
        self.set_back(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_set_back_until_its_control_is_dropped() {
        let (real, (clock, control)) = (Clock::default(), Clock::adjustable());
        control.set_back(Duration::from_hours(1));
        let of_app = clock.clone();
        let behind = of_app.now().distance(real.now());
        assert!(behind >= Duration::from_mins(59), "{behind:?}");
        drop(control);
        let apart = [&of_app, &clock].map(|clock| clock.now().distance(real.now()));
        assert!(apart.iter().all(|apart| *apart < Duration::from_mins(1)), "{apart:?}");
    }
}
