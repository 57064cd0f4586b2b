//! Redacts the credentials of a cluster in texts of servers, which may echo them.
//!
//! `credentials` passes the known one. Older ones are unknown, so everything after the name of an authentication scheme
//! is redacted as well. URLs lose their credentials before they are used, so that no error and no log of a library can
//! contain them.

use std::sync::LazyLock;

use http::Uri;
use http::uri::Authority;
use regex::Regex;
use secrecy::{ExposeSecret, SecretString};

use model::escape::redact_secret;

const REDACTED: &str = "[token]";

/// Redacts the token or password in a text.
pub(in crate::cluster) fn redact(text: &str, secret: Option<&SecretString>) -> String {
    match secret.map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty()) {
        Some(secret) => redact_headers(&redact_secret(text, secret, REDACTED)),
        None => redact_headers(text),
    }
}

/// The URL without a user name and a password.
pub(in crate::cluster) fn without_userinfo(url: Uri) -> Uri {
    let Some((_, host)) = url.authority().and_then(|authority| authority.as_str().rsplit_once('@')) else {
        return url;
    };
    let host: Option<Authority> = host.parse().ok();
    let mut parts = url.into_parts();
    parts.authority = host;
    // Never the default: the host of a URL is an authority.
    Uri::from_parts(parts).unwrap_or_default()
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

    #[test]
    fn url_loses_its_user_name_and_password_only() {
        for (url, expected) in [
            ("https://u:s3cret@host/x?y", "https://host/x?y"),
            ("https://s3cret@host:6443", "https://host:6443/"),
            ("https://:s3cret@[::1]:6443/a@b", "https://[::1]:6443/a@b"),
            ("socks5://u%40:s3cret@proxy:1080", "socks5://proxy:1080/"),
            ("https://host/x", "https://host/x"),
        ] {
            assert_eq!(without_userinfo(url.parse().unwrap()).to_string(), expected);
        }
    }

    /// With quadratic time, the error of a watch could block an agent for hours.
    #[test]
    fn text_of_only_scheme_names_is_redacted_in_linear_time() {
        let text = "bearer ".repeat(2 * 1024 * 1024);
        assert_eq!(redact_headers(&text), text);
    }
}
