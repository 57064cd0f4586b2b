//! Operations 3 and 9: list the actions of all environments, and get an action.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use secrecy::ExposeSecret;

use crate::domain::evidence::access::Role;
use crate::domain::model::{Action, DeliveryTimes, ListedAction, Target, TargetKind};
use crate::service::access::{Admitted, Caller, Read};
use crate::service::addresses::{Address, AddressBook};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::service::site::Site;
use crate::store::actions as stored;

/// `created_by` of actions: only the bootstrap file creates them.
const BOOTSTRAP: &str = "bootstrap";

/// `type` of actions: the interface's value for environments.
const KIND: &str = "env";

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
    let actions = site.store.read().await?.actions(&organization, None).await?;
    let show = Show::new(book, &caller, &organization);
    Ok(axum::Json(actions.into_iter().map(|action| show.listed(action)).collect()))
}

/// Get an action.
#[utoipa::path(
    get,
    path = "/actions/{org}/{action_number}",
    tag = "actions",
    params(("action_number" = i64, Path, description = "Number of the action", minimum = 1)),
    responses(
        (status = 200, description = "The action", body = Action),
        (status = 404, description = "No such action", body = ErrorBody),
    ),
)]
pub(crate) async fn get_action(
    State(site): State<Site>,
    State(book): State<Arc<AddressBook>>,
    Admitted { organization, rest: number, caller, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Action>, Problem> {
    let number = Problem::number("action_number", &number)?;
    Parameters::read(&uri, &[])?;
    let mut actions = site.store.read().await?.actions(&organization, Some(number)).await?;
    let action = actions.pop();
    let action = action.ok_or_else(|| Problem::not_found(format!("action {number} not found")))?;
    let listed = Show::new(book, &caller, &organization).listed(action);
    Ok(axum::Json(Action { listed, flows: None }))
}

/// The response for an action, without addresses, which are credentials.
pub(crate) fn response(action: stored::Action, organization: &str) -> ListedAction {
    Show { organization, book: None }.listed(action)
}

/// Formats actions for a caller.
struct Show<'a> {
    organization: &'a str,
    /// The addresses, for role `admin` only.
    book: Option<Arc<AddressBook>>,
}

impl<'a> Show<'a> {
    fn new(book: Arc<AddressBook>, caller: &Caller, organization: &'a str) -> Self {
        Self { organization, book: (caller.role == Role::Admin).then_some(book) }
    }

    fn listed(&self, action: stored::Action) -> ListedAction {
        let number = action.number;
        let targets: Vec<Target> =
            action.targets.into_iter().map(|target| self.target(number, target)).collect();
        let all = || targets.iter().map(Target::deliveries);
        let fails: Vec<bool> = all().filter_map(DeliveryTimes::is_failing).collect();
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
            last_success_timestamp: all().filter_map(|last| last.last_success_at).max(),
            last_failure_timestamp: all().filter_map(|last| last.last_failure_at).max(),
            created_at: action.created_at,
            targets,
        }
    }

    fn target(&self, action: i64, target: stored::Target) -> Target {
        let stored::Target { name, kind, address: public, deliveries } = target;
        let key = (self.organization.to_owned(), action, name.clone());
        let address = self.book.as_ref().and_then(|book| book.targets.get(&key));
        let webhook = match address {
            Some(
                Address::Webhook { url, .. }
                | Address::Slack { url }
                | Address::Teams { url }
                | Address::PagerDuty { url, .. },
            ) => url.expose_secret().to_owned(),
            _ => public.webhook.unwrap_or_default(),
        };
        match kind {
            TargetKind::Webhook => Target::Webhook { name, webhook, deliveries },
            TargetKind::Slack => Target::Slack { name, webhook, context: public.channel, deliveries },
            TargetKind::Teams => Target::Teams { name, webhook, deliveries },
            TargetKind::PagerDuty => Target::PagerDuty { name, webhook, deliveries },
            TargetKind::Email => Target::Email { name, recipients: public.recipients, deliveries },
        }
    }
}
