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
use crate::provenance::{Facts, Provenance};
use client::{Client, Deadline, NewAttestation, Receipt, Resource};
use model::{AttestationFields, Fingerprint, ShortText};

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

/// The fields that all types of attestations have. The first artifact is the attested one.
fn fields(
    name: &ShortText,
    artifacts: impl IntoIterator<Item = Fingerprint>,
    targets: &[ShortText],
    facts: &Facts,
) -> Result<AttestationFields, Failure> {
    let Provenance { commit, repository, origin_url, skipped } =
        Provenance::from_facts(facts).map_err(Failure::usage)?;
    for fact in skipped {
        tracing::warn!("{fact}; omitted");
    }
    let mut artifacts = artifacts.into_iter();
    let artifact_fingerprint = artifacts.next();
    let targets: Vec<_> = artifacts.map(ShortText::from).chain(targets.iter().cloned()).collect();
    Ok(AttestationFields {
        attestation_name: name.clone(),
        origin_url,
        description: None,
        artifact_fingerprint,
        target_artifacts: Some(targets).filter(|targets| !targets.is_empty()),
        git_commit_info: commit,
        repo_info: repository,
        external_urls: None,
        annotations: None,
        user_data: None,
    })
}

async fn send(
    client: &Client,
    new: &NewAttestation<'_>,
    about: Resource<'_>,
    deadline: Deadline,
) -> Result<Receipt, Failure> {
    let sent = deadline.retry("the attestation", async || client.attest(new).await).await;
    sent.map_err(|error| Failure::request(client, about, error))
}
