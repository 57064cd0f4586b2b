//! HTTP requests to addresses that the author of a bootstrap file chooses: notification targets and issuers.
//!
//! Without proxies and redirects, and within the guard against requests to internal networks (SSRF).

pub(crate) mod guard;

use std::io;

use ipnet::IpNet;
use reqwest::redirect;
use rustls::pki_types::CertificateDer;
use url::Url;

use crate::outbound::guard::{Guard, Transport};

/// Sends requests over HTTP. Each request opens a new connection, so that the guard checks the address each time.
#[derive(Clone)]
pub(crate) struct GuardedClient {
    encrypted: (reqwest::Client, Guard),
    plain: (reqwest::Client, Guard),
}

impl GuardedClient {
    /// Permits internal addresses in `allowed`, and trusts `authorities` in addition to the system's.
    pub(crate) fn new(
        allowed: &[IpNet],
        authorities: &[CertificateDer<'static>],
    ) -> Result<Self, reqwest::Error> {
        let authorities = || authorities.iter().map(|authority| reqwest::Certificate::from_der(authority));
        let client = |transport| {
            let guard = Guard::new(allowed, transport);
            let builder = match transport {
                Transport::Encrypted => {
                    reqwest::Client::builder().tls_certs_merge(authorities().collect::<Result<Vec<_>, _>>()?)
                }
                // Does not read the system's authorities.
                Transport::Plain => reqwest::Client::builder().tls_certs_only([]),
            };
            let client = builder
                .dns_resolver(guard.clone())
                .redirect(redirect::Policy::none())
                .no_proxy()
                .pool_max_idle_per_host(0)
                .user_agent(concat!("supercargo/", env!("CARGO_PKG_VERSION")))
                .http1_only();
            Ok((client.build()?, guard))
        };
        Ok(Self { encrypted: client(Transport::Encrypted)?, plain: client(Transport::Plain)? })
    }

    pub(crate) async fn client(&self, url: &Url) -> io::Result<&reqwest::Client> {
        let (client, guard) = if url.scheme() == "http" { &self.plain } else { &self.encrypted };
        // The resolver does not see literal addresses, so the guard checks them here.
        if let Some(host) = url.host_str().filter(|_| !matches!(url.host(), Some(url::Host::Domain(_)))) {
            guard.addresses(host).await?;
        }
        Ok(client)
    }
}
