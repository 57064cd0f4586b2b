//! The cookies of a session and of a sign-in at a provider (RFC 6265): names and attributes.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// A cookie. If browsers use TLS to reach the service, it is only sent over TLS, and only set by this host (RFC 6265bis,
/// "The `__Host-` Prefix").
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cookie {
    name: &'static str,
    attributes: &'static str,
    is_secure: bool,
}

impl Cookie {
    pub(crate) fn session(base: &str) -> Self {
        Self::new(base, ["__Host-supercargo", "supercargo"], "")
    }

    /// The cookie of a sign-in at a provider, which may take ten minutes.
    pub(crate) fn sign_in(base: &str) -> Self {
        Self::new(base, ["__Host-supercargo-sign-in", "supercargo-sign-in"], "; Max-Age=600")
    }

    fn new(base: &str, [secure, plain]: [&'static str; 2], attributes: &'static str) -> Self {
        let is_secure = base.starts_with("https://");
        Self { name: if is_secure { secure } else { plain }, attributes, is_secure }
    }

    /// The value in the headers of a request.
    pub(crate) fn read(self, headers: &HeaderMap) -> Option<&str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name).map(|(_, secret)| secret)
    }

    /// This cookie, if the request has it.
    pub(crate) fn sent_in(self, headers: &HeaderMap) -> Option<Self> {
        self.read(headers).map(|_| self)
    }

    /// The `Set-Cookie` header. `SameSite=Lax`: links from other sites send the cookie, their forms do not.
    pub(crate) fn set(self, secret: &str) -> String {
        let Self { name, attributes, is_secure } = self;
        let secure = if is_secure { "; Secure" } else { "" };
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax{attributes}{secure}")
    }

    /// The `Set-Cookie` header that deletes the cookie: of two attributes with one name, the last one counts.
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
        let (plain, secure) = (Cookie::session("http://h"), Cookie::session("https://h"));
        assert_eq!(plain.read(&headers), Some("secret"));
        assert_eq!(secure.read(&headers), Some("other"));
        assert_eq!(plain.read(&HeaderMap::new()), None);
        assert!(plain.sent_in(&headers).is_some() && plain.sent_in(&HeaderMap::new()).is_none());
    }

    #[test]
    fn cookie_is_bound_to_the_host_over_tls() {
        assert_eq!(
            Cookie::session("https://example.com").set("x"),
            "__Host-supercargo=x; Path=/; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(
            Cookie::session("http://[::1]:8080").set("x"),
            "supercargo=x; Path=/; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            Cookie::sign_in("https://example.com").clear(),
            "__Host-supercargo-sign-in=; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure; Max-Age=0"
        );
    }
}
