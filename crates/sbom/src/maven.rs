//! The order of Maven's versions: <https://maven.apache.org/pom.html#version-order-specification>. The libraries for it order
//! versions such as `5.0.0.RC2` otherwise than Maven does.

use std::cmp::Ordering;

/// A part of a version, which starts at a dot, at a hyphen, or between digits and letters.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Qualifier {
        rank: u8,
        text: String,
    },
    /// Digits without leading zeros. After a hyphen it is less than after a dot.
    Number {
        is_after_dot: bool,
        digits: String,
    },
}

/// The rank of a release: the empty qualifier.
const RELEASE: u8 = 5;

impl Token {
    fn new(text: &str, is_after_dot: bool, is_before_digit: bool) -> Self {
        if text.is_empty() || text.starts_with(|first: char| first.is_ascii_digit()) {
            return Self::Number { is_after_dot, digits: text.trim_start_matches('0').to_owned() };
        }
        let text = text.to_ascii_lowercase();
        let rank = match text.as_str() {
            "alpha" => 0,
            "beta" => 1,
            "milestone" => 2,
            "a" if is_before_digit => 0,
            "b" if is_before_digit => 1,
            "m" if is_before_digit => 2,
            "rc" | "cr" => 3,
            "snapshot" => 4,
            "final" | "ga" | "release" => RELEASE,
            "sp" => 6,
            _ => 7,
        };
        let text = if rank == 7 { text } else { String::new() };
        Self::Qualifier { rank, text }
    }

    /// Equal to none.
    fn is_null(&self) -> bool {
        self.compare_to_none().is_eq()
    }

    fn compare_to_none(&self) -> Ordering {
        match self {
            Self::Qualifier { rank, .. } => rank.cmp(&RELEASE),
            Self::Number { digits, .. } => digits.len().cmp(&0),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Qualifier { rank, text }, Self::Qualifier { rank: other, text: other_text }) => {
                (rank, text).cmp(&(other, other_text))
            }
            (Self::Qualifier { .. }, Self::Number { .. }) => Ordering::Less,
            (Self::Number { .. }, Self::Qualifier { .. }) => Ordering::Greater,
            (
                Self::Number { is_after_dot, digits },
                Self::Number { is_after_dot: other_is_after_dot, digits: other },
            ) => (is_after_dot, digits.len(), digits).cmp(&(other_is_after_dot, other.len(), other)),
        }
    }
}

/// Both versions are ASCII.
pub(crate) fn compare(version: &str, other: &str) -> Ordering {
    let (version, other) = (tokens(version), tokens(other));
    let longer = version.len().max(other.len());
    let orders = (0..longer).map(|n| match (version.get(n), other.get(n)) {
        (Some(token), Some(other)) => token.compare(other),
        (Some(token), None) => token.compare_to_none(),
        (None, Some(other)) => other.compare_to_none().reverse(),
        (None, None) => Ordering::Equal,
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The tokens, without nulls at the end of the version, and before each hyphen or qualifier.
fn tokens(version: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let part = |begin: usize, end: usize| version.get(begin..end).unwrap_or_default();
    let mut push = |text: &str, is_after_dot: bool, is_before_digit: bool| {
        let token = Token::new(text, is_after_dot, is_before_digit);
        if !matches!(token, Token::Number { is_after_dot: true, .. }) {
            trim(&mut tokens);
        }
        tokens.push(token);
    };
    let (mut begin, mut is_after_dot) = (0, true);
    for (at, character) in version.char_indices() {
        let before = part(begin, at).chars().next_back();
        if matches!(character, '.' | '-') {
            push(part(begin, at), is_after_dot, false);
            (begin, is_after_dot) = (at + 1, character == '.');
        } else if before.is_some_and(|before| before.is_ascii_digit() != character.is_ascii_digit()) {
            push(part(begin, at), is_after_dot, character.is_ascii_digit());
            (begin, is_after_dot) = (at, false);
        }
    }
    push(part(begin, version.len()), is_after_dot, false);
    trim(&mut tokens);
    tokens
}

fn trim(tokens: &mut Vec<Token>) {
    while tokens.last().is_some_and(Token::is_null) {
        tokens.pop();
    }
}
