//! `attest bundle`: sends signed evidence, which the service verifies.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::results::read_attachment;
use super::send;
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::files::quoted;
use crate::cli::fingerprints::Fingerprints;
use crate::cli::values::{duration, short_text};
use client::{Deadline, NewAttestation, Resource};
use model::escape::Escaped;
use model::retry::Backoff;
use model::{EvidenceKind, FlowName, ShortText, TrailName, claimed_kind};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Bundle {
    /// Flow name
    #[arg(long, value_name = "NAME")]
    flow: FlowName,
    /// Trail to attest to, such as the commit or the build
    #[arg(long, value_name = "NAME")]
    trail: TrailName,
    /// Name of the attestation in the flow's template (default: the type of the evidence)
    #[arg(long, value_name = "NAME", value_parser = short_text)]
    name: Option<ShortText>,
    /// Sigstore bundle, or DSSE envelope with an in-toto statement, at most 10 MB
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    artifact: Fingerprints,
    /// Timeout of sending including retries, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,
}

const EXAMPLE: &str = "\
Example:
  Attest how GitHub Actions built an image:
    supercargo attest bundle provenance.sigstore.json --flow cart --trail 4f1c2e7 \\
      --fingerprint 7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

/// A file that is no evidence.
#[derive(Debug, thiserror::Error)]
#[error("{} is neither a Sigstore bundle nor a DSSE envelope with an in-toto statement", quoted(.0))]
struct NoEvidence(PathBuf);

/// No artifact, or several.
#[derive(Debug, thiserror::Error)]
#[error("expected one digest (--fingerprint or --fingerprint-file), got {0}")]
struct NotOneArtifact(usize);

impl Bundle {
    /// Records the attestation, and returns what was attested.
    pub(super) async fn attest(&self, service: &ServiceOptions) -> Result<String, Failure> {
        let client = service.client("attest", client::RequestTimeouts::default()).map_err(Failure::usage)?;
        let attachment = read_attachment(&self.file).map_err(Failure::usage)?;
        let artifacts = self.artifact.read().map_err(Failure::usage)?;
        let [fingerprint] = artifacts.as_slice() else {
            return Err(Failure::usage(NotOneArtifact(artifacts.len())));
        };
        let Self { flow, trail, .. } = self;
        let kind =
            claimed_kind(&attachment.content).ok_or_else(|| Failure::usage(NoEvidence(self.file.clone())))?;
        let name = self.name.as_ref().map_or(kind.as_str(), ShortText::as_str);
        // The service takes commit and repository from the evidence.
        let data = json!({"attestation_name": name, "artifact_fingerprint": fingerprint}).to_string();
        let deadline = Deadline::after(self.timeout, Backoff::default());
        let new = NewAttestation::new("bundle", flow, trail, data, Some(attachment));
        let receipt = send(&client, &new, Resource::Flow(flow.as_str()), deadline).await?;
        let is_unread = kind == EvidenceKind::Sbom && receipt.bill.is_none();
        let unread = "not read as a bill of materials: expected CycloneDX or SPDX in JSON";
        if let Some(warning) = receipt.warning.as_deref().or(is_unread.then_some(unread)) {
            tracing::warn!("attested, {}", Escaped(warning));
        }
        let read = [receipt.signed, receipt.bill].into_iter().flatten();
        let read: Vec<_> = read.map(|read| format!(": {}", Escaped(&read))).collect();
        Ok(format!("attested {} in {flow}/{trail}{}", Escaped(name), read.concat()))
    }
}
