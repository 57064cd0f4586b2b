//! The search.

use reqwest::StatusCode;
use serde_json::json;
use supercargo::store::search::LATEST;
use url::form_urlencoded::byte_serialize;

use crate::service::browser::{Browser, shows};
use crate::service::{ADMIN, Database, READER, Running, STRANGER, digest, form, pod, report};

fn asked(wanted: &str) -> String {
    format!("/ui/acme/search?q={}", byte_serialize(wanted.as_bytes()).collect::<String>())
}

async fn each_kind_is_found_and_what_is_found_is_there(database: Database) {
    let service = Running::start(database).await;
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
    let mut browser = Browser::signed_in(&service, READER).await;
    for (wanted, group, leads_to) in [
        ("aaaaaaa", "Digests", &a),
        ("sha256:AAAAAAAA", "Digests", &a),
        (&digest('b'), "Digests", &b),
        ("basket_50%", "Images", &a),
        ("Basket_", "Images", &a),
        ("art-x", "Pods", &a),
        (&commit, "Built from commits", &b),
        ("0123456", "Trails of commits", &trail),
        ("CART", "Flows", &trail),
        ("uild-", "Trails", &trail),
    ] {
        let page = browser.get(&asked(wanted)).await;
        assert_eq!(page.status, 200, "{wanted}");
        shows(&page.text, &[&format!("<h2>{group}</h2>"), &format!("href=\"{leads_to}\"")]);
        assert_eq!(browser.get(leads_to).await.status, 200, "{leads_to}");
        assert!(!page.text.contains(&digest('d')), "{wanted}: {}", page.text);
    }
    for wanted in ["bbbbbbc", "aaaaaa", "asket%5050", "x__", "\\", "!", "nothing"] {
        shows(&browser.get(&asked(wanted)).await.text, &["Nothing was found."]);
    }
    for path in ["/ui/acme/search", "/ui/acme/search?q=%20"] {
        shows(&browser.get(path).await.text, &["Nothing was asked for."]);
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    assert_eq!(stranger.get(&asked("cart")).await.status, StatusCode::NOT_FOUND);
    for wanted in ["cart", "aaaaaaa", "0123456", "basket"] {
        let page = stranger.get(&asked(wanted).replace("acme", "stranger")).await;
        shows(&page.text, &["Nothing was found."]);
    }
}

async fn fifty_of_a_kind_are_shown_and_every_page_asks(database: Database) {
    let service = Running::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    shows(&browser.get("/ui/acme").await.text, &[r#"action="/ui/acme/search""#, r#"name="q""#]);
    for (number, is_more) in [(50, false), (51, true)] {
        let pods: Vec<_> = (0..number).map(|n| pod(&format!("cart-{n}"), "image", 'a')).collect();
        // More pods of the same artifact are no new snapshot.
        assert!(service.report(ADMIN, "prod", report(&pods)).await.status.is_success());
        let page = browser.get(&asked("cart-")).await.text;
        assert_eq!(page.matches("<bdi>cart-").count(), 50 + 1, "50, and the title: {page}");
        assert_eq!(page.contains("There are more than these 50"), is_more, "{page}");
    }
}

async fn of_many_flows_the_newest_trails_are_shown(database: Database) {
    let service = Running::start(database).await;
    let attested = json!({"attestation_name": "unit", "junit_results": []});
    for number in 0..53 {
        let (flow, trail) = (format!("flow-{number:02}"), format!("of-{number:02}"));
        service.attest(ADMIN, &flow, &trail, form(&attested)).await.expect(201);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    let page = browser.get(&asked("flow-")).await.text;
    let at = |trail: &str| page.find(&format!("<bdi>{trail}</bdi>"));
    assert!(at("of-52").is_some() && at("of-52") < at("of-03"), "{page}");
    assert_eq!(at("of-02"), None, "fifty are shown: {page}");
}

async fn pods_that_run_stand_before_those_that_ran(database: Database) {
    let service = Running::start(database).await;
    let pods = |names: &[String]| {
        report(&names.iter().map(|name| pod(name, "shop/image:1", 'a')).collect::<Vec<_>>())
    };
    let (old, new): (Vec<_>, Vec<_>) =
        (0..51).map(|n| (format!("old-pod-{n}"), format!("new-pod-{n}"))).unzip();
    let mut browser = Browser::signed_in(&service, READER).await;
    for (running, expected) in [(&new[..1], (1, 49)), (&new[..50], (50, 0)), (&new[..], (50, 0))] {
        assert!(service.report(ADMIN, "prod", pods(&old)).await.status.is_success());
        assert!(service.report(ADMIN, "prod", pods(running)).await.status.is_success());
        let page = browser.get(&asked("-pod-")).await.text;
        let of = |name: &str| page.matches(&format!("<bdi>{name}-pod-")).count();
        // What ran is what it was.
        shows(&page, &["shop/image:1", "There are more than these 50"]);
        assert_eq!((of("new"), of("old")), expected, "{page}");
        assert!(page.rfind("<bdi>new-pod") < page.find("<bdi>old-pod").or(Some(usize::MAX)), "{page}");
    }
}

async fn what_is_long_over_is_found_by_its_whole_name(database: Database) {
    let service = Running::start(database).await;
    let attested = json!({"attestation_name": "unit", "junit_results": []});
    service.attest(ADMIN, "first-flow", "first-trail", form(&attested)).await.expect(201);
    service.attest(ADMIN, "other", "last", form(&attested)).await.expect(201);
    // Nobody bounds the name of an image, and two environments share what is looked through.
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
        shows(&browser.get(&asked(part)).await.text, &[&format!("<h2>{group}</h2>")]);
    }
    // Of a name that nobody bounds, no more is compared with a pattern than a search can have.
    shows(&browser.get(&asked(&long[100..140])).await.text, &["<h2>Images</h2>"]);
    shows(&browser.get(&asked(&long[300..340])).await.text, &["Nothing was found."]);
    // Much came after them, of each kind.
    let (id, hash) = match &service.database {
        Database::Sqlite(_) => ("randomblob(16)", "randomblob(32)"),
        Database::Postgres { .. } => ("gen_random_uuid()", "sha256(i::text::bytea)"),
    };
    let numbers =
        |to: i64| format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to})");
    let (half, all) = (numbers(LATEST / 2), numbers(LATEST));
    for insert in [
        format!(
            "INSERT INTO pod_runs (id, environment, namespace, pod, created_at, workload, started_at, ended_at)
             {half} SELECT {id}, environment, namespace, 'later', i, workload, started_at, ended_at + 1
             FROM pod_runs CROSS JOIN n WHERE pod = 'first-pod'"
        ),
        format!(
            "INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, last_snapshot, organization, name,
                                        started_at, ended_at)
             {half} SELECT environment, {hash}, first_snapshot, last_snapshot, organization, 'later',
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
    for (whole, leads_to) in [
        ("first-pod", "<h2>Pods</h2>"),
        ("shop/first-image:1", "<h2>Images</h2>"),
        (&long, "<h2>Images</h2>"),
        ("first-trail", "<h2>Trails</h2>"),
    ] {
        shows(&browser.get(&asked(whole)).await.text, &[leads_to, "found by their whole names"]);
        shows(&browser.get(&asked(&whole[1..])).await.text, &["Nothing was found."]);
    }
    // A flow leads to its trails, however old.
    shows(&browser.get(&asked("irst-flow")).await.text, &["<h2>Flows</h2>", "first-trail"]);
}

async fn what_is_asked_for_in_another_way_is_refused(database: Database) {
    let service = Running::start(database).await;
    for query in ["?q=a%00b", "?x=1", "?q=a&q=b"] {
        let answer = Browser::signed_in(&service, READER).await.get(&format!("/ui/acme/search{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
    }
}

crate::service::on_both!(
    pods_that_run_stand_before_those_that_ran,
    each_kind_is_found_and_what_is_found_is_there,
    fifty_of_a_kind_are_shown_and_every_page_asks,
    of_many_flows_the_newest_trails_are_shown,
    what_is_long_over_is_found_by_its_whole_name,
);

crate::service::on_sqlite!(what_is_asked_for_in_another_way_is_refused);
