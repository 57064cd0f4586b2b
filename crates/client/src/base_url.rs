//! The base URL of the service, and the URLs of its operations.

use std::fmt;

use url::Url;

use model::escape::quoted_url;
use runtime::loopback::is_loopback;

/// The hosts to which a token may be sent unencrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// This host.
    LoopbackOnly,
    /// Any host: `--allow-http`.
    Anywhere,
}

/// The base URL of the service, with an optional path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// An invalid base URL. A URL that may contain a password is redacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid base URL {redacted}: {problem}")]
pub struct InvalidBaseUrl {
    redacted: String,
    problem: &'static str,
}

impl BaseUrl {
    /// Parses `--base-url`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidBaseUrl`] for a URL that is malformed, has other parts than scheme, host, port and path, ends
    /// in the path that every operation adds, or requires sending the token unencrypted.
    pub fn parse(input: &str, plain_http: PlainHttp) -> Result<Self, InvalidBaseUrl> {
        let invalid = |problem| Err(InvalidBaseUrl { redacted: quoted_url(input), problem });
        let Ok(mut url) = Url::parse(input.trim()) else {
            return invalid("expected a URL such as \"https://compliance.example.com\"");
        };
        if !url.has_host() || !matches!(url.scheme(), "https" | "http") {
            return invalid("the scheme must be https or http");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return invalid("must not contain credentials; use --token-file or SUPERCARGO_TOKEN");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return invalid("must not contain a query or a fragment");
        }
        if url.scheme() == "http" && plain_http == PlainHttp::LoopbackOnly && !is_loopback(&url) {
            return invalid(
                "the token would be sent unencrypted; use https, or --allow-http in a trusted network",
            );
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path.ends_with("/api/v2") {
            return invalid("must not end in /api/v2, which is added automatically");
        }
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The URL of an operation: `/api/v2` and its path segments, percent-encoded.
    pub(super) fn operation(&self, segments: &[&str]) -> Url {
        let mut url = self.0.clone();
        // Only URLs such as `mailto:` have no path segments.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "v2"]).extend(segments);
        }
        url
    }

    /// Scheme, host and port, such as `https://compliance.example.com`.
    #[must_use]
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    pub(super) fn is_plain_http(&self) -> bool {
        self.0.scheme() == "http"
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(input: &str) -> Result<BaseUrl, InvalidBaseUrl> {
        BaseUrl::parse(input, PlainHttp::LoopbackOnly)
    }

    #[test]
    fn path_prefix_is_kept_and_trailing_slash_is_ignored() {
        for (input, url) in [
            ("https://c.example.com", "https://c.example.com/api/v2/environments/acme/prod"),
            ("https://c.example.com/", "https://c.example.com/api/v2/environments/acme/prod"),
            (
                "https://c.example.com:8443/a/b//",
                "https://c.example.com:8443/a/b/api/v2/environments/acme/prod",
            ),
            ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x/api/v2/environments/acme/prod"),
            ("http://localhost", "http://localhost/api/v2/environments/acme/prod"),
            ("http://[::1]:8080", "http://[::1]:8080/api/v2/environments/acme/prod"),
        ] {
            let operation = parse(input).unwrap().operation(&["environments", "acme", "prod"]);
            assert_eq!(operation.as_str(), url);
        }
    }

    #[test]
    fn path_segments_are_percent_encoded() {
        let url = parse("https://c.example.com").unwrap().operation(&["a b/c", "100%", "?#", "ü"]);
        assert_eq!(url.path(), "/api/v2/a%20b%2Fc/100%25/%3F%23/%C3%BC");
    }

    #[test]
    fn invalid_base_url_is_rejected_and_password_is_redacted() {
        for (input, reason) in [
            ("", "expected a URL"),
            ("c.example.com", "expected a URL"),
            ("localhost:8080", "must be https or http"),
            ("ftp://c.example.com", "must be https or http"),
            ("https://user:hunter2@c.example.com", "credentials"),
            ("https://hunter2@c.example.com", "credentials"),
            ("https://c.example.com?token=hunter2", "query"),
            ("https://c.example.com#x", "fragment"),
            ("https://c.example.com/api/v2/", "/api/v2"),
            ("http://c.example.com", "unencrypted"),
            ("http://127.0.0.1.example.com", "unencrypted"),
            ("https://user:hunter2@[::1", "expected a URL"),
        ] {
            let error = parse(input).unwrap_err().to_string();
            assert!(error.contains(reason), "{input}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(BaseUrl::parse("http://c.example.com", PlainHttp::Anywhere).is_ok());
    }
}
