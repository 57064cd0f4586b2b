//! `list notifications` and `get action`.

use clap::Args;

use super::common::{Common, client};
use crate::api::{self, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table, ago, details, now};
use crate::cli::service::Service;
use crate::cli::values::integer;
use crate::domain::model::Timestamp;

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLE)]
pub(super) struct Notifications {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLE)]
pub(super) struct Action {
    /// Number of the action
    #[arg(value_parser = integer(0..=u64::MAX))]
    number: u64,
    #[command(flatten)]
    common: Common,
}

const LIST_EXAMPLE: &str = "\
Example:
  List all actions with all their fields:
    supercargo list notifications -o yaml";

impl Notifications {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let about = Resource::Organization;
        let actions =
            self.common.requests.request(&client, about, async || client.notifications().await).await?;
        self.common.print_all(actions, "notification", table)
    }
}

const GET_EXAMPLE: &str = "\
Example:
  Show the last delivery of an action:
    supercargo get action 7";

impl Action {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let action = self
            .common
            .requests
            .request(&client, Resource::Action(self.number), async || client.action(self.number).await)
            .await?;
        self.common.output.print(&action.raw, || fields(&action.value))
    }
}

fn table(actions: &[Parsed<api::Action>]) -> Table {
    let headings = ["NUMBER", "NAME", "STATE", "ENVIRONMENTS", "TRIGGERS", "TARGETS", "LAST SUCCESS"];
    let (mut table, now) = (Table::new(headings), now());
    for Parsed { value: action, .. } in actions {
        table.row([
            Cell::number(Some(action.number)),
            Cell::text(&action.name),
            state(action),
            environments(action),
            Cell::text(action.triggers.join(", ")),
            Cell::text(action.targets.iter().map(target).collect::<Vec<_>>().join(", ")),
            Cell::ago(action.last_success_timestamp, now),
        ]);
    }
    table
}

fn fields(action: &api::Action) -> Table {
    let now = now();
    let age = |at| Cell::ago(at, now);
    let origin = if action.is_created_from_chat_app { ", in a chat" } else { "" };
    let flows = action.flows.as_ref().map(|flows| flows.join(", "));
    let mut lines = vec![
        ("number", Cell::number(Some(action.number))),
        ("name", Cell::text(&action.name)),
        ("type", Cell::text(&action.r#type)),
        ("state", state(action)),
        ("environments", environments(action)),
        ("flows", Cell::maybe(flows)),
        ("triggers", Cell::text(action.triggers.join(", "))),
    ];
    lines.extend(action.targets.iter().map(|to| ("target", Cell::text(delivery(to, now)))));
    lines.extend([
        ("last success", age(action.last_success_timestamp)),
        ("last failure", age(action.last_failure_timestamp)),
        ("created by", Cell::text(format!("{}{origin}", action.created_by))),
        ("created", age(action.created_at)),
        ("modified", age(action.last_modified_at)),
    ]);
    details(lines)
}

fn state(action: &api::Action) -> Cell {
    match action.is_failing {
        Some(true) => Cell::state("failing"),
        Some(false) => Cell::state("ok"),
        None => Cell::none(),
    }
}

fn environments(action: &api::Action) -> Cell {
    Cell::maybe(action.environments.as_ref().map(|environments| environments.join(", ")))
}

/// A target and its last delivery.
fn delivery(to: &api::Target, now: Timestamp) -> String {
    let name = to.name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
    let sent = match (to.last_success_at, to.last_failure_at) {
        (None, None) => String::new(),
        (success, Some(failure)) if success < Some(failure) => {
            format!(", failing, last {}", ago(failure, now))
        }
        (success, _) => success.map(|at| format!(", delivered {}", ago(at, now))).unwrap_or_default(),
    };
    format!("{name}{}{sent}", target(to))
}

/// Type and destination of a target, as far as the service returns them.
fn target(target: &api::Target) -> String {
    let channel = target.context.as_ref().and_then(|context| context.channel_name.as_deref());
    let kind = target.r#type.as_deref().unwrap_or("-");
    match channel.or(target.webhook.as_deref()) {
        Some(to) => format!("{kind} {to}"),
        None if target.recipients.is_empty() => kind.to_owned(),
        None => format!("{kind} {}", target.recipients.join(" ")),
    }
}
