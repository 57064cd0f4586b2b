//! Tokens of the language of `${{ … }}`.

use super::error::ExpressionError;

/// A token, and its offset in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) offset: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Word(String),
    Text(String),
    Number(String),
    /// An operator or a bracket.
    Sign(&'static str),
}

const SIGNS: [&str; 14] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", ".", "&&", "||"];

/// The error of a token that is not expected.
pub(super) fn unexpected(token: &Token, expected: &str) -> ExpressionError {
    let found = match &token.kind {
        Kind::Word(word) | Kind::Number(word) => format!("\"{word}\""),
        Kind::Text(_) => "a text".to_owned(),
        Kind::Sign(sign) => format!("\"{sign}\""),
    };
    ExpressionError::new(token.offset, format!("expected {expected}, got {found}"))
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut offset = 0;
    while let Some(rest) = text.get(offset..).filter(|rest| !rest.is_empty()) {
        let start = offset;
        let first = rest.chars().next().unwrap_or_default();
        if first.is_whitespace() {
            offset += first.len_utf8();
            continue;
        }
        let kind = if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            offset += sign.len();
            Kind::Sign(sign)
        } else if first == '"' || first == '\'' {
            let (content, length) = quoted(rest, first).ok_or_else(|| {
                ExpressionError::new(start, format!("expected a {first} at the end of the text"))
            })?;
            offset += length;
            Kind::Text(content)
        } else if first.is_ascii_digit() || first == '-' {
            let digits = rest.strip_prefix('-').unwrap_or(rest);
            let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
            let number = rest.get(..rest.len() - digits.len() + end).unwrap_or_default();
            if number.parse::<f64>().is_err() {
                return Err(ExpressionError::new(start, format!("expected a number, got \"{number}\"")));
            }
            offset += number.len();
            Kind::Number(number.to_owned())
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
            let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            offset += word.len();
            Kind::Word(word.to_owned())
        } else {
            return Err(ExpressionError::new(start, format!("unexpected character {first:?}")));
        };
        tokens.push(Token { kind, offset: start });
    }
    Ok(tokens)
}

/// The content of a quoted text at the start, and its length with the quotes. A backslash only escapes a quote, so that
/// regular expressions are written as they are.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut content = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((offset, character)) = characters.next() {
        if character == quote {
            return Some((content, offset + quote.len_utf8()));
        }
        let escaped = (character == '\\').then(|| characters.next_if(|(_, next)| *next == quote)).flatten();
        content.push(escaped.map_or(character, |(_, quote)| quote));
    }
    None
}
