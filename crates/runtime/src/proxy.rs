//! Proxy variables, where libraries differ from curl.

/// Whether `NO_PROXY` is `*`, which disables proxies. Libraries apply that to host names, but not to IP
/// addresses.
#[must_use]
pub fn is_turned_off() -> bool {
    let value = std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy"));
    value.is_ok_and(|hosts| hosts.trim() == "*")
}
