//! Webhooks and chats: a POST of JSON that goes straight to its address, and nowhere else.

use ipnet::IpNet;
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::redirect;
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::guard::{Guard, Transport};
use super::signature::{self, ID, SIGNATURE};
use super::{Message, SendError};

/// Sends over HTTP. Each time a connection is made anew, so that its address is judged anew.
#[derive(Debug, Clone)]
pub(super) struct Http {
    encrypted: (reqwest::Client, Guard),
    plain: (reqwest::Client, Guard),
}

impl Http {
    pub(super) fn new(
        allowed: &[IpNet],
        authorities: &[CertificateDer<'static>],
    ) -> Result<Self, reqwest::Error> {
        let authorities = || authorities.iter().map(|authority| reqwest::Certificate::from_der(authority));
        let client = |transport| {
            let guard = Guard::new(allowed, transport);
            let client = reqwest::Client::builder()
                .tls_certs_merge(authorities().collect::<Result<Vec<_>, _>>()?)
                .dns_resolver(guard.clone())
                .redirect(redirect::Policy::none())
                .no_proxy()
                .pool_max_idle_per_host(0)
                .http1_only();
            Ok((client.build()?, guard))
        };
        Ok(Self { encrypted: client(Transport::Encrypted)?, plain: client(Transport::Plain)? })
    }

    /// Sends what a machine reads, signed with each of the secrets.
    pub(super) async fn webhook(
        &self,
        url: &SecretString,
        secrets: &[SecretString],
        message: &Message<'_>,
        seconds: i64,
    ) -> Result<(), SendError> {
        let signature = signature::sign(secrets, seconds, &message.id, &message.body);
        self.post(url, message.body.clone(), &[(ID, &message.id), (SIGNATURE, &signature)]).await
    }

    /// Sends what a chat shows, as the incoming webhook of one takes it.
    pub(super) async fn chat(&self, url: &SecretString, message: &Message<'_>) -> Result<(), SendError> {
        let lines = std::iter::once(message.content.headline()).chain(message.content.lines());
        let body = serde_json::json!({ "text": format!("{}\n{}", verbatim(lines), plain(message.html_url)) })
            .to_string();
        self.post(url, body.into_bytes(), &[(ID, &message.id)]).await
    }

    async fn post(
        &self,
        url: &SecretString,
        body: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<(), SendError> {
        let url: Url = url.expose_secret().parse().map_err(|_| SendError::NoUrl)?;
        let (client, guard) = if url.scheme() == "http" { &self.plain } else { &self.encrypted };
        // A literal address is never looked up, so it is judged here.
        if let Some(host) = url.host_str().filter(|_| !matches!(url.host(), Some(url::Host::Domain(_)))) {
            guard.addresses(host).await.map_err(SendError::Address)?;
        }
        let mut request = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("supercargo/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // The URL is a credential, and no error says it.
        let answer = request.body(body).send().await.map_err(|error| SendError::Http(error.without_url()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Status(status.as_u16())),
        }
    }
}

/// Lines that a chat shows as they stand: in a block of code, nothing that a pod's author chose is a link, a
/// mention or markup.
fn verbatim(lines: impl Iterator<Item = String>) -> String {
    let escaped = |line: String| {
        let line = line.replace('`', "'").replace('&', "&amp;");
        line.replace('<', "&lt;").replace('>', "&gt;")
    };
    let lines: Vec<String> = lines.map(escaped).collect();
    format!("```\n{}\n```", lines.join("\n"))
}

/// An address in which nothing that a name holds is more than a part of it: whatever a chat could take for the end
/// of a link, a mention or markup is encoded.
fn plain(address: &str) -> String {
    let mut plain = String::with_capacity(address.len());
    for byte in address.bytes() {
        if byte.is_ascii_alphanumeric() || b"/:.-_%[]".contains(&byte) {
            plain.push(char::from(byte));
        } else {
            plain.extend(["%", &hex::encode_upper([byte])]);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_link_and_nothing_else_whatever_is_in_its_names() {
        let address = "https://[::1]:8080/ui/acme/environments/prod_1%20<!here>|@all*~`&)";
        let expected =
            "https://[::1]:8080/ui/acme/environments/prod_1%20%3C%21here%3E%7C%40all%2A%7E%60%26%29";
        assert_eq!(plain(address), expected);
    }

    #[test]
    fn what_a_chat_would_take_for_a_link_a_mention_or_markup_is_text() {
        let lines = ["<!channel> & <http://x|y>", "@here https://evil.example `*b*`"].map(str::to_owned);
        let expected =
            "```\n&lt;!channel&gt; &amp; &lt;http://x|y&gt;\n@here https://evil.example '*b*'\n```";
        assert_eq!(verbatim(lines.into_iter()), expected);
    }
}
