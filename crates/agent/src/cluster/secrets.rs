//! Redacts the credentials of a cluster in texts of servers, which may echo them.
//!
//! `configuration` passes the known credentials. The output of a plugin is unknown, so everything after the
//! name of an authentication scheme is redacted as well.

use std::sync::{Arc, LazyLock};

use kube::config::AuthInfo;
use regex::Regex;
use secrecy::{ExposeSecret, SecretString};

use model::escape::redact_secret;

const REDACTED: &str = "[token]";

#[derive(Debug, Clone, Default)]
pub(super) struct Secrets(Arc<[SecretString]>);

impl Secrets {
    pub(super) fn new(auth: &AuthInfo) -> Self {
        let secrets = [&auth.token, &auth.password].into_iter().flatten();
        let trimmed = secrets.map(|secret| SecretString::from(secret.expose_secret().trim()));
        Self(trimmed.filter(|secret| !secret.expose_secret().is_empty()).collect())
    }

    /// Redacts the secrets, and the token of a token file, in a text.
    pub(super) fn redact(&self, text: &str, file_token: Option<&SecretString>) -> String {
        let redact =
            |text: String, secret: &SecretString| redact_secret(&text, secret.expose_secret(), REDACTED);
        redact_headers(&self.0.iter().chain(file_token).fold(text.to_owned(), redact))
    }
}

/// Credentials after the name of an authentication scheme (RFC 6750, RFC 7617); 8 characters exclude most words.
static HEADER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\b(bearer|basic) [!-~&&[^"'<>,;]]{8,}"#).ok());

fn redact_headers(text: &str) -> String {
    // Never `None`: the pattern is constant, and the tests below compile it.
    let Some(header) = HEADER.as_ref() else { return REDACTED.to_owned() };
    header.replace_all(text, format!("$1 {REDACTED}")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_headers_are_redacted_anywhere_in_a_text() {
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
            assert_eq!(redact_headers(text), shown);
        }
    }

    /// With quadratic time, the error of a watch could block an agent for hours.
    #[test]
    fn text_of_only_scheme_names_is_redacted_in_linear_time() {
        let text = "bearer ".repeat(2 * 1024 * 1024);
        assert_eq!(redact_headers(&text), text);
    }
}
