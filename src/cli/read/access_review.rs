//! `get access-review`.

use clap::Args;

use super::common::{Common, client};
use crate::api::{self, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table, now};
use crate::cli::service::Service;
use crate::domain::model::EnvironmentName;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct AccessReview {
    /// Environment name
    environment: EnvironmentName,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  List the tokens that may make artifacts compliant in prod, with a token of role admin:
    supercargo get access-review prod";

impl AccessReview {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let review = async || client.access_review(&self.environment).await;
        let about = Resource::Environment(self.environment.as_str());
        let review = self.common.requests.request(&client, about, review).await?;
        self.common.output.print(&review.raw, || table(&review.value))
    }
}

/// One row for each requirement and token.
fn table(review: &api::AccessReview) -> Table {
    let mut table = Table::new(["REQUIREMENT", "ACTION", "PERMITTED TO", "ROLE", "SCOPE", "EXPIRES"]);
    for way in review.requirements.iter().chain(&review.alternatives) {
        let start = || [Cell::text(&way.requirement), Cell::text(&way.action)];
        for token in &way.tokens {
            let scope = Some(token.scope.to_string()).filter(|scope| !scope.is_empty());
            let who = match &token.claims {
                None => format!("token {}", token.name),
                Some(claims) => format!("tokens of issuer {} with {claims}", token.name),
            };
            let permitted = [Cell::text(who), Cell::text(&token.role)];
            let rest = [Cell::maybe(scope), Cell::ago(token.expires_at, now())];
            table.row(start().into_iter().chain(permitted).chain(rest));
        }
        if way.tokens.is_empty() || way.in_bootstrap_file {
            let permitted = if way.in_bootstrap_file { "bootstrap file" } else { "nobody" };
            let rest = [Cell::text(permitted), Cell::none(), Cell::none(), Cell::none()];
            table.row(start().into_iter().chain(rest));
        }
    }
    table
}
