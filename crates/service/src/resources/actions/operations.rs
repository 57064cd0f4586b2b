//! Operations 3 and 9: list the actions of all environments, and get an action.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use secrecy::ExposeSecret;
use serde::Serialize;

use crate::app::App;
use crate::engine::notify::addresses::{Address, AddressBook};
use crate::engine::notify::{self, test::TestedTarget};
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Administer, Admitted, Caller, Read};
use crate::site::Site;
use model::TargetKind;
use model::access::Role;
use store::notifications::actions::ListedAction;

/// The response of operation 9.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Action)]
pub(crate) struct ActionDetails {
    /// The fields of the list.
    #[serde(flatten)]
    listed: ListedAction,
    /// Always `null`: actions are for environments.
    flows: Option<Vec<String>>,
}

/// List the actions: the notifications that events of environments send.
#[utoipa::path(
    get,
    path = "/organizations/{org}/environments_notifications",
    tag = "actions",
    responses((status = 200, description = "All actions by number", body = Vec<ListedAction>)),
)]
pub(crate) async fn list_notifications(
    State(site): State<Site>,
    State(book): State<Arc<AddressBook>>,
    Admitted { organization, caller, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<Vec<ListedAction>>, Problem> {
    Parameters::read(&uri, &[])?;
    let mut actions =
        store::notifications::actions::list(&mut site.store.read().await?.of(&organization), None).await?;
    for action in &mut actions {
        add_addresses(action, &book, &caller, &organization);
    }
    Ok(axum::Json(actions))
}

/// Get an action.
#[utoipa::path(
    get,
    path = "/actions/{org}/{action_number}",
    tag = "actions",
    params(("action_number" = i64, Path, description = "Number of the action", minimum = 1)),
    responses(
        (status = 200, description = "The action", body = ActionDetails),
        (status = 404, description = "No such action", body = ErrorBody),
    ),
)]
pub(crate) async fn get_action(
    State(site): State<Site>,
    State(book): State<Arc<AddressBook>>,
    Admitted { organization, rest: number, caller, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<ActionDetails>, Problem> {
    let number = Problem::number("action_number", &number)?;
    Parameters::read(&uri, &[])?;
    let found =
        store::notifications::actions::list(&mut site.store.read().await?.of(&organization), Some(number))
            .await?
            .pop();
    let mut listed = found.ok_or_else(|| Problem::not_found(format!("action {number} not found")))?;
    add_addresses(&mut listed, &book, &caller, &organization);
    Ok(axum::Json(ActionDetails { listed, flows: None }))
}

/// A target of a tested action.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TestResult {
    name: String,
    #[serde(rename = "type")]
    kind: TargetKind,
    /// Whether the target accepted the test.
    is_delivered: bool,
    /// Why it did not.
    error: Option<String>,
}

/// Send a test to each target of an action, now and once. Not in Kosli's API.
#[utoipa::path(
    post,
    path = "/actions/{org}/{action_number}/test",
    tag = "actions",
    params(("action_number" = i64, Path, description = "Number of the action", minimum = 1)),
    responses(
        (status = 200, description = "The targets by name", body = Vec<TestResult>),
        (status = 404, description = "No such action", body = ErrorBody),
    ),
)]
pub(crate) async fn test_action(
    State(app): State<App>,
    Admitted { organization, rest: number, caller, .. }: Admitted<Administer, String>,
    uri: Uri,
) -> Result<axum::Json<Vec<TestResult>>, Problem> {
    let number = Problem::number("action_number", &number)?;
    Parameters::read(&uri, &[])?;
    let tested = notify::test::send(&app, &caller, &organization, number).await?;
    let result =
        |TestedTarget { name, kind, error }| TestResult { name, kind, is_delivered: error.is_none(), error };
    Ok(axum::Json(tested.into_iter().map(result).collect()))
}

/// Adds the addresses of the targets, which are credentials, for role `admin` only.
fn add_addresses(action: &mut ListedAction, book: &AddressBook, caller: &Caller, organization: &str) {
    if caller.role != Role::Admin {
        return;
    }
    for target in &mut action.targets {
        let key = (organization.to_owned(), action.number, target.name.clone());
        if let Some(
            Address::Webhook { url, .. }
            | Address::Slack { url }
            | Address::Teams { url }
            | Address::PagerDuty { url, .. },
        ) = book.targets.get(&key)
        {
            target.address.webhook = Some(url.expose_secret().to_owned());
        }
    }
}
