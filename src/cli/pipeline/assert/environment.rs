//! `assert environment`.

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::{COMPLIANT, Cell, NON_COMPLIANT, state};
use crate::cli::read::Format::{Custom, Digest, ReasonsOfSnapshot, Text};
use crate::cli::read::{Column, Common, Objects, at, client, state_of, table, warn};
use client::{Operation, Parsed, Resource};
use model::EnvironmentSnapshot;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Environment {
    /// Environment or snapshot, as ENV, ENV#7, ENV~1 (before the latest), ENV@2w or ENV@2026-10-03T14:00Z
    environment: EnvironmentSnapshot,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  Check whether all artifacts that run in production are compliant; exit with 10 if not, or if that is unknown:
    supercargo assert environment prod
  Check the artifacts that ran two weeks ago:
    supercargo assert environment prod@2w";

/// The verdict on a snapshot. A response of another form is no verdict.
#[derive(Debug, Deserialize)]
struct Assertion {
    compliant: bool,
    compliance: Option<String>,
    artifacts: Option<Objects>,
}

const FAILING: &[Column] = &[
    Column::new("ARTIFACT", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest).optional(1),
    Column::new("COMPLIANCE", "", Custom(compliance)),
    Column::new("REASON", "", ReasonsOfSnapshot),
];

impl Environment {
    pub(super) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let client = client(service)?;
        let EnvironmentSnapshot { environment, expression } = &self.environment;
        let name = environment.as_str();
        let operation =
            Operation::new(Resource::Environment(name), &["snapshots", name, &expression.to_string()]);
        let Parsed { value, raw }: Parsed<Assertion> =
            self.common.requests.get_in_pipeline(&client, &operation).await?;
        let artifacts = value.artifacts.unwrap_or_default().0;
        let failing = artifacts.iter().filter(|artifact| at(artifact, "/compliant") != true);
        self.common.output.print(&raw, || table(FAILING, failing))?;
        warn(&raw, "/warning");
        let otherwise = if value.compliant { COMPLIANT } else { NON_COMPLIANT };
        let compliance = value.compliance.as_deref().map_or_else(|| otherwise.to_owned(), state);
        let result = format!("{name} is {compliance}");
        // A verdict that contradicts itself does not pass.
        if value.compliant && compliance == COMPLIANT {
            return self.common.output.conclude(&result);
        }
        Err(Failure::not_compliant(result))
    }
}

/// The state of an artifact.
fn compliance(artifact: &Value) -> Cell {
    Cell::state(&state_of(artifact))
}
