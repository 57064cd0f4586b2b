//! Times of requests.

use std::time::{Duration, Instant};

/// Requests before a measurement, per variant.
const WARM_UP: usize = 3;

/// A measurement ends after this time if each variant has the minimum number of samples.
const MAX_SAMPLING_TIME: Duration = Duration::from_mins(1);
const MIN_SAMPLES: usize = 20;

/// Milliseconds of requests.
pub(super) struct Figures {
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Figures {
    pub(super) fn new(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times[times.len() * percent / 100];
        Self { median: at(50), p99: at(99), max: times[times.len() - 1] }
    }

    pub(super) fn print(&self, label: &str, note: &str) {
        let Self { median, p99, max } = self;
        println!("{label:<60} {median:>9.2} {p99:>9.2} {max:>9.2}  {note}");
    }
}

/// Prints the head of the columns of [`Figures::print`].
pub(super) fn print_head(title: &str) {
    println!("\n{title:<60} {:>9} {:>9} {:>9}", "p50 ms", "p99 ms", "max ms");
}

/// Measures one request per variant in turn, `samples` times if there is time for it. Other load of the machine therefore
/// affects all variants alike. `send` returns milliseconds; its number counts from 0, with the requests of the warm-up.
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
    times.into_iter().map(Figures::new).collect()
}
