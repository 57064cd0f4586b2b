//! Mail over SMTP, to a server address that the guard permits.

use std::fmt::Write as _;
use std::time::Duration;

use ipnet::IpNet;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use rustls::pki_types::CertificateDer;
use secrecy::ExposeSecret;

use crate::engine::notify::addresses::{Smtp, SmtpTls};
use crate::engine::notify::message::{Message, SendError};
use crate::outbound::guard::{Guard, Transport};

pub(crate) async fn send(
    smtp: &Smtp,
    allowed: &[IpNet],
    authorities: &[CertificateDer<'static>],
    recipients: &[Mailbox],
    message: &Message<'_>,
    timeout: Duration,
) -> Result<(), SendError> {
    let transport = match smtp.tls {
        SmtpTls::None => Transport::Plain,
        SmtpTls::Starttls | SmtpTls::Implicit => Transport::Encrypted,
    };
    let addresses = Guard::new(allowed, transport).addresses(&smtp.host).await.map_err(SendError::Address)?;
    let mut mail = lettre::Message::builder()
        .from(smtp.from.clone())
        // Suppresses automatic replies (RFC 3834, section 5).
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ))
        .raw_header(subject(message.notification.content.headline()))
        // The same for each attempt, so that mailboxes can deduplicate (RFC 5322, section 3.6.4).
        .message_id(Some(format!("<{}@supercargo>", message.notification.id)));
    for recipient in recipients {
        mail = mail.to(recipient.clone());
    }
    let mut text = message.lines().join("\n");
    text.insert_str(0, &format!("{}\n\n", message.notification.content.headline()));
    text.extend(["\n\n", message.notification.html_url]);
    for (label, url) in message.artifacts.iter().flat_map(|artifact| &artifact.links) {
        text.extend(["\n", label, ": ", url]);
    }
    let mail = mail.singlepart(SinglePart::plain(text)).map_err(SendError::Mail)?;
    // The certificate must match the name, not the address.
    let parameters = || {
        let mut parameters = TlsParameters::builder(smtp.host.clone());
        for authority in authorities {
            parameters = parameters.add_root_certificate(Certificate::from_der(authority.to_vec())?);
        }
        parameters.build_rustls()
    };
    let tls = match smtp.tls {
        SmtpTls::Starttls => Tls::Required(parameters().map_err(SendError::Smtp)?),
        SmtpTls::Implicit => Tls::Wrapper(parameters().map_err(SendError::Smtp)?),
        SmtpTls::None => Tls::None,
    };
    let Some(address) = addresses.first() else { return Err(SendError::NoMailServer) };
    let mut mailer = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string())
        .port(smtp.port)
        .timeout(Some(timeout))
        .tls(tls);
    if let Some((user, password)) = &smtp.credentials {
        mailer = mailer.credentials(Credentials::new(user.clone(), password.expose_secret().to_owned()));
    }
    mailer.build().send(mail).await.map(drop).map_err(SendError::Smtp)
}

/// A subject that mail programs show as it is. lettre encodes what is not ASCII; a name like `=?utf-8?Q?=41?=` is ASCII,
/// and mail programs would decode it (RFC 2047).
fn subject(text: String) -> HeaderValue {
    let name = HeaderName::new_from_ascii_str("Subject");
    if text.contains("=?") {
        let encoded = encoded_words(&text);
        HeaderValue::dangerous_new_pre_encoded(name, text, encoded)
    } else {
        HeaderValue::new(name, text)
    }
}

/// Maximum length of the encoded text of a word: words with charset and delimiters have at most 75 characters (RFC 2047,
/// section 2).
const MAX_WORD: usize = 60;

/// All of a text in RFC 2047's encoding Q, one word per line.
fn encoded_words(text: &str) -> String {
    let mut words = vec![String::new()];
    for character in text.chars() {
        let bytes = character.encode_utf8(&mut [0; 4]).bytes().fold(String::new(), |mut encoded, byte| {
            let _ = write!(encoded, "={byte:02X}");
            encoded
        });
        match words.last_mut() {
            Some(word) if word.len() + bytes.len() <= MAX_WORD => word.push_str(&bytes),
            _ => words.push(bytes),
        }
    }
    let words: Vec<_> = words.iter().map(|word| format!("=?utf-8?Q?{word}?=")).collect();
    words.join("\r\n ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_that_looks_encoded_is_encoded() {
        let text = "=?utf-8?Q?=41?= (ü) is not compliant: 1 artifact".to_owned();
        let encoded = encoded_words(&text);
        let mut decoded = Vec::new();
        for word in encoded.split("\r\n ") {
            assert!(word.len() <= 75, "{word}");
            let bytes = word.strip_prefix("=?utf-8?Q?=").unwrap().strip_suffix("?=").unwrap();
            decoded.extend(bytes.split('=').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
        }
        assert_eq!(String::from_utf8(decoded).unwrap(), text);
    }
}
