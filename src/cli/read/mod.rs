//! `supercargo list` and `supercargo get`: a file a resource.
//!
//! Each asks `api` for one thing and says how it looks. What the service cannot answer for the moment is
//! asked again for a while.

mod actions;
mod approvals;
mod attestations;
mod live;
mod pages;
mod trails;

pub(super) use self::live::provider;

use std::time::Duration;

use clap::{Args, Subcommand};

use self::pages::Pages;
use super::output::{Output, Table};
use super::{Failure, Service, duration};
use crate::agent::retry::Deadline;
use crate::api::{self, About, Client, Kept};
use crate::domain::retry::Backoff;

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES, subcommand_required = true)]
pub(super) struct List {
    #[command(subcommand)]
    what: Listed,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES, subcommand_required = true)]
pub(super) struct Get {
    #[command(subcommand)]
    what: Got,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Listed {
    /// Trails of the organization, newest first
    #[command(alias = "trail")]
    Trails(trails::Trails),
    /// Attestations of a flow, newest first
    #[command(alias = "attestation")]
    Attestations(attestations::Attestations),
    /// What is sent where when an environment changes
    #[command(aliases = ["notification", "actions"])]
    Notifications(actions::Notifications),
    /// Approvals of an artifact
    #[command(alias = "approval")]
    Approvals(approvals::Approvals),
    #[command(hide = true, alias = "live")]
    LiveArtifacts(live::LiveArtifacts),
}

#[derive(Debug, Subcommand)]
enum Got {
    /// What runs now of a repository, in every environment
    #[command(alias = "live")]
    LiveArtifacts(live::LiveArtifacts),
    /// One approval
    Approval(approvals::Approval),
    /// One action, also known as a notification
    #[command(alias = "notification")]
    Action(actions::Action),
    #[command(hide = true, alias = "trail")]
    Trails(trails::Trails),
    #[command(hide = true, alias = "attestation")]
    Attestations(attestations::Attestations),
    #[command(hide = true, alias = "actions")]
    Notifications(actions::Notifications),
    #[command(hide = true)]
    Approvals(approvals::Approvals),
}

/// What all of them take.
#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    output: Output,
    /// How long each request may take, second tries included: 30s, 5m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
}

const LIST_EXAMPLES: &str = "\
Examples:
  The newest trails, and those that an artifact was reported to:
    supercargo list trails
    supercargo list trails --fingerprint \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Everything that a flow attested in October, as JSON:
    supercargo list attestations cart --from 2026-10-01 --to 2026-10-31 --all -o json";

const GET_EXAMPLES: &str = "\
Examples:
  What runs of a repository, and whether it may:
    supercargo get live-artifacts acme/cart
  Why an approval was given:
    supercargo get approval cart 12 -o yaml";

impl List {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let service = &self.service;
        match &self.what {
            Listed::Trails(trails) => trails.run(service).await,
            Listed::Attestations(attestations) => attestations.run(service).await,
            Listed::Notifications(notifications) => notifications.run(service).await,
            Listed::Approvals(approvals) => approvals.run(service).await,
            Listed::LiveArtifacts(live) => live.run(service).await,
        }
    }
}

impl Get {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let service = &self.service;
        match &self.what {
            Got::LiveArtifacts(live) => live.run(service).await,
            Got::Approval(approval) => approval.run(service).await,
            Got::Action(action) => action.run(service).await,
            Got::Trails(trails) => trails.run(service).await,
            Got::Attestations(attestations) => attestations.run(service).await,
            Got::Notifications(notifications) => notifications.run(service).await,
            Got::Approvals(approvals) => approvals.run(service).await,
        }
    }
}

impl Common {
    /// Prints a list that has no pages; `kind` is one of its items in words.
    fn print_all<T>(
        &self,
        items: Vec<Kept<T>>,
        kind: &str,
        table: impl Fn(&[Kept<T>]) -> Table,
    ) -> Result<(), Failure> {
        if items.is_empty() {
            tracing::info!("there is no {kind}");
        }
        let table = table(&items);
        let sent = items.into_iter().map(|item| item.sent).collect();
        self.output.print(&sent, || table)
    }

    /// Asks, and asks again while the service cannot answer for the moment.
    async fn ask<T>(
        &self,
        client: &Client,
        about: About<'_>,
        ask: impl AsyncFn() -> Result<T, api::Error>,
    ) -> Result<T, Failure> {
        let deadline = Deadline::after(self.timeout, Backoff::default());
        let asked = deadline.persist_in(&format!("the question about the {about}"), ask).await;
        asked.map_err(|gave_up| {
            let hint = gave_up.last().and_then(|error| client.hint(error, about));
            Failure::from(gave_up).hinted(hint)
        })
    }
}

fn client(service: &Service) -> Result<Client, Failure> {
    service.client(api::Patience::default()).map_err(Failure::usage)
}
