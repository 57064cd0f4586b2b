//! `list audit`.

use clap::Args;

use super::common::{Common, client};
use super::pages::Pages;
use super::period::Period;
use crate::api::{AuditEntry, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table, now};
use crate::cli::service::Service;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Audit {
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  Print the audit log of October, with a token of role admin:
    supercargo list audit --from 2026-10-01 --to 2026-10-31 --all";

impl Audit {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (client, span) = (client(service)?, self.period.span()?);
        let fetch = async |page| {
            let audit = async || client.audit(span, page).await;
            self.common.requests.request(&client, Resource::Organization, audit).await
        };
        self.pages.list(&self.common.output, "audit entry", self.period.filter(), fetch, table).await
    }
}

fn table(entries: &[Parsed<AuditEntry>]) -> Table {
    let (mut table, now) = (Table::new(["WHEN", "BY", "CHANGE"]), now());
    for Parsed { value: entry, .. } in entries {
        table.row([Cell::ago(entry.at, now), Cell::text(&entry.actor), Cell::text(&entry.change)]);
    }
    table
}
