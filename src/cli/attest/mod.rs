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
#[command(after_help = EXAMPLES, subcommand_required = true)]
pub(super) struct Attest {
    #[command(subcommand)]
    what: Attested,
}

#[derive(Debug, Subcommand)]
enum Attested {
    /// Results in JUnit XML
    Junit(Box<junit::Junit>),
}

const EXAMPLES: &str = "\
Examples:
  What would be sent, and where each fact was found:
    supercargo attest junit --flow cart --trail 4f1c2e7 --name unit-tests --dry-run \\
      target/surefire-reports
  Attest an image by the digest that its build tool wrote, and fail where tests do:
    supercargo attest junit --flow cart --trail 4f1c2e7 --name unit-tests \\
      --fingerprint-file image-digest --fail-on-failures '**/TEST-*.xml'";

impl Attest {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        match &self.what {
            Attested::Junit(junit) => junit.run(service).await,
        }
    }
}
