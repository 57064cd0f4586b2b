//! Runs the program's own commands against the demo's service, in this process.

use std::net::SocketAddr;
use std::path::Path;

use clap::Parser;

use super::{Ended, ORGANIZATION, Result};
use crate::agent::Summary;
use crate::api::{Client, Patience};
use crate::cli::{Cli, Command, Service};

pub(super) struct Runner {
    pub(super) client: Client,
    /// Stands in for the variables that the demo tells users to export.
    options: [String; 3],
}

impl Runner {
    pub(super) fn new(address: SocketAddr, token: &Path) -> Result<Self> {
        let base_url = format!("http://{address}");
        let options = [
            format!("--base-url={base_url}"),
            format!("--org={ORGANIZATION}"),
            format!("--token-file={}", token.display()),
        ];
        let service = Service {
            base_url: Some(base_url),
            org: Some(ORGANIZATION.to_owned()),
            token_file: Some(token.into()),
            ca_file: None,
            allow_http: false,
        };
        Ok(Self { client: service.client(Patience::default())?, options })
    }

    /// Runs a command; `agent` returns the summary of each report.
    pub(super) async fn run(&self, words: &[String]) -> Result<Vec<Summary>> {
        let words = words.iter().chain(&self.options).map(String::as_str);
        let cli = Cli::try_parse_from(std::iter::once("supercargo").chain(words))?;
        let ran = match &cli.command {
            Command::Agent(agent) => agent.run().await,
            _ => Box::pin(cli.run()).await.map(|()| Vec::new()),
        };
        ran.map_err(Ended::Failed)
    }

    /// Reports a file of pods.
    pub(super) async fn report(&self, environment: &str, pods: &Path) -> Result<Vec<Summary>> {
        let words = ["agent", "--once", "--environment", environment, "--pods-from"];
        let pods = pods.display().to_string();
        self.run(&words.into_iter().map(str::to_owned).chain([pods]).collect::<Vec<_>>()).await
    }
}
