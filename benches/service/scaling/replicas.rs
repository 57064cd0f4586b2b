//! Throughput and CPU of one, two and four replicas on one PostgreSQL database.
//!
//! On a machine with few cores, clients, replicas and database compete for them, so that the throughput does not show what
//! a replica adds. The CPU per request does: it is constant if replicas do not slow each other down.

use std::thread;
use std::time::Instant;

use super::policy::{FLOW, NAME, environments_with_policy};
use super::results::{Results, samples};
use crate::cluster::{Cluster, PROXY, attestation};
use crate::database::{Database, Engine};
use crate::figures::Figures;
use crate::server::{Organization, Server, bearer, get};

const ORGANIZATION: &str = "replicas";
const REPLICAS: [usize; 3] = [1, 2, 4];

/// Pods of each environment.
const PODS: usize = 1_000;

/// Concurrent clients, with an environment each, which send one request after the other.
const CLIENTS: usize = 16;

/// Rounds over the numbers of replicas, and requests of each client in a round.
const ROUNDS: usize = 5;
const REQUESTS: u64 = 20;

const REQUEST_KINDS: [&str; 4] = ["unchanged report", "changed report", "attestation", "page of trails"];

/// Sums over all rounds.
#[derive(Default)]
struct Total {
    times: Vec<f64>,
    seconds: f64,
    service_cpu: f64,
    database_cpu: f64,
}

pub(super) fn measure(engine: &Engine, results: &mut Results<'_>) {
    let database = engine.create();
    if database.is_sqlite() {
        println!("           skipped: replicas share a PostgreSQL database");
        return;
    }
    let settings = environments_with_policy((0..CLIENTS).map(environment));
    let organizations = [Organization::new(ORGANIZATION, settings)];
    let servers: Vec<Server> = (0..REPLICAS[2]).map(|_| Server::start(&database, &organizations)).collect();
    let mut clusters: Vec<Cluster> = (0..CLIENTS).map(|_| Cluster::new(PODS)).collect();
    for (client, cluster) in clusters.iter().enumerate() {
        servers[0].connect().report(ORGANIZATION, &environment(client), &cluster.body()).expect(201);
    }
    for kind in REQUEST_KINDS {
        let mut totals = REPLICAS.map(|_| Total::default());
        for round in 0..ROUNDS {
            for (total, count) in totals.iter_mut().zip(REPLICAS) {
                total.add(kind, &database, &servers[..count], &mut clusters, round);
            }
        }
        for (total, count) in totals.into_iter().zip(REPLICAS) {
            let requests = total.times.len() as f64;
            results.curve.point(count, kind, requests / total.seconds, "a second");
            for (label, cpu) in [("serve", total.service_cpu), ("PostgreSQL", total.database_cpu)] {
                let each = cpu * 1e3 / requests;
                results.curve.point(count, kind, each, &format!("ms of CPU of {label}"));
                println!("{:<64} {each:>9.2}", format!("{count:>9}  {kind}, CPU of {label}"));
            }
            println!("{:<64} {:>9.0}", format!("{count:>9}  {kind}, a second"), requests / total.seconds);
            results.add(count, kind, &Figures::new(total.times, 0.0, 0));
        }
    }
}

fn environment(client: usize) -> String {
    format!("env-{client}")
}

impl Total {
    /// Sends requests of all clients to these replicas.
    fn add(
        &mut self,
        kind: &str,
        database: &Database,
        servers: &[Server],
        clusters: &mut [Cluster],
        round: usize,
    ) {
        let trails = get(&format!("/api/v2/trails/{ORGANIZATION}"), &bearer(ORGANIZATION));
        let replicas = servers.len();
        let cpu = || servers.iter().map(Server::cpu).sum::<f64>();
        let (begin, service_cpu, database_cpu) = (Instant::now(), cpu(), database.cpu());
        thread::scope(|scope| {
            let clients: Vec<_> = clusters
                .iter_mut()
                .enumerate()
                .map(|(client, cluster)| {
                    let trails = trails.as_str();
                    scope.spawn(move || {
                        let mut connections: Vec<_> = servers.iter().map(Server::connect).collect();
                        let mut send = |n: usize| {
                            let connection = &mut connections[(client + n) % replicas];
                            match kind {
                                "page of trails" => connection.send(trails, &[]).expect(200),
                                "attestation" => {
                                    let trail = format!("{client}-{replicas}-{round}-{n}");
                                    let data = attestation(NAME, true, [PROXY]);
                                    connection.attest(ORGANIZATION, FLOW, &trail, &data).expect(201)
                                }
                                "changed report" => {
                                    cluster.roll_out();
                                    connection
                                        .report(ORGANIZATION, &environment(client), &cluster.body())
                                        .expect(201)
                                }
                                _ => connection
                                    .report(ORGANIZATION, &environment(client), &cluster.body())
                                    .expect(200),
                            }
                        };
                        (0..samples(REQUESTS)).map(|n| send(n).milliseconds).collect::<Vec<_>>()
                    })
                })
                .collect();
            self.times.extend(clients.into_iter().flat_map(|client| client.join().unwrap()));
        });
        self.seconds += begin.elapsed().as_secs_f64();
        self.service_cpu += cpu() - service_cpu;
        self.database_cpu += database.cpu() - database_cpu;
    }
}
