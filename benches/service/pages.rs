//! What pages take and weigh: one environment of ten thousand artifacts and a thousand snapshots among two hundred,
//! filled through the operations that agents and pipelines use.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::Figures;
use super::server::{Connection, Server, token};

/// The organization that the pages are of, and its environment with much in it.
const OF: &str = "pages";
const LARGE: &str = "large";

/// Artifacts that run in [`LARGE`], the pods that run a fifth of them twice, and the snapshots.
const ARTIFACTS: usize = 10_000;
const SNAPSHOTS: usize = 1_000;

/// Artifacts that change from one snapshot to the next.
const CHANGED: usize = 10;

/// Artifacts of one namespace.
const OF_A_NAMESPACE: usize = 250;

/// All environments, and the trails with tests.
const ENVIRONMENTS: usize = 200;
const TRAILS: usize = 50;

/// Bytes of a file with tests.
const FILE: usize = 10_000_000;

/// How often each page is asked for.
const SAMPLES: usize = 20;

/// The most that a page may take, and weigh.
const MILLISECONDS: f64 = 200.0;
const BYTES: usize = 300_000;

/// What the bootstrap file says of the organization besides its tokens.
pub(super) const DECLARED: &str = "    environments:
      - {name: large, policy: {attestations: [{flow: tests, name: unit}, {flow: tests, name: scan}]}}
    actions:
      - number: 1
        name: hook
        environments: [small-001]
        triggers: [ON_STARTED_ARTIFACT]
        targets: [{name: hook, type: WEBHOOK, url: {variable: HOOK}, secrets: [{variable: TOKEN_pages}]}]
";

/// Fills the service, and asks for each page.
pub(super) fn pages(server: &Server) {
    let begin = Instant::now();
    let mut connection = server.connect();
    let past = fill(&mut connection);
    println!("pages: {:.0} s to fill the service through its operations", begin.elapsed().as_secs_f64());
    let cookie = connection.signs_in(token(OF).as_str());
    let asked = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: bench\r\nCookie: {cookie}\r\n\r\n");
    // Attestations are numbered by the service: their trails tell.
    let attestation = |trail: &str| {
        let trail = format!("/ui/{OF}/flows/{trail}");
        let mut connection = server.connect();
        let answer = connection.ask(&asked(&trail), &[]).expect(200);
        let page = connection.text(&answer);
        let (_, rest) = page.split_once(&format!("href=\"{trail}/attestations/")).unwrap();
        format!("{trail}/attestations/{}", rest.split('"').next().unwrap())
    };
    let mut addresses = addresses(past);
    addresses.push(("attestation, 500 tests without a file", attestation("suites/trails/build-7")));
    addresses.push(("attestation, 10 MB of tests", attestation("files/trails/build-1")));
    let mut heaviest: Option<(String, f64)> = None;
    for (what, path) in addresses {
        let head = asked(&path);
        let figures = server.ask(&head, SAMPLES);
        assert!(figures.bytes <= BYTES, "{what} has {} bytes, more than {BYTES}", figures.bytes);
        let bound = format!("{MILLISECONDS} ms at worst: {:.2} of it", figures.p99 / MILLISECONDS);
        figures.print(what, &format!("{bound}; {BYTES} bytes: {:.2}", figures.bytes as f64 / BYTES as f64));
        if heaviest.as_ref().is_none_or(|(_, most)| *most < figures.cpu) {
            heaviest = Some((head, figures.cpu));
        }
    }
    let (head, _) = heaviest.unwrap();
    together(server, &head);
}

/// The pages, and what each is called. `past` is a moment in Unix microseconds with much to show.
fn addresses(past: i64) -> Vec<(&'static str, String)> {
    let now = jiff::Timestamp::now().as_microsecond();
    let moment = |micros| jiff::Timestamp::from_microsecond(micros).unwrap().to_string();
    let environment = format!("/ui/{OF}/environments/{LARGE}");
    let search = |q: &str| format!("/ui/{OF}/search?q={q}");
    vec![
        ("sign-in", "/ui/sign-in".to_owned()),
        ("front page, 200 environments", format!("/ui/{OF}")),
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
        ("artifact, in 200 environments", format!("/ui/{OF}/artifacts/{}", common())),
        ("artifact, in one environment", format!("/ui/{OF}/artifacts/{}", digest(4_321, 0))),
        ("trail, 10 attestations of 500 tests", format!("/ui/{OF}/flows/suites/trails/build-7")),
        ("search, a digest", search(&digest(4_321, 0)[..12])),
        ("search, an image", search("service-4321")),
        ("search, many images", search("registry")),
        ("search, a pod", search("pod-4321-0")),
        ("search, many pods", search("pod-")),
        ("search, a commit", search(&commit(7)[..12])),
        ("search, a trail", search("build-7")),
        ("search, nothing found", search("nowhere")),
        ("actions", format!("/ui/{OF}/actions")),
        ("action", format!("/ui/{OF}/actions/1")),
    ]
}

/// Many who look at once, what that takes of memory, and what it takes from those who report.
fn together(server: &Server, head: &str) {
    let mut number = 0;
    // Another environment's: not one that the page has to read.
    let mut reports = || -> Vec<f64> {
        let mut reporter = server.connect();
        let report = |_| {
            number += 1;
            let changed = [pod(0, number, 0), pod(1, 0, 0)].join(",");
            reporter.report(OF, "small-001", &body(&changed)).expect(201).milliseconds
        };
        (0..200).map(report).collect()
    };
    let alone = reports();
    let before = server.memory();
    let begin = Instant::now();
    server.ask(head, 1_000);
    let after = server.memory();
    println!(
        "the page that takes most, 1,000 times: {:.1} s; memory from {before:.0} MiB to {after:.0} MiB",
        begin.elapsed().as_secs_f64()
    );
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (beside, waited) = std::thread::scope(|scope| {
        let looking: Vec<_> = (0..20)
            .map(|_| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut connection = server.connect();
                    let mut times = Vec::new();
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        times.push(connection.ask(head, &[]).expect(200).milliseconds);
                    }
                    times
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        let beside = reports();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        (beside, looking.into_iter().flat_map(|looks| looks.join().unwrap()).collect::<Vec<_>>())
    });
    let (alone, beside, waited) =
        (Figures::new(alone, 0.0, 0), Figures::new(beside, 0.0, 0), Figures::new(waited, 0.0, 0));
    println!(
        "20 who ask for it at once: p50 {:.0} ms, p99 {:.0} ms; memory {:.0} MiB, at most {:.0} MiB; a changed report \
         beside them: p50 {:.1} ms, p99 {:.1} ms (alone {:.1} and {:.1})",
        waited.median,
        waited.p99,
        server.memory(),
        server.peak(),
        beside.median,
        beside.p99,
        alone.median,
        alone.p99,
    );
}

/// Fills the service; a moment with much to show, in Unix microseconds.
fn fill(connection: &mut Connection) -> i64 {
    let mut revisions = vec![0; ARTIFACTS];
    let mut past = 0;
    // Two of five artifacts are as the policy wants them, one lacks a scan, one fails its tests, and one was never
    // seen by a pipeline.
    let which = |kinds: &'static [usize]| {
        let chosen = move |n: &usize| kinds.contains(&(n % 5));
        (0..ARTIFACTS).filter(chosen).map(|n| digest(n, 0)).collect::<Vec<_>>()
    };
    for (name, failures, artifacts) in
        [("unit", 0, which(&[0, 1, 2])), ("unit", 1, which(&[3])), ("scan", 0, which(&[0, 1, 3]))]
    {
        for (number, artifacts) in artifacts.chunks(500).enumerate() {
            let targets = format!("\"{}\"", artifacts.join("\",\""));
            let data = format!(
                r#"{{"attestation_name":"{name}","target_artifacts":[{targets}],"junit_results":[{{"name":"all","total":500,"failures":{failures},"errors":0}}]}}"#
            );
            connection.attest(OF, "tests", &format!("all-{number}"), &data).expect(201);
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
            connection.attest(OF, "suites", &format!("build-{trail}"), &data).expect(201);
        }
    }
    let mut file = "<testsuite name=\"all\">".to_owned();
    for test in 0..FILE / 200 {
        let failure = if test % 100 == 0 { "<failure message=\"3 is not 4\"/>" } else { "" };
        let case = format!(
            "<testcase classname=\"org.example.shop.Cart\" name=\"test {test}\">{failure}</testcase>"
        );
        write!(file, "{case:<200}").unwrap();
    }
    file.push_str("</testsuite>");
    let (total, failures) = (FILE / 200, FILE / 20_000);
    let data = format!(
        r#"{{"attestation_name":"unit","junit_results":[{{"name":"all","total":{total},"failures":{failures},"errors":0}}]}}"#
    );
    connection.attest_with(OF, "files", "build-1", &data, &file).expect(201);
    for environment in 1..ENVIRONMENTS {
        let common = pod(environment, 0, 0).replace(&digest(environment, 0), &common());
        connection.report(OF, &format!("small-{environment:03}"), &body(&common)).expect(201);
    }
    for snapshot in 0..SNAPSHOTS {
        if snapshot == SNAPSHOTS / 10 {
            past = jiff::Timestamp::now().as_microsecond();
        }
        for n in (0..CHANGED).map(|n| (snapshot * CHANGED + n) % ARTIFACTS).filter(|_| snapshot > 0) {
            // Those that the pages name stay as they are.
            revisions[n] = usize::from(n != 4_321 && n != 1) * snapshot;
        }
        let mut pods = Vec::with_capacity(ARTIFACTS * 6 / 5);
        for (n, revision) in revisions.iter().enumerate() {
            pods.extend((0..=usize::from(n % 5 == 0)).map(|replica| pod(n, *revision, replica)));
        }
        let all = pods.join(",");
        connection.report(OF, LARGE, &body(&all.replace(&digest(1, 0), &common()))).expect(201);
    }
    past
}

/// One artifact that runs everywhere.
fn common() -> String {
    "c0ffee".repeat(11)[..64].to_owned()
}

fn digest(artifact: usize, revision: usize) -> String {
    // Spread over all digits, as hashes are.
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
    let namespace = format!("team-{:03}", artifact / OF_A_NAMESPACE);
    let owner = format!("service-{artifact:04}-{:08x}", revision * 1_000_003);
    format!(
        r#"{{"podName":"pod-{artifact:04}-{replica}-{revision}","namespace":"{namespace}","digests":{{"registry.example.com/{namespace}/service-{artifact:04}:1.{revision}.0":"{}"}},"creationTimestamp":{},"owners":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{owner}","uid":"6d5f8b7c-9d00-4000-8000-{artifact:012x}","controller":true,"blockOwnerDeletion":true}}]}}"#,
        digest(artifact, revision),
        1_700_000_000 + revision,
    )
}
