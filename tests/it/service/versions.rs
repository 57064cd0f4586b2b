//! A replica of the version before goes on while this one starts: what it writes fits, and is judged here.

use std::path::Path;
use std::time::Duration;

use supercargo::service::Policy;

use super::running::{Options, bootstrap, eventually};
use super::{Database, REPORTER, Running, pod, report};

#[test]
fn a_migration_only_adds_what_the_version_before_may_leave_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 1);
    for file in files.iter().skip(1) {
        let text = std::fs::read_to_string(file).unwrap().to_uppercase();
        for statement in text.split(';').filter(|statement| statement.contains("ALTER TABLE")) {
            let is_optional = !statement.contains("NOT NULL") || statement.contains("DEFAULT");
            assert!(statement.contains("ADD COLUMN") && is_optional, "{}: {statement}", file.display());
        }
        for word in ["DROP ", "RENAME "] {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
}

const POLICY: &str = "    environments: [{name: prod, policy: {approval: true}}]";

/// What version 0.1 of the schema has of an artifact that ends and of another that starts.
fn rollout(from: &str, to: &str, number: i64) -> [String; 3] {
    let (old, new) = (number, number + 1);
    let blob = |hex: &str| format!("(SELECT fingerprint FROM artifact_runs WHERE name = '{hex}')");
    [
        format!("UPDATE artifact_runs SET ended_at = 5, last_snapshot = {old} WHERE name = '{from}' AND ended_at IS NULL"),
        format!(
            "INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, organization, name, started_at)
             SELECT environment, fingerprint, {new}, organization, name, 5 FROM artifact_runs
             WHERE fingerprint = {} AND first_snapshot = {old} - 1",
            blob(to)
        ),
        format!("UPDATE environments SET snapshot = {new}, report_hash = NULL, body_hash = NULL"),
    ]
}

async fn what_it_wrote_is_judged_and_nothing_stands_in_its_way(database: Database) {
    let policy = Policy {
        expiry_interval: Duration::from_millis(20),
        judged_within: Duration::from_hours(1),
        ..Policy::default()
    };
    let options = Options { policy, bootstrap: bootstrap(1, POLICY), ..Options::default() };
    let service = Running::start_with(database, options).await;
    for (image, digit) in [("one", 'a'), ("two", 'b')] {
        service.report(REPORTER, "prod", report(&[pod("p", image, digit)])).await.expect(201);
    }
    // It rolls back from two to one, and leaves the verdicts as they are.
    for statement in rollout("two", "one", 2) {
        service.database.execute(&statement).await;
    }
    let open = "SELECT r.name FROM artifact_runs r JOIN verdicts v
                  ON v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
                WHERE r.ended_at IS NULL ORDER BY r.name";
    assert_eq!(service.database.rows(open).await, Vec::<String>::new());
    // An environment that nobody judged for long is judged.
    service.database.execute("UPDATE environments SET judged_at = 5").await;
    eventually("it is judged", async || service.database.rows(open).await == ["one"]).await;
    // The next report finds the verdict of two still open, which is no hindrance.
    let both = [pod("p", "one", 'a'), pod("q", "two", 'b')];
    service.report(REPORTER, "prod", report(&both)).await.expect(201);
    assert_eq!(service.database.rows(open).await, ["one", "two"]);
    let stands = "SELECT compliance FROM environments";
    assert_eq!(service.database.rows(stands).await, ["NON-COMPLIANT"]);
}

super::on_both!(what_it_wrote_is_judged_and_nothing_stands_in_its_way);
