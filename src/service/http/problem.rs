//! What a request is answered with when it cannot be done: JSON, or a page below `/ui`, always with a reason.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::evidence::access::Refusal;
use crate::process::error_causes;
use crate::store;

/// The body of every answer that is not a success.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorBody {
    /// What went wrong.
    message: String,
    /// Which field or parameter is at fault, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<String, String>,
}

/// What every operation may answer.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "it describes answers to the OpenAPI document")]
pub(crate) enum Refused {
    /// What was sent is wrong
    #[response(status = 400)]
    Invalid(ErrorBody),
    /// No valid token
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not do this
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// Too many requests without a valid token came from this address
    #[response(status = 429)]
    TooMany(ErrorBody),
    /// The service failed
    #[response(status = 500)]
    Defect(ErrorBody),
    /// The database is not available, too much is being received, or too many answers are under way or wait to be read
    #[response(status = 503)]
    Unavailable(ErrorBody),
}

/// What an operation that reads a body may answer.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "it describes answers to the OpenAPI document")]
pub(crate) enum RefusedBody {
    /// The body came too slowly
    #[response(status = 408)]
    TooSlow(ErrorBody),
    /// The body, or a part of it, is too large
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is of another type
    #[response(status = 415)]
    Unsupported(ErrorBody),
}

/// A request that cannot be done.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    body: ErrorBody,
    /// After how many seconds it is worth another try, where that can be told.
    retry_after: Option<u64>,
}

/// After how many seconds a request is worth another try where the database or memory was not
/// available.
const RETRY_SECONDS: u64 = 5;

impl Problem {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let body = ErrorBody { message: message.into(), errors: BTreeMap::new() };
        Self { status, body, retry_after: None }
    }

    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// What went wrong and what was expected, for people.
    pub(crate) fn told(&self) -> String {
        let expected = self.body.errors.values().map(|why| format!(": {why}"));
        std::iter::once(self.body.message.clone()).chain(expected).collect()
    }

    /// 400: what was sent is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 400: one field or parameter is wrong.
    pub(crate) fn field(field: impl Into<String>, why: &(impl Display + ?Sized)) -> Self {
        let field = field.into();
        let mut problem = Self::invalid(format!("\"{field}\" cannot be used"));
        problem.body.errors.insert(field, why.to_string());
        problem
    }

    /// 409: one field does not go with what is recorded.
    pub(crate) fn conflict(field: &str, why: &(impl Display + ?Sized)) -> Self {
        Self { status: StatusCode::CONFLICT, ..Self::field(field, why) }
    }

    /// A field or parameter of a type of its own, or 400.
    pub(crate) fn parse<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Self> {
        text.parse().map_err(|error| Self::field(field, &error))
    }

    /// A number that is counted from 1, or 400.
    pub(crate) fn number(field: &str, text: &str) -> Result<i64, Self> {
        let is_plain = text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && *number > 0);
        number.ok_or_else(|| Self::field(field, "a whole number from 1 was expected"))
    }

    /// 401: no valid token.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "a valid token is required: Authorization: Bearer TOKEN")
    }

    /// 403: the same whether what was asked for exists or not.
    pub(crate) fn forbidden(refusal: Refusal) -> Self {
        Self::new(StatusCode::FORBIDDEN, refusal.to_string())
    }

    /// 403: a form that another site's page sent.
    pub(crate) fn foreign() -> Self {
        Self::new(StatusCode::FORBIDDEN, "this form did not come from a page of this service: open it again")
    }

    /// 404.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// A request that the framework refuses with this status.
    pub(crate) fn unreadable(status: StatusCode) -> Self {
        Self::new(status, "this request cannot be read")
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this path does not take this method; the Allow header lists those that it does",
        )
    }

    /// 408: the body comes too slowly.
    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "the body came too slowly")
    }

    /// 413.
    pub(crate) fn too_large(what: &str, most: u64) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("{what} is too large: at most {most} bytes were expected"),
        )
    }

    /// 413 for what is small enough as it is sent, and not as it is recorded.
    pub(crate) fn too_much(what: &str, bytes: usize, most: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "{what} names too many pods and images: to record it takes {bytes} bytes of memory, and {most} were expected at most"
            ),
        )
    }

    /// 415.
    pub(crate) fn unsupported(expected: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the Content-Type was expected to be {expected}"),
        )
    }

    /// 429: too many requests without a valid token came from the same address.
    pub(crate) fn too_many(wait: Duration) -> Self {
        let message = "too many requests without a valid token came from this address; \
                       Retry-After says when to try again";
        let seconds = wait.as_millis().div_ceil(1000);
        Self { retry_after: u64::try_from(seconds).ok(), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    /// 500: a defect.
    pub(crate) fn defect() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the service failed; its log says how")
    }

    /// In how many seconds it is worth another try.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// 503.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { retry_after: Some(RETRY_SECONDS), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// 400 for a body whose connection broke off: nobody is likely to read it.
    pub(crate) fn broken_off() -> Self {
        Self::invalid("the body broke off")
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        let causes = error_causes::said_once(&error).join(": ");
        if matches!(error, store::Error::Unavailable(_)) {
            tracing::warn!(kind = "unavailable", "{causes}");
            return Self::unavailable("the database is not available; nothing was recorded");
        }
        if matches!(error, store::Error::InDoubt(_)) {
            tracing::warn!(kind = "in doubt", "{causes}");
            return Self::unavailable(
                "the database went away, and whether this was recorded is not known: a report can be sent again, \
                 an attestation may then be there twice",
            );
        }
        tracing::error!(kind = "failed", "{causes}");
        Self::defect()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, axum::Json(&self.body)).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        // Below `/ui` it is told by a page.
        response.extensions_mut().insert(self);
        response
    }
}
