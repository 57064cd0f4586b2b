//! The digests in use.

use serde_json::{Value, json};

use crate::service::report;
use crate::service::{ADMIN, Database, READER, TestService, digest, pod};

fn digits(page: &Value) -> String {
    let digests = page["data"].as_array().unwrap().iter();
    digests.map(|found| found["fingerprint"].as_str().unwrap().chars().next().unwrap()).collect()
}

async fn digests_in_use_have_names_times_and_environments(database: Database) {
    let service = TestService::start(database).await;
    for (environment, pods) in [
        ("prod", vec![pod("p", "cart:1", 'b'), pod("q", "shop:1", 'a')]),
        ("test", vec![pod("p", "mirror/cart:1", 'b'), pod("q", "old:1", 'c')]),
        ("test", vec![pod("p", "mirror/cart:1", 'b')]),
        ("prod", vec![pod("p", "cart:1", 'b')]),
    ] {
        service.report(ADMIN, environment, report(&pods)).await.expect(201);
    }
    let now = service.read("/digests/acme").await;
    assert_eq!((digits(&now).as_str(), &now["next"]), ("b", &Value::Null));
    let cart = &now["data"][0];
    assert_eq!(cart["names"], json!(["cart:1", "mirror/cart:1"]));
    assert_eq!((&cart["running_in"], &cart["exited_from"]), (&json!(["prod", "test"]), &json!([])));
    assert_eq!(cart["ended_at"], Value::Null);
    let all = service.read("/digests/acme?since=0").await;
    assert_eq!(digits(&all), "abc");
    let shop = &all["data"][0];
    assert_eq!((&shop["running_in"], &shop["exited_from"]), (&json!([]), &json!(["prod"])));
    assert!(shop["ended_at"].as_f64() > shop["started_at"].as_f64());
    assert_eq!(digits(&service.read("/digests/acme?since=99999999999").await), "b");
    let outcome = service.program(READER, "list digests --since 1d -o json").await;
    let printed: Value = serde_json::from_str(&outcome.expect(0, &[]).stdout).unwrap();
    assert_eq!(printed["data"], all["data"]);
}

async fn digests_are_read_page_by_page_in_order(database: Database) {
    let service = TestService::start(database).await;
    let pods: Vec<_> = "e1a9c".chars().map(|digit| pod(&format!("p-{digit}"), "cart:1", digit)).collect();
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    let first = service.read("/digests/acme?per_page=2").await;
    assert_eq!((digits(&first).as_str(), &first["next"]), ("19", &json!(digest('9'))));
    let path = format!("/digests/acme?per_page=3&after={}", digest('9'));
    assert_eq!(digits(&service.read(&path).await), "ace");
    let last = service.read(&format!("/digests/acme?after={}", digest('e'))).await;
    assert_eq!(last, json!({"data": [], "next": null}));
    for (query, field) in [("per_page=5001", "per_page"), ("after=xyz", "after"), ("since=-1", "since")] {
        service.get(READER, &format!("/digests/acme?{query}")).await.assert_field_error(field, "expected");
    }
}

/// An image of every cluster has a run in each environment.
async fn page_has_all_runs_of_its_digests(database: Database) {
    let service = TestService::start(database).await;
    let pods =
        |digits: &str| report(&digits.chars().map(|c| pod(&c.to_string(), "cart:1", c)).collect::<Vec<_>>());
    service.report(ADMIN, "prod", pods("abc")).await.expect(201);
    let insert_runs = async |digit, first: usize, last: usize| {
        let insert = format!(
            "INSERT INTO artifact_runs (organization, environment, fingerprint, first_snapshot, last_snapshot, name, pods,
                                        namespaces, started_at, ended_at)
             WITH RECURSIVE n (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})
             SELECT r.organization, r.environment, r.fingerprint, n.i, n.i, r.name, 1, '[]', r.started_at, r.started_at + 1
             FROM artifact_runs r, n WHERE r.first_snapshot = 1 AND r.fingerprint = {}",
            service.database.bytes(&digest(digit))
        );
        service.database.execute(&insert).await;
    };
    let page = async |after: &str| {
        let page = service.read(&format!("/digests/acme?since=0&per_page=10{after}")).await;
        (digits(&page), page["next"].clone())
    };
    let behind_a = format!("&after={}", digest('a'));
    insert_runs('a', 2, 5).await;
    insert_runs('b', 2, 2).await;
    assert_eq!(page("").await, ("abc".to_owned(), Value::Null));
    insert_runs('b', 3, 3).await;
    assert_eq!(
        page("").await,
        ("a".to_owned(), json!(digest('a'))),
        "there may be more runs of the next digest"
    );
    assert_eq!(page(&behind_a).await, ("bc".to_owned(), Value::Null));
    insert_runs('a', 6, 30).await;
    assert_eq!(
        page("").await,
        ("a".to_owned(), json!(digest('a'))),
        "more runs of one digest than a page has"
    );
    assert_eq!(page(&behind_a).await, ("bc".to_owned(), Value::Null));
    assert_eq!(digits(&service.read("/digests/acme").await), "abc", "only what runs counts");
}

crate::service::on_both!(
    page_has_all_runs_of_its_digests,
    digests_in_use_have_names_times_and_environments,
    digests_are_read_page_by_page_in_order,
);
