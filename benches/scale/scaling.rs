//! How the daemon's cost grows: with pods, with environments out of one watch, and with namespaces that have a watch
//! each. `cargo bench --bench scale -- scaling [pods|environments|namespaces]`.
//!
//! What is measured lies in `target/tmp/scaling`, as CSV, for `scripts/plot`.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::sleep;

use super::Stage;
use super::api::IN_NAMESPACE;
use super::budgets::Curve;
use super::events::{self, Mix};
use super::pods::Size;
use super::process::Process;

const PODS: [usize; 5] = [1_000, 10_000, 50_000, 100_000, 150_000];
const ENVIRONMENTS: [usize; 3] = [1, 10, 100];
const NAMESPACES: [usize; 3] = [1, 10, 50];

/// Where it is not pods that there are more of.
const FEW: usize = 10_000;

/// What a watch may take of the daemon's own memory, in MiB.
const A_WATCH: f64 = 0.25;

const EVENTS_LAST: Duration = Duration::from_secs(10);

/// Measures what is chosen, or all.
pub async fn measure(chosen: &[&str]) {
    let is_chosen = |what: &str| chosen.is_empty() || chosen.contains(&what);
    if is_chosen("pods") {
        let mut curve = Curve::over("pods");
        for pods in PODS {
            let stage = Stage::start(pods, Size::Realistic, IN_NAMESPACE).await;
            let list = stage.cluster.streaming_list().to_string();
            let reader = stage.reader(&["bytes", stage.folder(), &stage.api.to_string(), &list]).await;
            let floor = reader.used().cpu.as_secs_f64();
            drop(reader);
            say(&mut curve, pods, "reading the list's bytes alone", floor, "s of CPU");
            daemon(&stage, &mut curve, pods, 1, &["--environment", "bench"].map(str::to_owned)).await;
        }
    }
    if is_chosen("environments") {
        let mut curve = Curve::over("environments");
        for environments in ENVIRONMENTS {
            let stage = Stage::start(FEW, Size::Realistic, IN_NAMESPACE).await;
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
        let mut own = Vec::new();
        for namespaces in NAMESPACES {
            let replicas = Stage::start(FEW, Size::Realistic, IN_NAMESPACE).await.cluster.replicas.len();
            let stage = Stage::start(FEW, Size::Realistic, replicas.div_ceil(namespaces)).await;
            let mut names: Vec<_> = stage.cluster.replicas.iter().map(|r| r.namespace.clone()).collect();
            names.dedup();
            let chosen = names.into_iter().flat_map(|name| ["--namespace".to_owned(), name]);
            let selection: Vec<_> =
                ["--environment", "bench"].map(str::to_owned).into_iter().chain(chosen).collect();
            own.push(daemon(&stage, &mut curve, namespaces, 1, &selection).await);
        }
        let (fewest, most) = (NAMESPACES[0], NAMESPACES[NAMESPACES.len() - 1]);
        let watch = (own[own.len() - 1] - own[0]) / (most - fewest) as f64;
        println!("a watch more takes {watch:.2} MiB (at most {A_WATCH})");
        assert!(watch < A_WATCH, "what a watch holds must not depend on how fast its list came");
    }
}

/// From its start to a thousand events a second that change nothing that is reported: the memory of its own, in MiB.
async fn daemon(stage: &Stage, curve: &mut Curve, at: usize, reports: usize, selection: &[String]) -> f64 {
    let daemon = Process::daemon(stage.folder.path(), stage.address, selection);
    while stage.endpoint.heads() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let listed = daemon.used();
    say(curve, at, "first list", listed.cpu.as_secs_f64(), "s of CPU");
    while stage.endpoint.reports().len() < reports {
        sleep(Duration::from_millis(1)).await;
    }
    let reported = daemon.used();
    say(curve, at, "first reports", reported.cpu.saturating_sub(listed.cpu).as_secs_f64(), "s of CPU");
    sleep(Duration::from_secs(3)).await;
    let before = daemon.used();
    let sent = events::send(&stage.cluster, &stage.endpoint, Mix::Status, EVENTS_LAST).await;
    let after = daemon.used();
    let share = after.cpu.saturating_sub(before.cpu).as_secs_f64() / sent.took.as_secs_f64() * 100.0;
    say(curve, at, "1000 events a second", share, "% of a core");
    say(curve, at, "peak RSS", after.peak, "MiB");
    say(curve, at, "anonymous memory", after.anonymous, "MiB");
    daemon.stop();
    after.anonymous
}

fn say(curve: &mut Curve, at: usize, cost: &str, value: f64, unit: &str) {
    println!("{at:>8}  {cost:28} {value:>9.3} {unit}");
    curve.point(at, cost, value, unit);
}
