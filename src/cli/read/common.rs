//! Options and output that all reading commands share, and commands that print what they changed.

use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::columns::{Column, fields, table};
use crate::api::{self, Client, Deadline, Operation, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::service::Service;
use crate::cli::values::duration;
use crate::domain::retry::Backoff;

/// Options of all resources.
#[derive(Debug, Args)]
pub(in crate::cli) struct Common {
    #[command(flatten)]
    pub(in crate::cli) output: Output,
    #[command(flatten)]
    pub(in crate::cli) requests: Requests,
}

/// Options of requests.
#[derive(Debug, Args)]
pub(in crate::cli) struct Requests {
    /// Timeout of each request including retries, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
}

impl Common {
    /// Reads an object whose lists have a type: without them, another server answered.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        service: &Service,
        operation: &Operation<'_>,
    ) -> Result<Parsed<T>, Failure> {
        self.requests.get(&client(service)?, operation).await
    }

    /// Reads an object, and prints these fields of it.
    pub(super) async fn show(
        &self,
        service: &Service,
        operation: &Operation<'_>,
        columns: &[Column],
    ) -> Result<(), Failure> {
        let object: Map<String, Value> = self.requests.get(&client(service)?, operation).await?;
        let object = object.into();
        self.output.print(&object, || fields(columns, &object))
    }

    /// Reads and prints a list as a whole. `kind` names one item.
    pub(in crate::cli) async fn list(
        &self,
        service: &Service,
        operation: &Operation<'_>,
        kind: &str,
        columns: &[Column],
    ) -> Result<(), Failure> {
        let items: Vec<Map<String, Value>> = self.requests.get(&client(service)?, operation).await?;
        if items.is_empty() {
            tracing::info!("no {kind} found");
        }
        let items: Vec<Value> = items.into_iter().map(Value::Object).collect();
        let table = table(columns, &items);
        self.output.print(&items.into(), || table)
    }
}

impl Requests {
    /// Sends a read and retries transient failures until the timeout.
    pub(in crate::cli) async fn get<T: DeserializeOwned>(
        &self,
        client: &Client,
        operation: &Operation<'_>,
    ) -> Result<T, Failure> {
        self.read(client, operation.about, async || client.get(operation).await).await
    }

    /// Reads a resource and retries transient failures until the timeout.
    pub(super) async fn read<T>(
        &self,
        client: &Client,
        about: Resource<'_>,
        send: impl AsyncFn() -> Result<T, api::Error>,
    ) -> Result<T, Failure> {
        self.retry(client, &format!("reading the {about}"), about, send).await
    }

    /// Sends a request and retries transient failures until the timeout. `what` describes the request in the log.
    pub(in crate::cli) async fn retry<T>(
        &self,
        client: &Client,
        what: &str,
        about: Resource<'_>,
        send: impl AsyncFn() -> Result<T, api::Error>,
    ) -> Result<T, Failure> {
        let deadline = Deadline::after(self.timeout, Backoff::default());
        let response = deadline.retry(what, send).await;
        response.map_err(|error| {
            let hint = error.last().and_then(|error| client.hint(error, about));
            Failure::from(error).with_hint(hint)
        })
    }
}

pub(in crate::cli) fn client(service: &Service) -> Result<Client, Failure> {
    service.client("cli", api::Timeouts::default()).map_err(Failure::usage)
}
