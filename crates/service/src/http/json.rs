//! JSON request bodies; errors name the invalid field.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::http::body::{Paced, Received, Share, content_length};
use crate::http::context::RequestContext;
use crate::http::problem::Problem;
use crate::limits::MAX_DATA;
use model::escape::{Escaped, shortened};

/// Maximum length of a quoted error or path, in characters: both contain text from the client.
const MAX_QUOTED_CHARS: usize = 300;

/// Returns 415 unless the body is JSON, in any character set.
pub(crate) fn require(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json =
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if is_json { Ok(()) } else { Err(Problem::unsupported("application/json")) }
}

/// Receives and reads a body of at most [`MAX_DATA`] bytes. Returns its memory too.
pub(crate) async fn receive<T: DeserializeOwned>(
    app: &App,
    organization: &str,
    what: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, Share), Problem> {
    require(headers)?;
    let received = receive_bytes(app, organization, what, MAX_DATA, headers, body).await?;
    Ok((read(what, &received.bytes)?, received.share))
}

/// Receives a body of at most `max` bytes.
pub(crate) async fn receive_bytes(
    app: &App,
    organization: &str,
    what: &str,
    max: u64,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, Problem> {
    let expected = content_length(headers, what, max)?.unwrap_or_default();
    Paced::new(body, app.limits.pace).read(what, max, expected, app.inbound.share(organization)).await
}

/// The JSON body of a request, of at most [`MAX_DATA`] bytes, and the memory that it holds until its contents are recorded.
/// Handlers take it last, after the extractor that admits the request.
pub(crate) struct Sent<T>(pub(crate) T, pub(crate) Share);

/// The contents of a [`Sent`] body.
pub(crate) trait Contents: DeserializeOwned + Send {
    /// Its name in messages.
    const WHAT: &'static str;
}

impl<T: Contents> FromRequest<App> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let context: &RequestContext = parts.extensions.get().ok_or_else(Problem::defect)?;
        let received = receive(app, context.organization(), T::WHAT, &parts.headers, body).await?;
        Ok(Self(received.0, received.1))
    }
}

/// Reads a JSON object; serde would also accept an array of the struct's fields.
pub(crate) fn read<'de, T: Deserialize<'de>>(what: &str, bytes: &'de [u8]) -> Result<T, Problem> {
    read_with::<T, T>(what, bytes, serde_json::from_slice)
}

/// Like [`read`], but calls `parse`. Invalid input is parsed again as `T`, for the path and the text of the error.
pub(crate) fn read_with<'de, T: Deserialize<'de>, R>(
    what: &str,
    bytes: &'de [u8],
    parse: impl FnOnce(&'de [u8]) -> serde_json::Result<R>,
) -> Result<R, Problem> {
    if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(Problem::invalid(format!("failed to parse {what}: expected an object")));
    }
    let error = match parse(bytes) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let (place, error) = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(found) => (Some(found.path().to_string()), found.into_inner()),
        // `T` skips the bytes behind the object, and the encoding of ignored values.
        Ok(_) => (None, error),
    };
    let why = Escaped(&shortened(&error.to_string(), MAX_QUOTED_CHARS)).to_string();
    match place.filter(|place| place != "." && !error.is_syntax() && !error.is_eof()) {
        Some(place) => Err(Problem::field(Escaped(&shortened(&place, MAX_QUOTED_CHARS)).to_string(), &why)),
        None => Err(Problem::invalid(format!("failed to parse {what}: {why}"))),
    }
}
