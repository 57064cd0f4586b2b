//! Options and output that all reading commands share, and commands that print what they changed.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::columns::{Column, fields, table};
use crate::api::{self, Client, Deadline, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Output, Table};
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
    /// Prints a list without pagination. `kind` names one item.
    pub(super) fn print_all<T>(
        &self,
        items: Vec<Parsed<T>>,
        kind: &str,
        table: impl Fn(&[Parsed<T>]) -> Table,
    ) -> Result<(), Failure> {
        if items.is_empty() {
            tracing::info!("no {kind} found");
        }
        let table = table(&items);
        let raw = items.into_iter().map(|item| item.raw).collect();
        self.output.print(&raw, || table)
    }

    /// Reads an object. `path` is the kind of resource, and the segments after the organization.
    pub(super) async fn object(
        &self,
        service: &Service,
        about: Resource<'_>,
        (path, query): (&[&str], &[(&str, &str)]),
    ) -> Result<Value, Failure> {
        let client = client(service)?;
        let object = self.requests.request(&client, about, async || client.object(path, query).await).await?;
        Ok(object.into())
    }

    /// Reads an object, and prints these fields of it.
    pub(super) async fn print_object(
        &self,
        service: &Service,
        about: Resource<'_>,
        request: (&[&str], &[(&str, &str)]),
        columns: &[Column],
    ) -> Result<(), Failure> {
        let object = self.object(service, about, request).await?;
        self.output.print(&object, || fields(columns, &object))
    }

    /// Reads and prints a list as a whole. `kind` names one item.
    pub(in crate::cli) async fn list_all(
        &self,
        service: &Service,
        about: Resource<'_>,
        kind: &str,
        (path, query): (&[&str], &[(&str, &str)]),
        columns: &[Column],
    ) -> Result<(), Failure> {
        let client = client(service)?;
        let page =
            self.requests.request(&client, about, async || client.items(path, query, None).await).await?;
        self.print_all(page.data, kind, |items| table(columns, items.iter().map(|item| &item.raw)))
    }
}

impl Requests {
    /// Sends a read and retries transient failures until the timeout.
    pub(super) async fn request<T>(
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
