//! Text and classification of errors with their causes.
//!
//! Used for log lines, `main`'s error output and hints. Removes what libraries repeat or add about
//! themselves.

use std::error::Error;

use tokio::time::error::Elapsed;

use model::escape::Escaped;

/// Texts of hyper and reqwest that name only the stage of a request. Their causes say more.
const STAGES: [&str; 5] = [
    "error sending request",
    "request or response body error",
    "error decoding response body",
    "tcp connect error",
    "client error (",
];

/// The error and its causes, outermost first and escaped. Skips stages of a request, and causes that the
/// level above repeats.
#[must_use]
pub fn causes(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for level in levels(error).filter(|&level| content(level).is_none()) {
        let text = certificate_error(level).unwrap_or_else(|| match level.downcast_ref::<Elapsed>() {
            Some(_) => "timed out".to_owned(),
            None => level.to_string(),
        });
        if level.source().is_some() && STAGES.iter().any(|stage| text.starts_with(stage)) {
            continue;
        }
        // rustls appends a link to its manual.
        let text = Escaped(text.split(": https://docs.rs/").next().unwrap_or_default()).to_string();
        if !causes.last().is_some_and(|above| above.contains(&text)) {
            causes.push(text);
        }
    }
    causes
}

/// The error and its causes in one line.
#[must_use]
pub fn describe(error: &(dyn Error + 'static)) -> String {
    causes(error).join(": ")
}

/// Describes certificate errors for which rustls prints only the name of the enum variant.
fn certificate_error(error: &(dyn Error + 'static)) -> Option<String> {
    use rustls::CertificateError::{
        BadEncoding, BadSignature, UnknownIssuer, UnsupportedSignatureAlgorithmContext,
        UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    let rustls::Error::InvalidCertificate(why) = error.downcast_ref()? else { return None };
    let why = match why {
        BadEncoding => "expected X.509, got other data",
        UnknownIssuer => "not signed by a trusted certificate authority",
        BadSignature
        | UnsupportedSignatureAlgorithmContext { .. }
        | UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "signed by another certificate authority with the same name as a trusted one"
        }
        why if is_ca_certificate(why) => "expected a server certificate, got a CA certificate (CA:TRUE)",
        _ => return None,
    };
    Some(format!("invalid peer certificate: {why}"))
}

/// rustls has no variant for it, and wraps the error of its verifier.
fn is_ca_certificate(why: &rustls::CertificateError) -> bool {
    let rustls::CertificateError::Other(why) = why else { return false };
    matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// A message with its hint in parentheses.
#[must_use]
pub fn with_hint(message: &str, hint: Option<String>) -> String {
    hint.map_or_else(|| message.to_owned(), |hint| format!("{message} ({hint})"))
}

/// A TLS failure. A retry does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFailure {
    NotTls,
    /// The peer's certificate is expired or not valid yet.
    OutsideValidity,
    CaCertificate,
    /// A certificate is not accepted, by this side or the peer.
    NotTrusted,
}

impl TlsFailure {
    /// Hint for the operator; `trust` is the hint for a certificate that is not trusted.
    #[must_use]
    pub fn hint(self, trust: &str) -> String {
        match self {
            Self::NotTls => "the server does not speak TLS; is it plain http?".to_owned(),
            Self::OutsideValidity => {
                "check the clock of this machine; if it is correct, renew the certificate".to_owned()
            }
            Self::CaCertificate => "create a server certificate with basicConstraints CA:FALSE".to_owned(),
            Self::NotTrusted => trust.to_owned(),
        }
    }
}

/// The TLS failure among the causes of an error.
#[must_use]
pub fn tls_failure(error: &(dyn Error + 'static)) -> Option<TlsFailure> {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    levels(error).find_map(|level| level.downcast_ref()).map(|tls| match tls {
        rustls::Error::InvalidMessage(_) => TlsFailure::NotTls,
        rustls::Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
        ) => TlsFailure::OutsideValidity,
        rustls::Error::InvalidCertificate(why) if is_ca_certificate(why) => TlsFailure::CaCertificate,
        _ => TlsFailure::NotTrusted,
    })
}

/// Whether the peer ended the connection with a TLS alert, such as for a client certificate that has expired.
#[must_use]
pub fn is_tls_alert(error: &(dyn Error + 'static)) -> bool {
    let is_alert = |error: &rustls::Error| matches!(error, rustls::Error::AlertReceived(_));
    levels(error).filter_map(|level| level.downcast_ref()).any(is_alert)
}

/// Whether the response is not HTTP. Over plain http, the server may expect TLS.
#[must_use]
pub fn is_not_http(error: &(dyn Error + 'static)) -> bool {
    levels(error).filter_map(|level| level.downcast_ref()).any(hyper::Error::is_parse)
}

/// The error and its causes. The `source` of an I/O error skips the error that it wraps, so the wrapped
/// error is followed instead.
fn levels<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&level| match content(level) {
        Some(content) => Some(content),
        None => level.source(),
    })
}

/// The error that an I/O error wraps; both have the same text.
fn content<'a>(level: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let error = level.downcast_ref::<std::io::Error>()?;
    error.get_ref().map(|content| content as &(dyn Error + 'static))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn nested_tls_error_is_found_and_described_once() {
        let tls = rustls::Error::General("no trust".into());
        let text = tls.to_string();
        let wrapped = io::Error::other(io::Error::other(tls));
        assert_eq!(tls_failure(&wrapped), Some(TlsFailure::NotTrusted));
        assert_eq!(tls_failure(&io::Error::other("refused")), None);
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        assert_eq!(tls_failure(&io::Error::other(expired)), Some(TlsFailure::OutsideValidity));
        assert_eq!(causes(&wrapped), [text]);
        let closed = "peer closed connection without sending TLS close_notify";
        let eof = io::Error::other(format!("{closed}: https://docs.rs/rustls/latest/rustls/manual/a.html#b"));
        assert_eq!(causes(&eof), [closed]);
    }

    #[test]
    fn refused_connection_is_described_without_the_stages_of_the_request() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Stage(&'static str, #[source] Box<dyn Error>);

        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let stages = ["tcp connect error", "client error (Connect)", "error sending request", "GET http://a"];
        let error = stages
            .into_iter()
            .fold(Box::<dyn Error>::from(refused), |source, text| Box::new(Stage(text, source)));
        assert_eq!(describe(&*error), "GET http://a: connection refused");
        // Without a cause, the stage is all that is known.
        assert_eq!(describe(&io::Error::other("client error (Canceled)")), "client error (Canceled)");
    }
}
