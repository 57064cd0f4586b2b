//! What lies beneath an error.

use std::error::Error;

use crate::domain::visible::Visible;

/// The error and its causes, outermost first, each said once: some libraries repeat the cause in
/// their own text. Fit for a terminal.
#[must_use]
pub fn said_once(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for level in levels(error) {
        let text = Visible(&level.to_string()).to_string();
        if !said.last().is_some_and(|above| above.contains(&text)) {
            said.push(text);
        }
    }
    said
}

/// Whether TLS itself failed, as with a certificate that is not trusted: that does not mend itself
/// while one waits.
#[must_use]
pub fn is_tls(error: &(dyn Error + 'static)) -> bool {
    levels(error).any(<dyn Error>::is::<rustls::Error>)
}

/// An I/O error passes its content's cause off as its own, so the content is looked at first.
fn levels<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&level| {
        match level.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(content) => Some(content),
            None => level.source(),
        }
    })
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
        assert!(is_tls(&wrapped) && !is_tls(&io::Error::other("refused")));
        assert_eq!(said_once(&wrapped), [text]);
    }
}
