//! Mail over SMTP, to a server address that the guard permits.

use std::fmt::Write as _;
use std::time::Duration;

use ipnet::IpNet;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use rustls::pki_types::CertificateDer;
use secrecy::ExposeSecret;

use crate::engine::notify::addresses::{Smtp, SmtpTls};
use crate::engine::notify::message::{Message, SendError};
use crate::outbound::guard::{Guard, Transport};
use runtime::error_causes::describe;
use store::notifications::outbox::Recipients;

/// The mail server, and the restrictions of connections to it.
#[derive(Clone, Copy)]
pub(crate) struct MailServer<'a> {
    pub(crate) smtp: &'a Smtp,
    pub(crate) allowed: &'a [IpNet],
    pub(crate) authorities: &'a [CertificateDer<'static>],
}

/// Sends a notification in one message to all recipients, except those that `done` names. A recipient that the server refuses
/// does not stop the others. Returns which recipients got it, and which ones never will.
///
/// # Errors
///
/// [`SendError::Recipients`] if no recipient got it yet, or if the server wants another attempt for some: with the recipients
/// that need none.
pub(crate) async fn send(
    server: MailServer<'_>,
    recipients: &[Mailbox],
    done: &Recipients,
    message: &Message<'_>,
    timeout: Duration,
) -> Result<Recipients, SendError> {
    let from = &server.smtp.from;
    let mail = compose(from, recipients, message)?.formatted();
    let mut connection = connect(server, timeout).await?;
    let mut options = Vec::new();
    let supports = |extension| connection.server_info().supports_feature(extension);
    // A server that lacks this refuses only the recipients that need it.
    if recipients.iter().chain([from]).any(|mailbox| !mailbox.email.to_string().is_ascii())
        && supports(Extension::SmtpUtfEight)
    {
        options.push(MailParameter::SmtpUtfEight);
    }
    if !mail.is_ascii() && supports(Extension::EightBitMime) {
        options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    let begin = Mail::new(Some(from.email.clone()), options);
    connection.command(begin).await.map_err(SendError::Smtp)?;
    let (mut accepted, mut refused, mut deferred) = (Recipients::new(), Recipients::new(), Recipients::new());
    for recipient in recipients.iter().map(|recipient| &recipient.email) {
        let name = recipient.to_string();
        if done.contains_key(&name) {
            continue;
        }
        match connection.command(Rcpt::new(recipient.clone(), Vec::new())).await {
            Ok(_) => _ = accepted.insert(name, None),
            Err(error) if error.is_permanent() => _ = refused.insert(name, Some(describe(&error))),
            Err(error) if error.is_transient() => _ = deferred.insert(name, Some(describe(&error))),
            Err(error) => return Err(SendError::Smtp(error)),
        }
    }
    let any_accepted = !accepted.is_empty();
    if any_accepted {
        connection.command(Data).await.map_err(SendError::Smtp)?;
        connection.message(&mail).await.map_err(SendError::Smtp)?;
    }
    // The server has the message, whatever it responds.
    let _ = connection.quit().await;
    let any_got_it = any_accepted || done.values().any(Option::is_none);
    let mut ended = done.clone();
    ended.append(&mut accepted);
    // While nobody got the mail, each attempt is for all.
    if !any_got_it {
        refused.append(&mut deferred);
        return Err(SendError::Recipients { done: ended, refused });
    }
    ended.append(&mut refused);
    if deferred.is_empty() {
        return Ok(ended);
    }
    deferred.extend(ended.clone().into_iter().filter(|(_, why)| why.is_some()));
    Err(SendError::Recipients { done: ended, refused: deferred })
}

fn compose(
    from: &Mailbox,
    recipients: &[Mailbox],
    message: &Message<'_>,
) -> Result<lettre::Message, SendError> {
    let mut mail = lettre::Message::builder()
        .from(from.clone())
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
    mail.singlepart(SinglePart::plain(text)).map_err(SendError::Mail)
}

/// Connects to the server, and authenticates.
async fn connect(server: MailServer<'_>, timeout: Duration) -> Result<AsyncSmtpConnection, SendError> {
    let MailServer { smtp, allowed, authorities } = server;
    let transport = match smtp.tls {
        SmtpTls::None => Transport::Plain,
        SmtpTls::Starttls | SmtpTls::Implicit => Transport::Encrypted,
    };
    let addresses = Guard::new(allowed, transport).addresses(&smtp.host).await.map_err(SendError::Address)?;
    let Some(address) = addresses.first() else { return Err(SendError::NoMailServer) };
    // The certificate must match the name, not the address.
    let parameters = || {
        let mut parameters = TlsParameters::builder(smtp.host.clone());
        for authority in authorities {
            parameters = parameters.add_root_certificate(Certificate::from_der(authority.to_vec())?);
        }
        parameters.build_rustls()
    };
    let client = ClientId::default();
    let connecting = async {
        let implicit = if smtp.tls == SmtpTls::Implicit { Some(parameters()?) } else { None };
        let address = (*address, smtp.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(address, Some(timeout), &client, implicit, None).await?;
        if smtp.tls == SmtpTls::Starttls {
            connection.starttls(parameters()?, &client).await?;
        }
        if let Some((user, password)) = &smtp.credentials {
            let credentials = Credentials::new(user.clone(), password.expose_secret().to_owned());
            connection.auth(DEFAULT_MECHANISMS, &credentials).await?;
        }
        Ok(connection)
    };
    connecting.await.map_err(SendError::Smtp)
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
