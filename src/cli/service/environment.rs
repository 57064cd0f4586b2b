//! `supercargo environment`: creates and archives environments.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::say;
use crate::cli::read::client;
use crate::cli::service::change::change;
use client::{Operation, Resource};
use model::EnvironmentName;

#[derive(Debug, Subcommand)]
pub(crate) enum EnvironmentChange {
    /// Create an environment, or restore an archived one
    #[command(after_help = CREATE_EXAMPLE)]
    Create {
        /// Environment
        environment: EnvironmentName,
        /// Description
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
    },
    /// Archive an environment: it is not listed, nothing runs in it from now on, and its reports are rejected
    ///
    /// What ran in it before stays, under its name. `environment create` restores it.
    #[command(after_help = ARCHIVE_EXAMPLE)]
    Archive {
        /// Environment
        environment: EnvironmentName,
    },
}

const CREATE_EXAMPLE: &str = "\
Example:
  Create an environment before its agent reports it, with a token of role admin:
    supercargo environment create prod";

const ARCHIVE_EXAMPLE: &str = "\
Example:
  Archive an environment that a typo created, with a token of role admin:
    supercargo environment archive prdo";

impl EnvironmentChange {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let (EnvironmentChange::Create { environment, .. } | EnvironmentChange::Archive { environment }) =
            self;
        let about = Resource::Environment(environment.as_str());
        let (done, operation, body) = match self {
            EnvironmentChange::Create { description, .. } => (
                "created",
                Operation::new(about, &["environments"]),
                json!({"name": environment.as_str(), "type": "K8S", "description": description}),
            ),
            EnvironmentChange::Archive { .. } => (
                "archived",
                Operation::new(about, &["environments", environment.as_str(), "archive"]),
                Value::Null,
            ),
        };
        change::<Value>(&client(service)?, Method::PUT, &operation, Some(&body)).await?;
        say(format_args!("{done} the environment {environment}"))
    }
}
