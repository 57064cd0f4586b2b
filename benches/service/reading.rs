//! Cost of reading large data: a snapshot of 10,000 artifacts and 100,000 pods, its difference from another one, 2,000
//! environments, and a search among a million ended artifacts of these environments (option `names=N`).

use std::time::Duration;

use crate::arguments::option;
use crate::cluster::report;
use crate::database::Database;
use crate::server::{Organization, Server};

const ORGANIZATION: &str = "reading";
const ENVIRONMENT: &str = "huge";
const ARTIFACTS: u64 = 10_000;
const PODS_EACH: usize = 10;
const ENVIRONMENTS: u64 = 2_000;

pub(super) fn organization() -> Organization {
    Organization::new(ORGANIZATION, "")
}

/// Ended artifacts, each with its own name and digest.
const NAMES: u64 = 1_000_000;

pub(super) fn measure(database: &Database, server: &Server) {
    let now = database.micros_ago(Duration::ZERO);
    database.run(&format!(
        "{} INSERT INTO environments (id, organization, name, created_at, last_report_at, snapshot, evaluated_at, counted_at)
         SELECT {}, '{ORGANIZATION}', {}, {now}, {now}, 1, {now}, {now} FROM n;",
        database.numbers(0, ENVIRONMENTS),
        database.uuid("60000000 + i"),
        database.text("env", "i"),
    ));
    let mut connection = server.connect();
    for from in [0, 100] {
        let body = report(from..from + ARTIFACTS, PODS_EACH);
        connection.report(ORGANIZATION, ENVIRONMENT, &body).expect(201);
    }
    database.maintain();
    let before = server.peak();
    for (label, path, samples) in [
        ("list of 2,000 environments", format!("environments/{ORGANIZATION}"), 100),
        (
            "snapshot, 10,000 artifacts, 100,000 pods",
            format!("snapshots/{ORGANIZATION}/{ENVIRONMENT}/-1"),
            20,
        ),
        (
            "difference of two such snapshots",
            format!("env-diff/{ORGANIZATION}?snappish1={ENVIRONMENT}%231&snappish2={ENVIRONMENT}%232"),
            20,
        ),
    ] {
        let figures = server.get(ORGANIZATION, &format!("/api/v2/{path}"), samples);
        figures.print(label, &format!("peak RSS {:.0} MiB, {before:.0} before", server.peak()));
    }
    seed_names(database, option("names").unwrap_or(NAMES));
    for (label, search) in [
        ("search of a word in all names", "?q=registry"),
        ("search of a word in one name", "?q=service-0000007"),
        ("search of a word in no name", "?q=nowhere"),
        ("search of five digits of a digest", "/sha/9e377"),
    ] {
        let path = format!("/api/v2/search/{ORGANIZATION}{search}");
        server.get(ORGANIZATION, &path, 200).print(label, "p99 below 50 ms");
    }
}

/// Inserts artifacts that ended, in all environments except the large one.
fn seed_names(database: &Database, names: u64) {
    let past = database.micros_ago(Duration::from_hours(24));
    // Spreads the first digits as a hash does. The artifact 1 has the digits of the search.
    let digest = database.hex("i * 2654435761 % 4294967296", 8) + " || " + &database.hex("i", 56);
    database.run(&format!(
        "{numbers} INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, last_snapshot, organization, name,
                                              started_at, ended_at)
         SELECT {environment}, {digest}, 0, 0, '{ORGANIZATION}',
                'registry.example.com/team/' || {name} || ':1.0', {past} - i - 1, {past} - i FROM n;",
        numbers = database.numbers(0, names),
        environment = database.uuid(&format!("60000000 + i % {ENVIRONMENTS}")),
        digest = database.decoded(&digest),
        name = database.text("service", "i"),
    ));
    database.maintain();
}
