//! Operations 3 and 9: list the actions of all environments, and get one.

use axum::extract::State;
use axum::http::Uri;
use secrecy::ExposeSecret;

use crate::domain::evidence::access::{Operation, Role};
use crate::domain::model::{Action, ListedAction, Sent, Target, TargetKind};
use crate::service::access::{Asking, Caller, admit};
use crate::service::app::App;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem, Refused};
use crate::service::http::segments::Segments;
use crate::service::notify::{Address, AddressBook};
use crate::store::actions as stored;

/// Who makes actions: they have no operation in the interface.
const BOOTSTRAP: &str = "bootstrap";

/// What every action is, of the interface's kinds: for environments.
const KIND: &str = "env";

/// List what is sent where when something happens in an environment.
#[utoipa::path(
    get,
    path = "/organizations/{org}/environments_notifications",
    tag = "actions",
    params(("org" = String, Path, description = "Organization")),
    responses(
        (status = 200, description = "All of them, by number", body = Vec<ListedAction>),
        Refused,
    ),
    security(("token" = [])),
)]
pub(crate) async fn list_notifications(
    State(app): State<App>,
    Segments(organization): Segments<String>,
    asking: Asking,
    uri: Uri,
) -> Result<axum::Json<Vec<ListedAction>>, Problem> {
    let caller = admit(&app, &asking, &organization, Operation::Read).await?;
    Parameters::read(&uri, &[])?;
    let actions = app.store.read().await?.actions(&organization, None).await?;
    let show = Show::new(&app, &caller, &organization);
    Ok(axum::Json(actions.into_iter().map(|action| show.listed(action)).collect()))
}

/// Get an action.
#[utoipa::path(
    get,
    path = "/actions/{org}/{action_number}",
    tag = "actions",
    params(
        ("org" = String, Path, description = "Organization"),
        ("action_number" = i64, Path, description = "Its number", minimum = 1),
    ),
    responses(
        (status = 200, description = "The action", body = Action),
        (status = 404, description = "No such action", body = ErrorBody),
        Refused,
    ),
    security(("token" = [])),
)]
pub(crate) async fn get_action(
    State(app): State<App>,
    Segments((organization, number)): Segments<(String, String)>,
    asking: Asking,
    uri: Uri,
) -> Result<axum::Json<Action>, Problem> {
    let caller = admit(&app, &asking, &organization, Operation::Read).await?;
    let number = Problem::number("action_number", &number)?;
    Parameters::read(&uri, &[])?;
    let mut actions = app.store.read().await?.actions(&organization, Some(number)).await?;
    let action = actions.pop();
    let action = action
        .ok_or_else(|| Problem::not_found(format!("there is no action {number} in this organization")))?;
    let listed = Show::new(&app, &caller, &organization).listed(action);
    Ok(axum::Json(Action { listed, flows: None }))
}

/// An action as everybody sees it who may read: without an address that is a credential.
pub(crate) fn shown(action: stored::Action, organization: &str) -> ListedAction {
    Show { organization, book: None }.listed(action)
}

/// How actions are shown to a caller.
struct Show<'a> {
    organization: &'a str,
    /// The addresses, for who may see them.
    book: Option<std::sync::Arc<AddressBook>>,
}

impl<'a> Show<'a> {
    fn new(app: &App, caller: &Caller, organization: &'a str) -> Self {
        Self { organization, book: (caller.role == Role::Admin).then(|| app.addresses.current()) }
    }

    fn listed(&self, action: stored::Action) -> ListedAction {
        let number = action.number;
        let targets: Vec<Target> =
            action.targets.into_iter().map(|target| self.target(number, target)).collect();
        let all = || targets.iter().map(Target::sent);
        let fails: Vec<bool> = all().filter_map(Sent::is_failing).collect();
        ListedAction {
            name: action.name,
            kind: KIND,
            number,
            environments: action.environments,
            triggers: action.triggers,
            created_by: BOOTSTRAP.to_owned(),
            is_created_from_chat_app: false,
            last_modified_at: action.modified_at,
            is_failing: (!fails.is_empty()).then(|| fails.contains(&true)),
            last_success_timestamp: all().filter_map(|sent| sent.last_success_at).max(),
            last_failure_timestamp: all().filter_map(|sent| sent.last_failure_at).max(),
            created_at: action.created_at,
            targets,
        }
    }

    fn target(&self, action: i64, target: stored::Target) -> Target {
        let stored::Target { name, kind, shown, sent } = target;
        let key = (self.organization.to_owned(), action, name.clone());
        let address = self.book.as_ref().and_then(|book| book.targets.get(&key));
        let webhook = match address {
            Some(Address::Webhook { url, .. } | Address::Slack { url }) => url.expose_secret().to_owned(),
            _ => shown.webhook.unwrap_or_default(),
        };
        match kind {
            TargetKind::Webhook => Target::Webhook { name, webhook, sent },
            TargetKind::Slack => Target::Slack { name, webhook, context: shown.channel, sent },
            TargetKind::Email => Target::Email { name, recipients: shown.recipients, sent },
        }
    }
}
