//! What the store derives from attestations: the latest one of each artifact, flow and name, and the artifacts of flows.

use std::collections::BTreeSet;

use model::{AttestationFields, Fingerprint, ReportedArtifact, Timestamp};
use rules::ownership::Owned;
use serde_json::json;
use store::artifacts::reported::NewReport;
use store::attestations::NewAttestation;
use store::repositories::RepositorySource;
use store::{DatabaseTimeouts, Store, Transaction};

use crate::service::{Database, TestService, digest};

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn artifact(digit: char) -> Fingerprint {
    Fingerprint::from_hex(&digest(digit)).unwrap()
}

/// Attests `unit` in the flow `cart`, for an artifact or for the name `app`.
async fn attest(transaction: &mut Transaction, trail: &str, digit: Option<char>, passes: bool, time: i64) {
    let fields: AttestationFields = serde_json::from_value(json!({"attestation_name": "unit"})).unwrap();
    let targets = if digit.is_none() { BTreeSet::from(["app".to_owned()]) } else { BTreeSet::new() };
    let artifacts = digit.into_iter().map(artifact).collect();
    let (token, owned) = (Fingerprint::from_content(b"token"), Owned::default());
    let new = NewAttestation {
        flow: "cart",
        trail,
        fields: &fields,
        targets: &targets,
        artifacts: &artifacts,
        kind: "junit",
        results: &[],
        other: "{}",
        passes: Some(passes),
        repository: None,
        signed: None,
        commit_url: None,
        attachment: None,
        reported_by: "ci",
        token,
        owned: &owned,
    };
    let tenant = &mut transaction.of("acme");
    let trail = store::attestations::lock_trail(tenant, &new, at(time)).await.unwrap();
    store::attestations::insert(tenant, &new, trail, at(time)).await.unwrap();
}

/// The time and verdict of the latest attestation of an artifact, its trail, and its time in the flow.
async fn latest(database: &Database, digit: char) -> Vec<String> {
    let latest = format!(
        "SELECT CAST(l.created_at AS TEXT), CASE WHEN l.is_compliant THEN 'passes' ELSE 'fails' END, t.name, l.kind,
                CAST(f.created_at AS TEXT)
         FROM latest_attestations l
           JOIN trails t ON t.organization = l.organization AND t.id = l.trail
           JOIN flow_artifacts f ON f.organization = l.organization AND f.flow = l.flow AND f.fingerprint = l.fingerprint
         WHERE l.fingerprint = {}",
        database.bytes(&digest(digit))
    );
    database.rows(&latest).await
}

async fn attestation_with_the_latest_time_and_identifier_is_the_latest(database: Database) {
    let service = TestService::start(database).await;
    let store =
        Store::open(&service.database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    for (trail, passes, time, expected) in [
        ("t-1", true, 20, "20|passes|t-1|junit|20"),
        ("t-2", false, 10, "20|passes|t-1|junit|20"),
        ("t-3", false, 20, "20|fails|t-3|junit|20"),
        ("t-2", true, 30, "30|passes|t-2|junit|20"),
    ] {
        let mut transaction = store.write().await.unwrap();
        attest(&mut transaction, trail, Some('a'), passes, time).await;
        transaction.commit().await.unwrap();
        assert_eq!(latest(&service.database, 'a').await, [expected], "{trail}, {time}");
    }
    store.close().await;
}

async fn report_of_an_artifact_links_the_latest_attestation_of_its_name(database: Database) {
    let service = TestService::start(database).await;
    let store =
        Store::open(&service.database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let mut transaction = store.write().await.unwrap();
    // The second supersedes the first. Neither knows its artifact.
    attest(&mut transaction, "t-1", None, false, 40).await;
    attest(&mut transaction, "t-1", None, true, 50).await;
    let trail =
        store::trails::writes::stored(&mut transaction.of("acme"), "cart", "t-1").await.unwrap().unwrap().id;
    let sent: ReportedArtifact = serde_json::from_value(json!({
        "fingerprint": digest('b'), "filename": "cart:1", "template_reference_name": "app",
    }))
    .unwrap();
    let owned = Owned::default();
    let reporter = RepositorySource { flow: "cart", reported_by: "ci", owned: &owned };
    let new = NewReport { reporter, trail: Some(trail), sent: &sent, commit: &sent.commit() };
    store::artifacts::reported::insert(&mut transaction.of("acme"), new, at(60)).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(latest(&service.database, 'b').await, ["50|passes|t-1|junit|60"]);
    store.close().await;
}

crate::service::on_both!(
    attestation_with_the_latest_time_and_identifier_is_the_latest,
    report_of_an_artifact_links_the_latest_attestation_of_its_name,
);
