//! `supercargo attest`: sends test results, a bill of materials or signed evidence as an attestation.
//!
//! `results` reads the files, `image` the digests of an image. `facts` collects the
//! provenance from options, git and CI variables, and `junit`, `sbom` and `bundle` combine and send them.

mod bundle;
mod facts;
mod image;
mod junit;
mod results;
mod sbom;

use clap::Subcommand;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::say;

#[derive(Debug, Subcommand)]
#[command(after_help = junit::EXAMPLES)]
pub(crate) enum AttestationKind {
    /// Attest test results in JUnit XML
    Junit(Box<junit::Junit>),
    /// Attest a bill of materials: the packages of an image
    Sbom(Box<sbom::Sbom>),
    /// Attest signed evidence, such as how an image was built
    Bundle(Box<bundle::Bundle>),
}

impl AttestationKind {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        match self {
            AttestationKind::Junit(junit) => junit.run(service).await,
            AttestationKind::Sbom(sbom) => say(&sbom.attest(service).await?),
            AttestationKind::Bundle(bundle) => say(&bundle.attest(service).await?),
        }
    }

    /// Records the attestation, and returns what was attested instead of printing it.
    #[cfg(feature = "service")]
    pub(crate) async fn record(&self, service: &ServiceOptions) -> Result<Option<String>, Failure> {
        match self {
            AttestationKind::Junit(junit) => Ok(junit.attest(service).await?.map(|attested| attested.result)),
            AttestationKind::Sbom(sbom) => sbom.attest(service).await.map(Some),
            AttestationKind::Bundle(bundle) => bundle.attest(service).await.map(Some),
        }
    }
}
