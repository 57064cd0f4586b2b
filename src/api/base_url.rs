//! Where the service is.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::domain::escape::Visible;

/// Whether a token may travel unencrypted to a host other than this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to loopback.
    LoopbackOnly,
    /// Anywhere: `--allow-http`.
    Anywhere,
}

/// The service's base URL: `https`, or `http` to loopback; with or without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// A base URL that cannot be used. What might be a password in it is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the base URL {shown} {problem}")]
pub struct InvalidBaseUrl {
    shown: String,
    problem: &'static str,
}

impl BaseUrl {
    /// Reads `--base-url`.
    ///
    /// # Errors
    ///
    /// [`InvalidBaseUrl`] for what is no URL, has credentials, a query or a fragment, ends in the
    /// path that every operation adds, or would send a token in the clear.
    pub fn parse(input: &str, plain_http: PlainHttp) -> Result<Self, InvalidBaseUrl> {
        let refused = |problem| {
            let shown = if input.contains(['@', '?']) {
                "(not shown)".into()
            } else {
                format!("\"{}\"", Visible(input))
            };
            Err(InvalidBaseUrl { shown, problem })
        };
        let Ok(mut url) = Url::parse(input.trim()) else {
            return refused("is no URL; one such as \"https://compliance.example.com\" was expected");
        };
        if !url.has_host() || !matches!(url.scheme(), "https" | "http") {
            return refused("has neither https nor http as its scheme");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("holds credentials; give the token by --token-file or SUPERCARGO_TOKEN");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refused("has a query or a fragment; at most a path was expected");
        }
        if url.scheme() == "http" && plain_http == PlainHttp::LoopbackOnly && !is_loopback(&url) {
            return refused(
                "would send the token in the clear; use https, or --allow-http where the network is trusted",
            );
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path.ends_with("/api/v2") {
            return refused("ends in /api/v2, which is added to it; leave that out");
        }
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The URL of an operation: its path segments, each percent-encoded by itself, under `/api/v2`.
    pub(super) fn operation(&self, segments: &[&str]) -> Url {
        let mut url = self.0.clone();
        // Only URLs such as `mailto:` have no path segments.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "v2"]).extend(segments);
        }
        url
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

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(input: &str) -> Result<BaseUrl, InvalidBaseUrl> {
        BaseUrl::parse(input, PlainHttp::LoopbackOnly)
    }

    #[test]
    fn a_path_prefix_is_kept_and_a_trailing_slash_does_not_matter() {
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
    fn each_segment_is_encoded_by_itself() {
        let url = parse("https://c.example.com").unwrap().operation(&["a b/c", "100%", "?#", "ü"]);
        assert_eq!(url.path(), "/api/v2/a%20b%2Fc/100%25/%3F%23/%C3%BC");
    }

    #[test]
    fn what_cannot_be_a_base_url_is_refused_for_its_reason_without_showing_a_password() {
        for (input, reason) in [
            ("", "is no URL"),
            ("c.example.com", "is no URL"),
            ("localhost:8080", "neither https nor http"),
            ("ftp://c.example.com", "neither https nor http"),
            ("https://user:hunter2@c.example.com", "credentials"),
            ("https://hunter2@c.example.com", "credentials"),
            ("https://c.example.com?token=hunter2", "query"),
            ("https://c.example.com#x", "fragment"),
            ("https://c.example.com/api/v2/", "/api/v2"),
            ("http://c.example.com", "in the clear"),
            ("http://127.0.0.1.example.com", "in the clear"),
            ("https://user:hunter2@[::1", "is no URL"),
        ] {
            let error = parse(input).unwrap_err().to_string();
            assert!(error.contains(reason), "{input}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(BaseUrl::parse("http://c.example.com", PlainHttp::Anywhere).is_ok());
    }
}
