//! `supercargo action`: tests the actions that send notifications.

use clap::Subcommand;
use http::Method;
use serde_json::Value;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Cell, Output};
use crate::cli::read::Format::{Custom, Text};
use crate::cli::read::{Column, client, table};
use crate::cli::service::change::change;
use client::{Operation, Resource};
use model::pluralize;

#[derive(Debug, Subcommand)]
pub(crate) enum ActionCommand {
    /// Send a test message to each target of an action, once
    #[command(after_help = TEST_EXAMPLE)]
    Test {
        /// Number of the action
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        number: u64,
        #[command(flatten)]
        output: Output,
    },
}

const TEST_EXAMPLE: &str = "\
Example:
  Check that the targets of action 1 accept messages, with a token of role admin:
    supercargo action test 1";

const TESTED: &[Column] = &[
    Column::new("TARGET", "/name", Text),
    Column::new("TYPE", "/type", Text),
    Column::new("RESULT", "/error", Custom(result)),
];

fn result(error: &Value) -> Cell {
    Cell::text(error.as_str().map_or("delivered".to_owned(), |error| format!("not delivered: {error}")))
}

#[derive(Debug, thiserror::Error)]
#[error("{} of action {action} did not accept the test", pluralize(*failed, "target"))]
struct NotDelivered {
    failed: u64,
    action: u64,
}

impl ActionCommand {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let ActionCommand::Test { number: action, output } = self;
        let number = action.to_string();
        let operation = Operation::new(Resource::Action(*action), &["actions", &number, "test"]);
        let tested: Vec<Value> = change(&client(service)?, Method::POST, &operation, None).await?;
        let failed = tested.iter().filter(|target| target["is_delivered"] != true).count() as u64;
        let targets = table(TESTED, &tested);
        output.print(&tested.into(), || targets)?;
        match failed {
            0 => Ok(()),
            _ => Err(Failure::new(NotDelivered { failed, action: *action }, None, Exit::Unreachable)),
        }
    }
}
