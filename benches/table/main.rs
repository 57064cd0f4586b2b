//! Prints the budgets and the last measurements.
//!
//! `cargo bench` runs the benches by name, so that this one comes last. `cargo bench --bench table` prints the previous
//! measurements.

#![expect(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench fails by panicking, and this one only prints"
)]

#[expect(dead_code, reason = "other benches use the rest of it")]
mod budgets;

use std::fs;
use std::path::{Path, PathBuf};

use self::budgets::{BUDGETS, Bound, Budget, program};

fn main() {
    let program = program();
    let built = fs::metadata(&program).unwrap().modified().unwrap();
    for (key, program) in [("size.all", Some(program.clone())), ("size.agent", agent_alone(&program))] {
        let Some(file) = program.and_then(|program| fs::metadata(program).ok()) else { continue };
        let hours = built.duration_since(file.modified().unwrap()).unwrap_or_default().as_secs() / 3600;
        let note = if hours == 0 { String::new() } else { format!("built {hours} h before the others") };
        Budget::find(key).record(file.len() as f64 / 1e6, &note);
    }
    println!("{:<56} {:>24} {:>10} {:>8}", "cost", "bound", "measured", "ratio");
    for budget in &BUDGETS {
        let bound = match budget.bound {
            Bound::AtMost(bound) => format!("{bound} {}", budget.unit),
            Bound::AtLeast(bound) => format!("at least {bound} {}", budget.unit),
        };
        let Some(measured) = budget.measured() else {
            println!("{:<56} {bound:>24} {:>10} {:>8}  not measured", budget.label, "", "");
            continue;
        };
        let (value, share) = (measured.value, budget.share(measured.value));
        let digits = if value < 100.0 { 2 } else { 0 };
        let older = if measured.at < built { "  (older program)" } else { "" };
        let note = if measured.note.is_empty() { String::new() } else { format!("  ({})", measured.note) };
        println!(
            "{:<56} {bound:>24} {value:>10.digits$} {share:>8.2}{}{older}{note}",
            budget.label,
            budget.verdict(value)
        );
    }
}

/// Path of the agent without the service, if it was built with `--target-dir target/agent` for the same target and
/// profile: `target/agent/TARGET/PROFILE/supercargo` beside `target/TARGET/PROFILE/supercargo`.
fn agent_alone(program: &Path) -> Option<PathBuf> {
    let target = program.ancestors().nth(3)?;
    Some(target.join("agent").join(program.strip_prefix(target).ok()?))
}
