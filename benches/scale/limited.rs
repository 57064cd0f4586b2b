//! Whether the daemon lives within a limit on its memory: `cargo bench --bench scale -- limited 64 100000`.
//!
//! It runs in a control group of its own (root makes it; version 1 or 2, without swap), lists so many pods, and hears
//! a thousand events a second, of which some 290 bring pods and as many take them away again: first while reports are
//! taken, then while the service is away, which fills the witness, then while it is back. Exit code 1
//! where the kernel killed it, or it did not report once the service was back.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Stage;
use super::api::{IN_NAMESPACE, event};
use super::group::Group;
use super::pods::{Replicas, Size, State};
use super::process::{Process, used};

/// How long each of the three parts lasts.
const PART: Duration = Duration::from_secs(30);

/// How long a pod lives that comes and goes, in events.
const LIFE: usize = 1_500;

/// Pods that come and go, and changes of others.
struct Churn {
    version: u64,
    sets: usize,
    now: usize,
    /// Those that are there, and when each goes.
    here: VecDeque<(Arc<Replicas>, usize, usize)>,
    newest: Arc<Replicas>,
    next: usize,
}

impl Churn {
    fn new(stage: &Stage) -> Self {
        let sets = stage.cluster.replicas.len() + 1_000;
        let newest = Replicas::new(sets, 20, Size::Realistic, IN_NAMESPACE).into();
        Self { version: 300_000_000, sets, now: 0, here: VecDeque::new(), newest, next: 0 }
    }

    /// A thousand events a second, for so long.
    async fn run(&mut self, stage: &Stage, lasts: Duration) -> bool {
        let (start, mut random) = (Instant::now(), fastrand::Rng::with_seed(7));
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while start.elapsed() < lasts {
            ticks.tick().await;
            let mut frame = Vec::with_capacity(16 * 1024);
            self.now += 1;
            self.version += 1;
            if self.here.front().is_some_and(|(_, _, dies)| *dies <= self.now) {
                let (set, k, _) = self.here.pop_front().unwrap();
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
                self.here.push_back((set, k, self.now + LIFE));
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
    let group = match Group::new(mebibytes) {
        Ok(group) => group,
        Err(error) => {
            println!("no control group can be made, as root can where memory is controlled: {error}");
            return ExitCode::FAILURE;
        }
    };
    let stage = Stage::start(pods, Size::Realistic, IN_NAMESPACE).await;
    println!("{pods} pods within {mebibytes} MiB");
    let mut daemon = Process::daemon_within(stage.folder.path(), stage.address, &group.file("cgroup.procs"));
    let outcome = live(&stage, &mut daemon, &group).await;
    match outcome {
        Some(()) => daemon.stop(),
        None => println!("  it is gone: {}", daemon.ended()),
    }
    println!("  {:.1} MiB at most in its group, {} kills", group.peak(), group.kills());
    if outcome.is_some() && group.kills() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Nothing where the daemon ended meanwhile.
async fn live(stage: &Stage, daemon: &mut Process, group: &Group) -> Option<()> {
    until(daemon, || !stage.endpoint.reports().is_empty()).await?;
    say("first report", stage, daemon, group);
    let mut churn = Churn::new(stage);
    for (name, is_away) in [("reports taken", false), ("service away", true), ("back again", false)] {
        stage.endpoint.be_away(is_away);
        let reports = stage.endpoint.reports().len();
        if !churn.run(stage, PART).await || daemon.is_over() {
            return None;
        }
        say(name, stage, daemon, group);
        if !is_away {
            until(daemon, || stage.endpoint.reports().len() > reports).await?;
        }
    }
    Some(())
}

async fn until(daemon: &mut Process, is_so: impl Fn() -> bool) -> Option<()> {
    while !is_so() {
        if daemon.is_over() {
            return None;
        }
        sleep(Duration::from_millis(10)).await;
    }
    Some(())
}

fn say(name: &str, stage: &Stage, daemon: &Process, group: &Group) {
    let used = used(daemon.pid());
    println!(
        "  {name:14} peak RSS {:.1} MiB, now {:.1} MiB, {:.1} MiB of that anonymous; group {:.1} MiB at most; {:.1} s of CPU; {} reports taken",
        used.peak,
        used.resident,
        used.anonymous,
        group.peak(),
        used.cpu.as_secs_f64(),
        stage.endpoint.reports().len()
    );
}
