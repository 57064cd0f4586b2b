//! Cost of a quiet organization's operations alone, and beside an organization that is at all of its limits.
//!
//! The noise also takes the cores of the machine. As a control, the same noise is measured in another service on this
//! machine, with the same organizations and a database of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use super::policy::{FLOW, NAME, attest_all, environments_with_policy};
use super::results::{Results, divided, samples};
use super::tenant::{Operation, Tenant};
use crate::cluster::{attestation, report};
use crate::database::{Database, Engine};
use crate::figures::Figures;
use crate::server::{Connection, Organization, Server, bearer, get, report_head, token};

const QUIET: &str = "quiet";
const NOISY: &str = "noisy";

/// Further tokens of the noisy organization, for the limits per organization beside those per token.
const FURTHER_TOKENS: [&str; 2] = ["noisy2", "noisy3"];

/// Environments of the noisy organization, and artifacts of each.
const ENVIRONMENTS: u64 = 8;
const ARTIFACTS: usize = 1_000;

/// Periods with their maximum time, and requests of each operation per period. A third of the periods is without noise, and
/// a third has the noise in the other service.
const PERIODS: u64 = 30;
const MAX_PERIOD: Duration = Duration::from_secs(10);
const SAMPLES: u64 = 100;

/// Clients of each kind of noise, in addition to one client per environment that reports changes.
const ATTESTERS: usize = 4;
const PAGE_READERS: usize = 8;
const READERS: usize = 8;
const SLOW_READERS: usize = 16;
const LEAVERS: usize = 4;

/// Pause of a client after a rejected request, of a slow reader after each read, and of a client that disconnects.
const RETRY_AFTER: Duration = Duration::from_millis(10);
const SLOW_READ: Duration = Duration::from_millis(50);
const RETURN_AFTER: Duration = Duration::from_millis(50);

/// The service is idle if it uses less CPU time than this in this time, both in seconds. It is idle at the latest after
/// a minute.
const IDLE_CPU: f64 = 0.03;
const IDLE_TIME: Duration = Duration::from_millis(500);
const MAX_BUSY: u32 = 120;

pub(super) fn measure(engine: &Engine, results: &mut Results<'_>) {
    let databases = [engine.create(), engine.create()];
    let servers = databases.each_ref().map(|database| {
        let settings = environments_with_policy((0..ENVIRONMENTS).map(|n| format!("env-{n}")));
        let mut noisy = Organization::new(NOISY, settings);
        for token in FURTHER_TOKENS {
            noisy = noisy.with_token(token);
        }
        Server::start(database, &[Tenant::organization(QUIET), noisy])
    });
    let server = &servers[0];
    // A service limits the share of an organization once it serves another one.
    let [mut quiet, _] = servers.each_ref().map(|server| Tenant::set_up(&mut server.connect(), QUIET));
    let noises = servers.each_ref().map(Noise::new);
    databases.iter().for_each(Database::maintain);

    let mut times = Operation::ALL.map(|_| [vec![], vec![], vec![]]);
    let mut rejected = Operation::ALL.map(|_| 0_u32);
    for period in 0..usize::try_from(divided(PERIODS).max(3)).unwrap() {
        let mut sample = || {
            let (mut connection, begin) = (server.connect(), Instant::now());
            for _ in (0..samples(SAMPLES)).take_while(|_| begin.elapsed() < MAX_PERIOD) {
                for (n, operation) in Operation::ALL.into_iter().enumerate() {
                    match quiet.try_send(&mut connection, operation) {
                        Ok(response) if matches!(response.status, 200 | 201) => {
                            times[n][period % 3].push(response.milliseconds);
                        }
                        rejection => {
                            rejected[n] += u32::from(period % 3 == 1);
                            if rejection.is_err() {
                                connection = server.connect();
                            }
                        }
                    }
                }
            }
        };
        servers.iter().for_each(wait_until_idle);
        match period % 3 {
            0 => sample(),
            1 => noises[0].beside(sample),
            _ => noises[1].beside(sample),
        }
    }
    for ((operation, times), rejected) in Operation::ALL.into_iter().zip(times).zip(rejected) {
        let label = operation.label();
        results.curve.point("beside", label, f64::from(rejected), "requests rejected");
        // A rejected request misses the goal.
        let mut ratio = f64::INFINITY;
        if rejected == 0 {
            let [alone, beside, control] = times.map(|times| Figures::new(times, 0.0, 0));
            results.add("alone", label, &alone);
            results.add("beside", label, &beside);
            results.add("control", label, &control);
            ratio = beside.p99 / alone.p99;
            println!(
                "{:<64} {:>9.2} times the control",
                format!("           {label}, p99"),
                beside.p99 / control.p99
            );
        }
        results.goal("serve.noise", ratio, &format!("{label}, p99, {rejected} rejected"));
    }
    for (noise, place) in noises.into_iter().zip(["", ", control"]) {
        for (request, count) in noise.counts.into_inner().unwrap() {
            println!("           {NOISY}{place}: {request}: {count}");
        }
    }
}

/// Waits for the requests of clients that have disconnected, which run to their end.
fn wait_until_idle(server: &Server) {
    for _ in 0..MAX_BUSY {
        let cpu = server.cpu();
        sleep(IDLE_TIME);
        if server.cpu() - cpu < IDLE_CPU {
            break;
        }
    }
}

/// Clients of the noisy organization.
struct Noise<'a> {
    server: &'a Server,
    /// Two different reports of each environment.
    reports: Vec<[Vec<u8>; 2]>,
    cookies: Vec<String>,
    is_over: AtomicBool,
    /// Number of requests per kind and result.
    counts: Mutex<BTreeMap<String, u64>>,
}

impl<'a> Noise<'a> {
    fn new(server: &'a Server) -> Self {
        let mut connection = server.connect();
        // All environments run artifact 0, and one artifact of each changes.
        let artifacts = |n: u64| (n + 1) * 10_000..(n + 1) * 10_000 + ARTIFACTS as u64;
        let all = std::iter::once(0).chain((0..ENVIRONMENTS).flat_map(artifacts));
        attest_all(&mut connection, NOISY, all);
        let reports = (0..ENVIRONMENTS).map(|n| {
            [0, 1].map(|first| {
                report(std::iter::once(0).chain(artifacts(n).skip(first).take(ARTIFACTS - 1)), 1)
            })
        });
        let reports: Vec<_> = reports.collect();
        for (n, bodies) in reports.iter().enumerate() {
            connection.report(NOISY, &format!("env-{n}"), &bodies[0]).expect(201);
        }
        let tokens = std::iter::once(NOISY).chain(FURTHER_TOKENS);
        let cookies = tokens.map(|name| format!("Cookie: {}", connection.sign_in(&token(name)))).collect();
        Self { server, reports, cookies, is_over: AtomicBool::new(false), counts: Mutex::default() }
    }

    /// Calls `quiet` while the clients are active.
    fn beside(&self, quiet: impl FnOnce()) {
        self.is_over.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            // Ends the clients even if `quiet` panics.
            let _end = End(&self.is_over);
            for n in 0..self.reports.len() {
                scope.spawn(move || self.report_changes(n));
            }
            for n in 0..ATTESTERS {
                scope.spawn(move || self.attest(n));
            }
            for n in 0..PAGE_READERS {
                let path = format!("/ui/{NOISY}/environments/env-{}", n as u64 % ENVIRONMENTS);
                let head = get(&path, &self.cookies[n % self.cookies.len()]);
                scope.spawn(move || self.read("page", &head));
            }
            for n in 0..READERS {
                scope.spawn(move || self.read("read", &large_read(n)));
            }
            for n in 0..SLOW_READERS {
                scope.spawn(move || self.read_slowly(n));
            }
            for n in 0..LEAVERS {
                scope.spawn(move || self.leave(n));
            }
            // Every limit is reached.
            sleep(Duration::from_secs(1));
            quiet();
        });
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn count(&self, request: &str, result: &str) {
        *self.counts.lock().unwrap().entry(format!("{request}, {result}")).or_default() += 1;
    }

    /// Repeats a request, which returns its status, and connects again if the service closes the connection.
    fn repeat(&self, request: &str, mut send: impl FnMut(&mut Connection, usize) -> io::Result<u16>) {
        lower_priority();
        let mut connection = self.server.connect();
        for n in 0.. {
            if self.is_over() {
                return;
            }
            let status = send(&mut connection, n);
            self.count(request, &status.as_ref().map_or("disconnected".to_owned(), u16::to_string));
            if status.is_err() {
                connection = self.server.connect();
            }
            if !matches!(status, Ok(200 | 201)) {
                sleep(RETRY_AFTER);
            }
        }
    }

    fn report_changes(&self, environment: usize) {
        self.repeat("changed report", |connection, n| {
            let body = &self.reports[environment][(n + 1) % 2];
            let head = report_head(NOISY, &format!("env-{environment}"), body);
            connection.try_send(&head, body).map(|response| response.status)
        });
    }

    fn read(&self, request: &str, head: &str) {
        self.repeat(request, |connection, _| connection.try_send(head, &[]).map(|response| response.status));
    }

    /// Attests the artifact that runs in all environments, with changing results.
    fn attest(&self, attester: usize) {
        self.repeat("attestation", |connection, n| {
            let data = attestation(NAME, n % 2 == 0, [0]);
            let trail = format!("next-{attester}-{n}");
            connection.try_attest(NOISY, FLOW, &trail, &data, "").map(|response| response.status)
        });
    }

    /// Reads large responses slowly.
    fn read_slowly(&self, n: usize) {
        lower_priority();
        let mut received = [0; 4 * 1024];
        while !self.is_over() {
            let mut stream = TcpStream::connect(&self.server.address).unwrap();
            let mut result = stream.write_all(large_read(n).as_bytes()).map(|()| 1);
            self.count("slow read", "sent");
            while !self.is_over() && result.is_ok_and(|count| count > 0) {
                sleep(SLOW_READ);
                result = stream.read(&mut received);
            }
        }
    }

    /// Sends reports and large reads, and disconnects without waiting for the response.
    fn leave(&self, n: usize) {
        lower_priority();
        for number in 0.. {
            if self.is_over() {
                return;
            }
            let body = &self.reports[n][number % 2];
            let report = report_head(NOISY, &format!("env-{n}"), body);
            for (head, body) in [(report, body.as_slice()), (large_read(n), &[])] {
                let mut stream = TcpStream::connect(&self.server.address).unwrap();
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
                self.count("request of a client that disconnects", "sent");
                sleep(RETURN_AFTER);
            }
        }
    }
}

/// Lets the service and the client of the quiet organization run before this thread: the clients of a real service run on
/// other machines. Linux lets other threads wait for the end of a time slice even if their priority is higher, except for
/// this policy.
fn lower_priority() {
    let Ok(thread) = fs::read_link("/proc/thread-self") else { return };
    let id = thread.file_name().unwrap_or_default();
    let lowered = Command::new("chrt").args(["--idle", "--pid", "0"]).arg(id).output();
    assert!(lowered.is_ok_and(|output| output.status.success()), "chrt failed");
}

/// Sets a flag on drop.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A request for all artifacts of all environments.
fn large_read(n: usize) -> String {
    let tokens: Vec<&str> = std::iter::once(NOISY).chain(FURTHER_TOKENS).collect();
    get(&format!("/api/v2/repos/{NOISY}/live-artifacts/acme/shop"), &bearer(tokens[n % tokens.len()]))
}
