//! Measurements beside their bounds.

use std::process::ExitCode;

/// Measured budgets.
#[derive(Default)]
pub(crate) struct Budgets {
    lines: Vec<String>,
    missed: usize,
}

impl Budgets {
    pub(crate) fn at_most(&mut self, what: &str, value: f64, bound: f64, unit: &str) {
        self.add(what, value, "at most", bound, unit, value <= bound);
    }

    pub(crate) fn at_least(&mut self, what: &str, value: f64, bound: f64, unit: &str) {
        self.add(what, value, "at least", bound, unit, value >= bound);
    }

    fn add(&mut self, what: &str, value: f64, relation: &str, bound: f64, unit: &str, is_met: bool) {
        self.missed += usize::from(!is_met);
        let missed = if is_met { "" } else { "  MISSED" };
        self.lines.push(format!("{what:<66} {value:>9.2}  {relation} {bound} {unit}{missed}"));
    }

    /// Prints all budgets. Fails if a bound is missed.
    pub(crate) fn print(self) -> ExitCode {
        println!("\nbudgets:");
        self.lines.iter().for_each(|line| println!("{line}"));
        if self.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
