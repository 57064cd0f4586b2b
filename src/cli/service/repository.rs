//! `supercargo repository`: closes and reopens repositories.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::say;
use crate::cli::read::client;
use crate::cli::service::change::change;
use client::{Operation, Resource};
use model::{Provider, RepositoryName, at_provider};

#[derive(Debug, Subcommand)]
pub(crate) enum RepositoryChange {
    /// Close a repository that should not exist: attestations must not name it, and it is the origin of no artifact
    #[command(after_help = CLOSE_EXAMPLE)]
    Close(RepositoryTarget),
    /// Reopen a closed repository
    #[command(after_help = REOPEN_EXAMPLE)]
    Reopen(RepositoryTarget),
}

#[derive(Debug, Args)]
pub(crate) struct RepositoryTarget {
    /// Repository with its owner, such as acme/cart
    repository: RepositoryName,
    /// Provider of the repository, such as github; omit it if the repository has none
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<Provider>,
}

const CLOSE_EXAMPLE: &str = "\
Example:
  Close a repository that an attestation named by mistake, with a token of role admin:
    supercargo repository close acme/cart --provider gitlab";

const REOPEN_EXAMPLE: &str = "\
Example:
  Reopen a repository, with a token of role admin:
    supercargo repository reopen acme/cart --provider gitlab";

impl RepositoryChange {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let (RepositoryChange::Close(target) | RepositoryChange::Reopen(target)) = self;
        let is_closed = matches!(self, RepositoryChange::Close(_));
        let RepositoryTarget { repository, provider } = target;
        let about = Resource::Repository(repository.as_str());
        let verb = if is_closed { "close" } else { "reopen" };
        let operation = Operation::new(about, &["repos", verb, repository.as_str()]);
        let operation = operation.with("provider", provider.as_ref().map(Provider::as_str));
        change::<Value>(&client(service)?, Method::PUT, &operation, None).await?;
        let done = if is_closed { "closed" } else { "reopened" };
        say(format_args!("{done} the repository {repository}{}", at_provider(provider.as_ref())))
    }
}
