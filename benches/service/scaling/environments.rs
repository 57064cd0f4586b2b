//! Cost of an attestation over the number of environments that run the attested artifact.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::policy::{FLOW, NAME, attest_all, environments_with_policy};
use super::results::{Results, divided, interleave, samples};
use crate::cluster::{attestation, digest, report};
use crate::database::{Database, Engine};
use crate::figures::Figures;
use crate::server::{Connection, Organization, Server};

const ORGANIZATION: &str = "platform";

/// Environments that run the attested artifacts. The last number is the number of environments.
const ENVIRONMENTS: [u64; 3] = [1, 100, 2_000];

/// Artifacts of each environment.
const ARTIFACTS: u64 = 100;

/// Attestations per artifact.
const SAMPLES: u64 = 100;

/// An artifact that runs in several environments.
struct Artifact {
    number: u64,
    environments: u64,
    passes: bool,
    /// Milliseconds from a changed verdict's attestation to the verdict of the last environment.
    settled: Vec<f64>,
}

pub(super) fn measure(engine: &Engine, results: &mut Results<'_>) {
    let mut artifacts = [1, 2, 3].map(|number| {
        let environments = divided(ENVIRONMENTS[number - 1]);
        Artifact { number: number as u64, environments, passes: true, settled: vec![] }
    });
    let environments = divided(ENVIRONMENTS[2]);
    let names = (0..environments).map(|n| format!("env-{n}"));
    let settings = environments_with_policy(names);
    let database = engine.create();
    let server = Server::start(&database, &[Organization::new(ORGANIZATION, settings)]);
    let mut connection = server.connect();
    fill(&mut connection, &artifacts, environments);
    database.maintain();

    let mut connection = server.connect();
    let mut trails = 0..;
    let mut attest = |artifact: &Artifact| {
        let data = attestation(NAME, artifact.passes, [artifact.number]);
        let trail = format!("new-{}", trails.next().unwrap());
        connection.attest(ORGANIZATION, FLOW, &trail, &data).expect(201).milliseconds
    };
    let same = interleave(&mut artifacts, samples(SAMPLES), |artifact, _| attest(artifact));
    let mut change = |artifacts: &mut [Artifact]| {
        interleave(artifacts, samples(SAMPLES), |artifact, _| {
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
    let mut changed = change(few);
    changed.append(&mut change(many));
    for (label, figures) in [("same verdict", same), ("other verdict", changed)] {
        for (artifact, figures) in artifacts.iter().zip(&figures) {
            results.add(artifact.environments, label, figures);
        }
        let label = format!("attestation, {label}");
        results.goal("serve.environments.100", figures[1].median / figures[0].median, &label);
        results.goal("serve.environments.2000", figures[2].median, &label);
    }
    for Artifact { environments, settled, .. } in artifacts {
        results.add(environments, "until the last environment", &Figures::new(settled, 0.0, 0));
    }
}

impl Artifact {
    /// Waits until the last environment of the last attestation.
    fn wait_for_verdicts(&self, database: &Database) {
        let compliance = if self.passes { "COMPLIANT" } else { "NON-COMPLIANT" };
        let count = format!(
            "SELECT COUNT(*) FROM artifact_runs r JOIN verdicts v
                 ON v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
             WHERE r.organization = '{ORGANIZATION}' AND r.fingerprint = {} AND r.ended_at IS NULL
               AND v.compliance = '{compliance}'",
            database.bytes(&self.number.to_string()),
        );
        let begin = Instant::now();
        while database.number(&count).unsigned_abs() < self.environments {
            let waited = begin.elapsed();
            assert!(
                waited < Duration::from_mins(10),
                "artifact {}: verdicts are missing",
                digest(self.number)
            );
            sleep(Duration::from_millis(1));
        }
    }
}

/// Attests all artifacts and reports the environments, which comply with their policies.
fn fill(connection: &mut Connection, shared: &[Artifact], environments: u64) {
    let of_environment = |n: u64| {
        let shared = shared.iter().filter(move |artifact| n < artifact.environments);
        let shared: Vec<u64> = shared.map(|artifact| artifact.number).collect();
        let own = 1_000 * (n + 1)..1_000 * (n + 1) + ARTIFACTS - shared.len() as u64;
        shared.into_iter().chain(own)
    };
    let mut all: Vec<u64> = (0..environments).flat_map(of_environment).collect();
    all.sort_unstable();
    all.dedup();
    attest_all(connection, ORGANIZATION, all);
    for n in 0..environments {
        connection.report(ORGANIZATION, &format!("env-{n}"), &report(of_environment(n), 1)).expect(201);
    }
}
