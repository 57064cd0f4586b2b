//! Error responses: JSON, or a page below `/ui`, always with the reason.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use runtime::error_causes;

/// The body of every error response.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorBody {
    /// The error.
    message: String,
    /// The reason per invalid field or parameter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<String, String>,
    /// The ID of the request, only in server errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

/// Error responses of every operation.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "describes responses in the OpenAPI document")]
pub(crate) enum ErrorResponses {
    /// Invalid request
    #[response(status = 400)]
    Invalid(ErrorBody),
    /// No valid token
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token lacks the permission
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// Too many requests without a valid token from this address, or too many new environments, flows or trails
    #[response(status = 429)]
    TooMany(ErrorBody),
    /// Internal error
    #[response(status = 500)]
    Defect(ErrorBody),
    /// The database is unavailable, or too many requests or responses are in progress
    #[response(status = 503)]
    Unavailable(ErrorBody),
}

/// Error responses of operations that read a body.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "describes responses in the OpenAPI document")]
pub(crate) enum BodyErrorResponses {
    /// The body was received too slowly
    #[response(status = 408)]
    TooSlow(ErrorBody),
    /// The body, or a part of it, is too large
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// Unsupported content type
    #[response(status = 415)]
    Unsupported(ErrorBody),
}

#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    body: ErrorBody,
    /// `Retry-After`, in seconds.
    retry_after: Option<u64>,
}

/// `Retry-After` when the database or memory is unavailable, in seconds.
const RETRY_SECONDS: u64 = 5;

impl Problem {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let body = ErrorBody { message: message.into(), errors: BTreeMap::new(), request_id: None };
        Self { status, body, retry_after: None }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The error of the request with this ID.
    pub(crate) fn of_request(mut self, id: &str) -> Self {
        self.body.request_id = Some(id.to_owned());
        self
    }

    /// The error and its details, as text.
    pub(crate) fn text(&self) -> String {
        let expected = self.body.errors.values().map(|why| format!(": {why}"));
        std::iter::once(self.body.message.clone()).chain(expected).collect()
    }

    /// 400: invalid request.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 400: invalid field or parameter.
    pub(crate) fn field(field: impl Into<String>, why: &(impl Display + ?Sized)) -> Self {
        let field = field.into();
        let mut problem = Self::invalid(format!("invalid value of \"{field}\""));
        problem.body.errors.insert(field, why.to_string());
        problem
    }

    /// Parses a field or parameter; 400 if it is invalid.
    pub(crate) fn parse<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Self> {
        text.parse().map_err(|error| Self::field(field, &error))
    }

    /// Parses an integer from 1; 400 if it is invalid.
    pub(crate) fn number(field: &str, text: &str) -> Result<i64, Self> {
        let is_plain = text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && *number > 0);
        number.ok_or_else(|| Self::field(field, "expected an integer from 1"))
    }

    /// 401: no valid token.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "a valid token is required: Authorization: Bearer TOKEN")
    }

    /// 401: a token of an issuer. The reason quotes nothing of the token.
    pub(crate) fn invalid_token(reason: &(impl Display + ?Sized)) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, format!("the token is rejected: {reason}"))
    }

    /// 403.
    pub(crate) fn forbidden(why: &(impl Display + ?Sized)) -> Self {
        Self::new(StatusCode::FORBIDDEN, why.to_string())
    }

    /// 404.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 410: it existed.
    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, message)
    }

    /// A request that axum rejects with this status.
    pub(crate) fn unreadable(status: StatusCode) -> Self {
        Self::new(status, "malformed request")
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed; the Allow header lists the allowed methods",
        )
    }

    /// 408: the body is received too slowly.
    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "timed out: the body was received too slowly")
    }

    /// 413.
    pub(crate) fn too_large(what: &str, max: u64) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, format!("{what} is too large: expected at most {max} bytes"))
    }

    /// 413: the body is small enough, but recording it needs too much memory.
    pub(crate) fn too_much(what: &str, bytes: usize, max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "{what} has too many pods and images: recording it needs {bytes} bytes of memory, expected at most {max}"
            ),
        )
    }

    /// 415.
    pub(crate) fn unsupported(expected: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("unsupported Content-Type: expected {expected}"),
        )
    }

    /// 429: too many requests without a valid token or session from the same address.
    pub(crate) fn too_many(wait: Duration) -> Self {
        let message = "too many requests without a valid token or session from this address; \
                       retry after the delay in Retry-After";
        Self::too_many_requests(message, wait)
    }

    /// 422: an `Idempotency-Key` that another request had.
    pub(crate) fn reused_key() -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this Idempotency-Key belongs to another request of the last 24 hours: expected a new key for a new request",
        )
    }

    /// 429: a token has created too many objects.
    pub(crate) fn too_many_created(what: &str, max: u32, wait: Duration) -> Self {
        let message = format!(
            "this token has reached its limit of {max} new {what} in 24 hours: declare them in the bootstrap file, or retry after \
             the delay in Retry-After"
        );
        Self::too_many_requests(message, wait)
    }

    fn too_many_requests(message: impl Into<String>, wait: Duration) -> Self {
        let seconds = wait.as_millis().div_ceil(1000);
        Self { retry_after: u64::try_from(seconds).ok(), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    /// 500: a defect.
    pub(crate) fn defect() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the log of the service")
    }

    /// `Retry-After`, in seconds.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// 503.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { retry_after: Some(RETRY_SECONDS), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// 408: the connection ended within the body. A proxy may still pass the response on, and the request can be repeated.
    pub(crate) fn broken_off() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "the connection was closed before the end of the body")
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        if let store::Error::Busy(limit) = error {
            // The access log suffices: a limit may reject many requests.
            return Self::unavailable(format!("{limit}; retry after the delay in Retry-After"));
        }
        if matches!(error, store::Error::PageTooLarge) {
            return Self::field("per_page", &error);
        }
        let causes = error_causes::describe(&error);
        if matches!(error, store::Error::Unavailable(_)) {
            tracing::warn!(kind = "unavailable", "{causes}");
            return Self::unavailable("the database is unavailable; nothing was recorded");
        }
        if matches!(error, store::Error::InDoubt(_)) {
            tracing::warn!(kind = "in doubt", "{causes}");
            return Self::unavailable(
                "the connection to the database was lost during the commit, which may have succeeded: \
                 retry a report; a retried attestation may be recorded twice",
            );
        }
        tracing::error!(kind = "failed", "{causes}");
        Self::defect()
    }
}

/// The response to a request whose handler panicked. The text of the panic goes to the log only.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("the handler of a request panicked");
    Problem::defect().into_response()
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
        // The middleware of pages renders it below `/ui`.
        response.extensions_mut().insert(self);
        response
    }
}
