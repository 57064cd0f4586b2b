//! Completion of names in a shell: answers the requests of the script that `SUPERCARGO_COMPLETE=bash supercargo` prints.

use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::service::Service;
use crate::api::Timeouts;
use crate::domain::model::FlowName;

/// Arguments, and the lists with their values.
const LISTS: [(&str, &str); 4] =
    [("environment", "environments"), ("snapshot", "environments"), ("flow", "flows"), ("token", "tokens")];

/// Maximum time for a list.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Answers a request of a shell, and exits. Does nothing without one.
pub(super) fn complete(command: fn() -> Command) {
    CompleteEnv::with_factory(|| with_names(command())).var("SUPERCARGO_COMPLETE").complete();
}

fn with_names(command: Command) -> Command {
    let with_names_of = |arg: clap::Arg| match LISTS.into_iter().find(|(id, _)| arg.get_id() == id) {
        Some((_, list)) => arg.add(ArgValueCandidates::new(move || names(list).unwrap_or_default())),
        None => arg,
    };
    command.mut_args(with_names_of).mut_subcommands(with_names)
}

/// The names in a list of the service that the variables select; `None` if it does not answer in time. A shell inserts
/// them unquoted, so only names without special characters are offered.
fn names(list: &str) -> Option<Vec<CompletionCandidate>> {
    let variables = Service::augment_args(Command::new("")).try_get_matches_from([""]).ok()?;
    let client =
        Service::from_arg_matches(&variables).ok()?.client("completion", Timeouts::default()).ok()?;
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let read = runtime.block_on(async { timeout(MAX_WAIT, client.items(&[list], &[], None)).await });
    runtime.shutdown_background();
    let items = read.ok()?.ok()?.data.into_iter();
    let name =
        |item: serde_json::Value| Some(item.get("name")?.as_str()?.parse::<FlowName>().ok()?.to_string());
    Some(items.filter_map(|item| name(item.raw)).map(CompletionCandidate::new).collect())
}
