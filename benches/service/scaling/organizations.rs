//! Cost of the operations over the number of organizations. The requests visit all organizations in turn.

use super::results::{Results, divided, interleave, samples};
use super::tenant::{Operation, Tenant};
use crate::database::{Database, Engine};
use crate::server::{Connection, Server};

const ORGANIZATIONS: [u64; 3] = [1, 100, 1_000];

/// Requests per operation and number of organizations.
const SAMPLES: u64 = 1_000;

struct Variant {
    connection: Connection,
    tenants: Vec<Tenant>,
    server: Server,
    _database: Database,
}

pub(super) fn measure(engine: &Engine, results: &mut Results<'_>) {
    let mut variants = ORGANIZATIONS.map(|count| {
        let names: Vec<String> = (0..divided(count)).map(|n| format!("tenant{n}")).collect();
        let database = engine.create();
        let server = Server::start(
            &database,
            &names.iter().map(|name| Tenant::organization(name)).collect::<Vec<_>>(),
        );
        let mut connection = server.connect();
        let tenants = names.iter().map(|name| Tenant::set_up(&mut connection, name)).collect();
        database.maintain();
        Variant { connection, tenants, server, _database: database }
    });
    for variant in &mut variants {
        // The service closed idle connections.
        variant.connection = variant.server.connect();
    }
    for operation in Operation::ALL {
        let figures = interleave(&mut variants, samples(SAMPLES), |variant, n| {
            let count = variant.tenants.len();
            variant.tenants[n % count].send(&mut variant.connection, operation).milliseconds
        });
        for (variant, figures) in variants.iter().zip(&figures) {
            results.add(variant.tenants.len(), operation.label(), figures);
        }
    }
}
