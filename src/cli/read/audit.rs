//! `list audit`.

use clap::Args;

use super::columns::Column;
use super::columns::Format::{Ago, Text};
use super::pages::Pages;
use super::period::Period;
use crate::api::{Operation, Resource};
use crate::cli::exit::Failure;
use crate::cli::service::Service;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Audit {
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    pages: Pages,
}

const EXAMPLE: &str = "\
Example:
  Print the audit log of October, with a token of role admin:
    supercargo list audit --from 2026-10-01 --to 2026-10-31 --all";

const AUDIT: &[Column] = &[
    Column::new("WHEN", "/at", Ago),
    Column::new("BY", "/actor", Text),
    Column::new("CHANGE", "/change", Text),
];

impl Audit {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let operation = self.period.restrict(Operation::new(Resource::Organization, &["audit"]))?;
        self.pages.list(service, &operation, "audit entry", AUDIT, self.period.filter()).await
    }
}
