//! Requests beside attesters: a heartbeat of another organization beside an attester of 30,000 artifacts, and a changed
//! report beside attesters of the same organization.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::budgets::Budgets;
use super::cluster::{environments_with_policy, report};
use super::database::Engine;
use super::figures::Figures;
use super::server::{Client, Organization, Response, Server};
use super::tenant::{LASTING, Tenant};

const QUIET: &str = "quiet";
const NOISY: &str = "noisy";

/// Environments of the noisy organization, and artifacts of each.
const ENVIRONMENTS: u64 = 3;
const ARTIFACTS: u64 = 10_000;

/// Artifacts of one attestation, as many as it can name.
const ATTESTED: u64 = 1_000;

/// Duration of a measurement, in which the attesters send many requests.
const DURATION: Duration = Duration::from_secs(15);

/// Pause after a rejected request.
const RETRY_AFTER: Duration = Duration::from_millis(10);

pub(super) fn measure(engine: &Engine, budgets: &mut Budgets) {
    let database = engine.create();
    let noisy =
        Organization::new(NOISY, environments_with_policy((0..ENVIRONMENTS).map(|n| format!("env-{n}"))));
    let organizations = [Tenant::organization(QUIET), noisy];
    let server = Server::start(&database, &organizations);
    // The attesters of the same organization use another replica where there can be one.
    let replica = (!database.is_sqlite()).then(|| Server::start(&database, &organizations));
    let mut tenant = Tenant::set_up(server.connect(QUIET));
    let mut client = server.connect(NOISY);
    client.attest_all(0..ENVIRONMENTS * ARTIFACTS);
    for n in 0..ENVIRONMENTS {
        client.report(&format!("env-{n}"), report(n * ARTIFACTS..(n + 1) * ARTIFACTS)).expect(201);
    }
    database.maintain();

    let heartbeats = |tenant: &mut Tenant| sample(|| tenant.heartbeat());
    heartbeats(&mut tenant).print("heartbeat, alone", "");
    let attester = |client: &mut Client, n: u64| {
        let attestations = ENVIRONMENTS * ARTIFACTS / ATTESTED;
        let first = n % attestations * ATTESTED;
        client.attest((n / attestations).is_multiple_of(2), first..first + ATTESTED).status.is_success()
    };
    let (beside, accepted) = beside(vec![client], attester, || heartbeats(&mut tenant));
    let note = format!("{accepted} attestations");
    beside.print("heartbeat, beside an attester of 30,000 artifacts", &note);
    if database.is_sqlite() {
        let what = "serve, heartbeat beside another organization's attester, longest";
        budgets.at_most(what, beside.max, 500.0, "ms");
    }

    let changes = |tenant: &mut Tenant| sample(|| tenant.change());
    let alone = changes(&mut tenant);
    alone.print("changed report, alone", "");
    for attesters in [4, 20] {
        let clients = (0..attesters).map(|_| replica.as_ref().unwrap_or(&server).connect(QUIET)).collect();
        let attester = |client: &mut Client, n: u64| {
            let artifact = LASTING.start + n % (LASTING.end - LASTING.start);
            client.attest(n.is_multiple_of(3), [artifact]).status.is_success()
        };
        let (beside, accepted) = self::beside(clients, attester, || changes(&mut tenant));
        let label = format!("changed report, beside {attesters} attesters");
        beside.print(&label, &format!("{accepted} attestations"));
        if attesters == 4 {
            let what = format!("serve, changed report beside four attesters, p99, {}", engine.name());
            budgets.at_most(&what, beside.p99 / alone.p99, 3.0, "times alone");
        }
    }
}

/// Repeats a request. A rejected one counts as infinitely long.
fn sample(mut send: impl FnMut() -> Response) -> Figures {
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < DURATION {
        let response = send();
        times.push(if response.status.is_success() { response.milliseconds } else { f64::INFINITY });
    }
    Figures::new(times)
}

/// Calls `quiet` while each client repeats a request, and returns the number of accepted ones too. `attest` gets the number
/// of the request, and returns whether it was accepted.
fn beside<T>(
    clients: Vec<Client>,
    attest: impl Fn(&mut Client, u64) -> bool + Sync,
    quiet: impl FnOnce() -> T,
) -> (T, u64) {
    let (is_over, accepted) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = thread::scope(|scope| {
        // Ends the clients even if `quiet` panics.
        let _end = End(&is_over);
        for mut client in clients {
            let (is_over, accepted, attest) = (&is_over, &accepted, &attest);
            scope.spawn(move || {
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    if attest(&mut client, n) {
                        accepted.fetch_add(1, Ordering::Relaxed);
                    } else {
                        thread::sleep(RETRY_AFTER);
                    }
                }
            });
        }
        // The clients are at work.
        thread::sleep(Duration::from_secs(1));
        quiet()
    });
    let accepted = accepted.into_inner();
    assert!(accepted > 0, "no attestation was accepted");
    (result, accepted)
}

/// Sets a flag on drop.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
