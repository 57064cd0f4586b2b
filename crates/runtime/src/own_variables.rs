//! Environment variables that this program reads, which may contain secrets.

/// The names of this program's variables that are set. A child process must not inherit them.
#[must_use]
pub fn own_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with("SUPERCARGO_")).collect()
}
