//! Finds connections to an API server that others could read or forge.
//!
//! Called by `configuration` before it opens a connection.

use url::Url;

use runtime::loopback::is_loopback;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnInsecure {
    #[default]
    Warn,
    /// Reject the configuration: `--strict`.
    Reject,
}

/// Why a connection is insecure. The text ends with what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Insecure {
    /// The certificate of the API server is not verified.
    #[error(
        "its insecure-skip-tls-verify lets another server read the credentials and forge pods; set certificate-authority"
    )]
    Unverified,
    /// The API server is another machine, and the connection is not encrypted.
    #[error("its plain http server lets the network read the credentials and forge pods; use https")]
    PlainHttp,
}

pub(in crate::cluster) fn insecure(config: &kube::Config) -> Option<Insecure> {
    let url = Url::parse(&config.cluster_url.to_string()).ok()?;
    if url.scheme() == "http" {
        (!is_loopback(&url)).then_some(Insecure::PlainHttp)
    } else {
        config.accept_invalid_certs.then_some(Insecure::Unverified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unencrypted_or_unverified_connection_to_another_machine_is_insecure() {
        for (url, accept_invalid_certs, expected) in [
            ("https://api.example.com", false, None),
            ("https://api.example.com", true, Some(Insecure::Unverified)),
            ("https://127.0.0.1:6443", true, Some(Insecure::Unverified)),
            ("http://api.example.com", false, Some(Insecure::PlainHttp)),
            ("http://api.example.com", true, Some(Insecure::PlainHttp)),
            ("http://10.0.0.1:8080", false, Some(Insecure::PlainHttp)),
            ("http://127.0.0.1.example.com", false, Some(Insecure::PlainHttp)),
            ("http://localhost.example.com", false, Some(Insecure::PlainHttp)),
            ("http://0x7f000001:8001", false, None),
            ("http://127.0.0.1:8001", true, None),
            ("http://[::1]:8001", false, None),
            ("http://localhost:8001", false, None),
        ] {
            let mut config = kube::Config::new(url.parse().unwrap());
            config.accept_invalid_certs = accept_invalid_certs;
            assert_eq!(insecure(&config), expected, "{url} {accept_invalid_certs}");
        }
    }
}
