//! Authorization of API requests.
//!
//! Each handler below `{org}` takes an [`Admitted`] with the permission that its operation requires. The extractor is the
//! only code that parses an organization from an API path, so a handler cannot serve an organization without this check.
//! It runs before the body is read.

use std::collections::VecDeque;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use tokio::time::Instant;

use crate::app::App;
use crate::http::context::RequestContext;
use crate::http::problem::Problem;
use crate::identity::authentication::authenticate;
use crate::limits::permit::{self, Permit};
use model::access::{Denial, Operation, Role, Scope};
use model::escape::Escaped;
use model::{EnvironmentName, Fingerprint, FlowName, TrailName};
use store::tokens::authentication::Token;

/// The token that a request was admitted with.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The name of the token, or `issuer/subject`.
    pub(crate) name: String,
    /// The same, with the name of a person who signed in, for approvals.
    pub(crate) display_name: String,
    /// The hash of the token, or of the issuer's rule: names need not be unique.
    pub(crate) token: Fingerprint,
    pub(crate) role: Role,
    pub(crate) scope: Scope,
    /// Whether its reports create environments.
    pub(crate) can_create: bool,
}

impl Caller {
    fn from_token(token: Token) -> Self {
        let Token { name, sha256, role, scope, can_create, .. } = token;
        Self { display_name: name.clone(), name, token: sha256, role, scope, can_create }
    }

    pub(crate) fn may(&self, operation: Operation<'_>) -> bool {
        self.role.permits(&self.scope, operation).is_ok()
    }

    /// Authorizes an approval in a flow for an environment, or for all.
    pub(crate) fn authorize_approval(
        &self,
        organization: &str,
        flow: &FlowName,
        environment: Option<&EnvironmentName>,
    ) -> Result<(), Problem> {
        let environment = environment.map(EnvironmentName::as_str);
        let permitted = self.role.permits(&self.scope, Operation::Approve(flow.as_str()));
        let permitted = permitted.and_then(|()| self.role.permits_approval_for(&self.scope, environment));
        permitted.map_err(|denial| deny(&self.name, self.role, organization, &denial))
    }

    pub(crate) fn authorize_creation(
        &self,
        organization: &str,
        name: &EnvironmentName,
    ) -> Result<(), Problem> {
        let permitted = self.role.permits(&self.scope, Operation::Report(name.as_str()));
        let permitted = permitted.and_then(|()| self.role.permits_creation(self.can_create));
        permitted.map_err(|denial| deny(&self.name, self.role, organization, &denial))
    }

    pub(crate) fn authorize(&self, organization: &str, operation: Operation<'_>) -> Result<(), Problem> {
        let permitted = self.role.permits(&self.scope, operation);
        permitted.map_err(|denial| deny(&self.name, self.role, organization, &denial))
    }
}

/// Logs why a token was denied. Its client gets the same reason.
fn deny(token: &str, role: Role, organization: &str, denial: &Denial) -> Problem {
    let (name, role) = (Escaped(token).to_string(), role.as_str());
    tracing::info!(
        token = name,
        role,
        "denied: token \"{name}\" of {organization} has role {role}: {denial}"
    );
    Problem::forbidden(denial)
}

/// The organization of a valid token.
pub(crate) struct Authenticated(pub(crate) String);

/// A request that was admitted to an organization: `P` is the required permission, `Rest` the parameters of the path
/// after `{org}`.
pub(crate) struct Admitted<P, Rest = ()> {
    pub(crate) organization: String,
    pub(crate) rest: Rest,
    pub(crate) caller: Caller,
    permission: PhantomData<P>,
}

pub(crate) trait Permission {
    /// The operation to authorize, by the first parameter of its path after `{org}`; `None` if the path lacks it.
    fn operation(first: Option<&str>) -> Option<Operation<'_>>;
}

/// Reads the organization: roles `read`, `approve` and `admin`.
pub(crate) struct Read;
/// Reports an environment, the first parameter after `{org}`: roles `report` and `admin`.
pub(crate) struct Report;
/// Attests in a flow, the first parameter after `{org}`: roles `attest` and `admin`.
pub(crate) struct Attest;
/// Approves artifacts in a flow, the first parameter after `{org}`: roles `approve` and `admin`. The operation calls
/// [`Caller::authorize_approval`] for the environment.
pub(crate) struct Approve;
/// Creates an environment: roles `report` and `admin`. The operation calls [`Caller::authorize_creation`].
pub(crate) struct Create;
/// Creates a flow: roles `attest` and `admin`. The operation calls [`Caller::authorize`].
pub(crate) struct CreateFlow;
/// Reads an environment, the first parameter after `{org}`: roles `read` and `admin`, and `report` for its own.
pub(crate) struct ReadEnvironment;
/// Administers the organization: role `admin`.
pub(crate) struct Administer;
/// Reads the audit log, or who may do what: role `admin`.
pub(crate) struct ReadAudit;

impl Permission for Read {
    fn operation(_: Option<&str>) -> Option<Operation<'_>> {
        Some(Operation::Read)
    }
}

impl Permission for ReadAudit {
    fn operation(_: Option<&str>) -> Option<Operation<'_>> {
        Some(Operation::ReadAudit)
    }
}

impl Permission for Administer {
    fn operation(_: Option<&str>) -> Option<Operation<'_>> {
        Some(Operation::Administer)
    }
}

impl Permission for Create {
    fn operation(_: Option<&str>) -> Option<Operation<'_>> {
        Some(Operation::CreateEnvironment)
    }
}

impl Permission for CreateFlow {
    fn operation(_: Option<&str>) -> Option<Operation<'_>> {
        Some(Operation::CreateFlow)
    }
}

impl Permission for ReadEnvironment {
    fn operation(environment: Option<&str>) -> Option<Operation<'_>> {
        environment.map(Operation::ReadEnvironment)
    }
}

impl Permission for Attest {
    fn operation(flow: Option<&str>) -> Option<Operation<'_>> {
        flow.map(Operation::Attest)
    }
}

impl Permission for Report {
    fn operation(environment: Option<&str>) -> Option<Operation<'_>> {
        environment.map(Operation::Report)
    }
}

impl Permission for Approve {
    fn operation(flow: Option<&str>) -> Option<Operation<'_>> {
        flow.map(Operation::Approve)
    }
}

/// The parameters of a path after its organization.
pub(crate) trait PathRest: Sized + Send {
    /// Parses them, in their order; 400 names the first that is invalid.
    fn parse(parameters: &[String]) -> Result<Self, Problem>;
}

pub(crate) trait PathParameter: FromStr<Err: Display> + Send {
    /// Its name, for messages; empty if it is checked elsewhere.
    const NAME: &'static str;
}

impl PathParameter for String {
    const NAME: &'static str = "";
}

impl PathParameter for EnvironmentName {
    const NAME: &'static str = "env_name";
}

impl PathParameter for FlowName {
    const NAME: &'static str = "flow_name";
}

impl PathParameter for TrailName {
    const NAME: &'static str = "trail_name";
}

impl PathParameter for Fingerprint {
    const NAME: &'static str = "fingerprint";
}

fn parameter<T: PathParameter>(parameters: &[String], index: usize) -> Result<T, Problem> {
    Problem::parse(T::NAME, parameters.get(index).ok_or_else(Problem::defect)?)
}

impl PathRest for () {
    fn parse(_: &[String]) -> Result<Self, Problem> {
        Ok(())
    }
}

impl<A: PathParameter> PathRest for A {
    fn parse(parameters: &[String]) -> Result<Self, Problem> {
        parameter(parameters, 0)
    }
}

impl<A: PathParameter, B: PathParameter> PathRest for (A, B) {
    fn parse(parameters: &[String]) -> Result<Self, Problem> {
        Ok((parameter(parameters, 0)?, parameter(parameters, 1)?))
    }
}

impl<A: PathParameter, B: PathParameter, C: PathParameter> PathRest for (A, B, C) {
    fn parse(parameters: &[String]) -> Result<Self, Problem> {
        Ok((parameter(parameters, 0)?, parameter(parameters, 1)?, parameter(parameters, 2)?))
    }
}

/// The organization and the other parameters of a request's path.
pub(crate) async fn path_parameters(parts: &mut Parts) -> Result<(String, Vec<String>), Problem> {
    let Ok(Path(mut path)) = Path::<VecDeque<String>>::from_request_parts(parts, &()).await else {
        return Err(Problem::invalid("the path is not UTF-8 after percent-decoding"));
    };
    let organization = path.pop_front().ok_or_else(Problem::defect)?;
    Ok((organization, path.into()))
}

impl<P: Permission, Rest: PathRest> FromRequestParts<App> for Admitted<P, Rest> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let (organization, parameters) = path_parameters(parts).await?;
        let context = RequestContext::from_request_parts(parts, app).await?;
        let operation = P::operation(parameters.first().map(String::as_str)).ok_or_else(Problem::defect)?;
        let caller = admit(app, &context, parts, &organization, operation).await?;
        Ok(Self { organization, rest: Rest::parse(&parameters)?, caller, permission: PhantomData })
    }
}

impl FromRequestParts<App> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let context = RequestContext::from_request_parts(parts, app).await?;
        Ok(Self(authenticate(app, &context, parts, None).await?.organization))
    }
}

/// Returns 401 without a valid token, 403 outside the role, scope or organization of the token, and 429 after too many
/// requests without a valid token. Returns 503 if the organization has reached a limit.
async fn admit(
    app: &App,
    context: &RequestContext,
    parts: &Parts,
    organization: &str,
    operation: Operation<'_>,
) -> Result<Caller, Problem> {
    let token = authenticate(app, context, parts, Some(organization)).await?;
    let permitted = match &token.organization {
        home if home == organization => token.role.permits(&token.scope, operation),
        _ => Err(Denial::Organization),
    };
    if let Err(denial) = permitted {
        return Err(deny(&token.name, token.role, &token.organization, &denial));
    }
    let mut permits = vec![run(app, organization)?];
    if operation.is_read() {
        permits.push(use_connection(app, organization).await?);
    }
    context.admit(organization, permits);
    Ok(Caller::from_token(token))
}

/// The permit of an organization to run one more request. Never waits: a waiting request would hold one of the permits of
/// all organizations, and the requests of one could then hold all of them.
pub(crate) fn run(app: &App, organization: &str) -> Result<Permit, store::Error> {
    let permit = app.running_of.get(organization).try_acquire_owned();
    permit.map_err(|_| store::Error::Busy("this organization has reached its limit of running requests"))
}

/// The permit of an organization to read from the database.
pub(crate) async fn use_connection(app: &App, organization: &str) -> Result<Permit, store::Error> {
    const LIMIT: &str = "this organization has reached its limit of concurrent reads";
    let deadline = Instant::now() + app.limits.permit_timeout;
    permit::acquire(app.connections_of.get(organization), deadline, LIMIT).await
}
