//! `list attestations` and `get attestation`.

use clap::Args;

use super::columns::Column;
use super::columns::Format::{Ago, Compliant, Text};
use super::columns::{Data, fields};
use super::common::Common;
use super::download::attestation_id;
use super::pages::Pages;
use super::period::Period;
use crate::api::{Operation, Parsed, Resource};
use crate::cli::exit::{Exit, Failure};
use crate::cli::service::Service;
use crate::domain::model::FlowName;

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLE)]
pub(super) struct Attestations {
    /// Flow name
    flow: FlowName,
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    pages: Pages,
}

const LIST_EXAMPLE: &str = "\
Example:
  Print all attestations of a flow in October as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

const ATTESTATIONS: &[Column] = &[
    Column::new("NAME", "/attestation_name", Text),
    Column::new("TYPE", "/attestation_type", Text),
    Column::new("COMPLIANCE", "/is_compliant", Compliant),
    Column::new("BY", "/reported_by", Text),
    Column::new("RECEIVED", "/created_at", Ago),
    Column::new("ID", "/attestation_id", Text).key(),
];

impl Attestations {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let flow = self.flow.as_str();
        let operation = Operation::new(Resource::Flow(flow), &["attestations", flow]);
        let operation = self.period.restrict(operation)?;
        self.pages.list(service, &operation, "attestation", ATTESTATIONS, self.period.filter()).await
    }
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLE)]
pub(super) struct Attestation {
    /// Identifier, as `list attestations` prints it
    #[arg(value_parser = attestation_id)]
    id: String,
    #[command(flatten)]
    common: Common,
}

const GET_EXAMPLE: &str = "\
Example:
  Show an attestation:
    supercargo get attestation 0192f0c1-7a3e-7c55-9d0b-3f1f6a2b8c4d";

const ATTESTATION: &[Column] = &[
    Column::new("name", "/attestation_name", Text),
    Column::new("type", "/attestation_type", Text),
    Column::new("compliance", "/is_compliant", Compliant),
    Column::new("flow", "/flow_name", Text),
    Column::new("trail", "/trail_name", Text),
    Column::new("artifact", "/artifact_fingerprint", Text),
    Column::new("commit", "/git_commit_info/sha1", Text),
    Column::new("description", "/description", Text),
    Column::new("by", "/reported_by", Text),
    Column::new("received", "/created_at", Ago),
    Column::new("file attached", "/has_audit_package", Text),
    Column::new("page", "/html_url", Text),
];

#[derive(Debug, thiserror::Error)]
#[error("attestation \"{0}\" not found")]
struct NoAttestation(String);

impl Attestation {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let operation = Operation::new(Resource::Named("attestation", &self.id), &["attestations"]);
        let operation = operation.with("attestation_id", [&self.id]);
        let found: Parsed<Data> = self.common.read(service, &operation).await?;
        let Some(attestation) = found.value.data.0.first() else {
            return Err(Failure::new(NoAttestation(self.id.clone()), None, Exit::NotFound));
        };
        self.common.output.print(attestation, || fields(ATTESTATION, attestation))
    }
}
