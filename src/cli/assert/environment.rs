//! `assert environment`.

use clap::Args;

use crate::api::{AssertedSnapshot, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table};
use crate::cli::read::{Common, client};
use crate::cli::service::Service;
use crate::domain::escape::Escaped;
use crate::domain::model::EnvironmentName;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Environment {
    /// Environment, or one of its snapshots: ENV, ENV#7, ENV~1 (before the latest), ENV@2w or ENV@2026-10-03T14:00Z
    #[arg(value_parser = snapshot)]
    environment: (EnvironmentName, String),
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  Check whether all artifacts that run in production are compliant; exit with 10 if not, or if that is unknown:
    supercargo assert environment prod
  Check the artifacts that ran two weeks ago:
    supercargo assert environment prod@2w";

impl Environment {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let (name, expression) = &self.environment;
        let about = Resource::Environment(name.as_str());
        let send = async || client.assert_snapshot(name, expression).await;
        let Parsed { value, raw } =
            self.common.requests.retry(&client, "checking the environment", about, send).await?;
        self.common.output.print(&raw, || table(&value))?;
        if let Some(warning) = &value.warning {
            tracing::warn!("{}", Escaped(warning));
        }
        let result = format!("{name} is {}", Escaped(value.compliance()));
        if value.compliant {
            tracing::info!("{result}");
            return Ok(());
        }
        Err(Failure::not_compliant(result))
    }
}

/// The artifacts that are not compliant.
fn table(snapshot: &AssertedSnapshot) -> Table {
    let mut table = Table::new(["ARTIFACT", "DIGEST", "COMPLIANCE", "REASON"]);
    for artifact in snapshot.failing() {
        table.row([
            Cell::text(&artifact.name),
            Cell::digest(Some(&artifact.fingerprint)),
            Cell::state(artifact.compliance()),
            Cell::maybe(Some(artifact.reasons.join("; ")).filter(|reasons| !reasons.is_empty())),
        ]);
    }
    table
}

/// Splits an environment and the expression of a snapshot, by default that of the latest.
fn snapshot(text: &str) -> Result<(EnvironmentName, String), String> {
    let (name, expression) = text.split_at(text.find(['#', '~', '@']).unwrap_or(text.len()));
    let name = name.parse().map_err(|error: crate::domain::model::InvalidName| error.to_string())?;
    match expression.len() {
        0 => Ok((name, "-1".to_owned())),
        1 => Err("expected a number or time after the name, such as prod#7, prod~1 or prod@2w".to_owned()),
        _ => Ok((name, expression.to_owned())),
    }
}
