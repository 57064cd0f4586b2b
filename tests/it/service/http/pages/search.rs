//! The search page.

use reqwest::StatusCode;
use serde_json::json;
use store::search::MAX_SCANNED;
use url::form_urlencoded::byte_serialize;

use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::{ADMIN, Database, READER, STRANGER, TestService, digest, form, pod};

fn search_url(query: &str) -> String {
    format!("/ui/acme/search?q={}", byte_serialize(query.as_bytes()).collect::<String>())
}

async fn search_finds_each_kind_and_links_to_its_page(database: Database) {
    let service = TestService::start(database).await;
    let commit = format!("0123456{}", "c".repeat(33));
    let attested = json!({
        "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('b'),
        "git_commit_info": {"sha1": commit}, "repo_info": {"name": "acme/cart"},
    });
    service.attest(ADMIN, "cart", "build-7", form(&attested)).await.expect(201);
    let pods = [pod("cart-x1", "shop/Basket_50%:1", 'a'), pod("other", "shop/Basket5050:1", 'd')];
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    let (a, b) =
        (format!("/ui/acme/artifacts/{}", digest('a')), format!("/ui/acme/artifacts/{}", digest('b')));
    let trail = "/ui/acme/flows/cart/trails/build-7".to_owned();
    let prod = "/ui/acme/environments/prod".to_owned();
    let mut browser = Browser::signed_in(&service, READER).await;
    for (query, group, target) in [
        ("aaaaaaa", "Digests", &a),
        ("sha256:AAAAAAAA", "Digests", &a),
        (&digest('b'), "Digests", &b),
        ("basket_50%", "Images", &a),
        ("Basket_", "Images", &a),
        ("art-x", "Pods", &a),
        (&commit, "Built from commits", &b),
        ("0123456", "Trails of commits", &trail),
        ("CART", "Flows", &trail),
        ("pRo", "Environments", &prod),
        ("uild-", "Trails", &trail),
    ] {
        let page = browser.get(&search_url(query)).await;
        assert_eq!(page.status, 200, "{query}");
        assert_contains(&page.text, &[&format!("<h2>{group}</h2>"), &format!("href=\"{target}\"")]);
        assert_eq!(browser.get(target).await.status, 200, "{target}");
        assert!(!page.text.contains(&digest('d')), "{query}: {}", page.text);
    }
    let page = browser.get(&search_url("Cme/ca")).await.text;
    assert_contains(&page, &["<h2>Repositories</h2>", "<bdi>acme/cart</bdi>"]);
    let found = service.read("/search/acme?q=Cme/ca").await;
    assert_eq!(found["data"], json!([{"kind": "repository", "name": "acme/cart"}]));
    for query in ["bbbbbbc", "aaaaaa", "asket%5050", "x__", "\\", "!", "nothing"] {
        assert_contains(&browser.get(&search_url(query)).await.text, &["No results."]);
    }
    let page = browser.get(&search_url("basket_50%")).await;
    let link = "</api/v2/search/acme?q=basket_50%25>; rel=\"alternate\"; type=\"application/json\"";
    assert_eq!(page.headers["link"], link);
    assert_contains(&page.text, &["supercargo search "]);
    for path in ["/ui/acme/search", "/ui/acme/search?q=%20"] {
        let page = browser.get(path).await;
        assert_contains(&page.text, &["Enter a search text."]);
        assert!(!page.headers.contains_key("link"), "{path}");
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    assert_eq!(stranger.get(&search_url("cart")).await.status, StatusCode::NOT_FOUND);
    for query in ["cart", "aaaaaaa", "0123456", "basket"] {
        let page = stranger.get(&search_url(query).replace("acme", "stranger")).await;
        assert_contains(&page.text, &["No results."]);
    }
}

async fn fifty_results_per_kind_are_shown(database: Database) {
    let service = TestService::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    assert_contains(&browser.get("/ui/acme").await.text, &[r#"action="/ui/acme/search""#, r#"name="q""#]);
    for (number, is_more) in [(50, false), (51, true)] {
        let pods: Vec<_> = (0..number).map(|n| pod(&format!("cart-{n}"), "image", 'a')).collect();
        // More pods of the same artifact do not cause a snapshot.
        assert!(service.report(ADMIN, "prod", report(&pods)).await.status.is_success());
        let page = browser.get(&search_url("cart-")).await.text;
        assert_eq!(page.matches("<bdi>cart-").count(), 50 + 1, "50, and the title: {page}");
        assert_eq!(page.contains("Only the first 50 results are shown"), is_more, "{page}");
    }
}

async fn trails_of_commits_leave_room_for_trails_by_name(database: Database) {
    let service = TestService::start(database).await;
    let begin = async |name: String, commit: Option<&str>| {
        let mut data = json!({"attestation_name": "unit", "junit_results": []});
        if let Some(commit) = commit {
            data["git_commit_info"] = json!({"sha1": format!("{commit:0<40}")});
        }
        service.attest(ADMIN, "cart", &name, form(&data)).await.expect(201);
    };
    begin("by-name-abcdef0".to_owned(), None).await;
    for number in 0..50 {
        begin(format!("abcdef0-{number}"), Some("abcdef0")).await;
    }
    let page = Browser::signed_in(&service, READER).await.get(&search_url("abcdef0")).await.text;
    assert_contains(&page, &["<h2>Trails of commits</h2>", "<h2>Trails</h2>", "<bdi>by-name-abcdef0</bdi>"]);
    assert!(!page.contains("Only the first"), "{page}");
}

async fn search_for_a_flow_shows_its_newest_trails_first(database: Database) {
    let service = TestService::start(database).await;
    let attested = json!({"attestation_name": "unit", "junit_results": []});
    for number in 0..53 {
        let (flow, trail) = (format!("flow-{number:02}"), format!("of-{number:02}"));
        service.attest(ADMIN, &flow, &trail, form(&attested)).await.expect(201);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    let page = browser.get(&search_url("flow-")).await.text;
    let at = |trail: &str| page.find(&format!("<bdi>{trail}</bdi>"));
    assert!(at("of-52").is_some() && at("of-52") < at("of-03"), "{page}");
    assert_eq!(at("of-02"), None, "fifty are shown: {page}");
}

async fn running_pods_are_listed_before_ended_pods(database: Database) {
    let service = TestService::start(database).await;
    let pods = |names: &[String]| {
        report(&names.iter().map(|name| pod(name, "shop/image:1", 'a')).collect::<Vec<_>>())
    };
    let (old, new): (Vec<_>, Vec<_>) =
        (0..51).map(|n| (format!("old-pod-{n}"), format!("new-pod-{n}"))).unzip();
    let mut browser = Browser::signed_in(&service, READER).await;
    for (running, expected) in [(&new[..1], (1, 49)), (&new[..50], (50, 0)), (&new[..], (50, 0))] {
        assert!(service.report(ADMIN, "prod", pods(&old)).await.status.is_success());
        assert!(service.report(ADMIN, "prod", pods(running)).await.status.is_success());
        let page = browser.get(&search_url("-pod-")).await.text;
        let of = |name: &str| page.matches(&format!("<bdi>{name}-pod-")).count();
        assert_contains(&page, &["shop/image:1", "Only the first 50 results are shown"]);
        assert_eq!((of("new"), of("old")), expected, "{page}");
        assert!(page.rfind("<bdi>new-pod") < page.find("<bdi>old-pod").or(Some(usize::MAX)), "{page}");
    }
}

async fn old_entries_are_found_by_their_full_names(database: Database) {
    let service = TestService::start(database).await;
    let attested = json!({"attestation_name": "unit", "junit_results": []});
    service.attest(ADMIN, "first-flow", "first-trail", form(&attested)).await.expect(201);
    service.attest(ADMIN, "other", "last", form(&attested)).await.expect(201);
    // The name of an image has no maximum length, and two environments share the scanned pods.
    let long = (0..2_000_u32)
        .fold(String::new(), |long, n| long + &format!("{:08x}", n.wrapping_mul(2_654_435_761)));
    for (name, image, digest) in
        [("long", long.as_str(), 'c'), ("first-pod", "shop/first-image:1", 'a'), ("last", "last:1", 'b')]
    {
        service.report(ADMIN, "prod", report(&[pod(name, image, digest)])).await.expect(201);
    }
    service.report(ADMIN, "test", report(&[pod("last", "last:1", 'b')])).await.expect(201);
    let mut browser = Browser::signed_in(&service, READER).await;
    for (part, group) in [("irst-pod", "Pods"), ("irst-image", "Images"), ("irst-trail", "Trails")] {
        assert_contains(&browser.get(&search_url(part)).await.text, &[&format!("<h2>{group}</h2>")]);
    }
    // Only the first 255 characters of a name are compared.
    assert_contains(&browser.get(&search_url(&long[100..140])).await.text, &["<h2>Images</h2>"]);
    assert_contains(&browser.get(&search_url(&long[300..340])).await.text, &["No results."]);
    // Many newer entries of each kind.
    let (id, hash) = match &service.database {
        Database::Sqlite(_) => ("randomblob(16)", "randomblob(32)"),
        Database::Postgres { .. } => ("gen_random_uuid()", "sha256(i::text::bytea)"),
    };
    let numbers =
        |to: i64| format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to})");
    let (half, all) = (numbers(MAX_SCANNED / 2), numbers(MAX_SCANNED));
    for insert in [
        format!(
            "INSERT INTO pod_runs (organization, id, environment, namespace, pod, created_at, workload, reported_by,
                                   started_at, ended_at)
             {half} SELECT organization, {id}, environment, namespace, 'later', i, workload, reported_by, started_at,
                           ended_at + 1
             FROM pod_runs CROSS JOIN n WHERE pod = 'first-pod'"
        ),
        format!(
            "INSERT INTO artifact_runs (organization, environment, fingerprint, first_snapshot, last_snapshot, name, pods,
                                        namespaces, started_at, ended_at)
             {all} SELECT organization, environment, {hash}, first_snapshot, last_snapshot, 'later', pods, namespaces,
                          started_at, ended_at + 1
             FROM artifact_runs CROSS JOIN n WHERE name = 'shop/first-image:1'"
        ),
        format!(
            "INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by)
             {all} SELECT {id}, organization, flow, name || i, created_at + 1, created_at + 1, created_by
             FROM trails CROSS JOIN n WHERE name = 'last'"
        ),
    ] {
        service.database.execute(&insert).await;
    }
    for (name, heading) in [
        ("first-pod", "<h2>Pods</h2>"),
        ("shop/first-image:1", "<h2>Images</h2>"),
        (&long, "<h2>Images</h2>"),
        ("first-trail", "<h2>Trails</h2>"),
    ] {
        assert_contains(&browser.get(&search_url(name)).await.text, &[heading, "match by their full names"]);
        assert_contains(&browser.get(&search_url(&name[1..])).await.text, &["No results."]);
    }
    // A flow is found with its trails, whatever their age.
    assert_contains(&browser.get(&search_url("irst-flow")).await.text, &["<h2>Flows</h2>", "first-trail"]);
}

async fn invalid_search_parameters_are_rejected(database: Database) {
    let service = TestService::start(database).await;
    for query in ["?q=a%00b", "?x=1", "?q=a&q=b"] {
        let answer = Browser::signed_in(&service, READER).await.get(&format!("/ui/acme/search{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
    }
}

crate::service::on_both!(
    running_pods_are_listed_before_ended_pods,
    search_finds_each_kind_and_links_to_its_page,
    fifty_results_per_kind_are_shown,
    trails_of_commits_leave_room_for_trails_by_name,
    search_for_a_flow_shows_its_newest_trails_first,
    old_entries_are_found_by_their_full_names,
);

crate::service::on_sqlite!(invalid_search_parameters_are_rejected);
