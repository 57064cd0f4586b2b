//! `supercargo attest`: from what a test runner wrote to an attestation.
//!
//! `results` finds the files and counts, `facts` finds what was tested, `junit` brings both together and
//! sends them.

mod facts;
mod junit;
mod results;

use clap::{Args, Subcommand};

use super::{Failure, Service};

#[derive(Debug, Args)]
#[command(after_help = junit::EXAMPLES, subcommand_required = true)]
pub(super) struct Attest {
    #[command(subcommand)]
    what: Attested,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Attested {
    /// Results in JUnit XML
    Junit(Box<junit::Junit>),
}

impl Attest {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        match &self.what {
            Attested::Junit(junit) => junit.run(&self.service).await,
        }
    }
}
