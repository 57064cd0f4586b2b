//! What lies beneath an error.

use std::error::Error;

use crate::domain::escape::Visible;

/// The error and its causes, outermost first, each said once: some libraries repeat the cause in
/// their own text. Fit for a terminal.
#[must_use]
pub fn said_once(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for level in levels(error).filter(|&level| content(level).is_none()) {
        let text = refused(level).unwrap_or_else(|| level.to_string());
        // rustls leads its own users to its manual.
        let text = Visible(text.split(": https://docs.rs/").next().unwrap_or_default()).to_string();
        if !said.last().is_some_and(|above| above.contains(&text)) {
            said.push(text);
        }
    }
    said
}

/// Why a certificate is refused, where rustls only has the name that its code has for it.
fn refused(error: &(dyn Error + 'static)) -> Option<String> {
    use rustls::CertificateError::{
        BadEncoding, BadSignature, UnknownIssuer, UnsupportedSignatureAlgorithmContext,
        UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    let rustls::Error::InvalidCertificate(why) = error.downcast_ref()? else { return None };
    let why = match why {
        BadEncoding => "it cannot be read",
        UnknownIssuer => "no authority that is known here signed it",
        BadSignature
        | UnsupportedSignatureAlgorithmContext { .. }
        | UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is not signed by the authority that is known here by the name of its own"
        }
        why if is_an_authority_s(why) => "it is that of an authority (CA:TRUE); a server's was expected",
        _ => return None,
    };
    Some(format!("invalid peer certificate: {why}"))
}

/// webpki's word for it, which rustls passes on: its type is none of ours.
fn is_an_authority_s(why: &rustls::CertificateError) -> bool {
    matches!(why, rustls::CertificateError::Other(why) if why.to_string() == "CaUsedAsEndEntity")
}

/// A sentence, with what to do about it where that is known.
#[must_use]
pub fn with_hint(sentence: &str, hint: Option<String>) -> String {
    hint.map_or_else(|| sentence.to_owned(), |hint| format!("{sentence} ({hint})"))
}

/// How TLS itself failed: that does not mend itself while one waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// What came is no TLS.
    NotSpoken,
    /// The other side's certificate is not valid yet, or no longer.
    NotNow,
    /// The other side's certificate is that of an authority.
    NotIts,
    /// The other side's certificate, or ours, is not accepted.
    NotTrusted,
}

impl Tls {
    /// What to do about it; `trust` says what to do about one that is not trusted.
    #[must_use]
    pub fn hint(self, trust: &str) -> String {
        match self {
            Self::NotSpoken => "the other side does not speak TLS; is it plain http?".to_owned(),
            Self::NotNow => {
                "check the clock of this machine, and renew the certificate if that one is right".to_owned()
            }
            Self::NotIts => {
                "give the server a certificate of its own: one with basicConstraints CA:FALSE".to_owned()
            }
            Self::NotTrusted => trust.to_owned(),
        }
    }
}

/// Whether TLS is what failed, and how.
#[must_use]
pub fn tls(error: &(dyn Error + 'static)) -> Option<Tls> {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    levels(error).find_map(|level| level.downcast_ref()).map(|tls| match tls {
        rustls::Error::InvalidMessage(_) => Tls::NotSpoken,
        rustls::Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
        ) => Tls::NotNow,
        rustls::Error::InvalidCertificate(why) if is_an_authority_s(why) => Tls::NotIts,
        _ => Tls::NotTrusted,
    })
}

/// Whether what came is no HTTP: over plain http, the other side may want TLS.
#[must_use]
pub fn is_no_http(error: &(dyn Error + 'static)) -> bool {
    levels(error).filter_map(|level| level.downcast_ref()).any(hyper::Error::is_parse)
}

/// An I/O error passes its content's cause off as its own, so the content is looked at first.
fn levels<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&level| match content(level) {
        Some(content) => Some(content),
        None => level.source(),
    })
}

/// What an I/O error is about, whose text is then its own.
fn content<'a>(level: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let error = level.downcast_ref::<std::io::Error>()?;
    error.get_ref().map(|content| content as &(dyn Error + 'static))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_tls_error_is_found_however_deep_and_said_once() {
        let tls = rustls::Error::General("no trust".into());
        let text = tls.to_string();
        let wrapped = io::Error::other(io::Error::other(tls));
        assert_eq!(super::tls(&wrapped), Some(Tls::NotTrusted));
        assert_eq!(super::tls(&io::Error::other("refused")), None);
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        assert_eq!(super::tls(&io::Error::other(expired)), Some(Tls::NotNow));
        assert_eq!(said_once(&wrapped), [text]);
        let closed = "peer closed connection without sending TLS close_notify";
        let eof = io::Error::other(format!("{closed}: https://docs.rs/rustls/latest/rustls/manual/a.html#b"));
        assert_eq!(said_once(&eof), [closed]);
    }
}
