//! Every address of ours that an answer or a page holds leads to what it names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reqwest::Method;
use serde_json::{Value, json};

use super::browser::Browser;
use super::running::{Options, bootstrap};
use super::{ADMIN, Answer, Database, READER, Running, digest, form, pod, report};

/// Names that have to be encoded in a path.
const ENVIRONMENT: &str = "prod & co?#1%2F";
const TRAIL: &str = "v1.0 +rc #2?&";

/// More pages than what is filled here can have: a crawl that goes on has found an endless one.
const PAGES: usize = 500;

/// A service in which there is something of everything.
async fn filled(database: Database) -> Running {
    let (a, b) = (digest('a'), digest('b'));
    let more = format!(
        "    flows:
      - name: cart
        template: {{attestations: [{{name: unit, type: junit}}]}}
        approvals:
          - {{number: 1, artifact: {a}, base: {b}, name: \"cart:1\", state: PENDING, environment: {ENVIRONMENT:?}}}
          - {{number: 2, artifact: {a}, base: {b}, name: \"cart:1\", state: PENDING, environment: nowhere}}
    environments:
      - name: {ENVIRONMENT:?}
        policy: {{attestations: [{{flow: cart, name: unit}}]}}
        allowed: [{{artifact: {b}, reason: known, author: kim}}]
      - {{name: never reported}}
    actions:
      - number: 1
        name: ops
        environments: [{ENVIRONMENT:?}, nowhere]
        triggers: [ON_STARTED_ARTIFACT, ON_EXITED_ARTIFACT]
        targets: [{{name: pager, type: WEBHOOK, url: {{file: url}}, secrets: [{{file: secret}}]}}]"
    );
    let files = vec![
        ("url", "https://127.0.0.1:1/".to_owned()),
        ("secret", "whsec-0123456789abcdef012345".to_owned()),
    ];
    let options = Options { bootstrap: bootstrap(1, &more), files, ..Options::default() };
    let service = Running::start_with(database, options).await;
    for (flow, trail, name, digit) in [
        ("cart", TRAIL, "unit", 'a'),
        ("cart", TRAIL, "unit", 'a'),
        ("cart", TRAIL, "lint", 'b'),
        ("cart", "t-2", "unit", 'b'),
        ("web", "t-1", "e2e", 'c'),
    ] {
        let data = json!({
            "attestation_name": name, "artifact_fingerprint": digest(digit),
            "junit_results": [{"name": "suite", "failures": 1, "errors": 0, "total": 2}],
            "repo_info": {"name": "group/cart", "url": "https://gitlab.example.com/group/cart"},
            "git_commit_info": {"sha1": digit.to_string().repeat(40)},
        });
        let trail = percent(trail);
        service.attest(ADMIN, flow, &trail, form(&data)).await.expect(201);
    }
    for environment in [percent(ENVIRONMENT), "test".to_owned()] {
        for pods in [&[pod("p", "cart:1", 'a'), pod("q", "cart:2", 'b')][..], &[pod("p", "cart:1", 'a')]] {
            service.report(ADMIN, &environment, report(pods)).await.expect(201);
        }
    }
    service
}

/// A name as a segment of a path.
fn percent(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat()
}

/// A request for each operation that reads, by its path in the document.
fn requests() -> BTreeMap<&'static str, Vec<String>> {
    BTreeMap::from([
        (
            "/api/v2/trails/{org}",
            ["", "?per_page=1", "?flow=web"].map(|query| format!("/trails/acme{query}")).into(),
        ),
        (
            "/api/v2/attestations/{org}/{flow_name}",
            vec!["/attestations/acme/cart".to_owned(), "/attestations/acme/web".to_owned()],
        ),
        (
            "/api/v2/organizations/{org}/environments_notifications",
            vec!["/organizations/acme/environments_notifications".to_owned()],
        ),
        (
            "/api/v2/repos/{org}/live-artifacts/{repo_name}",
            vec!["/repos/acme/live-artifacts/group/cart".to_owned()],
        ),
        ("/api/v2/approvals/{org}/{flow_name}/{approval_number}", vec!["/approvals/acme/cart/1".to_owned()]),
        (
            "/api/v2/artifacts/{org}/{flow_name}/{fingerprint}/approvals",
            vec![format!("/artifacts/acme/cart/{}/approvals", digest('a'))],
        ),
        ("/api/v2/actions/{org}/{action_number}", vec!["/actions/acme/1".to_owned()]),
    ])
}

/// An address, what it is called, and the object that it stands in.
struct Address {
    called: String,
    href: String,
    of: Value,
}

/// All addresses of ours in an answer.
fn addresses(base: &str, value: &Value, called: &str, of: &Value, found: &mut Vec<Address>) {
    match value {
        Value::String(text) => {
            let is_ours =
                text.starts_with(base) || called.ends_with("html_url") || called.contains("_links.");
            if is_ours {
                found.push(Address { called: called.to_owned(), href: text.clone(), of: of.clone() });
            }
        }
        Value::Array(items) => {
            for item in items {
                addresses(base, item, called, of, found);
            }
        }
        Value::Object(fields) => {
            // What an address is of is the object around `_links`.
            let of = if called.contains("_links") { of } else { value };
            for (name, field) in fields {
                let called =
                    if called.contains("_links") { format!("{called}.{name}") } else { name.clone() };
                addresses(base, field, &called, of, found);
            }
        }
        _ => {}
    }
}

/// What is between two texts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(start) else { panic!("no {start}: {text}") };
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}: {text}")).0
}

/// A page's heading, as people read it.
fn heading(page: &str) -> String {
    let mut text = String::new();
    let mut rest = between(page, "<h1>", "</h1>");
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        rest = after.split_once('>').unwrap().1;
    }
    unescaped(&(text + rest))
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Follows an address as those do who find it: pages with a session, operations with a token; says what kind
/// of address it is.
async fn follow(service: &Running, browser: &mut Browser<'_>, answer: &Value, address: &Address) -> String {
    let Address { called, href, of } = address;
    let path = href.strip_prefix(&service.base).unwrap_or_else(|| panic!("{called} is not ours: {href}"));
    let said = |field: &str| of[field].as_str().unwrap_or_else(|| panic!("{field}: {of:#}")).to_owned();
    if let Some(path) = path.strip_prefix("/api/v2") {
        let led = service.read(path).await;
        return match called.as_str() {
            "_links.self.href" => {
                assert_eq!(&led, answer, "{href}");
                "operation 4".to_owned()
            }
            "_links.trails.href" => {
                let artifact = if of["fingerprint"].is_null() { "artifact_id" } else { "fingerprint" };
                assert!(path.contains(&said(artifact)), "{href}");
                assert!(!led["data"].as_array().unwrap().is_empty(), "{href}");
                "operation 1".to_owned()
            }
            _ => panic!("nobody knows what {called} names: {href}"),
        };
    }
    let page = browser.get(path).await;
    assert_eq!(page.status, 200, "{called}: {href}");
    let page = page.text;
    match (called.as_str(), of) {
        ("html_url", of) if !of["attestation_id"].is_null() => {
            assert!(path.ends_with(&said("attestation_id")), "{href}");
            assert!(heading(&page).starts_with(&said("attestation_name")), "{page}");
            "attestation".to_owned()
        }
        ("html_url", of) if !of["flow"].is_null() => {
            assert_eq!(heading(&page), said("name"));
            let flow = of["flow"]["name"].as_str().unwrap();
            assert!(page.contains(&format!("<bdi>{flow}</bdi>")), "{page}");
            "trail".to_owned()
        }
        ("_links.html.href", of) if !of["is_silent"].is_null() => {
            assert_eq!(heading(&page), said("name"));
            "environment".to_owned()
        }
        ("_links.html.href", of) => {
            let artifact = if of["fingerprint"].is_null() { "artifact_id" } else { "fingerprint" };
            assert!(page.contains(&format!("sha256:{}", said(artifact))), "{page}");
            if artifact == "artifact_id" { "live artifact" } else { "artifact" }.to_owned()
        }
        _ => panic!("nobody knows what {called} names: {href}"),
    }
}

async fn every_address_in_an_answer_leads_to_what_it_names(database: Database) {
    let service = filled(database).await;
    let document = Answer::of(service.http.get(format!("{}/api/v2/openapi.json", service.base))).await.json();
    let paths = document["paths"].as_object().unwrap().iter();
    let reading: BTreeSet<&str> =
        paths.filter(|(_, item)| item.get("get").is_some()).map(|(path, _)| path.as_str()).collect();
    let requests = requests();
    assert_eq!(reading, requests.keys().copied().collect(), "an operation is not asked");
    let mut browser = Browser::signed_in(&service, READER).await;
    let mut kinds = BTreeMap::<String, BTreeSet<String>>::new();
    for path in requests.values().flatten() {
        let answer = service.read(path).await;
        let mut found = Vec::new();
        addresses(&service.base, &answer, "", &answer, &mut found);
        for address in found {
            let kind = follow(&service, &mut browser, &answer, &address).await;
            kinds.entry(kind).or_default().insert(address.href);
        }
    }
    let counts: Vec<_> = kinds.iter().map(|(kind, hrefs)| (kind.as_str(), hrefs.len())).collect();
    let expected = [
        ("artifact", 1),
        ("attestation", 5),
        ("environment", 2),
        ("live artifact", 1),
        ("operation 1", 1),
        ("operation 4", 1),
        ("trail", 3),
    ];
    assert_eq!(counts, expected, "{kinds:#?}");
    // What lies below another address is linked to there, and only there.
    for path in ["/trails/acme", "/attestations/acme/cart", "/repos/acme/live-artifacts/group/cart"] {
        let request = service.request(Method::GET, READER, path).header("Host", "evil.example.com");
        assert!(!Answer::of(request).await.expect(200).text.contains("evil"), "{path}");
    }
}

/// The ways from a page to others of ours: path and query, and the place there.
fn ways(from: &str, page: &str) -> Vec<(String, Option<String>)> {
    let here = from.split('?').next().unwrap();
    let hrefs = page.split("href=\"").skip(1).map(|rest| unescaped(rest.split('"').next().unwrap()));
    let whole = hrefs.filter_map(|href| match href.chars().next()? {
        '/' => Some(href),
        '?' => Some(format!("{here}{href}")),
        '#' => Some(format!("{from}{href}")),
        _ => {
            assert!(href.starts_with("https://gitlab.example.com/"), "{from} leads to {href}");
            None
        }
    });
    let split = |href: String| match href.split_once('#') {
        Some((path, place)) => (path.to_owned(), Some(place.to_owned())),
        None => (href, None),
    };
    whole.map(split).collect()
}

async fn every_way_from_a_page_leads_to_a_page(database: Database) {
    let service = filled(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let mut pages = BTreeMap::<String, String>::new();
    let mut wanted = VecDeque::from([("/ui/acme".to_owned(), "the start".to_owned())]);
    let mut places = BTreeSet::new();
    while let Some((path, from)) = wanted.pop_front() {
        if pages.contains_key(&path) {
            continue;
        }
        let answer = browser.get(&path).await;
        // The mark at the top leads to the visitor's own organization.
        let is_there = if path == "/ui" { 303 } else { 200 };
        assert_eq!(answer.status, is_there, "{from} leads to {path}: {}", answer.text);
        for (next, place) in ways(&path, &answer.text) {
            places.extend(place.map(|place| (next.clone(), place)));
            wanted.push_back((next, path.clone()));
        }
        pages.insert(path, answer.text);
        assert!(pages.len() < PAGES, "{:#?}", pages.keys());
    }
    for (path, place) in &places {
        assert!(pages[path].contains(&format!("id=\"{place}\"")), "{path}#{place}");
    }
    let seen = |start: &str| pages.keys().filter(|path| path.starts_with(start)).count();
    for (start, least) in [
        ("/ui/acme/environments/", 3),
        ("/ui/acme/artifacts/", 2),
        ("/ui/acme/flows/cart/trails/", 2),
        ("/ui/acme/actions", 2),
    ] {
        assert!(seen(start) >= least, "{start}: {:#?}", pages.keys());
    }
    assert!(!places.is_empty());
}

super::on_both!(every_way_from_a_page_leads_to_a_page);

super::on_sqlite!(every_address_in_an_answer_leads_to_what_it_names);
