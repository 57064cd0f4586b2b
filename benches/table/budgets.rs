//! Budgets of the benches and their last measurements.
//!
//! Every bench includes this file as a module and records its measurements under the key of the budget, below
//! `target/tmp`. `table`, which cargo runs last, prints all of them. A curve is a CSV file of costs without a bound.

use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bound of one cost.
pub(crate) struct Budget {
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    pub(crate) bound: Bound,
    pub(crate) unit: &'static str,
}

/// Bound in the unit of the budget.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use Bound::{AtLeast, AtMost};

/// All budgets, in the order of the table.
pub(crate) const BUDGETS: [Budget; 26] = [
    budget("agent.anonymous.1000", "agent, anonymous memory, 1,000 pods", AtMost(5.0), "MiB"),
    budget("agent.anonymous.10000", "agent, anonymous memory, 10,000 pods", AtMost(6.0), "MiB"),
    budget("agent.anonymous.100000", "agent, anonymous memory, 100,000 pods", AtMost(16.0), "MiB"),
    budget("agent.peak.1000", "agent, peak RSS, 1,000 pods", AtMost(20.0), "MiB"),
    budget("agent.peak.10000", "agent, peak RSS, 10,000 pods", AtMost(22.0), "MiB"),
    budget("agent.peak.100000", "agent, peak RSS, 100,000 pods", AtMost(32.0), "MiB"),
    budget("agent.list.10000", "agent, first list of 10,000 pods, CPU", AtMost(1.5), "times its bytes"),
    budget("agent.list.100000", "agent, first list of 100,000 pods, CPU", AtMost(3.0), "times its bytes"),
    budget(
        "agent.cheaper.100000",
        "kube's typed list of 100,000 pods, CPU",
        AtLeast(10.0),
        "times the agent's",
    ),
    budget("agent.events.100000", "agent, 1,000 pod events a second, CPU", AtMost(3.0), "times their bytes"),
    budget("agent.change.100000", "change to PUT, p99", AtMost(2.1), "s"),
    budget("report.cpu", "report body, 100,000 artifacts, both walks", AtMost(25.0), "ms CPU"),
    budget("report.memory", "the same, memory beside the set", AtMost(1.0), "MiB"),
    budget("size.all", "shipped program, with everything", AtMost(32.0), "MB"),
    budget("size.agent", "shipped program, agent alone", AtMost(18.0), "MB"),
    budget(
        "serve.unchanged",
        "serve, unchanged report, 1,000 pods, SQLite",
        AtLeast(1_800.0),
        "a second of CPU",
    ),
    budget("serve.changed", "serve, changed report, 10,000 pods, SQLite", AtMost(40.0), "ms CPU"),
    budget("serve.live", "serve, live artifacts, 1,000 environments, SQLite, p99", AtMost(5.0), "ms"),
    budget("serve.gate", "serve, gate, 10,000 artifacts, ten rules, SQLite, p99", AtMost(3.0), "ms"),
    budget(
        "serve.identity",
        "serve, token of an issuer beside a static one, SQLite",
        AtMost(0.1),
        "ms CPU more",
    ),
    budget("serve.history.report", "serve, changed report, 30 times the attestations", AtMost(1.1), "times"),
    budget(
        "serve.history.attestation",
        "serve, attestation, 30 times the attestations",
        AtMost(1.1),
        "times",
    ),
    budget("serve.environments.100", "serve, attestation, runs in 100 environments", AtMost(4.0), "times"),
    budget("serve.environments.2000", "serve, attestation, runs in 2,000 environments", AtMost(100.0), "ms"),
    budget("serve.rows", "serve, any request, old rows, p99", AtMost(2.0), "times"),
    budget("serve.noise", "serve, beside a noisy organization, p99", AtMost(2.0), "times"),
];

const fn budget(key: &'static str, label: &'static str, bound: Bound, unit: &'static str) -> Budget {
    Budget { key, label, bound, unit }
}

/// Last measurement of a budget.
pub(crate) struct Measurement {
    pub(crate) value: f64,
    /// Additional information, often empty.
    pub(crate) note: String,
    pub(crate) at: SystemTime,
}

impl Budget {
    pub(crate) fn find(key: &str) -> &'static Self {
        BUDGETS.iter().find(|budget| budget.key == key).expect("known budget")
    }

    /// Records a measurement in the unit of the budget, replacing the previous one.
    pub(crate) fn record(&self, value: f64, note: &str) {
        let folder = output_folder("budgets");
        fs::write(folder.join(self.key), format!("{value}\n{note}\n")).unwrap();
    }

    pub(crate) fn measured(&self) -> Option<Measurement> {
        let file = output_folder("budgets").join(self.key);
        let text = fs::read_to_string(&file).ok()?;
        let (value, note) = text.split_once('\n').unwrap();
        let at = fs::metadata(&file).unwrap().modified().unwrap();
        Some(Measurement { value: value.parse().unwrap(), note: note.trim().to_owned(), at })
    }

    /// Ratio of a value to the bound; above 1, the bound is missed.
    pub(crate) fn share(&self, value: f64) -> f64 {
        match self.bound {
            AtMost(most) => value / most,
            AtLeast(least) => least / value,
        }
    }

    /// Describes the bound and the ratio of a value to it.
    pub(crate) fn describe(&self, value: f64) -> String {
        let (AtMost(bound) | AtLeast(bound)) = self.bound;
        format!("{bound} {}: {:.2} of it", self.unit, self.share(value))
    }

    /// `MISSED` if the bound does not hold.
    pub(crate) fn verdict(&self, value: f64) -> &'static str {
        if self.share(value) <= 1.0 { "" } else { "  MISSED" }
    }
}

/// Costs over a variable such as `pods`: `target/tmp/scaling/pods.csv`, replaced by each run.
pub(crate) struct Curve(fs::File);

impl Curve {
    pub(crate) fn over(variable: &str) -> Self {
        Self::new(variable, variable)
    }

    /// Costs in a file with another name than the variable.
    pub(crate) fn new(name: &str, variable: &str) -> Self {
        let file = output_folder("scaling").join(name).with_extension("csv");
        let mut file = fs::File::create(file).unwrap();
        writeln!(file, "{variable},cost,value,unit").unwrap();
        Self(file)
    }

    /// Adds a point. The texts must not contain a comma.
    pub(crate) fn point(&mut self, at: impl Display, cost: &str, value: f64, unit: &str) {
        assert!(!cost.contains(',') && !unit.contains(','), "{cost} in {unit}");
        writeln!(self.0, "{at},{cost},{value},{unit}").unwrap();
    }
}

/// Path of the program, or of another build for comparison (`SUPERCARGO_PROGRAM`).
pub(crate) fn program() -> PathBuf {
    std::env::var_os("SUPERCARGO_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_supercargo").into(), PathBuf::from)
}

/// Folder for the files of the benches.
fn output_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
