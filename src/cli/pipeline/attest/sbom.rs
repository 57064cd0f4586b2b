//! `attest sbom`: sends a bill of materials as a generic attestation with the file.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::facts::ProvenanceOptions;
use super::results::read_attachment;
use super::{fields, send};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::fingerprints::Fingerprints;
use crate::cli::values::{duration, short_text};
use client::{Deadline, NewAttestation, Resource};
use model::escape::Escaped;
use model::retry::Backoff;
use model::{FlowName, GenericFields, SentAttestation, ShortText, TrailName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Sbom {
    /// Flow name
    #[arg(long, value_name = "NAME")]
    flow: FlowName,
    /// Trail to attest to, such as the commit or the build
    #[arg(long, value_name = "NAME")]
    trail: TrailName,
    /// Name of the attestation in the flow's template
    #[arg(long, value_name = "NAME", default_value = "sbom", value_parser = short_text)]
    name: ShortText,
    /// Bill of materials in JSON, also compressed by gzip or zstd, at most 10 MB
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    artifacts: Fingerprints,
    /// Timeout with retries, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    provenance: ProvenanceOptions,
}

pub(super) const EXAMPLE: &str = "\
Example:
  Attest the packages of an image:
    supercargo attest sbom bom.json --flow cart --trail 4f1c2e7 --fingerprint-file image-digest";

impl Sbom {
    /// Records the attestation, and returns what was attested.
    pub(super) async fn attest(&self, service: &ServiceOptions) -> Result<String, Failure> {
        let client = service.client("attest", client::RequestTimeouts::default()).map_err(Failure::usage)?;
        let attachment = read_attachment(&self.file).map_err(Failure::usage)?;
        let data = self.data()?;
        let Self { name, flow, trail, .. } = self;
        let deadline = Deadline::after(self.timeout, Backoff::default());
        let new = NewAttestation::new("sbom", flow, trail, data, Some(attachment));
        let receipt = send(&client, &new, Resource::Flow(flow.as_str()), deadline).await?;
        let read = match (&receipt.bill, &receipt.warning) {
            (Some(bill), _) => format!(": {}", Escaped(bill)),
            (None, Some(warning)) => {
                tracing::warn!("attested as a file, {}", Escaped(warning));
                String::new()
            }
            (None, None) => {
                tracing::warn!(
                    "attested as a file, not read as a bill of materials: expected CycloneDX or SPDX in JSON"
                );
                String::new()
            }
        };
        Ok(format!("attested {} in {flow}/{trail}{read}", Escaped(name.as_str())))
    }

    fn data(&self) -> Result<String, Failure> {
        let facts = self.provenance.gather();
        let artifacts = self.artifacts.read().map_err(Failure::usage)?;
        let fields = fields(&self.name, artifacts, &[], &facts)?;
        if fields.artifact_fingerprint.is_none() {
            tracing::warn!("unknown artifact: no search finds these packages; set --fingerprint");
        }
        let attestation = SentAttestation { fields, own: GenericFields { is_compliant: true } };
        let data = serde_json::to_value(attestation).map_err(Failure::unexpected)?;
        Ok(data.to_string())
    }
}
