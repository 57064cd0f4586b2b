//! Enums whose variants are words.

use crate::escape::{Escaped, shortened};

/// Maximum length of a word in an error, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// A word that an enum does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value \"{}\": expected one of {expected}", Escaped(word))]
pub struct UnknownWord {
    word: String,
    expected: String,
}

impl UnknownWord {
    #[doc(hidden)]
    #[must_use]
    pub fn new(word: &str, expected: &[&str]) -> Self {
        Self { word: shortened(word, MAX_SHOWN_CHARS), expected: expected.join(", ") }
    }
}

/// Declares an enum whose variants are written as these words.
#[macro_export]
macro_rules! words {
    ($(#[$($attribute:tt)*])* $name:ident { $($(#[$($doc:tt)*])* $variant:ident $word:tt,)* }) => {
        $(#[$($attribute)*])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$($doc)*])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// All variants, in this order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The word of this variant.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.into_iter().find(|known| known.as_str() == word);
                let words = || Self::ALL.map(Self::as_str);
                known.ok_or_else(|| $crate::UnknownWord::new(word, &words()))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
