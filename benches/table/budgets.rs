//! The budgets: what each thing may cost, and what it was last measured to cost.
//!
//! Every bench program has this file as a module. It records what it measures under the budget's key, in a file
//! below `target/tmp`, so that `table`, which cargo runs last, can print all of them side by side whichever program
//! measured what. Curves are the same for what has no bound: a file of CSV for what the cost is measured over.

use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What one thing may cost.
pub(crate) struct Budget {
    pub(crate) key: &'static str,
    pub(crate) what: &'static str,
    pub(crate) bound: Bound,
    pub(crate) unit: &'static str,
}

/// In the budget's unit.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use Bound::{AtLeast, AtMost};

/// All of them, in the table's order.
pub(crate) const BUDGETS: [Budget; 18] = [
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
];

const fn budget(key: &'static str, what: &'static str, bound: Bound, unit: &'static str) -> Budget {
    Budget { key, what, bound, unit }
}

/// What was measured of a budget.
pub(crate) struct Measured {
    pub(crate) value: f64,
    /// What else a reader has to know of it; often nothing.
    pub(crate) note: String,
    pub(crate) at: SystemTime,
}

impl Budget {
    pub(crate) fn of(key: &str) -> &'static Self {
        BUDGETS.iter().find(|budget| budget.key == key).expect("a budget has this key")
    }

    /// Keeps what was measured, in the budget's unit, in the place of what was before.
    pub(crate) fn record(&self, value: f64, note: &str) {
        let folder = kept("budgets");
        fs::write(folder.join(self.key), format!("{value}\n{note}\n")).unwrap();
    }

    pub(crate) fn measured(&self) -> Option<Measured> {
        let file = kept("budgets").join(self.key);
        let text = fs::read_to_string(&file).ok()?;
        let (value, note) = text.split_once('\n').unwrap();
        let at = fs::metadata(&file).unwrap().modified().unwrap();
        Some(Measured { value: value.parse().unwrap(), note: note.trim().to_owned(), at })
    }

    /// How much of the bound something takes: above 1 it is missed.
    pub(crate) fn share(&self, value: f64) -> f64 {
        match self.bound {
            AtMost(most) => value / most,
            AtLeast(least) => least / value,
        }
    }

    /// The bound, and how much of it something takes.
    pub(crate) fn told(&self, value: f64) -> String {
        let (AtMost(bound) | AtLeast(bound)) = self.bound;
        format!("{bound} {}: {:.2} of it", self.unit, self.share(value))
    }

    /// Whether the bound holds, in words.
    pub(crate) fn verdict(&self, value: f64) -> &'static str {
        if self.share(value) <= 1.0 { "" } else { "  MISSED" }
    }
}

/// Costs over something, such as `pods`: `target/tmp/scaling/pods.csv`, which begins anew with each run.
pub(crate) struct Curve(fs::File);

impl Curve {
    pub(crate) fn over(what: &str) -> Self {
        let mut file = fs::File::create(kept("scaling").join(what).with_extension("csv")).unwrap();
        writeln!(file, "{what},cost,value,unit").unwrap();
        Self(file)
    }

    /// At so many, something costs this. No text may hold a comma.
    pub(crate) fn point(&mut self, at: impl Display, cost: &str, value: f64, unit: &str) {
        writeln!(self.0, "{at},{cost},{value},{unit}").unwrap();
    }
}

/// The program; another build of it, to compare with, where `SUPERCARGO_PROGRAM` names one.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("SUPERCARGO_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_supercargo").into(), PathBuf::from)
}

/// A folder of this name for what benches keep.
fn kept(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
