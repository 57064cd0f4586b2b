//! Cost of the service: requests to `supercargo serve` on loopback.
//!
//! `cargo bench --bench service [sqlite|postgres] [PART…] [OPTION…]` uses SQLite in a temporary file, and PostgreSQL if
//! `SUPERCARGO_TEST_DATABASE` is the URL of a database whose user may create databases; the bench creates its own there
//! and drops them. Large data is inserted with SQL. CPU is that of the service, and of PostgreSQL where said.
//!
//! | part | measures |
//! |---|---|
//! | `operations` | reports, live artifacts and the gate |
//! | `environments` | attestations over the environments that run the artifact |
//! | `trails` | attestations and reports over the trails of a digest; `trails=N` is the largest number |
//! | `rows` | operations over old rows; `rows=N` |
//! | `noise` | heartbeats and changed reports beside attesters |
//! | `fleet` | many agents, only on request: see `fleet/mod.rs` |

#![expect(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a bench fails by panicking"
)]

mod arguments;
#[path = "../support/budgets.rs"]
mod budgets;
mod cluster;
mod database;
mod environments;
mod figures;
mod fleet;
mod noise;
mod operations;
#[expect(dead_code, reason = "another bench uses the rest of it")]
#[path = "../support/process.rs"]
mod process;
#[expect(dead_code, reason = "another bench uses the rest of it")]
#[path = "../support/pods.rs"]
mod replica_set;
mod rows;
mod server;
mod tenant;
mod trails;

use std::process::ExitCode;
use std::time::Instant;

use self::arguments::is_selected;
use self::budgets::Budgets;
use self::database::Engine;

const DATABASES: [&str; 2] = ["sqlite", "postgres"];

/// A part: its argument and its function.
type Part = (&'static str, fn(&Engine, &mut Budgets));

const PARTS: [Part; 5] = [
    ("operations", operations::measure),
    ("environments", environments::measure),
    ("trails", trails::measure),
    ("rows", rows::measure),
    ("noise", noise::measure),
];

fn main() -> ExitCode {
    let mut engines = Vec::new();
    if is_selected(&DATABASES, "sqlite") {
        engines.push(Engine::Sqlite);
    }
    if let Ok(url) = std::env::var("SUPERCARGO_TEST_DATABASE")
        && is_selected(&DATABASES, "postgres")
    {
        let mut url: url::Url = url.parse().unwrap();
        // sqlx 0.9.0 does not set TCP_NODELAY: over TLS on loopback, a statement above 16 KiB waits 40 ms.
        if url.query().is_none() {
            url.set_query(Some("sslmode=disable"));
        }
        engines.push(Engine::Postgres(url));
    }
    let mut budgets = Budgets::default();
    if std::env::args().any(|arg| arg == "fleet") {
        fleet::measure(&engines, &mut budgets);
        return budgets.print();
    }
    for engine in &engines {
        for (name, measure) in PARTS {
            if is_selected(&PARTS.map(|(name, _)| name), name) {
                let begin = Instant::now();
                figures::print_head(&format!("{name} on {}", engine.name()));
                measure(engine, &mut budgets);
                println!("took {:.0} s", begin.elapsed().as_secs_f64());
            }
        }
    }
    budgets.print()
}
