//! Sends the change of a command.

use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::exit::Failure;
use client::{Client, Operation};

/// Sends a change once: it may have been made although its response is lost.
pub(crate) async fn change<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    operation: &Operation<'_>,
    body: Option<&Value>,
) -> Result<T, Failure> {
    let response = client.change(method, operation, body).await;
    response.map_err(|error| Failure::request(client, operation.about, error))
}
