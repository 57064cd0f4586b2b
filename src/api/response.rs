//! What came back, and whether it is an answer of the service.

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::body::Handed;
use super::error::{Error, Request};
use super::token::Token;
use crate::domain::escape::{Visible, shortened};
use crate::domain::retry::{Class, apart, class};

/// The largest answer to a write, and the largest error, that is read, in bytes.
pub(super) const MOST_OF_A_WRITE: usize = 64 * 1024;

/// The largest answer to a read that is read, in bytes.
pub(super) const MOST_OF_A_READ: usize = 64 * 1024 * 1024;

/// How many values an answer may hold. As values they take many times what they take in a body, objects most:
/// of 64 MiB it could be 7 GiB.
const MOST_VALUES: usize = 10_000_000;

/// As how many values an object counts.
const OBJECT: usize = 20;

/// How much of a text that is not the service's own is shown, in characters.
const SHOWN: usize = 160;

/// How much of a message of the service is shown, in characters.
const SHOWN_MESSAGE: usize = 2_000;

/// A success.
pub(super) struct Success {
    pub(super) status: StatusCode,
    /// `Null` where there was no body.
    pub(super) body: Value,
}

/// The headers of an answer, and a body that is read up to a limit.
pub(super) struct Answer {
    response: reqwest::Response,
    body: Vec<u8>,
    most: usize,
}

impl Answer {
    /// Reads the body of a success to its end, or of an error as far as it comes in `error_text`:
    /// its status says the most. `most` limits the body of a success, in bytes.
    pub(super) async fn read(
        response: reqwest::Response,
        most: usize,
        error_text: Duration,
    ) -> reqwest::Result<Self> {
        let is_success = response.status().is_success();
        let most = if is_success { most } else { MOST_OF_A_WRITE };
        let mut answer = Self { response, body: Vec::new(), most };
        if is_success {
            answer.read_body().await?;
        } else if let Ok(Err(error)) = timeout(error_text, answer.read_body()).await {
            tracing::debug!("the text of an error broke off: {}", error.without_url());
        }
        Ok(answer)
    }

    /// Reads one byte past the limit at least, where the body is longer.
    async fn read_body(&mut self) -> reqwest::Result<()> {
        while self.body.len() <= self.most
            && let Some(chunk) = self.response.chunk().await?
        {
            self.body.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Judges the answer to a write: a success is any 2xx with no body or with JSON (interface,
    /// operations 5 and 7, which leave the rest open).
    pub(super) fn judge(self, request: &Request, token: &Token, handed: Handed) -> Result<Success, Error> {
        let status = self.response.status();
        let foreign = |saw| Err(Error::Foreign { request: request.clone(), saw });
        if status.is_redirection() {
            let to = self.header(token, &LOCATION).unwrap_or_else(|| "nowhere".into());
            return foreign(format!("{status}, a redirect to {to}, which is not followed"));
        }
        let json = match self.body.as_slice() {
            [] => Some(Value::Null),
            body if values(body) > MOST_VALUES => {
                return foreign(format!("{status} with JSON of too many values"));
            }
            body => serde_json::from_slice(body).ok(),
        };
        let class = class(status.as_u16());
        match (class, json) {
            (Class::Success, _) if handed == Handed::Part => {
                foreign(format!("{status} before all of it was sent"))
            }
            (Class::Success, _) if self.body.len() > self.most => {
                foreign(format!("{status} with a body of more than {} KiB", self.most / 1024))
            }
            (Class::Success, Some(body)) => Ok(Success { status, body }),
            (class, _) if matches!(class, Class::Success | Class::Foreign) || self.is_foreign_page(class) => {
                let kind = self.header(token, &CONTENT_TYPE).unwrap_or_else(|| "no Content-Type".into());
                foreign(format!("{status} with {kind}, which begins \"{}\"", self.text(token)))
            }
            (_, json) => Err(Error::Answered {
                request: request.clone(),
                status,
                message: match json.as_ref().and_then(message) {
                    Some(message) => shown(token, &message, SHOWN_MESSAGE),
                    None if self.body.is_empty() => "without a message".to_owned(),
                    None => self.text(token),
                },
                retry_after: self.header(token, &RETRY_AFTER),
                apart: self.header(token, &DATE).and_then(|date| apart(&date, SystemTime::now())),
            }),
        }
    }

    /// Judges the answer to a read: 200, and JSON of the shape that is wanted.
    pub(super) fn judge_read<T: DeserializeOwned>(
        self,
        request: &Request,
        token: &Token,
    ) -> Result<T, Error> {
        let Success { status, body } = self.judge(request, token, Handed::All)?;
        let foreign = |saw| Error::Foreign { request: request.clone(), saw };
        if status != StatusCode::OK {
            return Err(foreign(format!("{status}, where 200 OK was expected")));
        }
        serde_path_to_error::deserialize(body).map_err(|error| {
            let why = shown(token, &error.to_string(), SHOWN);
            foreign(format!("{status} with JSON of another shape: {why}"))
        })
    }

    /// Whether it is a web page that says no: what serves it does not know the operation. What else a proxy says
    /// in HTML holds: that it wants credentials (407), or takes no more (413).
    fn is_foreign_page(&self, class: Class) -> bool {
        let kind = self.response.headers().get(CONTENT_TYPE).and_then(|kind| kind.as_bytes().get(..9));
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/html"))
            && matches!(class, Class::NotFound | Class::Refused)
            && !matches!(self.response.status().as_u16(), 407 | 413)
    }

    fn header(&self, token: &Token, name: &HeaderName) -> Option<String> {
        let value = self.response.headers().get(name)?;
        Some(shown(token, &String::from_utf8_lossy(value.as_bytes()), SHOWN))
    }

    fn text(&self, token: &Token) -> String {
        shown(token, &String::from_utf8_lossy(&self.body), SHOWN)
    }
}

/// How many values a body holds at most, should it be JSON.
fn values(body: &[u8]) -> usize {
    let weight = |byte: &u8| match byte {
        b',' | b'[' => 1,
        b'{' => OBJECT,
        _ => 0,
    };
    body.iter().map(weight).sum()
}

/// `message`, with `errors` behind it where there are any.
fn message(body: &Value) -> Option<String> {
    let message = body.get("message").and_then(Value::as_str)?;
    Some(match body.get("errors") {
        None | Some(Value::Null) => message.to_owned(),
        Some(errors) => format!("{message} {errors}"),
    })
}

/// A text from outside, without the token and fit for a terminal.
fn shown(token: &Token, text: &str, limit: usize) -> String {
    let text = token.redacted(text.trim());
    Visible(&shortened(&text, limit)).to_string()
}
