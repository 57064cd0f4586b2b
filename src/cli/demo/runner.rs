//! Runs the program's own commands against the demo's service, in this process.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;

use super::data::ORGANIZATION;
use super::error::{Ended, Result};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use client::{Client, RequestTimeouts};

/// What a command did, each in one line: a report, an attestation; or its failures.
pub(crate) type CommandResult = Pin<Box<dyn Future<Output = std::result::Result<Vec<String>, Vec<Failure>>>>>;

/// Runs a command line without the name of the program.
pub(crate) type RunCommand = fn(Vec<String>) -> CommandResult;

pub(super) struct Runner {
    run: RunCommand,
    pub(super) client: Client,
    /// Stands in for the variables that the demo tells users to export.
    options: [String; 3],
}

impl Runner {
    pub(super) fn new(run: RunCommand, address: SocketAddr, token: &Path) -> Result<Self> {
        let base_url = format!("http://{address}");
        let options = [
            format!("--base-url={base_url}"),
            format!("--org={ORGANIZATION}"),
            format!("--token-file={}", token.display()),
        ];
        let service = ServiceOptions {
            base_url: Some(base_url),
            org: Some(ORGANIZATION.to_owned()),
            token_file: Some(token.into()),
            ..ServiceOptions::default()
        };
        Ok(Self { run, client: service.client("demo", RequestTimeouts::default())?, options })
    }

    pub(super) async fn run(&self, words: &[String]) -> Result<Vec<String>> {
        let words = words.iter().chain(&self.options).cloned().collect();
        (self.run)(words).await.map_err(Ended::Failed)
    }

    pub(super) async fn report(&self, environment: &str, pods: &Path) -> Result<Vec<String>> {
        let words = ["agent", "--once", "--environment", environment, "--pods-from"];
        let pods = pods.display().to_string();
        self.run(&words.into_iter().map(str::to_owned).chain([pods]).collect::<Vec<_>>()).await
    }
}
