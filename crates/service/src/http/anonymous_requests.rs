//! Decides which requests without a token get a line of the access log: the first of an address in a second. The others
//! are counted, so that a flood fills no log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use runtime::peers::network;

/// Maximum number of addresses with a line of their own per second. Further ones share one.
const MAX_ADDRESSES: usize = 1_000;

/// The requests of this second, beyond the first, by address; `None`: of all others.
#[derive(Debug, Default)]
pub(crate) struct AnonymousRequests(Mutex<HashMap<Option<IpAddr>, u64>>);

/// Requests that got no line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    /// `None`: many addresses.
    pub(crate) address: Option<IpAddr>,
    pub(crate) requests: u64,
}

impl AnonymousRequests {
    /// Whether this request is the first of its address in this second. Counts it otherwise.
    pub(crate) fn is_first(&self, peer: IpAddr) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = Some(network(peer));
        let address = if counts.len() < MAX_ADDRESSES || counts.contains_key(&peer) { peer } else { None };
        let count = counts.get_mut(&address).map(|count| *count += 1);
        if count.is_none() {
            counts.insert(address, 0);
        }
        count.is_none()
    }

    /// Starts the next second. An address that sent more requests in this one continues to be counted.
    pub(crate) fn take(&self) -> Vec<Counted> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|_, requests| *requests > 0);
        counts
            .iter_mut()
            .map(|(address, count)| Counted { address: *address, requests: std::mem::take(count) })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn flood_of_an_address_has_one_line_a_second() {
        let requests = AnonymousRequests::default();
        let counted = |requests| vec![Counted { address: Some(address(1)), requests }];
        assert_eq!([(); 3].map(|()| requests.is_first(address(1))), [true, false, false]);
        assert!(requests.is_first(address(2)));
        assert_eq!(requests.take(), counted(2));
        // The count is the line of this second.
        assert!(!requests.is_first(address(1)));
        assert!(requests.is_first(address(2)));
        assert_eq!(requests.take(), counted(1));
        assert_eq!(requests.take(), []);
        assert!(requests.is_first(address(1)));
    }

    #[test]
    fn flood_of_many_addresses_shares_a_line() {
        let requests = AnonymousRequests::default();
        let logged = (0..5_000).filter(|number| requests.is_first(address(*number))).count();
        assert_eq!(logged, MAX_ADDRESSES + 1);
        assert_eq!(requests.0.lock().unwrap().len(), MAX_ADDRESSES + 1);
        assert_eq!(requests.take(), [Counted { address: None, requests: 3_999 }]);
    }
}
