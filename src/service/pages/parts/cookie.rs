//! The cookie that a browser keeps its session's secret in (RFC 6265).

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// How the cookie is called and kept, by whether browsers reach the service over TLS.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cookie {
    /// Over TLS: sent over nothing else, and by nobody but this host (RFC 6265bis, "The `__Host-` Prefix").
    Secure,
    /// In the clear.
    Plain,
}

impl Cookie {
    /// The one for a service at this address.
    pub(crate) fn of(base: &str) -> Self {
        if base.starts_with("https://") { Self::Secure } else { Self::Plain }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Secure => "__Host-supercargo",
            Self::Plain => "supercargo",
        }
    }

    /// The secret that a request came with.
    pub(crate) fn read(self, headers: &HeaderMap) -> Option<&str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name()).map(|(_, secret)| secret)
    }

    /// `Set-Cookie`: scripts cannot read it, and other sites' requests do not carry it, but links do.
    pub(crate) fn set(self, secret: &str) -> String {
        let secure = match self {
            Self::Secure => "; Secure",
            Self::Plain => "",
        };
        format!("{}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}", self.name())
    }

    /// `Set-Cookie` that takes it away.
    pub(crate) fn clear(self) -> String {
        format!("{}; Max-Age=0", self.set(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_read_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=b; supercargo=secret".parse().unwrap());
        headers.append(COOKIE, "__Host-supercargo=other;c".parse().unwrap());
        assert_eq!(Cookie::Plain.read(&headers), Some("secret"));
        assert_eq!(Cookie::Secure.read(&headers), Some("other"));
        assert_eq!(Cookie::Plain.read(&HeaderMap::new()), None);
    }

    #[test]
    fn over_tls_it_is_bound_to_the_host() {
        assert_eq!(
            Cookie::of("https://example.com").set("x"),
            "__Host-supercargo=x; Path=/; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(Cookie::of("http://[::1]:8080").set("x"), "supercargo=x; Path=/; HttpOnly; SameSite=Lax");
        assert!(Cookie::Plain.clear().ends_with("; Max-Age=0"));
    }
}
