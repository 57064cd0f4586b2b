//! Cost over the number of attestations of each artifact under the name that the policy requires.

use std::time::Duration;

use super::policy::{FLOW, NAME, environments_with_policy};
use super::results::{Results, interleave, samples};
use crate::cluster::{attestation, report};
use crate::database::{Attestations, Database, Engine, insert_attestations};
use crate::server::{Connection, Organization, Server};

const ORGANIZATION: &str = "history";

/// Artifacts of each environment, and attestations of each artifact.
const ENVIRONMENTS: [(u64, u64); 6] = [(100, 1), (100, 10), (100, 30), (100, 100), (200, 1), (200, 20)];

/// Environments of [`ENVIRONMENTS`] with a hundred artifacts.
const HUNDREDS: usize = 4;

/// Requests per environment.
const SAMPLES: u64 = 200;

/// An environment with two sets of artifacts, of which it runs one.
struct Environment {
    name: String,
    artifacts: u64,
    attestations: u64,
    /// Number of its first artifact.
    first: u64,
    reports: u64,
}

pub(super) fn measure(engine: &Engine, results: &mut Results<'_>) {
    let environments = (1..).zip(ENVIRONMENTS).map(|(n, (artifacts, attestations))| {
        let name = format!("artifacts-{artifacts}-{attestations}");
        Environment { name, artifacts, attestations, first: n * 1_000, reports: 0 }
    });
    let mut environments: Vec<Environment> = environments.collect();
    let settings = environments_with_policy(environments.iter().map(|environment| &environment.name));
    let database = engine.create();
    let server = Server::start(&database, &[Organization::new(ORGANIZATION, settings)]);
    seed(&database, &environments);
    let mut connection = server.connect();
    for environment in &mut environments {
        environment.report(&mut connection, 1);
    }

    let (hundreds, two_hundreds) = environments.split_at_mut(HUNDREDS);
    let attested = interleave(hundreds, samples(SAMPLES), |environment, n| {
        let artifact = environment.first + n as u64 % (environment.artifacts - 1);
        let trail = format!("{}-new-{n}", environment.name);
        let data = attestation(NAME, true, [artifact]);
        connection.attest(ORGANIZATION, FLOW, &trail, &data).expect(201).milliseconds
    });
    let one = interleave(hundreds, samples(SAMPLES), |environment, _| environment.report(&mut connection, 1));
    let all = interleave(hundreds, samples(SAMPLES), |environment, _| {
        environment.report(&mut connection, environment.artifacts)
    });
    for (label, goal, figures) in [
        ("attestation", "serve.history.attestation", attested),
        ("report: 1 of 100 changed", "serve.history.report", one),
        ("report: 100 changed", "serve.history.report", all),
    ] {
        for (environment, figures) in hundreds.iter().zip(&figures) {
            results.add(environment.attestations, label, figures);
        }
        let thirty = hundreds.iter().position(|environment| environment.attestations == 30).unwrap();
        results.goal(goal, figures[thirty].median / figures[0].median, label);
    }
    let figures = interleave(two_hundreds, samples(SAMPLES), |environment, _| {
        environment.report(&mut connection, environment.artifacts)
    });
    let label = "report: 200 changed";
    for (environment, figures) in two_hundreds.iter().zip(&figures) {
        results.add(environment.attestations, label, figures);
    }
    results.goal("serve.history.report", figures[1].median / figures[0].median, label);
}

impl Environment {
    /// Reports a different set of artifacts: as many as `changed` alternate between two. Returns milliseconds.
    fn report(&mut self, connection: &mut Connection, changed: u64) -> f64 {
        self.reports += 1;
        let end = self.first + self.artifacts - changed;
        let from = end + self.reports % 2 * changed;
        let body = report((self.first..end).chain(from..from + changed), 1);
        connection.report(ORGANIZATION, &self.name, &body).expect(201).milliseconds
    }
}

/// Inserts the attestations of both sets of artifacts. Each trail has one attestation of each artifact.
fn seed(database: &Database, environments: &[Environment]) {
    let past = database.micros_ago(Duration::from_hours(1));
    database.run(&format!(
        "INSERT INTO flows (organization, name, created_at) VALUES ('{ORGANIZATION}', '{FLOW}', {past})"
    ));
    for environment in environments {
        let Environment { name, artifacts, attestations, first, .. } = environment;
        let both = 2 * artifacts;
        let trail = |number: &str| database.uuid(&format!("{} + {number}", 1_000 * first));
        database.run(&format!(
            "{trails} INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by)
             SELECT {trail}, '{ORGANIZATION}', '{FLOW}', {title}, {past} + i, {past} + i, 'bench' FROM n;
             {attestations}",
            trails = database.numbers(0, *attestations),
            trail = trail("i"),
            title = database.text(name, "i"),
            attestations = insert_attestations(
                &database.numbers(0, attestations * both),
                &Attestations {
                    organization: &format!("'{ORGANIZATION}'"),
                    flow: &format!("'{FLOW}'"),
                    trail: &trail(&format!("i / {both}")),
                    id: &database.uuid(&format!("{} + i", 1_000_000 * first)),
                    name: &format!("'{NAME}'"),
                    artifact: &database.bytes(&format!("{first} + i % {both}")),
                    at: &format!("{past} + i"),
                    repository: "NULL",
                },
            ),
        ));
    }
    database.maintain();
}
