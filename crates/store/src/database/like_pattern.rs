//! Builds patterns for `LIKE … ESCAPE '!'`.

/// Escapes a text so that it matches only itself.
pub(crate) fn literal(text: &str) -> String {
    text.replace('!', "!!").replace('%', "!%").replace('_', "!_")
}

/// Matches names that contain a text.
pub(crate) fn anywhere(text: &str) -> String {
    format!("%{}%", literal(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_in_a_search_text_are_escaped() {
        assert_eq!(anywhere("50%_Off!"), "%50!%!_Off!!%");
    }
}
