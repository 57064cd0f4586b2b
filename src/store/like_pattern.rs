//! What `LIKE … ESCAPE '!'` finds a text with.

/// A text, taken for itself.
pub(super) fn literal(text: &str) -> String {
    text.replace('!', "!!").replace('%', "!%").replace('_', "!_")
}

/// A text, wherever it stands.
pub(super) fn anywhere(text: &str) -> String {
    format!("%{}%", literal(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_searched_for_is_no_pattern() {
        assert_eq!(anywhere("50%_Off!"), "%50!%!_Off!!%");
    }
}
