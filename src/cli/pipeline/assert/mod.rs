//! `supercargo assert`: fails unless an artifact or environment is compliant. One file per subject.
//!
//! The service decides. These commands print its verdict with the reasons, and map it to an exit code.

mod artifact;
mod environment;

use clap::Subcommand;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Subject {
    /// Check whether artifacts may run, before they are deployed; exit with 10 if one may not
    Artifact(artifact::Artifact),
    /// Check whether all artifacts that run in an environment are compliant; exit with 10 if not
    Environment(environment::Environment),
}

impl Subject {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        match self {
            Subject::Artifact(artifact) => artifact.run(service).await,
            Subject::Environment(environment) => environment.run(service).await,
        }
    }
}
