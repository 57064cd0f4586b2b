//! The credentials of a cluster, which whoever answers may send back, and which no log may show.
//!
//! `configuration` hands over those that it knows; what a plugin printed is known by where it stands.

use std::sync::Arc;

use kube::config::AuthInfo;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::visible::without_secret;

/// What stands for a secret.
const REDACTED: &str = "[token]";

/// How a header begins that holds one (RFC 6750, RFC 7617).
const SCHEMES: [&str; 2] = ["bearer ", "basic "];

/// The secrets of a configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets(Arc<[SecretString]>);

impl Secrets {
    pub(super) fn of(auth: &AuthInfo) -> Self {
        let secrets = [&auth.token, &auth.password].into_iter().flatten();
        let trimmed = secrets.map(|secret| SecretString::from(secret.expose_secret().trim()));
        Self(trimmed.filter(|secret| !secret.expose_secret().is_empty()).collect())
    }

    /// A text without them, and without `sent`, the token of a file.
    pub(super) fn redacted(&self, text: &str, sent: Option<&SecretString>) -> String {
        let without =
            |text: String, secret: &SecretString| without_secret(&text, secret.expose_secret(), REDACTED);
        without_headers(&self.0.iter().chain(sent).fold(text.to_owned(), without))
    }
}

/// A text without what stands behind the name of an authentication scheme.
fn without_headers(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let (mut shown, mut from) = (String::new(), 0);
    while let Some((at, scheme)) =
        SCHEMES.iter().filter_map(|scheme| Some((from + lower.get(from..)?.find(scheme)?, scheme))).min()
    {
        let start = at + scheme.len();
        let rest = text.get(start..).unwrap_or_default();
        let length =
            rest.find(|c: char| !c.is_ascii_graphic() || "\"'<>,;".contains(c)).unwrap_or(rest.len());
        shown.push_str(text.get(from..start).unwrap_or_default());
        // A word of a sentence is none.
        shown.push_str(if length >= 8 { REDACTED } else { rest.get(..length).unwrap_or_default() });
        from = start + length;
    }
    shown + text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_held_is_not_shown_wherever_it_stands() {
        for (text, shown) in [
            ("authorization: Bearer eyJhbGciOi.x.y\r\nhost: a", "authorization: Bearer [token]\r\nhost: a"),
            (
                r#"{"a":"bearer s3cret-t0ken","b":"Basic dXNlcjpwYXNz"}"#,
                r#"{"a":"bearer [token]","b":"Basic [token]"}"#,
            ),
            ("a bearer of bad news, basic ideas", "a bearer of bad news, basic ideas"),
            ("Bearer ", "Bearer "),
            ("ünïcödé Bearer ünïcödé-t0ken", "ünïcödé Bearer ünïcödé-t0ken"),
            ("", ""),
        ] {
            assert_eq!(without_headers(text), shown);
        }
    }
}
