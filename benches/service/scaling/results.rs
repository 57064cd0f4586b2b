//! Results of the parts, and requests that alternate between variants.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::arguments::option;
use crate::budgets::{Budget, Curve};
use crate::figures::Figures;

/// Requests before a measurement, per variant.
const WARM_UP: usize = 3;

/// A measurement ends after this time if each variant has the minimum number of samples.
const MAX_SAMPLING_TIME: Duration = Duration::from_mins(1);
const MIN_SAMPLES: usize = 20;

fn divisor() -> u64 {
    option("divide").unwrap_or(1)
}

/// A number of environments, organizations or requests, divided by the option `divide`.
pub(super) fn divided(number: u64) -> u64 {
    (number / divisor()).max(1)
}

pub(super) fn samples(number: u64) -> usize {
    usize::try_from(divided(number)).unwrap()
}

/// Worst measurement of each budget, with a note.
pub(super) type Worst = BTreeMap<&'static str, (f64, String)>;

/// Results of a part.
pub(super) struct Results<'a> {
    pub(super) engine: &'static str,
    pub(super) curve: &'a mut Curve,
    pub(super) worst: &'a mut Worst,
}

impl Results<'_> {
    /// Adds median and p99 of an operation to the curve.
    pub(super) fn add(&mut self, at: impl Display, label: &str, figures: &Figures) {
        self.add_of("", at, label, figures);
    }

    /// As [`add`](Self::add), with a kind of request, such as ` of pages`, that has a panel of its own in the plot.
    pub(super) fn add_of(&mut self, kind: &str, at: impl Display, label: &str, figures: &Figures) {
        let Figures { median, p99, .. } = figures;
        println!("{:<64} {median:>9.2} {p99:>9.2}", format!("{at:>9}  {label}"));
        self.curve.point(&at, label, *median, &format!("ms{kind} on {}", self.engine));
        self.curve.point(&at, label, *p99, &format!("p99 ms{kind} on {}", self.engine));
    }

    /// Compares a measurement with a goal.
    pub(super) fn goal(&mut self, key: &'static str, value: f64, label: &str) {
        let budget = Budget::find(key);
        let (engine, verdict) = (self.engine, budget.verdict(value));
        println!("{:<64} {value:>9.2} {}{verdict}", format!("           {label}"), budget.unit);
        let worst = self.worst.entry(key).or_insert((0.0, String::new()));
        if value > worst.0 {
            *worst = (value, format!("{label} on {engine}"));
        }
    }
}

/// Measures one request per variant in turn, `samples` times if there is time for it. `send` returns milliseconds; its
/// number counts from 0 and includes the requests before the measurement.
pub(super) fn interleave<Variant>(
    variants: &mut [Variant],
    samples: usize,
    mut send: impl FnMut(&mut Variant, usize) -> f64,
) -> Vec<Figures> {
    let mut times = vec![Vec::with_capacity(samples); variants.len()];
    let count = variants.len();
    let begin = Instant::now();
    for n in 0..WARM_UP + samples {
        if n > WARM_UP + MIN_SAMPLES && begin.elapsed() > MAX_SAMPLING_TIME {
            break;
        }
        for turn in 0..count {
            // A different variant is the first each time.
            let at = (n + turn) % count;
            let time = send(&mut variants[at], n);
            if n >= WARM_UP {
                times[at].push(time);
            }
        }
    }
    times.into_iter().map(|times| Figures::new(times, 0.0, 0)).collect()
}

/// Prints and records the measurements of the budgets.
pub(super) fn print_goals(worst: Worst) {
    println!("\ngoals:");
    for (key, (value, note)) in worst {
        let budget = Budget::find(key);
        println!("{key:<32} {value:>9.2}; {}{} ({note})", budget.describe(value), budget.verdict(value));
        if divisor() == 1 {
            budget.record(value, &note);
        }
    }
}
