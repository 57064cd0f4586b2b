//! The proxy variables, as far as libraries do not read them as curl does.

/// Whether `NO_PROXY` is `*`: no proxy for any host. The libraries' matchers apply that to names, but
/// not to addresses.
#[must_use]
pub fn is_turned_off() -> bool {
    let value = std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy"));
    value.is_ok_and(|hosts| hosts.trim() == "*")
}
