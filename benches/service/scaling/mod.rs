//! Growth of the service's cost: `cargo bench --bench service -- scaling [sqlite|postgres] [PART…] [OPTION…]`.
//!
//! Parts, all of them by default:
//!
//! - `history`: attestations per artifact under the name that the policy requires
//! - `environments`: environments that run the attested artifact
//! - `organizations`: organizations with an environment each
//! - `rows`: old attestations, with trails, artifacts and pods of the same age
//! - `noise`: an organization at its limits beside a quiet one
//! - `replicas`: processes on one PostgreSQL database
//!
//! Options:
//!
//! - `attestations=N`: attestations of `rows` on PostgreSQL, 500,000 by default; SQLite gets a tenth
//! - `explain`: after `rows`, prints the plans of the most frequent statements
//! - `divide=N`: divides the environments, organizations and requests, to try the bench; no goal is recorded
//!
//! Each part has databases of its own. Requests alternate between the variants that a part compares, so that both sides of a
//! ratio see the same load of the machine. The results are CSV files in `target/tmp/scaling`, for `scripts/plot`. The goals
//! are budgets; the worst measurement of both databases counts.

mod environments;
mod explain;
mod history;
mod noise;
mod organizations;
pub(super) mod policy;
mod replicas;
mod results;
mod rows;
mod tenant;

use std::time::Instant;

use self::results::{Results, Worst, print_goals};
use super::arguments::is_selected;
use super::budgets::Curve;
use super::database::Engine;

/// A part: its argument, the variable of its curve, and its function.
type Part = (&'static str, &'static str, fn(&Engine, &mut Results<'_>));

const PARTS: [Part; 6] = [
    ("history", "attestations", history::measure),
    ("environments", "environments", environments::measure),
    ("organizations", "organizations", organizations::measure),
    ("rows", "rows", rows::measure),
    ("noise", "noise", noise::measure),
    ("replicas", "replicas", replicas::measure),
];

/// Runs the selected parts.
pub(super) fn run(engines: &[Engine]) {
    let names = PARTS.map(|(name, ..)| name);
    let mut worst = Worst::new();
    for (name, variable, measure) in PARTS {
        if !is_selected(&names, name) {
            continue;
        }
        let mut curve = Curve::over(variable);
        for engine in engines {
            let begin = Instant::now();
            println!(
                "\n{name} on {}{:>width$} {:>9}",
                engine.name(),
                "p50 ms",
                "p99 ms",
                width = 69 - name.len() - engine.name().len()
            );
            measure(engine, &mut Results { engine: engine.name(), curve: &mut curve, worst: &mut worst });
            println!("{name} on {} took {:.0} s", engine.name(), begin.elapsed().as_secs_f64());
        }
    }
    print_goals(worst);
}
