//! Time and size of pages, with an environment of ten thousand artifacts and a thousand snapshots among two hundred.
//!
//! The data is created through the operations that agents and pipelines use.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::figures::Figures;
use super::server::{Connection, Organization, Server, get, token};

/// Organization of the pages, and its large environment.
const ORGANIZATION: &str = "pages";
const LARGE: &str = "large";

/// Settings of [`ORGANIZATION`].
const SETTINGS: &str = "    environments:
      - {name: large, policy: {attestations: [{flow: tests, name: unit}, {flow: tests, name: scan}]}}
    actions:
      - number: 1
        name: hook
        environments: [small-001]
        triggers: [ON_STARTED_ARTIFACT]
        targets: [{name: hook, type: WEBHOOK, url: {variable: HOOK}, secrets: [{variable: TOKEN_pages}]}]
";

/// Artifacts and snapshots of [`LARGE`]. A fifth of the artifacts run in two pods.
const ARTIFACTS: usize = 10_000;
const SNAPSHOTS: usize = 1_000;

/// Artifacts that change from one snapshot to the next.
const CHANGED: usize = 10;

/// Artifacts per namespace.
const PER_NAMESPACE: usize = 250;

/// Number of environments, and of trails with tests.
const ENVIRONMENTS: usize = 200;
const TRAILS: usize = 50;

/// Size of an attachment with tests, in bytes.
const ATTACHMENT_SIZE: usize = 10_000_000;

/// Requests per page.
const SAMPLES: usize = 20;

/// Maximum time and size of a page.
const MAX_MILLISECONDS: f64 = 200.0;
const MAX_BYTES: usize = 300_000;

pub(super) fn organization() -> Organization {
    Organization::new(ORGANIZATION, SETTINGS)
}

/// Fills the service and measures each page.
pub(super) fn pages(server: &Server) {
    let begin = Instant::now();
    let mut connection = server.connect();
    let past = fill(&mut connection);
    println!("pages: {:.0} s to fill the service through its operations", begin.elapsed().as_secs_f64());
    let cookie = connection.sign_in(token(ORGANIZATION).as_str());
    let cookie = format!("Cookie: {cookie}");
    let request = |path: &str| get(path, &cookie);
    let attestation = |trail: &str| {
        first_attestation(&mut server.connect(), &cookie, &format!("/ui/{ORGANIZATION}/flows/{trail}"))
    };
    let mut addresses = addresses(past);
    addresses.push(("attestation, 500 tests without a file", attestation("suites/trails/build-7")));
    addresses.push(("attestation, 10 MB of tests", attestation("files/trails/build-1")));
    let mut heaviest: Option<(String, f64)> = None;
    for (label, path) in addresses {
        let head = request(&path);
        let figures = server.measure(&head, SAMPLES);
        assert!(figures.bytes <= MAX_BYTES, "{label} has {} bytes, more than {MAX_BYTES}", figures.bytes);
        let bound = format!("at most {MAX_MILLISECONDS} ms: {:.2} of it", figures.p99 / MAX_MILLISECONDS);
        let size = figures.bytes as f64 / MAX_BYTES as f64;
        figures.print(label, &format!("{bound}; {MAX_BYTES} bytes: {size:.2}"));
        if heaviest.as_ref().is_none_or(|(_, most)| *most < figures.cpu) {
            heaviest = Some((head, figures.cpu));
        }
    }
    let (head, _) = heaviest.unwrap();
    measure_concurrent(server, &head);
}

/// Path of the first attestation on the page of a trail. The service numbers attestations, and the page links to them.
pub(super) fn first_attestation(connection: &mut Connection, cookie: &str, trail: &str) -> String {
    let response = connection.send(&get(trail, cookie), &[]).expect(200);
    let page = connection.text(&response);
    let (_, rest) = page.split_once(&format!("href=\"{trail}/attestations/")).unwrap();
    format!("{trail}/attestations/{}", rest.split('"').next().unwrap())
}

/// Labels and paths of the pages. `past` is a time with many artifacts, in Unix microseconds.
fn addresses(past: i64) -> Vec<(&'static str, String)> {
    let now = jiff::Timestamp::now().as_microsecond();
    let moment = |micros| jiff::Timestamp::from_microsecond(micros).unwrap().to_string();
    let environment = format!("/ui/{ORGANIZATION}/environments/{LARGE}");
    let search = |q: &str| format!("/ui/{ORGANIZATION}/search?q={q}");
    vec![
        ("sign-in", "/ui/sign-in".to_owned()),
        ("front page, 200 environments", format!("/ui/{ORGANIZATION}")),
        ("environment, first page", environment.clone()),
        ("environment, last page", format!("{environment}?page=100")),
        ("environment, pods by name", format!("{environment}?q=-4321-")),
        ("environment, an owner", format!("{environment}?q=service-042")),
        ("environment, a namespace", format!("{environment}?q=team-007")),
        ("environment, a digest", format!("{environment}?q={}", &digest(4_321, 0)[..12])),
        ("environment, nothing found", format!("{environment}?q=nowhere")),
        ("environment, non-compliant", format!("{environment}?compliance=non-compliant")),
        ("environment, compliant, last page", format!("{environment}?compliance=compliant&page=1000")),
        ("environment, a moment ago", format!("{environment}?at={}", moment(now - 1_000))),
        ("environment, hundreds of snapshots ago", format!("{environment}?at={}", moment(past))),
        (
            "environment, then, non-compliant",
            format!("{environment}?compliance=non-compliant&at={}", moment(past)),
        ),
        ("environment, before the first report", format!("{environment}?at=2001-01-01T00:00Z")),
        ("timeline, first page", format!("{environment}/timeline")),
        ("timeline, fifth page", format!("{environment}/timeline?page=5")),
        ("comparison, first and last snapshot", format!("{environment}/compare?from=1&to={SNAPSHOTS}")),
        ("comparison, two snapshots in a row", format!("{environment}/compare?from=500&to=501")),
        ("artifact, in 200 environments", format!("/ui/{ORGANIZATION}/artifacts/{}", common())),
        ("artifact, in one environment", format!("/ui/{ORGANIZATION}/artifacts/{}", digest(4_321, 0))),
        ("trail, 10 attestations of 500 tests", format!("/ui/{ORGANIZATION}/flows/suites/trails/build-7")),
        ("search, a digest", search(&digest(4_321, 0)[..12])),
        ("search, an image", search("service-4321")),
        ("search, many images", search("registry")),
        ("search, a pod", search("pod-4321-0")),
        ("search, many pods", search("pod-")),
        ("search, a commit", search(&commit(7)[..12])),
        ("search, a trail", search("build-7")),
        ("search, nothing found", search("nowhere")),
        ("actions", format!("/ui/{ORGANIZATION}/actions")),
        ("action", format!("/ui/{ORGANIZATION}/actions/1")),
    ]
}

/// Measures concurrent page views: their time, their memory, and the slowdown of reports.
fn measure_concurrent(server: &Server, head: &str) {
    let mut number = 0;
    // To an environment that the page does not read.
    let mut reports = || -> Vec<f64> {
        let mut reporter = server.connect();
        let report = |_| {
            number += 1;
            let changed = [pod(0, number, 0), pod(1, 0, 0)].join(",");
            reporter.report(ORGANIZATION, "small-001", &body(&changed)).expect(201).milliseconds
        };
        (0..200).map(report).collect()
    };
    let alone = reports();
    let before = server.memory();
    let begin = Instant::now();
    server.measure(head, 1_000);
    let after = server.memory();
    println!(
        "the slowest page, 1,000 times: {:.1} s; memory from {before:.0} MiB to {after:.0} MiB",
        begin.elapsed().as_secs_f64()
    );
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (concurrent, views) = std::thread::scope(|scope| {
        let viewers: Vec<_> = (0..20)
            .map(|_| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut connection = server.connect();
                    let mut times = Vec::new();
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        times.push(connection.send(head, &[]).expect(200).milliseconds);
                    }
                    times
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        let concurrent = reports();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        (concurrent, viewers.into_iter().flat_map(|viewer| viewer.join().unwrap()).collect::<Vec<_>>())
    });
    let (alone, concurrent, views) =
        (Figures::new(alone, 0.0, 0), Figures::new(concurrent, 0.0, 0), Figures::new(views, 0.0, 0));
    println!(
        "20 concurrent clients: p50 {:.0} ms, p99 {:.0} ms; memory {:.0} MiB, at most {:.0} MiB; a concurrent changed \
         report: p50 {:.1} ms, p99 {:.1} ms (alone {:.1} and {:.1})",
        views.median,
        views.p99,
        server.memory(),
        server.peak(),
        concurrent.median,
        concurrent.p99,
        alone.median,
        alone.p99,
    );
}

/// Fills the service. Returns a time with many artifacts, in Unix microseconds.
fn fill(connection: &mut Connection) -> i64 {
    let mut revisions = vec![0; ARTIFACTS];
    let mut past = 0;
    // Two of five artifacts are compliant, one lacks a scan, one fails its tests, and one has no attestation.
    let artifacts_of = |kinds: &'static [usize]| {
        let chosen = move |n: &usize| kinds.contains(&(n % 5));
        (0..ARTIFACTS).filter(chosen).map(|n| digest(n, 0)).collect::<Vec<_>>()
    };
    for (name, failures, artifacts) in [
        ("unit", 0, artifacts_of(&[0, 1, 2])),
        ("unit", 1, artifacts_of(&[3])),
        ("scan", 0, artifacts_of(&[0, 1, 3])),
    ] {
        for (number, artifacts) in artifacts.chunks(500).enumerate() {
            let targets = format!("\"{}\"", artifacts.join("\",\""));
            let data = format!(
                r#"{{"attestation_name":"{name}","target_artifacts":[{targets}],"junit_results":[{{"name":"all","total":500,"failures":{failures},"errors":0}}]}}"#
            );
            connection.attest(ORGANIZATION, "tests", &format!("all-{number}"), &data).expect(201);
        }
    }
    for trail in 0..TRAILS {
        for attestation in 0..10 {
            let mut suites = String::new();
            for suite in 0..50 {
                let comma = if suite == 0 { "" } else { "," };
                write!(
                    suites,
                    r#"{comma}{{"name":"org.example.shop.suite.Number{suite:03}Test","total":10,"failures":{},"errors":0,"skipped":1,"duration":1.25}}"#,
                    usize::from(suite == 42)
                )
                .unwrap();
            }
            let data = format!(
                r#"{{"attestation_name":"suite-{attestation}","artifact_fingerprint":"{}","junit_results":[{suites}],"description":"Tests of build {trail}","origin_url":"https://ci.example.com/{trail}","git_commit_info":{{"sha1":"{}","message":"Sell more","author":"Kim <kim@example.com>","branch":"main"}},"repo_info":{{"name":"acme/shop","url":"https://github.com/acme/shop"}}}}"#,
                common(),
                commit(trail),
            );
            connection.attest(ORGANIZATION, "suites", &format!("build-{trail}"), &data).expect(201);
        }
    }
    let mut file = "<testsuite name=\"all\">".to_owned();
    for test in 0..ATTACHMENT_SIZE / 200 {
        let failure = if test % 100 == 0 { "<failure message=\"3 is not 4\"/>" } else { "" };
        let case = format!(
            "<testcase classname=\"org.example.shop.Cart\" name=\"test {test}\">{failure}</testcase>"
        );
        write!(file, "{case:<200}").unwrap();
    }
    file.push_str("</testsuite>");
    let (total, failures) = (ATTACHMENT_SIZE / 200, ATTACHMENT_SIZE / 20_000);
    let data = format!(
        r#"{{"attestation_name":"unit","junit_results":[{{"name":"all","total":{total},"failures":{failures},"errors":0}}]}}"#
    );
    connection.attest_with(ORGANIZATION, "files", "build-1", &data, &file).expect(201);
    for environment in 1..ENVIRONMENTS {
        let common = pod(environment, 0, 0).replace(&digest(environment, 0), &common());
        connection.report(ORGANIZATION, &format!("small-{environment:03}"), &body(&common)).expect(201);
    }
    for snapshot in 0..SNAPSHOTS {
        if snapshot == SNAPSHOTS / 10 {
            past = jiff::Timestamp::now().as_microsecond();
        }
        for n in (0..CHANGED).map(|n| (snapshot * CHANGED + n) % ARTIFACTS).filter(|_| snapshot > 0) {
            // The artifacts in the paths of the pages do not change.
            revisions[n] = usize::from(n != 4_321 && n != 1) * snapshot;
        }
        let mut pods = Vec::with_capacity(ARTIFACTS * 6 / 5);
        for (n, revision) in revisions.iter().enumerate() {
            pods.extend((0..=usize::from(n % 5 == 0)).map(|replica| pod(n, *revision, replica)));
        }
        let all = pods.join(",");
        connection.report(ORGANIZATION, LARGE, &body(&all.replace(&digest(1, 0), &common()))).expect(201);
    }
    past
}

/// Digest of an artifact that runs in all environments.
fn common() -> String {
    "c0ffee".repeat(11)[..64].to_owned()
}

fn digest(artifact: usize, revision: usize) -> String {
    // Spreads the digits as a hash does.
    let spread = |seed: usize| (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:016x}{:016x}{:032x}", spread(artifact), spread(revision), artifact + revision)
}

fn commit(number: usize) -> String {
    digest(number, 7)[..40].to_owned()
}

fn body(pods: &str) -> Vec<u8> {
    format!(r#"{{"type":"K8S","artifacts":[{pods}]}}"#).into_bytes()
}

fn pod(artifact: usize, revision: usize, replica: usize) -> String {
    let namespace = format!("team-{:03}", artifact / PER_NAMESPACE);
    let owner = format!("service-{artifact:04}-{:08x}", revision * 1_000_003);
    format!(
        r#"{{"podName":"pod-{artifact:04}-{replica}-{revision}","namespace":"{namespace}","digests":{{"registry.example.com/{namespace}/service-{artifact:04}:1.{revision}.0":"{}"}},"creationTimestamp":{},"owners":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{owner}","uid":"6d5f8b7c-9d00-4000-8000-{artifact:012x}","controller":true,"blockOwnerDeletion":true}}]}}"#,
        digest(artifact, revision),
        1_700_000_000 + revision,
    )
}
