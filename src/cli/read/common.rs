//! Options and output that all reading commands share, and commands that print what they changed.

use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::columns::{Column, Objects, at, fields, table};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::values::duration;
use client::{Client, Deadline, Operation, Parsed, Resource};
use model::EnvironmentName;
use model::escape::Escaped;
use model::retry::Backoff;

/// Options of all resources.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) requests: Requests,
}

/// Without a connection, a command gives up after this duration: someone waits for its output.
const CONNECTED_WITHIN: Duration = Duration::from_secs(2);

/// Options of requests.
#[derive(Debug, Args)]
pub(crate) struct Requests {
    /// Timeout of each request with its retries, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
}

impl Common {
    /// Reads an object whose lists have a type: without them, another server answered.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        service: &ServiceOptions,
        operation: &Operation<'_>,
    ) -> Result<Parsed<T>, Failure> {
        self.requests.get(&client(service)?, operation).await
    }

    /// Reads an object, and prints these fields of it.
    pub(super) async fn show(
        &self,
        service: &ServiceOptions,
        operation: &Operation<'_>,
        columns: &[Column],
    ) -> Result<(), Failure> {
        let object: Map<String, Value> = self.requests.get(&client(service)?, operation).await?;
        let object = object.into();
        self.output.print(&object, || fields(columns, &object))
    }

    /// Reads and prints a list as a whole. `kind` names one item.
    pub(crate) async fn list(
        &self,
        service: &ServiceOptions,
        operation: &Operation<'_>,
        kind: &str,
        columns: &[Column],
    ) -> Result<(), Failure> {
        let Objects(items) = self.requests.get(&client(service)?, operation).await?;
        if items.is_empty() {
            tracing::info!("no {kind} found");
        }
        let table = table(columns, &items);
        self.output.print(&items.into(), || table)
    }
}

impl Requests {
    /// Sends a read and retries transient failures until the timeout.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        client: &Client,
        operation: &Operation<'_>,
    ) -> Result<T, Failure> {
        self.read(client, operation.about, async || client.get(operation).await).await
    }

    /// As [`Self::get`], in a pipeline, which waits for a service that is starting.
    pub(crate) async fn get_in_pipeline<T: DeserializeOwned>(
        &self,
        client: &Client,
        operation: &Operation<'_>,
    ) -> Result<T, Failure> {
        let what = format!("reading the {}", operation.about);
        let read = self.deadline().retry(&what, async || client.get(operation).await).await;
        read.map_err(|error| Failure::request(client, operation.about, error))
    }

    /// Reads a resource and retries transient failures until the timeout.
    pub(super) async fn read<T>(
        &self,
        client: &Client,
        about: Resource<'_>,
        send: impl AsyncFn() -> Result<T, client::Error>,
    ) -> Result<T, Failure> {
        self.retry(client, &format!("reading the {about}"), about, send).await
    }

    /// Sends a request and retries transient failures until the timeout. `what` describes the request in the log.
    pub(crate) async fn retry<T>(
        &self,
        client: &Client,
        what: &str,
        about: Resource<'_>,
        send: impl AsyncFn() -> Result<T, client::Error>,
    ) -> Result<T, Failure> {
        let deadline = self.deadline().connected_within(CONNECTED_WITHIN);
        deadline.retry(what, send).await.map_err(|error| Failure::request(client, about, error))
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.timeout, Backoff::default())
    }
}

/// An operation on the organization.
pub(crate) fn organization(path: &[&str]) -> Operation<'static> {
    Operation::new(Resource::Organization, path)
}

/// An operation on an environment that exists already.
pub(super) fn environment<'a>(name: &'a EnvironmentName, path: &[&str]) -> Operation<'a> {
    Operation::new(Resource::Environment(name.as_str()), path)
}

/// Logs why a list may be incomplete.
pub(crate) fn warn(response: &Value, pointer: &str) {
    if let Some(warning) = at(response, pointer).as_str() {
        tracing::warn!("{}", Escaped(warning));
    }
}

pub(crate) fn client(service: &ServiceOptions) -> Result<Client, Failure> {
    service.client("cli", client::RequestTimeouts::default()).map_err(Failure::usage)
}
