//! The credentials of a cluster, which whoever answers may send back, and which no log may show.
//!
//! `configuration` hands over those that it knows; what a plugin printed is known by where it stands.

use std::sync::{Arc, LazyLock};

use kube::config::AuthInfo;
use regex::Regex;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::escape::without_secret;

/// What stands for a secret.
const REDACTED: &str = "[token]";

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

/// What stands behind the name of an authentication scheme (RFC 6750, RFC 7617), but for a word of a sentence.
static HEADER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\b(bearer|basic) [!-~&&[^"'<>,;]]{8,}"#).ok());

/// A text without it. It may be long, and hold nothing but such names.
fn without_headers(text: &str) -> String {
    // Never `None`: the pattern is constant, and the tests below compile it.
    let Some(header) = HEADER.as_ref() else { return REDACTED.to_owned() };
    header.replace_all(text, format!("$1 {REDACTED}")).into_owned()
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
            ("bearer basic dXNlcjpwYXNz", "bearer basic [token]"),
            ("ünïcödé Bearer ünïcödé-t0ken", "ünïcödé Bearer ünïcödé-t0ken"),
            ("", ""),
        ] {
            assert_eq!(without_headers(text), shown);
        }
    }
    /// Which took the square of its length, so that the error of a watch could hold an agent up for hours.
    #[test]
    fn a_long_text_of_nothing_but_names_of_schemes_takes_no_longer_than_another() {
        let text = "bearer ".repeat(2 * 1024 * 1024);
        assert_eq!(without_headers(&text), text);
    }
}
