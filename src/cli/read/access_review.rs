//! `get access-review`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::columns::Format::{Ago, Text};
use super::columns::{Column, Objects, at, items, table, text};
use super::common::Common;
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use client::{Operation, Parsed, Resource};
use model::EnvironmentName;
use model::access::Scope;

const REVIEW: &[Column] = &[
    Column::new("REQUIREMENT", "/way/requirement", Text),
    Column::new("ACTION", "/way/action", Text),
    Column::new("PERMITTED TO", "/permitted", Text),
    Column::new("ROLE", "/token/role", Text),
    Column::new("SCOPE", "/scope", Text),
    Column::new("EXPIRES", "/token/expires_at", Ago),
];

#[derive(Debug, Deserialize)]
struct Review {
    requirements: Objects,
    alternatives: Objects,
}

pub(super) async fn show(
    service: &ServiceOptions,
    common: &Common,
    environment: &EnvironmentName,
) -> Result<(), Failure> {
    let name = environment.as_str();
    let operation = Operation::new(Resource::Environment(name), &["environments", name, "access-review"]);
    let Parsed { value, raw }: Parsed<Review> = common.read(service, &operation).await?;
    let ways = value.requirements.0.iter().chain(&value.alternatives.0);
    let rows: Vec<_> = ways.flat_map(rows).collect();
    common.output.print(&raw, || table(REVIEW, &rows))
}

/// A row for each token that permits a way to fulfill a requirement.
fn rows(way: &Value) -> Vec<Value> {
    let of_token = |token: &Value| {
        let name = text(at(token, "/name"));
        let permitted = match at(token, "/claims").as_str() {
            None => format!("token {name}"),
            Some(claims) => format!("tokens of issuer {name} with {claims}"),
        };
        let scope = Scope::deserialize(at(token, "/scope")).ok().map(|scope| scope.to_string());
        json!({"way": way, "permitted": permitted, "token": token, "scope": scope})
    };
    let mut rows: Vec<_> = items(way, "/tokens").map(of_token).collect();
    let in_bootstrap_file = at(way, "/in_bootstrap_file") == true;
    if rows.is_empty() || in_bootstrap_file {
        let permitted = if in_bootstrap_file { "bootstrap file" } else { "nobody" };
        rows.push(json!({"way": way, "permitted": permitted}));
    }
    rows
}
