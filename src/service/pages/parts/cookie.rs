//! The session cookie (RFC 6265): its name and attributes.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// The variant depends on whether browsers use TLS to reach the service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cookie {
    /// Only sent over TLS, and only set by this host (RFC 6265bis, "The `__Host-` Prefix").
    Secure,
    /// For plain HTTP.
    Plain,
}

impl Cookie {
    /// The cookie of a service with this public URL.
    pub(crate) fn from_base_url(base: &str) -> Self {
        if base.starts_with("https://") { Self::Secure } else { Self::Plain }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Secure => "__Host-supercargo",
            Self::Plain => "supercargo",
        }
    }

    /// The session secret in the headers of a request.
    pub(crate) fn read(self, headers: &HeaderMap) -> Option<&str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name()).map(|(_, secret)| secret)
    }

    /// This cookie, if the request has it.
    pub(crate) fn sent_in(self, headers: &HeaderMap) -> Option<Self> {
        self.read(headers).map(|_| self)
    }

    /// The `Set-Cookie` header. `SameSite=Lax`: links from other sites send the cookie, their forms do not.
    pub(crate) fn set(self, secret: &str) -> String {
        let secure = match self {
            Self::Secure => "; Secure",
            Self::Plain => "",
        };
        format!("{}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}", self.name())
    }

    /// The `Set-Cookie` header that deletes the cookie.
    pub(crate) fn clear(self) -> String {
        format!("{}; Max-Age=0", self.set(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_read_among_other_cookies() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=b; supercargo=secret".parse().unwrap());
        headers.append(COOKIE, "__Host-supercargo=other;c".parse().unwrap());
        assert_eq!(Cookie::Plain.read(&headers), Some("secret"));
        assert_eq!(Cookie::Secure.read(&headers), Some("other"));
        assert_eq!(Cookie::Plain.read(&HeaderMap::new()), None);
        assert!(
            Cookie::Plain.sent_in(&headers).is_some() && Cookie::Plain.sent_in(&HeaderMap::new()).is_none()
        );
    }

    #[test]
    fn cookie_is_bound_to_the_host_over_tls() {
        assert_eq!(
            Cookie::from_base_url("https://example.com").set("x"),
            "__Host-supercargo=x; Path=/; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(
            Cookie::from_base_url("http://[::1]:8080").set("x"),
            "supercargo=x; Path=/; HttpOnly; SameSite=Lax"
        );
        assert!(Cookie::Plain.clear().ends_with("; Max-Age=0"));
    }
}
