//! Request IDs, from the client or new. The log lines, the response and the error of a request have it.

use axum::extract::Request;
use axum::http::{self, HeaderName, HeaderValue};
use tower_http::request_id::{MakeRequestId, RequestId};

/// The header of requests and responses.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an ID from a client, in bytes.
const MAX_BYTES: usize = 64;

/// Makes IDs that sort by time.
#[derive(Clone, Copy)]
pub(crate) struct NewId;

impl MakeRequestId for NewId {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        HeaderValue::try_from(store::new_id().to_string()).ok().map(RequestId::new)
    }
}

/// Removes an ID that could forge or flood log lines, so that the request gets a new one.
pub(crate) async fn drop_unsafe(mut request: Request) -> Request {
    if !request.headers().get_all(HEADER).iter().all(is_safe) {
        request.headers_mut().remove(HEADER);
    }
    request
}

fn is_safe(id: &HeaderValue) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (1..=MAX_BYTES).contains(&id.len()) && id.as_bytes().iter().all(is_plain)
}
