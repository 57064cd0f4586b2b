//! The address of a request's client, which limits and the access log use.
//!
//! Any client can send `Forwarded` (RFC 7239) and `X-Forwarded-For`. They count only from trusted proxies, each of
//! which appends the address that it received the request from. So they are read from their end, up to the first
//! address that is no trusted proxy. What cannot be read ends there: the client is then the proxy that sent it.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::FORWARDED;
use ipnet::IpNet;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of the client of a request that `peer` sent.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    if !is_trusted(peer) {
        return peer;
    }
    let client = |name: &str, read: fn(&str) -> Option<IpAddr>| {
        let lines = headers.get_all(name).iter().rev();
        // No address contains a comma, whatever else a client put in front of it.
        let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        let mut client = peer;
        for hop in hops {
            let Some(hop) = read(hop) else { return client };
            client = hop;
            if !is_trusted(client) {
                return client;
            }
        }
        client
    };
    let forwarded = client(FORWARDED.as_str(), of_forwarded);
    let x_forwarded_for = client(X_FORWARDED_FOR, address);
    // A proxy appends to one of them, and may pass on the other as its client sent it.
    match (headers.contains_key(FORWARDED), headers.contains_key(X_FORWARDED_FOR)) {
        (true, true) if forwarded != x_forwarded_for => peer,
        (true, _) => forwarded,
        (false, _) => x_forwarded_for,
    }
}

/// The parameter `for` of an element of `Forwarded`.
fn of_forwarded(element: &str) -> Option<IpAddr> {
    let mut values = element.split(';').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim())
    });
    let (value, None) = (values.next()?, values.next()) else { return None };
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    address(quoted.unwrap_or(value))
}

/// An address, with or without a port and brackets.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn client(peer: &str, lines: &[&str]) -> String {
        let trusted: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap()).into();
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(
                HeaderName::try_from(name).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn header_of_an_untrusted_peer_is_ignored() {
        for peer in ["192.0.2.1", "2001:db8::1"] {
            let lines = ["X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.7"];
            assert_eq!(client(peer, &lines[..1]), peer);
            assert_eq!(client(peer, &lines[1..]), peer);
        }
    }

    #[test]
    fn client_is_the_last_address_that_is_no_trusted_proxy() {
        for (value, expected) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:4711", "203.0.113.7"),
            ("198.51.100.1, 203.0.113.7", "203.0.113.7"),
            ("198.51.100.1,203.0.113.7 , 10.2.3.4,10.0.0.9", "203.0.113.7"),
            ("10.9.9.9, 10.0.0.2", "10.9.9.9"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]:443, fd00::2", "2001:db8::7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
        ] {
            assert_eq!(client(PROXY, &[&format!("X-Forwarded-For: {value}")]), expected, "{value}");
        }
        for (value, expected) in [
            ("for=203.0.113.7;proto=https;by=10.0.0.1", "203.0.113.7"),
            ("proto=http; For=\"203.0.113.7:4711\"", "203.0.113.7"),
            ("for=198.51.100.1, for=\"[2001:db8::7]:443\"", "2001:db8::7"),
            // The client opens a quote, which the proxy's element does not close.
            ("for=\"198.51.100.1, for=203.0.113.7", "203.0.113.7"),
        ] {
            assert_eq!(client(PROXY, &[&format!("Forwarded: {value}")]), expected, "{value}");
        }
        assert_eq!(client("::ffff:10.0.0.1", &["X-Forwarded-For: 203.0.113.7"]), "203.0.113.7");
        assert_eq!(client(PROXY, &[]), PROXY);
    }

    #[test]
    fn unreadable_hop_is_replaced_by_the_proxy_that_sent_it() {
        for value in ["unknown", "", "203.0.113.7, ", "203.0.113", "203.0.113.7:port", "[::1", "\u{e9}"] {
            assert_eq!(client(PROXY, &[&format!("X-Forwarded-For: {value}")]), PROXY, "{value}");
        }
        assert_eq!(client(PROXY, &["X-Forwarded-For: 203.0.113.7, _x, 10.0.0.2"]), "10.0.0.2");
        for value in
            ["for=unknown", "for=_hidden", "by=203.0.113.7", "for=\"203.0.113.7", "for=1.2.3.4;for=5.6.7.8"]
        {
            assert_eq!(client(PROXY, &[&format!("Forwarded: {value}")]), PROXY, "{value}");
        }
    }

    #[test]
    fn several_headers_are_read_as_one_from_their_end() {
        let lines =
            ["X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 10.0.0.2"];
        assert_eq!(client(PROXY, &lines), "203.0.113.7");
    }

    #[test]
    fn headers_that_disagree_name_no_client() {
        let forged = "X-Forwarded-For: 198.51.100.1";
        assert_eq!(client(PROXY, &["Forwarded: for=203.0.113.7", forged]), PROXY);
        assert_eq!(client(PROXY, &["Forwarded: for=198.51.100.1", forged]), "198.51.100.1");
    }
}
