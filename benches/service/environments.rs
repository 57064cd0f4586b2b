//! Attestations over the number of environments that run the attested artifact.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::budgets::Budgets;
use super::cluster::{environments_with_policy, report};
use super::database::{Database, Engine};
use super::figures::{Figures, interleave};
use super::server::{Client, Organization, Server};

const ORGANIZATION: &str = "platform";

/// Environments that run the attested artifacts. The last number is the number of environments.
const ENVIRONMENTS: [u64; 3] = [1, 100, 2_000];

/// Artifacts of each environment.
const ARTIFACTS: u64 = 100;

/// Attestations per artifact.
const SAMPLES: usize = 100;

/// An artifact that runs in several environments.
struct Artifact {
    number: u64,
    environments: u64,
    passes: bool,
    /// Milliseconds from the attestation of another verdict to the verdict of the last environment.
    settled: Vec<f64>,
}

pub(super) fn measure(engine: &Engine, budgets: &mut Budgets) {
    let mut artifacts = [1, 2, 3].map(|number| {
        let environments = ENVIRONMENTS[number - 1];
        Artifact { number: number as u64, environments, passes: true, settled: vec![] }
    });
    let names = (0..ENVIRONMENTS[2]).map(|n| format!("env-{n}"));
    let database = engine.create();
    let server =
        Server::start(&database, &[Organization::new(ORGANIZATION, environments_with_policy(names))]);
    let mut client = server.connect(ORGANIZATION);
    fill(&mut client, &artifacts);
    database.maintain();

    let mut attest = |artifact: &Artifact| client.attest(artifact.passes, [artifact.number]).expect(201);
    let same = interleave(&mut artifacts, SAMPLES, |artifact, _| attest(artifact));
    let mut change = |artifacts: &mut [Artifact]| {
        interleave(artifacts, SAMPLES, |artifact, _| {
            artifact.passes = !artifact.passes;
            let begin = Instant::now();
            let time = attest(artifact);
            artifact.wait_for_verdicts(&database);
            artifact.settled.push(begin.elapsed().as_secs_f64() * 1e3);
            time
        })
    };
    // Separately, since SQLite writes to its file what the queue changed while the next request waits.
    let (few, many) = artifacts.split_at_mut(2);
    let mut other = change(few);
    other.append(&mut change(many));
    for (verdict, figures) in [("same", same), ("other", other)] {
        for (artifact, figures) in artifacts.iter().zip(&figures) {
            figures.print(&format!("{:>6} environments, {verdict} verdict", artifact.environments), "");
        }
        let what = format!("serve, attestation, 100 environments, {verdict} verdict, {}", engine.name());
        budgets.at_most(&what, figures[1].median / figures[0].median, 4.0, "times one environment");
    }
    for Artifact { environments, settled, .. } in artifacts {
        Figures::new(settled).print(&format!("{environments:>6} environments, until the last verdict"), "");
    }
}

impl Artifact {
    /// Waits for the verdicts of the last attestation.
    fn wait_for_verdicts(&self, database: &Database) {
        let compliance = if self.passes { "COMPLIANT" } else { "NON-COMPLIANT" };
        let count = format!(
            "SELECT COUNT(*) FROM artifact_runs r JOIN verdicts v
                 ON v.organization = r.organization AND v.environment = r.environment
                   AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
             WHERE r.organization = '{ORGANIZATION}' AND r.fingerprint = {} AND r.ended_at IS NULL
               AND v.compliance = '{compliance}'",
            database.bytes(&self.number.to_string()),
        );
        let begin = Instant::now();
        while database.number(&count).unsigned_abs() < self.environments {
            let artifact = self.number;
            assert!(begin.elapsed() < Duration::from_mins(10), "artifact {artifact}: verdicts are missing");
            sleep(Duration::from_millis(1));
        }
    }
}

/// Attests all artifacts and reports the environments, which comply with their policies.
fn fill(client: &mut Client, shared: &[Artifact]) {
    let of_environment = |n: u64| {
        let shared = shared.iter().filter(move |artifact| n < artifact.environments);
        let shared: Vec<u64> = shared.map(|artifact| artifact.number).collect();
        let own = 1_000 * (n + 1)..1_000 * (n + 1) + ARTIFACTS - shared.len() as u64;
        shared.into_iter().chain(own)
    };
    let mut all: Vec<u64> = (0..ENVIRONMENTS[2]).flat_map(of_environment).collect();
    all.sort_unstable();
    all.dedup();
    client.attest_all(all);
    for n in 0..ENVIRONMENTS[2] {
        client.report(&format!("env-{n}"), report(of_environment(n))).expect(201);
    }
}
