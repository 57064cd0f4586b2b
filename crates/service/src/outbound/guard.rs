//! The SSRF guard: notifications and requests to issuers reach internal networks only if `--allow-internal` names them.
//!
//! The author of the bootstrap file chooses their addresses. The guard checks the resolved address right before each
//! connection, so DNS rebinding has no effect.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejected {
    #[error("address {0} is internal: allow it with --allow-internal")]
    Internal(IpAddr),
    /// Plain HTTP to an address that is not allowed.
    #[error("plain http to {0} is not allowed: use https, or allow the address with --allow-internal")]
    Plain(IpAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TLS.
    Encrypted,
    /// Without encryption: to allowed addresses only.
    Plain,
}

type Found = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

type Lookup = dyn Fn(String) -> Found + Send + Sync;

/// Decides which addresses a connection may use.
#[derive(Clone)]
pub(crate) struct Guard {
    allowed: Arc<[IpNet]>,
    transport: Transport,
    lookup: Arc<Lookup>,
}

impl Guard {
    /// Rejects internal addresses outside `allowed`.
    pub(crate) fn new(allowed: &[IpNet], transport: Transport) -> Self {
        let lookup = |name: String| -> Found {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        };
        Self { allowed: allowed.into(), transport, lookup: Arc::new(lookup) }
    }

    pub(crate) fn check(&self, address: IpAddr) -> Result<(), Rejected> {
        let address = address.to_canonical();
        match (self.allowed.iter().any(|network| network.contains(&address)), self.transport) {
            (false, _) if is_internal(address) => Err(Rejected::Internal(address)),
            (false, Transport::Plain) => Err(Rejected::Plain(address)),
            _ => Ok(()),
        }
    }

    /// The permitted addresses of a name or of a literal address.
    pub(crate) async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = match host.parse() {
            Ok(literal) => vec![literal],
            Err(_) => (self.lookup)(host.to_owned()).await?,
        };
        let mut rejected = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut permitted = Vec::new();
        for address in found {
            match self.check(address) {
                Ok(()) => permitted.push(address),
                Err(error) => rejected = io::Error::new(io::ErrorKind::PermissionDenied, error),
            }
        }
        if permitted.is_empty() { Err(rejected) } else { Ok(permitted) }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.addresses(name.as_str()).await?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// Whether an address is not public (IANA special-purpose address registries).
fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_internal_v4(address),
        IpAddr::V6(address) => is_internal_v6(address),
    }
}

fn is_internal_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation()
        // This network, carrier NAT, protocol assignments, the anycast of 6to4, benchmarks, reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240
}

fn is_internal_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Mapped, NAT64 (RFC 6052) and 6to4 (RFC 3056): they embed an IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => is_internal_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))),
        // Teredo and other protocol assignments, documentation.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => true,
        // Everything outside global unicast: this host, private, link-local, multicast, unassigned.
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn guard(allowed: &[&str], transport: Transport) -> Guard {
        let allowed: Vec<IpNet> = allowed.iter().map(|network| network.parse().unwrap()).collect();
        Guard::new(&allowed, transport)
    }

    fn resolving(guard: Guard, answers: &'static [&'static [&'static str]]) -> Guard {
        let asked = AtomicUsize::new(0);
        let lookup = move |_| -> Found {
            let answer = answers[asked.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1)];
            Box::pin(async { Ok(answer.iter().map(|address| address.parse().unwrap()).collect()) })
        };
        Guard { lookup: Arc::new(lookup), ..guard }
    }

    #[test]
    fn internal_addresses_are_rejected() {
        for internal in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "100::1",
            "5f00::1",
        ] {
            let address: IpAddr = internal.parse().unwrap();
            let refused = guard(&[], Transport::Encrypted).check(address);
            assert_eq!(refused, Err(Rejected::Internal(address.to_canonical())), "{internal}");
        }
        for public in [
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "2606:4700::1",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(guard(&[], Transport::Encrypted).check(public.parse().unwrap()), Ok(()), "{public}");
        }
    }

    #[test]
    fn allowed_networks_are_permitted_and_plain_http_needs_one() {
        let (encrypted, plain) = (
            guard(&["10.1.0.0/16", "fd00::/8"], Transport::Encrypted),
            guard(&["10.1.0.0/16", "fd00::/8"], Transport::Plain),
        );
        for guard in [&encrypted, &plain] {
            for allowed in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"] {
                assert_eq!(guard.check(allowed.parse().unwrap()), Ok(()), "{allowed}");
            }
            let near = "10.2.0.1".parse().unwrap();
            assert_eq!(guard.check(near), Err(Rejected::Internal(near)));
        }
        let public = "8.8.8.8".parse().unwrap();
        assert_eq!(encrypted.check(public), Ok(()));
        assert_eq!(plain.check(public), Err(Rejected::Plain(public)));
    }

    #[tokio::test]
    async fn name_is_checked_by_its_resolved_addresses_each_time() {
        let public = guard(&[], Transport::Encrypted);
        let rebinding = resolving(public.clone(), &[&["8.8.8.8"], &["169.254.169.254"]]);
        assert_eq!(rebinding.addresses("evil.example.com").await.unwrap().len(), 1);
        let refused = rebinding.addresses("evil.example.com").await.unwrap_err().to_string();
        assert!(refused.contains("169.254.169.254 is internal"), "{refused}");
        // Internal addresses among several are skipped.
        let mixed = resolving(public.clone(), &[&["10.0.0.1", "8.8.8.8", "::1"]]);
        assert_eq!(mixed.addresses("x").await.unwrap(), ["8.8.8.8".parse::<IpAddr>().unwrap()]);
        let nowhere = resolving(public.clone(), &[&[]]).addresses("x").await.unwrap_err();
        assert!(nowhere.to_string().contains("no address"));
        // Literal addresses are checked too.
        for literal in ["127.0.0.1", "[::1]", "[::ffff:10.0.0.1]"] {
            assert!(public.addresses(literal).await.is_err(), "{literal}");
        }
    }
}
