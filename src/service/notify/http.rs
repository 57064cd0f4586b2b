//! Webhooks and chats: a POST of JSON, without proxies and redirects.

use ipnet::IpNet;
use reqwest::header::CONTENT_TYPE;
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::message::{Message, SendError};
use super::signature::{self, ID, SIGNATURE};
use crate::service::outbound::GuardedClient;

/// Sends over HTTP.
#[derive(Debug, Clone)]
pub(super) struct Http(GuardedClient);

impl Http {
    pub(super) fn new(
        allowed: &[IpNet],
        authorities: &[CertificateDer<'static>],
    ) -> Result<Self, reqwest::Error> {
        GuardedClient::new(allowed, authorities).map(Self)
    }

    /// Sends JSON, signed with each of the secrets.
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

    /// Sends text, as incoming webhooks of chats expect it.
    pub(super) async fn chat(&self, url: &SecretString, message: &Message<'_>) -> Result<(), SendError> {
        let details = message.content.lines(message.merged_events);
        let lines = std::iter::once(message.content.headline()).chain(details);
        let body = serde_json::json!({ "text": format!("{}\n{}", code_block(lines), encoded_url(message.html_url)) })
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
        let client = self.0.client(&url).await.map_err(SendError::Address)?;
        let mut request = client.post(url).header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // The URL is a credential: errors must not contain it.
        let response =
            request.body(body).send().await.map_err(|error| SendError::Http(error.without_url()))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Status(status.as_u16())),
        }
    }
}

/// Lines in a code block, where text that a pod's author chose is no link, mention or markup.
fn code_block(lines: impl Iterator<Item = String>) -> String {
    let escaped = |line: String| {
        let line = line.replace('`', "'").replace('&', "&amp;");
        line.replace('<', "&lt;").replace('>', "&gt;")
    };
    let lines: Vec<String> = lines.map(escaped).collect();
    format!("```\n{}\n```", lines.join("\n"))
}

/// A URL with percent-encoded names, so that chats see no end of the link, mention or markup in them.
fn encoded_url(url: &str) -> String {
    let mut encoded = String::with_capacity(url.len());
    for byte in url.bytes() {
        if byte.is_ascii_alphanumeric() || b"/:.-_%[]".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(["%", &hex::encode_upper([byte])]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_stays_one_link_for_all_names() {
        let address = "https://[::1]:8080/ui/acme/environments/prod_1%20<!here>|@all*~`&)";
        let expected =
            "https://[::1]:8080/ui/acme/environments/prod_1%20%3C%21here%3E%7C%40all%2A%7E%60%26%29";
        assert_eq!(encoded_url(address), expected);
    }

    #[test]
    fn links_mentions_and_markup_become_text() {
        let lines = ["<!channel> & <http://x|y>", "@here https://evil.example `*b*`"].map(str::to_owned);
        let expected =
            "```\n&lt;!channel&gt; &amp; &lt;http://x|y&gt;\n@here https://evil.example '*b*'\n```";
        assert_eq!(code_block(lines.into_iter()), expected);
    }
}
