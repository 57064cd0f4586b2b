//! `list attestations`.

use clap::Args;

use super::common::{Common, client};
use super::pages::Pages;
use super::period::Period;
use crate::api::{Attestation, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table, now};
use crate::cli::service::Service;
use crate::domain::model::FlowName;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Attestations {
    /// Flow name
    flow: FlowName,
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  Print all attestations of a flow in October as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

impl Attestations {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (client, span) = (client(service)?, self.period.span()?);
        let about = Resource::Flow(self.flow.as_str());
        let fetch = async |page| {
            let attestations = async || client.attestations(&self.flow, span, page).await;
            self.common.requests.request(&client, about, attestations).await
        };
        self.pages.list(&self.common.output, "attestation", self.period.filter(), fetch, table).await
    }
}

fn table(attestations: &[Parsed<Attestation>]) -> Table {
    let (mut table, now) = (Table::new(["NAME", "TYPE", "COMPLIANCE", "BY", "RECEIVED", "ID"]), now());
    for Parsed { value: attestation, .. } in attestations {
        table.row([
            Cell::maybe(attestation.attestation_name.as_ref()),
            Cell::maybe(attestation.attestation_type.as_ref()),
            Cell::compliance(attestation.is_compliant),
            Cell::maybe(attestation.reported_by.as_ref()),
            Cell::ago(attestation.created_at, now),
            Cell::text(&attestation.attestation_id),
        ]);
    }
    table
}
