//! Arguments of the bench: parts, and options such as `attestations=1000`.

/// Whether a part of a group is selected, or no part of the group is.
pub(super) fn is_selected(group: &[&str], part: &str) -> bool {
    let selected: Vec<String> = std::env::args().filter(|arg| group.contains(&arg.as_str())).collect();
    selected.is_empty() || selected.iter().any(|selected| selected == part)
}

/// Value of the option `NAME=N`.
pub(super) fn option(name: &str) -> Option<u64> {
    let mut arguments = std::env::args();
    arguments.find_map(|argument| argument.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}
