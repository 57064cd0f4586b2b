//! Newtypes over text.

/// Declares a newtype over text that a function checks, and may change:
/// `fn(String) -> Result<String, $error>`.
#[macro_export]
macro_rules! checked_text {
    ($(#[$($attribute:tt)*])* $name:ident, $error:ty, $check:expr) => {
        $(#[$($attribute)*])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// From a text of any source.
            ///
            /// # Errors
            ///
            /// If the check rejects it.
            pub fn new(text: impl Into<String>) -> Result<Self, $error> {
                let check: fn(String) -> Result<String, $error> = $check;
                check(text.into()).map(Self)
            }

            /// The text, as the check returned it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
