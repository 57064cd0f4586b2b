//! Rolling upgrade: a replica of the previous version writes while this version runs.

use std::path::Path;
use std::time::Duration;

use supercargo::service::Limits;

use super::test_service::{Options, bootstrap, eventually};
use super::{Database, REPORTER, TestService, pod, report};

#[test]
fn migrations_only_add_optional_columns() {
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

/// Statements of version 0.1 for an artifact that ends and another that starts.
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

async fn rows_of_the_previous_version_are_evaluated(database: Database) {
    let limits = Limits {
        expiry_interval: Duration::from_millis(20),
        evaluated_within: Duration::from_hours(1),
        ..Limits::default()
    };
    let options = Options { limits, bootstrap: bootstrap(1, POLICY), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    for (image, digit) in [("one", 'a'), ("two", 'b')] {
        service.report(REPORTER, "prod", report(&[pod("p", image, digit)])).await.expect(201);
    }
    // The previous version replaces artifact two by one without writing verdicts.
    for statement in rollout("two", "one", 2) {
        service.database.execute(&statement).await;
    }
    let open = "SELECT r.name FROM artifact_runs r JOIN verdicts v
                  ON v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
                WHERE r.ended_at IS NULL ORDER BY r.name";
    assert_eq!(service.database.rows(open).await, Vec::<String>::new());
    // An environment whose evaluation is overdue is evaluated.
    service.database.execute("UPDATE environments SET evaluated_at = 5").await;
    eventually("the environment is evaluated", async || service.database.rows(open).await == ["one"]).await;
    // The open verdict of two does not disturb the next report.
    let both = [pod("p", "one", 'a'), pod("q", "two", 'b')];
    service.report(REPORTER, "prod", report(&both)).await.expect(201);
    assert_eq!(service.database.rows(open).await, ["one", "two"]);
    let compliance = "SELECT compliance FROM environments";
    assert_eq!(service.database.rows(compliance).await, ["NON-COMPLIANT"]);
}

super::on_both!(rows_of_the_previous_version_are_evaluated);
