//! Untrusted text is escaped on every page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::escape::{Escaped, needs_escape};
use reqwest::Url;
use reqwest::multipart::Part;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use crate::service::report;
use crate::service::support::browser::Browser;
use crate::service::support::markup::{PageContent, parse_page};
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, Database, TestService, digest, form};

/// Markup, scripts, templates, and the ends of attributes and elements.
const EVIL: &str = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>' onfocus=alert(1) autofocus='\
                    {{7*7}}</title><script>&lt;b&gt;";

/// Characters that are invisible or change the direction of text, and control characters, which are invalid in names but
/// valid in other text.
const INVISIBLE: &str = "\u{202e}txt\u{2066}\u{200b}\u{feff}\u{1b}[31m\r\u{9b}\u{85}";

/// A token with a hostile name, and a token of an organization with a hostile name.
const EVIL_ADMIN: &str = "evil-admin-0123456789abcdef01234";
const EVIL_READER: &str = "evil-reader-0123456789abcdef0123";

const FRONT: &str = "/ui/acme";
const ACTIONS: &str = "/ui/acme/actions";
const POLICIES: &str = "/ui/acme/policies";
const ACTION: &str = "/ui/acme/actions/1";

/// Hostile values.
#[derive(Default)]
struct Fields {
    /// Pages with the values that they must show.
    shown: Vec<(String, String)>,
    /// Values that no page may show.
    hidden: Vec<String>,
}

impl Fields {
    /// Adds a value that these pages must show.
    fn shown_on(&mut self, pages: &[&str], value: String) -> String {
        assert!(!pages.is_empty());
        self.shown.extend(pages.iter().map(|page| ((*page).to_owned(), value.clone())));
        value
    }

    /// Adds a value that no page may show.
    fn hidden(&mut self, value: String) -> String {
        self.hidden.push(value.clone());
        value
    }

    /// Checks that a page contains all its values, and no hidden value.
    #[track_caller]
    fn check(&mut self, path: &str, page: &str, of: &str) {
        let PageContent { text, fields } = parse_page(path, page);
        for (_, value) in self.shown.iter().filter(|(page, _)| page == of) {
            let is_shown = text.contains(&Escaped(value).to_string()) || fields.contains(value);
            assert!(is_shown, "{path}: missing {value:?}: {text}");
        }
        self.shown.retain(|(page, _)| page != of);
        for value in &self.hidden {
            assert!(!text.contains(&Escaped(value).to_string()), "{path}: {value:?}");
        }
    }
}

/// A hostile text for a field.
fn text(field: &str) -> String {
    format!("{field} {EVIL}{INVISIBLE}")
}

/// A hostile name. It has no invisible characters.
fn name(field: &str) -> String {
    format!("{field} {EVIL}")
}

/// A hostile name without slashes, for a path.
fn segment(field: &str) -> String {
    name(field).replace('/', "")
}

/// The path with these segments, encoded.
fn path(segments: &[&str]) -> String {
    let mut url = Url::parse("http://localhost").unwrap();
    url.path_segments_mut().unwrap().extend(segments);
    url.path().to_owned()
}

fn query(path: &str, parameters: &[(&str, &str)]) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pairs = parameters.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// URLs that a browser must not open, or that would end an attribute.
fn urls() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("code", "javascript:alert(1)".to_owned()),
        ("spelt", "JaVa\tScRiPt:alert(1)".to_owned()),
        ("data", format!("data:text/html,{EVIL}")),
        ("quoted", "https://x.example.com/\" onmouseover=\"alert(1)".to_owned()),
        ("apostrophe", format!("https://x.example.com/'{EVIL}")),
        ("no scheme", "//evil.example.com/<script>".to_owned()),
        ("credentials", "vbscript:x".to_owned()),
    ])
}

#[expect(clippy::too_many_lines, reason = "all fields and their pages in one list")]
async fn untrusted_text_is_escaped_on_every_page(database: Database) {
    let mut fields = Fields::default();
    let (token, environment, trail) = (segment("token"), "environment-1".to_owned(), "trail-1".to_owned());
    let (organization, empty) = (segment("organization"), "empty-1".to_owned());
    let (of_environment, of_trail) = (
        path(&["ui", "acme", "environments", &environment]),
        path(&["ui", "acme", "flows", "cart", "trails", &trail]),
    );
    let of_artifact = path(&["ui", "acme", "artifacts", &digest('a')]);
    let (past, timeline) = (format!("{of_environment}?at"), format!("{of_environment}/timeline"));
    let compare = format!("{of_environment}/compare");
    let review = format!("{of_environment}/access-review");
    let agents = format!("{of_environment}/agents");
    let (of_pod, of_image) = ("/ui/acme/search?pod", "/ui/acme/search?image");
    let packages = "/ui/acme/packages?name";
    let runs = [of_environment.as_str(), &past, of_artifact.as_str(), of_pod];
    let evil_front = path(&["ui", &organization]);
    for (pages, value) in [
        (&[FRONT, of_environment.as_str(), &of_trail, &of_artifact, &review, &agents][..], &token),
        (
            &[
                FRONT,
                of_environment.as_str(),
                &past,
                &of_artifact,
                of_pod,
                &timeline,
                &compare,
                &review,
                &agents,
            ],
            &environment,
        ),
        (&[of_trail.as_str(), &of_artifact, "/ui/acme/search?trail"], &trail),
        (&[evil_front.as_str()], &organization),
        (&[evil_front.as_str()], &empty),
    ] {
        fields.shown_on(pages, value.clone());
    }
    // The bootstrap file.
    let required = fields.shown_on(&[&of_environment, &past, &of_artifact, &review], name("required"));
    let allowed = [text("allowed reason"), name("allowed author")];
    let [reason, author] = allowed.map(|said| fields.shown_on(&[&of_environment, &past], said));
    let (tag, value) = (fields.hidden(name("tag").replace('=', "")), fields.hidden(name("tag value")));
    let approval = json!({
        "number": 1, "artifact": digest('a'), "base": digest('9'), "state": "APPROVED", "environment": environment,
        "name": fields.hidden(name("approved name")),
        "description": fields.shown_on(&[&of_artifact], text("approval")),
        "userData": {fields.hidden(text("approval key")): fields.hidden(text("approval data"))},
        "approvals": urls().into_iter().map(|(kind, url)| json!({
            "by": fields.shown_on(&[&of_artifact], name(&format!("approver {kind}"))),
            "comment": fields.shown_on(&[&of_artifact], text(&format!("comment {kind}"))),
            "at": "2026-09-01T12:00:00Z", "url": fields.shown_on(&[&of_artifact], url),
        })).collect::<Vec<_>>(),
    });
    let template = json!({
        "attestations": [{"name": fields.shown_on(&[&of_trail], name("template attestation")),
                          "type": fields.shown_on(&[&of_trail], name("template type"))}],
        "artifacts": [{"name": fields.shown_on(&[&of_trail], name("template artifact")),
                       "attestations": [{"name": fields.shown_on(&[&of_trail], name("artifact's")), "type": "junit"}]}],
    });
    let actions = json!([{
        "number": 1, "name": fields.shown_on(&[ACTIONS, ACTION], name("action")), "environments": [environment],
        "triggers": ["ON_STARTED_ARTIFACT"],
        "targets": [{"name": fields.shown_on(&[ACTION], name("target")), "type": "SLACK", "url": {"file": "hook"},
                     "channel": {"id": text("channel id"), "name": text("channel"), "team": text("team")}}],
    }]);
    let declared = json!([{"name": environment, "policies": [segment("policy")], "policy": {"attestations": [{"flow": "cart", "name": required}]},
                           "allowed": [{"artifact": digest('c'), "reason": reason, "author": author}]}]);
    let policy = segment("policy");
    let of_policy = path(&["ui", "acme", "policies", &policy]);
    let pages = [of_policy.as_str(), &of_environment, &of_artifact];
    for page in [&of_policy, POLICIES, &of_environment, &of_artifact] {
        fields.shown_on(&[page], policy.clone());
    }
    let rules = json!({"_schema": "x/v1", "artifacts": {"attestations": [{
        "name": fields.shown_on(&pages, name("ruled")), "type": format!("custom:{}", fields.shown_on(&pages, name("ruled type"))),
        "for_control": fields.shown_on(&pages, name("control")),
        "when": "artifact.name != '<script>alert(1)</script>'",
    }]}});
    let policies = json!([{"name": policy, "text": rules.to_string(),
                           "description": fields.shown_on(&[POLICIES, &of_policy], text("policy description"))}]);
    let mut file = bootstrap(
        1,
        &format!(
            "      - {{name: {}, role: admin, file: evil-admin}}
    policies: {policies}
    environments: {declared}
    flows: [{{name: cart, tags: {{{}: {}}}, template: {template}, approvals: [{approval}]}}]
    actions: {actions}",
            json!(token),
            json!(tag),
            json!(value)
        ),
    );
    let (organization, empty) = (json!(organization), json!(empty));
    let reader = json!(fields.shown_on(&[&evil_front], segment("reader")));
    writeln!(
        file,
        "  - {{name: {organization}, environments: [{{name: {empty}}}], tokens: [{{name: {reader}, role: read, file: evil-reader}}]}}"
    )
    .unwrap();
    let files = vec![
        ("evil-admin", EVIL_ADMIN.to_owned()),
        ("evil-reader", EVIL_READER.to_owned()),
        ("hook", "https://hooks.example.com/x".to_owned()),
    ];
    // YAML requires escapes for invisible characters.
    let escaped = |c: char| {
        let is_plain = c == '\n' || !needs_escape(c);
        if is_plain { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }
    };
    let bootstrap = file.chars().map(escaped).collect();
    let service = TestService::start_with(database, Options { bootstrap, files, ..Options::default() }).await;

    // A report with three images: one without attestations, one on the allow-list, and one that exits.
    let pod = fields.shown_on(&[of_pod, "found"], name("pod"));
    let owners = json!([{
        "kind": fields.shown_on(&[&of_environment, &past], text("kind")), "controller": true,
        "name": fields.shown_on(&[&of_environment, &past], text("owner")),
        "apiVersion": fields.hidden(text("version")), "uid": fields.hidden(text("uid")),
    }]);
    let namespace = fields.shown_on(&[&of_environment, &past, of_pod], name("namespace"));
    let image = fields.shown_on(&runs, text("image"));
    fields.shown_on(&[of_image, packages, &timeline, &compare, ACTION], image.clone());
    let pods = |gone: bool| {
        let with = |name: &str, image: &str, digit| {
            json!({"podName": name, "namespace": namespace, "creationTimestamp": 1_790_000_000,
                   "digests": {image: digest(digit)}, "owners": owners})
        };
        let mut pods = vec![with(&pod, &image, 'a'), with("allowed", "allowed", 'c')];
        if !gone {
            pods.push(with("gone", "gone", 'b'));
        }
        report(&pods)
    };
    let segment = environment.clone();
    let user_agent = fields.shown_on(&[&agents], format!("{}\u{202e}", name("agent")));
    let cluster = fields.hidden(name("cluster"));
    let put = async |body: String| {
        let path = path(&["environments", "acme", &segment, "report", "K8S"]);
        let request = service.request(reqwest::Method::PUT, EVIL_ADMIN, &path);
        let request = request.header("User-Agent", user_agent.as_bytes());
        let request = request.header("Supercargo-Cluster", cluster.as_bytes());
        request.header("Content-Type", "application/json").body(body).send().await.unwrap().status()
    };
    assert_eq!(put(pods(false)).await, 201);
    let then = jiff::Timestamp::now().to_string();
    assert_eq!(put(pods(true)).await, 201);

    // One attestation for each URL.
    for (kind, url) in urls() {
        let of = |field: &str| text(&format!("{field} {kind}"));
        let whole: &[&str] = &[&format!("attestation {kind}")];
        let repository = format!("acme/{}", name(&format!("repository {kind}")));
        let data: Value = json!({
            "attestation_name": fields.shown_on(&[&of_trail, &of_artifact, whole[0]], name(&format!("attestation {kind}"))),
            "artifact_fingerprint": digest('a'),
            "target_artifacts": [fields.shown_on(whole, name(&format!("target {kind}")))],
            "junit_results": [{"name": fields.shown_on(whole, of("suite")), "failures": 1, "errors": 0, "total": 1}],
            "description": fields.shown_on(whole, of("description")),
            "origin_url": fields.shown_on(whole, url.clone()),
            "git_commit_info": {
                "sha1": "d".repeat(40), "url": url, "message": of("message"), "author": of("author"),
                "branch": of("branch"), "author_username": fields.hidden(of("username")),
                "parents": [fields.hidden(of("parent"))],
            },
            "repo_info": {"name": fields.shown_on(&[&of_artifact], repository), "url": url,
                          "id": fields.hidden(of("id")), "description": fields.hidden(of("about"))},
            "external_urls": {fields.shown_on(whole, of("external")): fields.shown_on(whole, url.clone())},
            "annotations": {fields.hidden(of("annotation")): fields.hidden(of("annotated"))},
            "user_data": {of("key"): of("data")},
        });
        fields.shown_on(whole, data["user_data"].to_string());
        // The trail shows the commit of its latest attestation.
        if kind == urls().keys().last().copied().unwrap() {
            for field in ["message", "author", "branch"] {
                fields.shown_on(&[&of_trail], of(field));
            }
        }
        // XML cannot contain control characters.
        let [test, class, message, output] = ["test", "class", "failure", "output"].map(|field| {
            let said =
                fields.shown_on(whole, format!("{}\u{202e}\u{200b}", name(&format!("{field} {kind}"))));
            said.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
        });
        let attachment = format!(
            "<testsuite name=\"s\"><testcase name=\"{test}\" classname=\"{class}\">\
             <failure message=\"{message}\">{output}</failure></testcase></testsuite>"
        );
        // reqwest encodes quotes and line breaks of a file name like browsers.
        let file = fields.shown_on(whole, format!("{kind} <script>alert(1)</script>\u{202e}\u{200b}.xml"));
        let path = path(&["attestations", "acme", "cart", "trail", &trail, "junit"]);
        let attached = Part::bytes(attachment.into_bytes()).file_name(file);
        let request = service.request(reqwest::Method::POST, EVIL_ADMIN, &path);
        let answer = request.multipart(form(&data).part("attachment_file", attached)).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{kind}: {}", answer.text().await.unwrap());
    }

    // Approvals by a token, one of them withdrawn.
    let send = async |method, path: &str, body: Value| {
        let request = service.request(method, EVIL_ADMIN, path).header("Content-Type", "application/json");
        assert!(request.body(body.to_string()).send().await.unwrap().status().is_success(), "{path}: {body}");
    };
    for (number, environment) in [(2, Some(&environment)), (3, None)] {
        let mut of = |field: &str| fields.hidden(text(&format!("{field} {number}")));
        let user_data = json!({of("approval key"): of("approval data")});
        let mut shown = |field: &str| fields.shown_on(&[&of_artifact], text(&format!("{field} {number}")));
        let decision = json!({"state": "APPROVED", "comment": shown("token comment"), "approval_url": shown("token url"),
                              "approved_by": "not the token"});
        let body = json!({"artifact_fingerprint": digest('a'), "environment": environment, "user_data": user_data,
                          "description": shown("token description"), "approvals": [decision]});
        send(reqwest::Method::POST, "/approvals/acme/cart", body).await;
    }
    let reason = fields.shown_on(&[&of_artifact], text("withdrawal"));
    send(reqwest::Method::PUT, "/approvals/acme/cart/3/withdraw", json!({ "comment": reason })).await;

    // An attestation of another type, and the fields of its trail.
    let custom: &[&str] = &["attestation custom"];
    let kind = name("type");
    fields.shown_on(&[&of_trail, &of_artifact, custom[0]], format!("custom:{kind}"));
    let other = json!({"attestation_data": {text("data key"): text("data")}, "later": text("later"), "type_name": kind});
    let mut data =
        json!({"attestation_name": name("attestation custom"), "artifact_fingerprint": digest('a')});
    data.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    fields.shown_on(custom, other.to_string());
    let package = fields.shown_on(&[packages], name("package"));
    let component = json!({
        "type": "library", "name": package, "group": fields.shown_on(&[packages], text("package group")),
        "version": fields.shown_on(&[packages], text("package number")),
    });
    let bill = json!({"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [component]}).to_string();
    let described = json!({
        "name": trail, "description": fields.shown_on(&[&of_trail], text("trail description")),
        "origin_url": fields.shown_on(&[&of_trail], format!("javascript:alert(1)//{EVIL}")),
        "user_data": {fields.hidden(text("trail key")): fields.hidden(text("trail data"))},
    });
    let posted = path(&["attestations", "acme", "cart", "trail", &trail, "custom"]);
    for (method, target, body) in [
        (reqwest::Method::POST, posted.as_str(), &data),
        (reqwest::Method::PUT, "/trails/acme/cart", &described),
    ] {
        let mut form = form(body);
        if target == posted {
            form = form.part("attachment_file", Part::text(bill.clone()).file_name("bom.json"));
        }
        let answer = service.request(method, EVIL_ADMIN, target).multipart(form).send().await.unwrap();
        assert!(answer.status().is_success(), "{target}: {}", answer.text().await.unwrap());
    }

    let mut evil = Browser::signed_in(&service, EVIL_ADMIN).await;
    let input = EVIL.trim();
    for (address, of, status) in [
        (FRONT.to_owned(), FRONT, 200),
        (of_environment.clone(), of_environment.as_str(), 200),
        (query(&of_environment, &[("at", &then)]), &past, 200),
        (of_artifact.clone(), &of_artifact, 200),
        (review.clone(), &review, 200),
        (of_trail.clone(), &of_trail, 200),
        (query("/ui/acme/search", &[("q", "pod <script>")]), of_pod, 200),
        (query("/ui/acme/search", &[("q", "image <script>")]), of_image, 200),
        (query("/ui/acme/search", &[("q", &trail)]), "/ui/acme/search?trail", 200),
        (query("/ui/acme/packages", &[("name", &package)]), packages, 200),
        (query("/ui/acme/packages", &[("name", input), ("version", input)]), "", 400),
        (timeline.clone(), &timeline, 200),
        (agents.clone(), &agents, 200),
        (format!("{compare}?from=1&to=2"), &compare, 200),
        (ACTIONS.to_owned(), ACTIONS, 200),
        (POLICIES.to_owned(), POLICIES, 200),
        (of_policy.clone(), &of_policy, 200),
        (path(&["ui", "acme", "policies", input]), "", 404),
        (ACTION.to_owned(), ACTION, 200),
        // Parameters and paths.
        (query(&of_environment, &[("q", input)]), "found", 200),
        (query(&of_environment, &[("compliance", input)]), "", 400),
        (query(&of_environment, &[("at", input)]), "", 400),
        (query(&of_environment, &[("page", input)]), "", 400),
        (query(&of_environment, &[(input, "x")]), "parameter", 400),
        (query("/ui/acme/search", &[("q", input)]), "q", 200),
        (query("/ui/acme/search", &[(input, "x")]), "parameter", 400),
        (query(&timeline, &[("page", input)]), "", 400),
        (query(&compare, &[("from", input), ("to", input)]), "", 400),
        (path(&["ui", "acme", input, input]), "", 404),
        (path(&["ui", input]), "", 404),
        (path(&["ui", "acme", "artifacts", input]), "", 404),
        (path(&["ui", "acme", "environments", input]), "", 404),
        (path(&["ui", "acme", "flows", input, "trails", input]), "", 404),
        (path(&["ui", "acme", "actions", input]), "", 404),
        (query("/ui/sign-in", &[("next", input)]), "next", 200),
        (query(&of_artifact, &[("flow", "cart"), ("approved", "2")]), "approved", 200),
        (query(&of_artifact, &[("flow", input), ("approved", input)]), "", 400),
    ] {
        if matches!(of, "found" | "q" | "next") {
            fields.shown_on(&[of], input.to_owned());
        }
        let page = evil.get(&address).await;
        assert_eq!(page.status, status, "{address}: {}", page.text);
        fields.check(&address, &page.text, of);
    }
    // The audit log shows all texts of the bootstrap file.
    let audit = evil.get("/ui/acme/audit").await;
    let audited = parse_page("/ui/acme/audit", &audit.text).text;
    assert!(audited.contains(&Escaped(&token).to_string()), "{audited}");
    let listed = service.get(ADMIN, "/attestations/acme/cart").await.expect(200).json();
    for kind in urls().into_keys().chain(["custom"]) {
        let attested = listed["data"].as_array().unwrap().iter();
        let mut named =
            attested.filter(|one| one["attestation_name"] == name(&format!("attestation {kind}")));
        let id = named.next().unwrap()["attestation_id"].as_str().unwrap().to_owned();
        let page = evil.get(&format!("{of_trail}/attestations/{id}")).await;
        assert_eq!(page.status, 200, "{kind}: {}", page.text);
        fields.check(kind, &page.text, &format!("attestation {kind}"));
    }
    let rejected = Browser::new(&service).sign_in("no such token", input).await;
    fields.shown_on(&["rejected"], input.to_owned());
    fields.check("sign-in", &rejected.text, "rejected");
    let mut reader = Browser::signed_in(&service, EVIL_READER).await;
    let page = reader.get(&evil_front).await;
    assert_eq!(page.status, 200, "{}", page.text);
    fields.check(&evil_front, &page.text, &evil_front);
    assert_eq!(fields.shown, [], "pages without a request");
    // The API returns the name unchanged.
    let listed = service.get(ADMIN, "/trails/acme").await.expect(200).json();
    assert_eq!(listed["data"][0]["name"], json!(trail));
}

crate::service::on_sqlite!(untrusted_text_is_escaped_on_every_page);
