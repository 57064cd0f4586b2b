//! The sender of a report.

/// The header of a report with the identity of its cluster: the UID of the namespace `kube-system`.
pub const CLUSTER_HEADER: &str = "supercargo-cluster";

/// The header of a report with the number of pods that an annotation excludes; absent if there are none.
pub const EXCLUDED_HEADER: &str = "supercargo-excluded-pods";

/// Maximum number of characters of a `User-Agent` that are kept.
const MAX_USER_AGENT: usize = 200;

/// The sender of a report, as the report describes it. No token confirms this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The start of the `User-Agent`; empty without one.
    pub user_agent: String,
    /// The identity of the cluster; empty without a valid one.
    pub cluster: String,
}

impl Sender {
    /// Reads the values of the two headers.
    #[must_use]
    pub fn new(user_agent: &[u8], cluster: &[u8]) -> Self {
        let user_agent = String::from_utf8_lossy(user_agent).chars().take(MAX_USER_AGENT).collect();
        let is_uid = cluster.len() == 36 && cluster.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
        let cluster = if is_uid { String::from_utf8_lossy(cluster).into_owned() } else { String::new() };
        Self { user_agent, cluster }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_is_bounded_and_valid() {
        const UID: &str = "0c558854-1f14-4c86-ac4c-3f62f048bad0";
        let sender = |cluster: &str| Sender::new(b"", cluster.as_bytes()).cluster;
        assert_eq!(
            [UID, "", "x", UID.trim_start_matches('0'), &UID.replace('0', "<")].map(sender),
            [UID, "", "", "", ""]
        );
        let long = Sender::new(&[b'\xff'; 300], b"").user_agent;
        assert_eq!(long, "\u{fffd}".repeat(200));
    }
}
