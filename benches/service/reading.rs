//! Cost of reading large data: a snapshot of 10,000 artifacts and 100,000 pods, its difference from another one, and 2,000
//! environments.

use std::time::Duration;

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

pub(super) fn measure(database: &Database, server: &Server) {
    let now = database.micros_ago(Duration::ZERO);
    database.run(&format!(
        "{} INSERT INTO environments (id, organization, name, created_at, last_report_at, snapshot)
         SELECT {}, '{ORGANIZATION}', {}, {now}, {now}, 1 FROM n;",
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
}
