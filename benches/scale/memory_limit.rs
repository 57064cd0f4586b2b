//! Runs the daemon within a memory limit: `cargo bench --bench scale -- limited 64 100000`.
//!
//! The daemon runs in its own control group (requires root; version 1 or 2, without swap), lists the pods and receives
//! a thousand events a second, of which about 290 add and 290 delete pods. The service accepts reports, then is
//! unavailable, which fills the backlog of departed pods, and then recovers. Exits with 1 if the kernel killed the
//! daemon, or if it did not report after the recovery.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, sleep};

use super::api::{IN_NAMESPACE, event};
use super::control_group::ControlGroup;
use super::pods::{Replicas, Size, State};
use super::process::{Process, usage};
use super::stage::Stage;

/// Duration of each of the three parts.
const PART: Duration = Duration::from_secs(30);

/// Lifetime of a short-lived pod, in events.
const LIFETIME: usize = 1_500;

/// Short-lived pods and changes of other pods.
struct Churn {
    version: u64,
    sets: usize,
    now: usize,
    /// Existing short-lived pods, and the event at which each ends.
    live: VecDeque<(Arc<Replicas>, usize, usize)>,
    newest: Arc<Replicas>,
    next: usize,
}

impl Churn {
    fn new(stage: &Stage) -> Self {
        let sets = stage.cluster.replicas.len() + 1_000;
        let newest = Replicas::new(sets, 20, Size::Realistic, IN_NAMESPACE).into();
        Self { version: 300_000_000, sets, now: 0, live: VecDeque::new(), newest, next: 0 }
    }

    /// Sends a thousand events a second. Returns false if the daemon is gone.
    async fn run(&mut self, stage: &Stage, duration: Duration) -> bool {
        let (start, mut random) = (Instant::now(), fastrand::Rng::with_seed(7));
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while start.elapsed() < duration {
            ticks.tick().await;
            let mut frame = Vec::with_capacity(16 * 1024);
            self.now += 1;
            self.version += 1;
            if self.live.front().is_some_and(|(_, _, dies)| *dies <= self.now) {
                let (set, k, _) = self.live.pop_front().unwrap();
                event("DELETED", &set, k, self.version, State::Ready, &mut frame);
            } else if random.u8(..10) < 4 {
                if self.next == self.newest.pods {
                    self.sets += 1;
                    self.newest = Replicas::new(self.sets, 20, Size::Realistic, IN_NAMESPACE).into();
                    self.next = 0;
                }
                let (set, k) = (Arc::clone(&self.newest), self.next);
                self.next += 1;
                event("ADDED", &set, k, self.version, State::Ready, &mut frame);
                self.live.push_back((set, k, self.now + LIFETIME));
            } else {
                let (set, k) = stage.cluster.find(random.usize(..stage.cluster.pods));
                event("MODIFIED", set, k, self.version, State::Unready, &mut frame);
            }
            if !stage.cluster.send("", frame) {
                return false;
            }
        }
        true
    }
}

pub async fn run(mebibytes: u64, pods: usize) -> ExitCode {
    let group = match ControlGroup::new(mebibytes) {
        Ok(group) => group,
        Err(error) => {
            println!("failed to create a control group (requires root and the memory controller): {error}");
            return ExitCode::FAILURE;
        }
    };
    let stage = Stage::start(pods, Size::Realistic, IN_NAMESPACE).await;
    println!("{pods} pods within {mebibytes} MiB");
    let mut daemon =
        Process::daemon_in_group(stage.folder.path(), stage.address, &group.file("cgroup.procs"));
    let outcome = exercise(&stage, &mut daemon, &group).await;
    match outcome {
        Some(()) => daemon.stop(),
        None => println!("  the daemon exited: {}", daemon.wait()),
    }
    println!("  {:.1} MiB at most in its group, {} kills", group.peak(), group.kills());
    if outcome.is_some() && group.kills() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns `None` if the daemon exited.
async fn exercise(stage: &Stage, daemon: &mut Process, group: &ControlGroup) -> Option<()> {
    until(daemon, || !stage.endpoint.reports().is_empty()).await?;
    print_usage("first report", stage, daemon, group);
    let mut churn = Churn::new(stage);
    for (name, is_unavailable) in [("service up", false), ("service down", true), ("recovered", false)] {
        stage.endpoint.set_unavailable(is_unavailable);
        let reports = stage.endpoint.reports().len();
        if !churn.run(stage, PART).await || daemon.has_exited() {
            return None;
        }
        print_usage(name, stage, daemon, group);
        if !is_unavailable {
            until(daemon, || stage.endpoint.reports().len() > reports).await?;
        }
    }
    Some(())
}

async fn until(daemon: &mut Process, condition: impl Fn() -> bool) -> Option<()> {
    while !condition() {
        if daemon.has_exited() {
            return None;
        }
        sleep(Duration::from_millis(10)).await;
    }
    Some(())
}

fn print_usage(name: &str, stage: &Stage, daemon: &Process, group: &ControlGroup) {
    let usage = usage(daemon.pid());
    println!(
        "  {name:14} peak RSS {:.1} MiB, now {:.1} MiB, {:.1} MiB of that anonymous; group {:.1} MiB at most; {:.1} s of CPU; {} reports accepted",
        usage.peak,
        usage.resident,
        usage.anonymous,
        group.peak(),
        usage.cpu.as_secs_f64(),
        stage.endpoint.reports().len()
    );
}
