//! `supercargo demo`: its output, its pages, and the commands that it prints.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::program::{Outcome, Program, once, supercargo};

/// `supercargo demo` with an empty folder for its files.
fn demo(arguments: &[&str]) -> (Command, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.env_clear().env("TMPDIR", folder.path()).current_dir(folder.path());
    command.arg("demo").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (command, folder)
}

/// Output for the notification that an untested image is running.
const UNTESTED: &str = "notification received, signature verified: storefront is non-compliant

  trigger      ON_NON_COMPLIANT_ENV
  environment  storefront, snapshot 2
  artifact     registry.example.com/shop/web:1.6.0  29e31483ea70
  reason       environment:storefront v1: unit-tests of the flow web is missing
";

fn is_empty(folder: &TempDir) -> bool {
    folder.path().read_dir().unwrap().next().is_none()
}

#[test]
fn demo_prints_all_steps_as_plain_text_and_removes_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = supercargo().args(["demo"]).env("TMPDIR", folder.path().to_str().unwrap()).run();
    outcome.expect(0, &[]);
    assert_eq!(outcome.stderr, "");
    assert!(!outcome.stdout.contains('\x1b'), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("export "), "{}", outcome.stdout);
    // Everything but headings is indented, also the results of commands.
    let is_heading = |line: &str| line.starts_with("supercargo demo: ") || line.starts_with(char::is_numeric);
    assert!(
        outcome.stdout.lines().all(|line| line.is_empty() || line.starts_with("  ") || is_heading(line)),
        "{}",
        outcome.stdout
    );
    let mut rest = outcome.stdout.as_str();
    for heading in [
        "supercargo demo: ",
        "1. Start the service",
        "2. Attest the unit tests of three images",
        "→ attested unit-tests in api/e5a96f0: 96 tests: 95 passed, 1 failed",
        "3. Report the cluster",
        "demo: 11 pods reported, new snapshot",
        "4. List the running artifacts",
        "demo  registry.example.com/shop/web:1.4.2   374ffdff09fe  4f1c2e7  passed",
        "demo  registry.example.com/pay/api:2.0.4    24a3767b3968  e5a96f0  failed",
        "5. Roll out shop/web:1.5.0",
        "demo: 12 pods reported, new snapshot",
        "6. Show the change",
        "snapshot 2 replaced snapshot 1",
        "-  registry.example.com/shop/web:1.4.2  374ffdff09fe",
        "+  registry.example.com/shop/web:1.5.0  ",
        "7. Report the same pods again",
        "demo: 12 pods reported, unchanged",
        "snapshot 2 is still current",
        "8. Require unit tests in the storefront",
        "storefront requires unit-tests of the flow web; redis:8.2 is allowed",
        "action 1 calls a webhook on ON_NON_COMPLIANT_ENV and ON_COMPLIANT_ENV",
        "9. Report the storefront",
        "storefront: 3 pods reported, new snapshot",
        "notification received, signature verified: storefront is compliant",
        "trigger      ON_COMPLIANT_ENV",
        "demo        registry.example.com/shop/web:1.5.0  3a4dce72eb99  unknown",
        "storefront  registry.example.com/shop/web:1.5.0  3a4dce72eb99  compliant",
        "10. Roll out the untested shop/web:1.6.0",
        UNTESTED,
        "11. Roll back to the tested shop/web:1.5.0",
        "notification received, signature verified: storefront is compliant",
        "trigger      ON_COMPLIANT_ENV\n  environment  storefront, snapshot 3\n\n",
        "12. Find a package where it runs",
        "→ attested sbom in web/c07d3b5: CycloneDX 1.6, 4 packages",
        "shop/deploy/web",
        "org.apache.logging.log4j:log4j-core",
        "have no bill of materials",
        "13. Stop an image that another builder built",
        "→ attested slsa-provenance in web/c07d3b5: slsa-provenance signed by builds",
        "→ attested slsa-provenance in web/laptop: slsa-provenance signed by builds",
        "web:1.5.0 is compliant: slsa-provenance signed by builds",
        "web:1.6.0 is not compliant: slsa-provenance",
        "https://laptop.example.com/kim",
        "folder is removed",
    ] {
        let found = rest.find(heading).unwrap_or_else(|| panic!("{heading:?} is not in: {rest}"));
        rest = &rest[found..];
    }
    assert!(is_empty(&folder));
}

#[test]
fn closed_standard_output_ends_the_demo_without_an_error() {
    let (mut command, folder) = demo(&[]);
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    assert!(line.starts_with("supercargo demo"), "{line}");
    assert!(is_empty(&folder));
}

/// A demo with `--keep`, and its output up to the last instruction.
struct RunningDemo {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    text: String,
    folder: TempDir,
}

impl RunningDemo {
    fn start() -> Self {
        let (command, folder) = demo(&["--keep"]);
        Self::spawn(command, folder)
    }

    fn spawn(mut command: Command, folder: TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.lines().any(|line| line.starts_with("  kill ")) {
            assert_ne!(stdout.read_line(&mut text).unwrap(), 0, "{text}");
        }
        Self { child, stdout, text, folder }
    }

    /// The value of a variable in an `export` line.
    fn exported(&self, variable: &str) -> &str {
        let start = format!("  export {variable}=");
        self.text.lines().find_map(|line| line.strip_prefix(&start)).unwrap()
    }

    fn folder_path(&self) -> PathBuf {
        Path::new(self.exported("SUPERCARGO_TOKEN_FILE")).parent().unwrap().to_owned()
    }

    fn secret(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder_path().join(file)).unwrap().trim().to_owned()
    }

    fn token(&self) -> String {
        self.secret("token")
    }

    /// A command in a shell that ran the `export` lines.
    fn with_exports(&self, command: Program) -> Program {
        ["SUPERCARGO_BASE_URL", "SUPERCARGO_ORG", "SUPERCARGO_TOKEN_FILE"]
            .into_iter()
            .fold(command, |command, variable| command.env(variable, self.exported(variable)))
    }

    /// Reports the pods of one of the demo's files.
    fn report(&self, environment: &str, pods: &str) -> Outcome {
        let pods = self.folder_path().join(pods);
        let command = once().args(["--environment", environment, "--pods-from", pods.to_str().unwrap()]);
        self.with_exports(command).run()
    }

    /// Reads further output until it contains `text`.
    fn read_until(&mut self, text: &str) {
        let from = self.text.len();
        while !self.text[from..].contains(text) {
            assert_ne!(self.stdout.read_line(&mut self.text).unwrap(), 0, "{}", self.text);
        }
    }

    fn get(&self, path: &str) -> String {
        self.request("GET", path, &format!("authorization: Bearer {}", self.token()))
    }

    /// Sends a request with an additional header and returns the whole response.
    fn request(&self, method: &str, path: &str, header: &str) -> String {
        let address = self.exported("SUPERCARGO_BASE_URL").strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{header}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Path and query of the sign-in link, which is printed on its own line.
    fn sign_in_link(&self) -> &str {
        let is_link = |line: &&str| line.trim().starts_with("http://") && line.contains("/ui/sign-in?");
        let link = self.text.lines().find(is_link).unwrap();
        assert!(link.len() <= 80, "{link}");
        link.trim().strip_prefix(self.exported("SUPERCARGO_BASE_URL")).unwrap()
    }

    /// Sends the signal, waits for a clean exit, and returns all output.
    fn stop(mut self, signal: Signal) -> String {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
        self.stdout.read_to_string(&mut self.text).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((self.child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
        assert!(is_empty(&self.folder));
        self.text
    }
}

#[test]
fn keep_flag_keeps_the_demo_running_and_its_secrets_only_in_files() {
    let demo = RunningDemo::start();
    let token = demo.token();
    assert_eq!(token.len(), 64);
    for file in demo.folder_path().read_dir().unwrap().map(|file| file.unwrap()) {
        let mode = file.metadata().unwrap().permissions().mode();
        let is_ours = file
            .path()
            .extension()
            .is_none_or(|e| ["json", "yaml", "xml", "pem", "pub"].iter().any(|ours| e == *ours));
        assert!(!is_ours || mode.trailing_zeros() >= 6, "{file:?} {mode:o}");
    }
    let live = demo.get("/api/v2/repos/acme/live-artifacts/acme/web");
    assert!(live.starts_with("HTTP/1.1 200") && live.contains("shop/web:1.5.0"), "{live}");
    // The rollback that the demo suggests.
    let rollback = demo.report("demo", "pods.json");
    rollback.expect(0, &["demo: 11 pods reported, new snapshot"]);
    let live = demo.get("/api/v2/repos/acme/live-artifacts/acme/web");
    assert!(live.contains("shop/web:1.4.2") && live.contains("\"snapshot_index\":3"), "{live}");
    let [statement, key] = ["statement.json", "signing.pub"].map(|name| demo.folder_path().join(name));
    let (statement, key) = (statement.to_str().unwrap(), key.to_str().unwrap());
    let export = supercargo().args(["export", "production@1d", "--output-file", statement]);
    demo.with_exports(export).run().expect(0, &[]);
    let verified = supercargo().args(["verify", statement, "--key", key]).run();
    assert!(verified.stdout.contains("shop/checkout:2.14.0"), "{verified:?}");
    let secrets = [token, demo.secret("webhook-url"), demo.secret("webhook-secret")];
    let text = demo.stop(Signal::SIGTERM);
    assert!(
        text.contains("folder is removed") && secrets.iter().all(|secret| !text.contains(secret)),
        "{text}"
    );
}

#[test]
fn kept_demo_prints_notifications_for_manual_reports() {
    let mut demo = RunningDemo::start();
    demo.report("storefront", "storefront-untested.json").expect(0, &["storefront: 3 pods reported"]);
    demo.read_until(&UNTESTED.replace("snapshot 2", "snapshot 4"));
    demo.report("storefront", "storefront.json").expect(0, &["storefront: 3 pods reported"]);
    demo.read_until("storefront is compliant\n\n  trigger      ON_COMPLIANT_ENV\n");
    let listed = demo.with_exports(supercargo().args(["list", "actions"])).run();
    listed.expect(0, &[]);
    assert!(
        listed.stdout.contains("storefront-watch") && listed.stdout.contains(" working "),
        "{}",
        listed.stdout
    );
    let action = demo.with_exports(supercargo().args(["get", "action", "1"])).run();
    action.expect(0, &[]);
    assert!(action.stdout.contains("last success"), "{}", action.stdout);
    demo.stop(Signal::SIGINT);
}

#[test]
fn printed_commands_name_existing_files_and_sighup_removes_them() {
    let demo = RunningDemo::start();
    let words =
        demo.text.split([' ', '\n', '@', '"']).filter(|word| word.starts_with('/')).map(PathBuf::from);
    let files: Vec<_> =
        words.filter(|path| path.extension().is_some_and(|e| e == "json" || e == "xml")).collect();
    assert!(files.len() >= 7, "{files:?}");
    assert!(files.iter().all(|file| file.exists()), "{files:?}");
    // The signal of a closed terminal.
    demo.stop(Signal::SIGHUP);
}

fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    response.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn sign_in_link_works_once_and_is_not_logged() {
    let mut log = tempfile::NamedTempFile::new().unwrap();
    let (mut command, folder) = demo(&["--keep"]);
    command.env("RUST_LOG", "off,supercargo::access=info").stderr(log.reopen().unwrap());
    let demo = RunningDemo::spawn(command, folder);
    let (link, none) = (demo.sign_in_link(), "accept: text/html");
    let (start, code) = link.split_once("once=").unwrap();
    assert!(code.len() >= 32, "{link}");
    // A wrong code and a HEAD request do not use up the link.
    let guessed = demo.request("GET", &format!("{start}once={}", code.replace(['0', '1', '2'], "3")), none);
    assert!(guessed.starts_with("HTTP/1.1 403") && header(&guessed, "set-cookie").is_none(), "{guessed}");
    assert!(demo.request("HEAD", link, none).starts_with("HTTP/1.1 200"));
    let signed_in = demo.request("GET", link, none);
    assert!(signed_in.starts_with("HTTP/1.1 303"), "{signed_in}");
    assert_eq!(header(&signed_in, "location"), Some("/ui/acme"));
    assert_eq!(header(&signed_in, "cache-control"), Some("no-store"));
    let cookie = header(&signed_in, "set-cookie").unwrap().split(';').next().unwrap();
    assert_ne!(cookie.split_once('=').unwrap().1, demo.token());
    let page = demo.request("GET", "/ui/acme", &format!("cookie: {cookie}"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("storefront"), "{page}");
    // A second use asks another browser for the token, and redirects the signed-in browser to the front page.
    let again = demo.request("GET", link, none);
    assert!(again.starts_with("HTTP/1.1 403") && header(&again, "set-cookie").is_none(), "{again}");
    assert!(again.contains("A link signs in once") && again.contains("name=\"token\""), "{again}");
    let home = demo.request("GET", link, &format!("cookie: {cookie}"));
    assert_eq!((header(&home, "location"), header(&home, "set-cookie")), (Some("/ui/acme"), None));
    let code = code.to_owned();
    kill(Pid::from_raw(i32::try_from(demo.child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let output = demo.child.wait_with_output().unwrap();
    assert!(output.status.success());
    let mut logged = String::new();
    log.read_to_string(&mut logged).unwrap();
    assert!(logged.contains(" GET /ui/sign-in 303 ") && !logged.contains(&code), "{logged}");
}

/// Paths of the pages that a page links to.
fn links(page: &str) -> BTreeSet<String> {
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let pages = links.filter(|link| link.starts_with("/ui/")).filter_map(|link| link.split('#').next());
    pages.map(|link| link.replace("&amp;", "&")).collect()
}

/// The only link that starts with `prefix`.
fn only_link<'a>(links: &'a BTreeSet<String>, prefix: &str) -> &'a str {
    let mut found = links.iter().filter(|link| link.starts_with(prefix));
    let (first, second) = (found.next(), found.next());
    assert!(first.is_some() && second.is_none(), "{prefix}: {links:?}");
    first.unwrap()
}

#[test]
fn every_linked_page_of_the_demo_opens_and_past_states_are_shown() {
    let demo = RunningDemo::start();
    let signed_in = demo.request("GET", demo.sign_in_link(), "accept: text/html");
    let cookie = format!("cookie: {}", header(&signed_in, "set-cookie").unwrap().split(';').next().unwrap());
    let page = |path: &str| {
        let response = demo.request("GET", path, &cookie);
        assert!(response.starts_with("HTTP/1.1 200"), "{path}: {response}");
        response
    };
    let hours_ago = |hours: i64| {
        let then = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_hours(hours)).unwrap();
        then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    };

    let front = page("/ui/acme");
    for environment in ["production", "staging", "warehouse", "sandbox", "storefront", "demo"] {
        assert!(front.contains(&format!("<bdi>{environment}</bdi></a>")), "{environment}: {front}");
    }
    assert!(front.contains("no reports for longer than 3 h"), "{front}");
    let linked: BTreeSet<_> = links(&front).iter().flat_map(|path| links(&page(path))).collect();
    assert!(linked.len() > 100, "{linked:?}");
    for path in &linked {
        page(path);
    }

    // From a non-compliant artifact to its failed tests.
    let failing = page("/ui/acme/environments/production?compliance=non-compliant");
    assert!(failing.contains("unit-tests of the flow builds failed"), "{failing}");
    let artifact = page(only_link(&links(&failing), "/ui/acme/artifacts/"));
    assert!(artifact.contains("registry.example.com/pay/fraud:1.8.1"), "{artifact}");
    let trail = "/ui/acme/flows/builds/trails/fraud-1.8.1";
    assert!(links(&artifact).contains(trail), "{artifact}");
    let attestation = page(only_link(&links(&page(trail)), &format!("{trail}/")));
    for text in [
        "fraud.rules.VelocityRuleTest",
        "blocks the sixth payment in a minute",
        "expected BLOCKED but was ALLOWED",
        "216 tests: 2 failed",
    ] {
        assert!(attestation.contains(text), "{text}: {attestation}");
    }

    // One hour ago, another artifact was non-compliant.
    let staging = "/ui/acme/environments/staging?compliance=non-compliant";
    assert!(page(staging).contains("No artifact matches"));
    let then = page(&format!("{staging}&at={}", hours_ago(1)));
    for text in ["tracking:4.6.0", "unit-tests of the flow builds is missing", "meets the policy"] {
        assert!(then.contains(text), "{text}: {then}");
    }
    let gap = page(&format!("/ui/acme/environments/warehouse?at={}", hours_ago(27)));
    assert!(gap.contains("Gap: no reports from"), "{gap}");
    let before = page(&format!("/ui/acme/environments/production?at={}", hours_ago(49)));
    assert!(before.contains("No data: the first report was received at"), "{before}");

    // One of the demo's actions fails.
    let action = demo.get("/api/v2/actions/acme/2");
    for text in ["\"is_failing\":true", "\"last_success_at\":", "\"last_failure_at\":"] {
        assert!(action.contains(text), "{text}: {action}");
    }
    // The manually reported environment never becomes silent.
    let storefront = page("/ui/acme/environments/storefront");
    assert!(!storefront.contains("no reports for longer"), "{storefront}");
    demo.stop(Signal::SIGTERM);
}

#[test]
fn log_of_two_days_of_history_is_verified() {
    let demo = RunningDemo::start();
    let verified = demo.with_exports(supercargo().args(["log", "verify"])).run();
    verified.expect(0, &["verified ", " entries of "]);
    let entries: usize = verified.stdout.lines().nth(1).unwrap().parse().unwrap();
    assert!(entries > 100, "{verified:?}");
    demo.stop(Signal::SIGTERM);
}
