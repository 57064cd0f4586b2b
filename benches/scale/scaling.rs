//! Growth of the daemon's cost with pods, with environments of one watch, with namespaces that have a watch each, and with
//! namespaces that are selected by labels: `cargo bench --bench scale -- scaling [pods|environments|namespaces|labels]`.
//!
//! Writes CSV files to `target/tmp/scaling`, for `scripts/plot`.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::sleep;

use super::api::{IN_NAMESPACE, LABELLED};
use super::budgets::Curve;
use super::events::{self, Mix};
use super::pods::Size;
use super::process::Process;
use super::stage::Stage;

const PODS: [usize; 5] = [1_000, 10_000, 50_000, 100_000, 150_000];
const ENVIRONMENTS: [usize; 3] = [1, 10, 100];
const NAMESPACES: [usize; 3] = [1, 10, 50];

/// Number of pods if another variable grows.
const FIXED_PODS: usize = 10_000;

/// Maximum anonymous memory that the labelled namespaces add, in MiB.
const MAX_LABELS_MEMORY: f64 = 1.5;

/// Maximum anonymous memory per watch, in MiB.
const MAX_WATCH_MEMORY: f64 = 0.25;

const EVENTS_DURATION: Duration = Duration::from_secs(10);

/// Measures the selected variables, or all.
pub async fn measure(chosen: &[&str]) {
    let is_chosen = |variable: &str| chosen.is_empty() || chosen.contains(&variable);
    if is_chosen("pods") {
        let mut curve = Curve::over("pods");
        for pods in PODS {
            let stage = Stage::start(pods, Size::Realistic, IN_NAMESPACE).await;
            let list = stage.cluster.streaming_list().to_string();
            let reader = stage.reader(&["bytes", stage.folder(), &stage.api.to_string(), &list]).await;
            let floor = reader.usage().cpu.as_secs_f64();
            drop(reader);
            record(&mut curve, pods, "reading the list's bytes alone", floor, "s of CPU");
            daemon(&stage, &mut curve, pods, 1, &["--environment", "bench"].map(str::to_owned)).await;
        }
    }
    if is_chosen("environments") {
        let mut curve = Curve::over("environments");
        for environments in ENVIRONMENTS {
            let stage = Stage::start(FIXED_PODS, Size::Realistic, IN_NAMESPACE).await;
            let mut config = "environments:\n".to_owned();
            for n in 0..environments {
                writeln!(config, "  - name: bench-{n}").unwrap();
            }
            let file = stage.folder.path().join("environments.yaml");
            std::fs::write(&file, config).unwrap();
            let selection = ["--config".to_owned(), file.to_str().unwrap().to_owned()];
            daemon(&stage, &mut curve, environments, environments, &selection).await;
        }
    }
    if is_chosen("namespaces") {
        let mut curve = Curve::over("namespaces");
        let mut memory = Vec::new();
        for namespaces in NAMESPACES {
            let replicas =
                Stage::start(FIXED_PODS, Size::Realistic, IN_NAMESPACE).await.cluster.replicas.len();
            let stage = Stage::start(FIXED_PODS, Size::Realistic, replicas.div_ceil(namespaces)).await;
            let mut names: Vec<_> = stage.cluster.replicas.iter().map(|r| r.namespace.clone()).collect();
            names.dedup();
            let chosen = names.into_iter().flat_map(|name| ["--namespace".to_owned(), name]);
            let selection: Vec<_> =
                ["--environment", "bench"].map(str::to_owned).into_iter().chain(chosen).collect();
            memory.push(daemon(&stage, &mut curve, namespaces, 1, &selection).await);
        }
        let (fewest, most) = (NAMESPACES[0], NAMESPACES[NAMESPACES.len() - 1]);
        let watch = (memory[memory.len() - 1] - memory[0]) / (most - fewest) as f64;
        println!("each additional watch takes {watch:.2} MiB (at most {MAX_WATCH_MEMORY})");
        assert!(watch < MAX_WATCH_MEMORY, "memory of a watch must not depend on the speed of its list");
    }
    if is_chosen("labels") {
        let mut curve = Curve::over("namespaces selected by labels");
        let mut memory = Vec::new();
        for (namespaces, options) in [(0, &[][..]), (LABELLED, &["--namespace-selector", "team"])] {
            let stage = Stage::start(FIXED_PODS, Size::Realistic, 1).await;
            let selection = ["--environment", "bench"].iter().chain(options).map(ToString::to_string);
            let selection: Vec<_> = selection.collect();
            memory.push(daemon(&stage, &mut curve, namespaces, 1, &selection).await);
        }
        let added = memory[1] - memory[0];
        println!("{LABELLED} namespaces add {added:.2} MiB (at most {MAX_LABELS_MEMORY})");
        assert!(added < MAX_LABELS_MEMORY);
    }
}

/// Runs the daemon, up to a thousand events a second without a reported change. Returns its anonymous memory in MiB.
async fn daemon(stage: &Stage, curve: &mut Curve, at: usize, reports: usize, selection: &[String]) -> f64 {
    let daemon = Process::daemon(stage.folder.path(), stage.address, selection);
    while stage.endpoint.heads() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let listed = daemon.usage();
    record(curve, at, "first list", listed.cpu.as_secs_f64(), "s of CPU");
    while stage.endpoint.reports().len() < reports {
        sleep(Duration::from_millis(1)).await;
    }
    let reported = daemon.usage();
    record(curve, at, "first reports", reported.cpu.saturating_sub(listed.cpu).as_secs_f64(), "s of CPU");
    sleep(Duration::from_secs(3)).await;
    let before = daemon.usage();
    let sent = events::send(&stage.cluster, &stage.endpoint, Mix::Status, EVENTS_DURATION).await;
    let after = daemon.usage();
    let share = after.cpu.saturating_sub(before.cpu).as_secs_f64() / sent.took.as_secs_f64() * 100.0;
    record(curve, at, "1000 events a second", share, "% of a core");
    record(curve, at, "peak RSS", after.peak, "MiB");
    record(curve, at, "anonymous memory", after.anonymous, "MiB");
    daemon.stop();
    after.anonymous
}

fn record(curve: &mut Curve, at: usize, cost: &str, value: f64, unit: &str) {
    println!("{at:>8}  {cost:28} {value:>9.3} {unit}");
    curve.point(at, cost, value, unit);
}
