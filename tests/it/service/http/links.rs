//! Follows every link to the service in responses and on pages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::report;
use crate::service::support::browser::Browser;
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, Database, READER, Response, TestService, digest, form, pod};

/// Names with all punctuation that they may have.
const ENVIRONMENT: &str = "prod.eu_1-a~b";
const TRAIL: &str = "v1.0_rc-2~3";

/// More pages than this evidence has: a crawl beyond it has found endless pages.
const MAX_PAGES: usize = 500;

/// A service with evidence of every kind.
async fn with_evidence(database: Database) -> TestService {
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
      - {{name: never-reported}}
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
    let service = TestService::start_with(database, options).await;
    for (n, (flow, trail, name, digit)) in [
        ("cart", TRAIL, "unit", 'a'),
        ("cart", TRAIL, "unit", 'a'),
        ("cart", TRAIL, "lint", 'b'),
        ("cart", "t-2", "unit", 'b'),
        ("web", "t-1", "e2e", 'c'),
    ]
    .into_iter()
    .enumerate()
    {
        let data = json!({
            "description": n.to_string(), "attestation_name": name, "artifact_fingerprint": digest(digit),
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

/// Percent-encodes a path segment.
fn percent(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat()
}

/// Requests of each read operation, by its path in the OpenAPI document.
fn requests<'a>() -> BTreeMap<&'a str, Vec<String>> {
    BTreeMap::from([
        (
            "/api/v2/trails/{org}",
            ["", "?per_page=1", "?flow=web"].map(|query| format!("/trails/acme{query}")).into(),
        ),
        (
            "/api/v2/attestations/{org}/{flow_name}",
            vec!["/attestations/acme/cart".to_owned(), "/attestations/acme/web".to_owned()],
        ),
        // The audit log, access reviews, the log, tokens and the latest approved commit have no links.
        ("/api/v2/approvals/{org}/{flow_name}/artifact-commit/{env_name}", Vec::new()),
        ("/api/v2/audit/{org}", Vec::new()),
        ("/api/v2/environments/{org}/{env_name}/access-review", Vec::new()),
        ("/api/v2/environments/{org}/{env_name}/agents", Vec::new()),
        ("/api/v2/log/{org}", Vec::new()),
        ("/api/v2/tokens/{org}", Vec::new()),
        ("/api/v2/user/default-org", Vec::new()),
        // The test of the operation checks its link.
        ("/api/v2/environments/{org}/{env_name}", Vec::new()),
        // Other lists of artifacts and attestations have the links of one.
        ("/api/v2/trails/{org}/{flow_name}/{trail_name}", vec!["/trails/acme/cart/t-2".to_owned()]),
        ("/api/v2/attestations/{org}", Vec::new()),
        ("/api/v2/attestations/{org}/{flow_name}/trail/{trail_name}/{type_or_name}", Vec::new()),
        (
            "/api/v2/attestations/{org}/{flow_name}/artifact/{fingerprint}/{attestation_name}",
            vec![format!("/attestations/acme/cart/artifact/{}/unit", digest('b'))],
        ),
        ("/api/v2/flows/{org}", Vec::new()),
        ("/api/v2/flows/{org}/{flow_name}", Vec::new()),
        ("/api/v2/flows/{org}/template_file", Vec::new()),
        ("/api/v2/artifacts/{org}", Vec::new()),
        (
            "/api/v2/artifacts/{org}/{flow_name}/fingerprint/{fingerprint}",
            vec![format!("/artifacts/acme/cart/fingerprint/{}", digest('b'))],
        ),
        ("/api/v2/artifacts/{org}/{flow_name}/commit_sha/{commit_sha}", Vec::new()),
        ("/api/v2/search/{org}/sha/{sha}", Vec::new()),
        ("/api/v2/search/{org}", vec!["/search/acme?q=cart".to_owned()]),
        ("/api/v2/digests/{org}", vec!["/digests/acme".to_owned()]),
        ("/api/v2/packages/{org}", vec!["/packages/acme?name=cart".to_owned()]),
        (
            "/api/v2/asserts/{org}/fingerprint/{fingerprint}",
            vec![format!("/asserts/acme/fingerprint/{}", digest('a'))],
        ),
        ("/api/v2/environments/{org}", vec!["/environments/acme".to_owned()]),
        ("/api/v2/snapshots/{org}/{env_name}/{snapshot}", vec!["/snapshots/acme/test/1".to_owned()]),
        // These have no links.
        ("/api/v2/attachments/{org}/{attestation_id}", Vec::new()),
        ("/api/v2/snapshots/{org}/{env_name}/{snapshot}/statement", Vec::new()),
        ("/api/v2/snapshots/{org}/{env_name}", Vec::new()),
        ("/api/v2/environments/{org}/{env_name}/events", Vec::new()),
        ("/api/v2/env-diff/{org}", Vec::new()),
        ("/api/v2/policies/{org}", Vec::new()),
        ("/api/v2/policies/{org}/check", Vec::new()),
        ("/api/v2/policies/{org}/{policy_name}", Vec::new()),
        (
            "/api/v2/organizations/{org}/environments_notifications",
            vec!["/organizations/acme/environments_notifications".to_owned()],
        ),
        (
            "/api/v2/repos/{org}/live-artifacts/{repo_name}",
            vec!["/repos/acme/live-artifacts/group/cart".to_owned()],
        ),
        ("/api/v2/approvals/{org}/{flow_name}", vec!["/approvals/acme/cart".to_owned()]),
        ("/api/v2/approvals/{org}/{flow_name}/{approval_number}", vec!["/approvals/acme/cart/1".to_owned()]),
        (
            "/api/v2/artifacts/{org}/{flow_name}/{fingerprint}/approvals",
            vec![format!("/artifacts/acme/cart/{}/approvals", digest('a'))],
        ),
        ("/api/v2/actions/{org}/{action_number}", vec!["/actions/acme/1".to_owned()]),
    ])
}

struct Link {
    /// Key of the link, below `_links` with its path.
    key: String,
    href: String,
    /// The linked resource: the object around the link or around `_links`.
    resource: Value,
}

/// Collects the links to the service in a response.
fn links(base: &str, value: &Value, key: &str, resource: &Value, found: &mut Vec<Link>) {
    match value {
        Value::String(text) => {
            let is_ours = text.starts_with(base) || key.ends_with("html_url") || key.contains("_links.");
            if is_ours {
                found.push(Link { key: key.to_owned(), href: text.clone(), resource: resource.clone() });
            }
        }
        Value::Array(items) => {
            for item in items {
                links(base, item, key, resource, found);
            }
        }
        Value::Object(fields) => {
            let resource = if key.contains("_links") { resource } else { value };
            for (name, field) in fields {
                let key = if key.contains("_links") { format!("{key}.{name}") } else { name.clone() };
                links(base, field, &key, resource, found);
            }
        }
        _ => {}
    }
}

/// The text between two markers.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(start) else { panic!("no {start}: {text}") };
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}: {text}")).0
}

/// Text of the heading of a page.
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

/// Follows a link, pages with a session and operations with a token, and checks that it leads to its resource.
/// Returns the kind of the link.
async fn follow(service: &TestService, browser: &mut Browser<'_>, response: &Value, link: &Link) -> String {
    let Link { key, href, resource } = link;
    let path =
        href.strip_prefix(&service.base).unwrap_or_else(|| panic!("{key} leads to another host: {href}"));
    let text =
        |field: &str| resource[field].as_str().unwrap_or_else(|| panic!("{field}: {resource:#}")).to_owned();
    if let Some(path) = path.strip_prefix("/api/v2") {
        let target = service.read(path).await;
        return match key.as_str() {
            "_links.self.href" => {
                assert_eq!(&target, response, "{href}");
                "operation 4".to_owned()
            }
            "_links.trails.href" => {
                let artifact = if resource["fingerprint"].is_null() { "artifact_id" } else { "fingerprint" };
                assert!(path.contains(&text(artifact)), "{href}");
                assert!(!target["data"].as_array().unwrap().is_empty(), "{href}");
                "operation 1".to_owned()
            }
            _ => panic!("unknown kind of link {key}: {href}"),
        };
    }
    let page = browser.get(path).await;
    assert_eq!(page.status, 200, "{key}: {href}");
    let page = page.text;
    match key.as_str() {
        "html_url" if !resource["attestation_id"].is_null() => {
            assert!(path.ends_with(&text("attestation_id")), "{href}");
            assert!(heading(&page).starts_with(&text("attestation_name")), "{page}");
            "attestation".to_owned()
        }
        "html_url" if !resource["policy_evaluations"].is_null() => {
            assert!(page.contains(&format!("sha256:{}", digest('a'))), "{page}");
            "asserted artifact".to_owned()
        }
        "html_url" if !resource["flow"].is_null() => {
            assert_eq!(heading(&page), text("name"));
            let flow = resource["flow"]["name"].as_str().or(resource["flow"].as_str()).unwrap();
            assert!(page.contains(&format!("<bdi>{flow}</bdi>")), "{page}");
            "trail".to_owned()
        }
        "html_url" if !resource["org"].is_null() => {
            assert_eq!(heading(&page), text("name"));
            "environment".to_owned()
        }
        "html_url" if !resource["environment"].is_null() => {
            assert_eq!(heading(&page), text("environment"));
            "environment".to_owned()
        }
        "html_url" => {
            assert!(page.contains(&format!("sha256:{}", text("fingerprint"))), "{page}");
            "artifact".to_owned()
        }
        "_links.html.href" if !resource["is_silent"].is_null() => {
            assert_eq!(heading(&page), text("name"));
            "environment".to_owned()
        }
        "_links.html.href" => {
            let artifact = if resource["fingerprint"].is_null() { "artifact_id" } else { "fingerprint" };
            assert!(page.contains(&format!("sha256:{}", text(artifact))), "{page}");
            if artifact == "artifact_id" { "live artifact" } else { "artifact" }.to_owned()
        }
        _ => panic!("unknown kind of link {key}: {href}"),
    }
}

async fn every_link_in_a_response_leads_to_its_resource(database: Database) {
    let service = with_evidence(database).await;
    let document = Response::from_request(service.http.get(format!("{}/api/v2/openapi.json", service.base)))
        .await
        .json();
    let paths = document["paths"].as_object().unwrap().iter();
    let reading: BTreeSet<&str> =
        paths.filter(|(_, item)| item.get("get").is_some()).map(|(path, _)| path.as_str()).collect();
    let requests = requests();
    assert_eq!(reading, requests.keys().copied().collect(), "a read operation is not covered");
    let mut browser = Browser::signed_in(&service, READER).await;
    let mut kinds = BTreeMap::<String, BTreeSet<String>>::new();
    for path in requests.values().flatten() {
        let response = service.read(path).await;
        let mut found = Vec::new();
        links(&service.base, &response, "", &response, &mut found);
        for link in found {
            let kind = follow(&service, &mut browser, &response, &link).await;
            kinds.entry(kind).or_default().insert(link.href);
        }
    }
    let counts: Vec<_> = kinds.iter().map(|(kind, hrefs)| (kind.as_str(), hrefs.len())).collect();
    let expected = [
        ("artifact", 2),
        ("asserted artifact", 1),
        ("attestation", 5),
        ("environment", 3),
        ("live artifact", 1),
        ("operation 1", 1),
        ("operation 4", 1),
        ("trail", 3),
    ];
    assert_eq!(counts, expected, "{kinds:#?}");
    // Links never use the Host header of the request.
    for path in ["/trails/acme", "/attestations/acme/cart", "/repos/acme/live-artifacts/group/cart"] {
        let request = service.request(Method::GET, READER, path).header("Host", "evil.example.com");
        assert!(!Response::from_request(request).await.expect(200).text.contains("evil"), "{path}");
    }
}

/// Links from a page to other pages: path with query, and fragment.
fn page_links(from: &str, page: &str) -> Vec<(String, Option<String>)> {
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
        Some((path, fragment)) => (path.to_owned(), Some(fragment.to_owned())),
        None => (href, None),
    };
    whole.map(split).collect()
}

async fn every_link_on_a_page_leads_to_a_page(database: Database) {
    let service = with_evidence(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let mut pages = BTreeMap::<String, String>::new();
    let mut queue = VecDeque::from([("/ui/acme".to_owned(), "the start".to_owned())]);
    let mut fragments = BTreeSet::new();
    while let Some((path, from)) = queue.pop_front() {
        if pages.contains_key(&path) {
            continue;
        }
        let response = browser.get(&path).await;
        // The logo redirects to the organization of the user.
        let expected = if path == "/ui" { 303 } else { 200 };
        assert_eq!(response.status, expected, "{from} leads to {path}: {}", response.text);
        for (next, fragment) in page_links(&path, &response.text) {
            fragments.extend(fragment.map(|fragment| (next.clone(), fragment)));
            queue.push_back((next, path.clone()));
        }
        pages.insert(path, response.text);
        assert!(pages.len() < MAX_PAGES, "{:#?}", pages.keys());
    }
    for (path, fragment) in &fragments {
        assert!(pages[path].contains(&format!("id=\"{fragment}\"")), "{path}#{fragment}");
    }
    let count = |start: &str| pages.keys().filter(|path| path.starts_with(start)).count();
    for (start, minimum) in [
        ("/ui/acme/environments/", 3),
        ("/ui/acme/artifacts/", 2),
        ("/ui/acme/flows/cart/trails/", 2),
        ("/ui/acme/actions", 2),
        ("/api/v2/", 8),
    ] {
        assert!(count(start) >= minimum, "{start}: {:#?}", pages.keys());
    }
    assert!(!fragments.is_empty());
}

crate::service::on_both!(every_link_on_a_page_leads_to_a_page);

crate::service::on_sqlite!(every_link_in_a_response_leads_to_its_resource);
