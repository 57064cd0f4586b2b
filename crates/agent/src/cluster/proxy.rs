//! Selects the proxy for a server from the environment, by the rules of Go's `golang.org/x/net/http/httpproxy`.
//!
//! Called by `configuration`, since kube and hyper-util follow other rules: kube compares `NO_PROXY` with the proxy's
//! address and rejects entries that it cannot parse (kube-rs/kube#1203), and both use a proxy for the loopback network.

use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;

/// The URL of a proxy is invalid. The message does not quote it, because it may contain credentials.
#[derive(Debug, thiserror::Error)]
#[error("expected an http, https, socks5 or socks5h URL")]
pub(super) struct InvalidProxy;

/// The proxy of the environment for this server, if any.
pub(super) fn from_environment(
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, InvalidProxy> {
    let first = |names: [&str; 2]| {
        names.into_iter().filter_map(&variable).find(|value| !value.is_empty()).unwrap_or_default()
    };
    // Go also uses HTTP_PROXY for plain http, which such a proxy could read.
    if server.scheme_str() != Some("https") {
        return Ok(None);
    }
    let proxy = first(["HTTPS_PROXY", "https_proxy"]);
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = server.port_u16().unwrap_or(443);
    if proxy.is_empty() || !is_proxied(host, port, &first(["NO_PROXY", "no_proxy"])) {
        return Ok(None);
    }
    parse(&proxy).or_else(|invalid| as_http(&proxy).ok_or(invalid)).map(Some)
}

/// Parses the URL of a proxy; a host and a port are `http`.
pub(super) fn parse(url: &str) -> Result<Uri, InvalidProxy> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "https" | "socks5" | "socks5h" => {
            format!("{scheme}://{rest}").parse().map_err(|_| InvalidProxy)
        }
        _ => Err(InvalidProxy),
    }
}

/// A proxy of the environment with any other scheme, such as `tcp` or `socks`, is one for HTTP, whose port has no default.
fn as_http(url: &str) -> Option<Uri> {
    let (_, rest) = url.split_once("://")?;
    let uri: Uri = format!("http://{rest}").parse().ok()?;
    uri.port().is_some().then_some(uri)
}

/// Whether requests to this host use the proxy.
fn is_proxied(host: &str, port: u16, no_proxy: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok().map(|address: IpAddr| address.to_canonical());
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return false;
    }
    let host = host.to_lowercase();
    !no_proxy.split(',').any(|entry| matches(&entry.trim().to_lowercase(), &host, address, port))
}

/// Whether an entry of `NO_PROXY` names the host. An entry in an unknown form names none.
fn matches(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(network) = entry.parse::<IpNet>() {
        return address.is_some_and(|address| canonical(network).contains(&address));
    }
    let (name, its_port) = match split_port(entry) {
        Some((name, its_port)) => (name, Some(its_port)),
        None => (entry, None),
    };
    if its_port.is_some_and(|its_port| !its_port.is_empty() && its_port != port.to_string()) {
        return false;
    }
    if let Ok(listed) = name.parse::<IpAddr>() {
        return address == Some(listed.to_canonical());
    }
    if address.is_some() {
        return false;
    }
    // `*.example.com` is the same as `.example.com`: only hosts below the domain.
    let name = name.strip_prefix('*').filter(|name| name.starts_with('.')).unwrap_or(name);
    match name.strip_prefix('.') {
        Some(_) => host.ends_with(name),
        None => {
            !name.is_empty()
                && host.strip_suffix(name).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
        }
    }
}

/// A network of IPv4 addresses that are mapped to IPv6 is one of IPv4.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED: u8 = 96;

    let mapped = match (network.network().to_canonical(), network.prefix_len().checked_sub(MAPPED)) {
        (IpAddr::V4(address), Some(length)) => IpNet::new(address.into(), length).ok(),
        _ => None,
    };
    mapped.unwrap_or(network)
}

/// Splits `HOST:PORT` or `[IPV6]:PORT`.
fn split_port(entry: &str) -> Option<(&str, &str)> {
    let (host, port) = entry.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']').map(|host| (host, port)),
        None => (!host.contains(':')).then_some((host, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "http://proxy.example.com:3128/";

    /// The proxy for a server, with these variables.
    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable =
            |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
        from_environment(&server.parse().unwrap(), variable).unwrap().map(|uri| uri.to_string())
    }

    #[test]
    fn no_proxy_follows_the_rules_of_go() {
        for (server, no_proxy, is_proxied) in [
            ("https://api.example.com", "", true),
            ("https://api.example.com", "*", false),
            ("https://api.example.com", "other.example.com, *", false),
            ("https://10.0.0.1:6443", "*", false),
            ("https://localhost:6443", "", false),
            ("https://127.0.0.1:6443", "", false),
            ("https://127.8.9.1", "", false),
            ("https://[::1]:6443", "", false),
            ("https://[::ffff:127.0.0.1]:6443", "", false),
            ("https://localhost.example.com", "", true),
            ("https://api.example.com", "example.com", false),
            ("https://api.example.com", "EXAMPLE.com", false),
            ("https://example.com", "example.com", false),
            ("https://notexample.com", "example.com", true),
            ("https://api.example.com", ".example.com", false),
            ("https://example.com", ".example.com", true),
            ("https://api.example.com", "*.example.com", false),
            ("https://example.com", "*.example.com", true),
            ("https://api.example.com", "*example.com", true),
            ("https://api.example.com:6443", "api.example.com:6443", false),
            ("https://api.example.com", "api.example.com:443", false),
            ("https://api.example.com", "api.example.com:6443", true),
            ("https://api.example.com:6443", "example.com:6443", false),
            ("https://api.example.com:6443", "*.example.com:6443", false),
            ("https://10.0.0.1:6443", "10.0.0.1:6443", false),
            ("https://10.0.0.1", "10.0.0.1:6443", true),
            ("https://10.0.0.1", "10.0.0.0/8", false),
            ("https://10.0.0.1", "10.9.9.9/8", false),
            ("https://11.0.0.1", "10.0.0.0/8", true),
            ("https://api.example.com", "10.0.0.0/8", true),
            ("https://10.0.0.1", "10.0.0.1,/var/run/docker.sock", false),
            ("https://10.0.0.2", "10.0.0.1,/var/run/docker.sock", true),
            ("https://10.0.0.1", "/var/run/docker.sock,,10.0.0.1,", false),
            ("https://10.0.0.1", "10.0.0", true),
            ("https://10.0.0.1", "0.0.1", true),
            ("https://10.0.0.1", ".0.1", true),
            ("https://[fd00::1]:6443", "fd00::1", false),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", false),
            ("https://[fd00::1]:6443", "[fd00::1]:443", true),
            ("https://[fd00::1]:6443", "fd00::/8", false),
            ("https://10.0.0.1", "::ffff:10.0.0.1", false),
            ("https://[::ffff:10.0.0.1]", "10.0.0.1", false),
            ("https://10.0.0.1", "[::ffff:10.0.0.1]:443", false),
            ("https://10.0.0.1", "[::ffff:10.0.0.1]", true),
            ("https://10.0.0.1", "::ffff:10.0.0.0/104", false),
            ("https://11.0.0.1", "::ffff:10.0.0.0/104", true),
            ("https://10.0.0.1", "::ffff:0:0/96", false),
            ("https://[::ffff:10.0.0.1]", "::ffff:0:0/96", false),
            ("https://[::ffff:10.0.0.1]", "10.0.0.0/8", false),
            ("https://10.0.0.1", "::/0", true),
            ("https://[fd00::1]", "::/0", false),
            ("https://api.example.com", ":443", true),
            ("https://api.example.com", "10.0.0.0/99", true),
        ] {
            let proxy = proxy(server, &[("HTTPS_PROXY", PROXY), ("NO_PROXY", no_proxy)]);
            assert_eq!(proxy.as_deref(), is_proxied.then_some(PROXY), "{server} {no_proxy}");
        }
    }

    #[test]
    fn first_nonempty_spelling_of_a_variable_is_used() {
        const SERVER: &str = "https://api.example.com";
        for (variables, expected) in [
            (&[("https_proxy", PROXY)][..], Some(PROXY)),
            (&[("HTTPS_PROXY", ""), ("https_proxy", PROXY)], Some(PROXY)),
            (&[("HTTPS_PROXY", PROXY), ("https_proxy", "http://other:1")], Some(PROXY)),
            (&[("HTTPS_PROXY", PROXY), ("NO_PROXY", ""), ("no_proxy", "example.com")], None),
            (&[("HTTPS_PROXY", PROXY), ("NO_PROXY", "other"), ("no_proxy", "example.com")], Some(PROXY)),
            (&[("HTTPS_PROXY", "proxy.example.com:3128")], Some(PROXY)),
            (&[("HTTPS_PROXY", "socks5h://p:1")], Some("socks5h://p:1/")),
            (&[("HTTPS_PROXY", "SOCKS5://P:1")], Some("socks5://P:1/")),
            (&[("HTTPS_PROXY", "Https://p:1")], Some("https://p:1/")),
            (&[("HTTPS_PROXY", "socks://p:1")], Some("http://p:1/")),
            (&[("HTTPS_PROXY", "tcp://u:p@p:1")], Some("http://u:p@p:1/")),
            (&[("HTTP_PROXY", PROXY), ("ALL_PROXY", PROXY), ("all_proxy", PROXY)], None),
        ] {
            assert_eq!(proxy(SERVER, variables).as_deref(), expected, "{variables:?}");
        }
        assert_eq!(proxy("http://10.0.0.1", &[("HTTPS_PROXY", PROXY), ("HTTP_PROXY", PROXY)]), None);
        for invalid in ["socks4://p:1", "http://", "ftp://p", "socks://p:1", "tcp://p:1"] {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
        for invalid in ["tcp://p", "socks://", "http://"] {
            let variable = |name: &str| (name == "HTTPS_PROXY").then(|| invalid.to_owned());
            assert!(from_environment(&SERVER.parse().unwrap(), variable).is_err(), "{invalid}");
        }
    }
}
