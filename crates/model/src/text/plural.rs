//! Forms of a noun.

/// `1 pod`, `2 pods`; `1 entry`, `2 entries`.
#[must_use]
pub fn pluralize(n: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if n == 1 => format!("1 {noun}"),
        Some(stem) => format!("{n} {stem}ies"),
        None => format!("{n} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_determines_the_form_of_a_noun() {
        for (n, noun, expected) in [
            (0, "pod", "0 pods"),
            (1, "pod", "1 pod"),
            (2, "pod", "2 pods"),
            (1, "audit entry", "1 audit entry"),
            (14, "audit entry", "14 audit entries"),
        ] {
            assert_eq!(pluralize(n, noun), expected);
        }
    }
}
