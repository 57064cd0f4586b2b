//! Rolling upgrade: a replica of the previous version writes while this version runs.

use std::path::Path;
use std::time::Duration;

use supercargo::service::Limits;

use super::test_service::{Options, bootstrap, eventually};
use super::{Database, REPORTER, TestService, pod, report};

#[test]
fn migrations_only_add_optional_columns() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let files = |folder: std::path::PathBuf| folder.read_dir().unwrap().map(|file| file.unwrap().path());
    let own = ["sqlite", "postgres"].into_iter().flat_map(|database| files(folder.join(database)));
    let mut files: Vec<_> = files(folder.clone()).filter(|file| file.is_file()).chain(own).collect();
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

async fn environment_that_the_previous_version_evaluated_last_is_evaluated_again(database: Database) {
    let limits = Limits { evaluation_interval: Duration::from_millis(20), ..Limits::default() };
    let options = Options { limits, bootstrap: bootstrap(1, POLICY), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "one", 'a')])).await.expect(201);
    // The previous version records its evaluation without counts.
    let evaluation = "UPDATE environments SET evaluated_at = evaluated_at + 1, compliance = 'COMPLIANT'";
    service.database.execute(evaluation).await;
    let counted = "SELECT compliance FROM environments WHERE counted_at = evaluated_at";
    eventually("the environment is evaluated", async || {
        service.database.rows(counted).await == ["NON-COMPLIANT"]
    })
    .await;
}

super::on_both!(environment_that_the_previous_version_evaluated_last_is_evaluated_again);
