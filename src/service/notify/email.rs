//! Mail over SMTP, to a server address that the guard permits.

use std::time::Duration;

use ipnet::IpNet;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use rustls::pki_types::CertificateDer;
use secrecy::ExposeSecret;

use super::guard::{Guard, Transport};
use super::message::{Message, SendError};
use crate::service::addresses::{Smtp, SmtpTls};

/// Sends over SMTP.
pub(super) async fn send(
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
        .subject(message.content.headline())
        // The same for each attempt, so that mailboxes can deduplicate (RFC 5322, section 3.6.4).
        .message_id(Some(format!("<{}@supercargo>", message.id)));
    for recipient in recipients {
        mail = mail.to(recipient.clone());
    }
    let mut text = message.content.lines(message.merged_events).join("\n");
    text.insert_str(0, &format!("{}\n\n", message.content.headline()));
    text.extend(["\n\n", message.html_url]);
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
