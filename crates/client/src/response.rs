//! Reads responses, and decides whether they come from the service.

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::body::UploadState;
use super::error::{Error, ServiceRequest};
use super::token::Token;
use model::escape::{Escaped, shortened};
use model::json::values;
use model::retry::{StatusClass, classify, clock_skew};

/// Maximum size of a response to a write, and of an error, in bytes.
pub(super) const MAX_WRITE_RESPONSE_BYTES: usize = 64 * 1024;

/// Maximum size of a response to a read, in bytes.
pub(super) const MAX_READ_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of JSON values in a response. Parsed values are larger than their text: 64 MiB of small objects
/// would take 7 GiB.
const MAX_VALUES: usize = 10_000_000;

/// Maximum length of a quotation from a header or an unexpected body, in characters.
const MAX_EXCERPT_CHARS: usize = 160;

/// Maximum length of a message of the service, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// A successful response.
pub(super) struct Success {
    pub(super) status: StatusCode,
    /// `Null` without a body.
    pub(super) body: Value,
    pub(super) receipt: Receipt,
}

/// What the service read of an attested file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Of a bill of materials, such as `CycloneDX 1.6, 123 packages`; `None` if it read nothing.
    pub bill: Option<String>,
    /// Why it did not.
    pub warning: Option<String>,
    /// What it verified of signed evidence.
    pub signed: Option<String>,
}

/// The headers of a response, and its body up to a limit.
pub(super) struct Response {
    head: reqwest::Response,
    body: Vec<u8>,
    max_bytes: usize,
}

impl Response {
    /// Reads the body of a success, up to `max_bytes`. Reads the body of an error for at most `error_body`; its status
    /// is sufficient.
    pub(super) async fn read(
        response: reqwest::Response,
        max_bytes: usize,
        error_body: Duration,
    ) -> reqwest::Result<Self> {
        let is_success = response.status().is_success();
        let max_bytes = if is_success { max_bytes } else { MAX_WRITE_RESPONSE_BYTES };
        let mut read = Self { head: response, body: Vec::new(), max_bytes };
        if is_success {
            read.read_body().await?;
        } else if let Ok(Err(error)) = timeout(error_body, read.read_body()).await {
            tracing::debug!("failed to read the body of an error response: {}", error.without_url());
        }
        Ok(read)
    }

    /// Reads at least one byte beyond the limit if the body is longer.
    async fn read_body(&mut self) -> reqwest::Result<()> {
        while self.body.len() <= self.max_bytes
            && let Some(chunk) = self.head.chunk().await?
        {
            self.body.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Classifies the response to a write. Any 2xx without a body or with JSON is a success (interface, operations 5
    /// and 7).
    pub(super) fn classify(
        self,
        request: &ServiceRequest,
        token: &Token,
        upload: UploadState,
    ) -> Result<Success, Error> {
        let status = self.head.status();
        let unexpected = |response| Err(Error::UnexpectedResponse { request: request.clone(), response });
        if status.is_redirection() {
            let to = self.header(token, &LOCATION).unwrap_or_else(|| "an unknown location".into());
            return unexpected(format!("{status}: redirect to {to} is not followed"));
        }
        let json = match self.body.as_slice() {
            [] => Some(Value::Null),
            body if values(body) > MAX_VALUES => {
                return unexpected(format!("{status} with more than {MAX_VALUES} JSON values"));
            }
            body => serde_json::from_slice(body).ok(),
        };
        let class = classify(status.as_u16());
        match (class, json) {
            (StatusClass::Success, _) if upload == UploadState::Partial => {
                unexpected(format!("{status} before the upload was complete"))
            }
            (StatusClass::Success, _) if self.body.len() > self.max_bytes => {
                unexpected(format!("{status} with a body of more than {} KiB", self.max_bytes / 1024))
            }
            (StatusClass::Success, Some(body)) => {
                let header = |name| self.header(token, &HeaderName::from_static(name));
                let (bill, warning) =
                    (header("x-supercargo-bill-of-materials"), header("x-supercargo-warning"));
                let name = HeaderName::from_static("x-supercargo-signed-evidence");
                let signed = self.long_header(token, &name, MAX_MESSAGE_CHARS);
                Ok(Success { status, body, receipt: Receipt { bill, warning, signed } })
            }
            (class, _)
                if matches!(class, StatusClass::Success | StatusClass::Foreign)
                    || self.is_unknown_operation_page(class) =>
            {
                let kind = self.header(token, &CONTENT_TYPE).unwrap_or_else(|| "no Content-Type".into());
                unexpected(format!("{status} with {kind}: \"{}\"", self.text(token)))
            }
            (_, json) => Err(Error::Answered {
                request: request.clone(),
                status,
                fields: json.as_ref().map(|body| fields(token, body)).unwrap_or_default(),
                message: match json.as_ref().and_then(message) {
                    Some(message) => sanitize(token, &message, MAX_MESSAGE_CHARS),
                    None if self.body.is_empty() => "no message".to_owned(),
                    None => self.text(token),
                },
                retry_after: self.header(token, &RETRY_AFTER),
                clock_skew: self.header(token, &DATE).and_then(|date| clock_skew(&date, SystemTime::now())),
            }),
        }
    }

    /// Classifies the response to a read. A success is 200 with JSON of the expected type.
    pub(super) fn classify_json<T: DeserializeOwned>(
        self,
        request: &ServiceRequest,
        token: &Token,
        expected: &[StatusCode],
    ) -> Result<T, Error> {
        let Success { status, body, .. } = self.classify(request, token, UploadState::Complete)?;
        let unexpected = |response| Error::UnexpectedResponse { request: request.clone(), response };
        if !expected.contains(&status) {
            let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
            return Err(unexpected(format!("expected {}, got {status}", expected.join(" or "))));
        }
        serde_path_to_error::deserialize(body).map_err(|error| {
            let cause = sanitize(token, &error.to_string(), MAX_EXCERPT_CHARS);
            unexpected(format!("{status} with unexpected JSON: {cause}"))
        })
    }

    /// Classifies the response to a download: its Content-Disposition and Repr-Digest, and the file. A success is 200 with
    /// these headers.
    pub(super) fn classify_file(
        self,
        request: &ServiceRequest,
        token: &Token,
    ) -> Result<(String, String, Vec<u8>), Error> {
        let header = |name| Some(self.head.headers().get(name)?.to_str().ok()?.to_owned());
        let headers = header(CONTENT_DISPOSITION).zip(header(HeaderName::from_static("repr-digest")));
        match headers {
            Some((disposition, digest))
                if self.head.status() == StatusCode::OK && self.body.len() <= self.max_bytes =>
            {
                Ok((disposition, digest, self.body))
            }
            _ => {
                let Success { status, .. } = self.classify(request, token, UploadState::Complete)?;
                let response = format!("{status} without a file and its digest");
                Err(Error::UnexpectedResponse { request: request.clone(), response })
            }
        }
    }

    /// Whether an HTML page rejects the request, so that the server does not know the operation. Excludes responses of
    /// a proxy: it requires credentials (407), or the body is too large (413).
    fn is_unknown_operation_page(&self, class: StatusClass) -> bool {
        let kind = self.head.headers().get(CONTENT_TYPE).and_then(|kind| kind.as_bytes().get(..9));
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/html"))
            && matches!(class, StatusClass::NotFound | StatusClass::Rejected)
            && !matches!(self.head.status().as_u16(), 407 | 413)
    }

    fn header(&self, token: &Token, name: &HeaderName) -> Option<String> {
        self.long_header(token, name, MAX_EXCERPT_CHARS)
    }

    fn long_header(&self, token: &Token, name: &HeaderName, max_chars: usize) -> Option<String> {
        let value = self.head.headers().get(name)?;
        Some(sanitize(token, &String::from_utf8_lossy(value.as_bytes()), max_chars))
    }

    fn text(&self, token: &Token) -> String {
        sanitize(token, &String::from_utf8_lossy(&self.body), MAX_EXCERPT_CHARS)
    }
}

/// The fields `message` and `errors`: `invalid value of "page": expected an integer from 1`. A field that the message quotes
/// is not named again.
fn message(body: &Value) -> Option<String> {
    let message = body.get("message").and_then(Value::as_str)?;
    let text = |why: &Value| why.as_str().map_or_else(|| why.to_string(), str::to_owned);
    let errors: Vec<String> = match body.get("errors") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(fields)) => fields
            .iter()
            .map(|(field, why)| match text(why) {
                why if message.contains(&format!("\"{field}\"")) => why,
                why => format!("{field}: {why}"),
            })
            .collect(),
        Some(Value::Array(errors)) => errors.iter().map(text).collect(),
        Some(other) => vec![text(other)],
    };
    if errors.is_empty() {
        Some(message.to_owned())
    } else {
        Some(format!("{message}: {}", errors.join("; ")))
    }
}

/// The names of the invalid fields in an error.
fn fields(token: &Token, body: &Value) -> Box<[String]> {
    let fields = body.get("errors").and_then(Value::as_object);
    fields
        .into_iter()
        .flat_map(|fields| fields.keys())
        .map(|name| sanitize(token, name, MAX_EXCERPT_CHARS))
        .collect()
}

/// A text of the server, redacted, shortened and escaped.
fn sanitize(token: &Token, text: &str, limit: usize) -> String {
    let text = token.redacted(text.trim());
    Escaped(&shortened(&text, limit)).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn message_names_each_invalid_field_once() {
        for (errors, expected) in [
            (json!(null), "invalid value of \"page\""),
            (json!({}), "invalid value of \"page\""),
            (json!({"page": "expected 1"}), "invalid value of \"page\": expected 1"),
            (
                json!({"page": "expected 1", "a.b": ["x", 2]}),
                "invalid value of \"page\": a.b: [\"x\",2]; expected 1",
            ),
            (json!(["one", {"two": 2}]), "invalid value of \"page\": one; {\"two\":2}"),
            (json!("more"), "invalid value of \"page\": more"),
        ] {
            let body = json!({"message": "invalid value of \"page\"", "errors": errors});
            assert_eq!(message(&body).as_deref(), Some(expected), "{errors}");
        }
        assert_eq!(message(&json!({"errors": {"page": "x"}})), None);
    }
}
