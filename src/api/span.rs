//! The period of a list.

/// A time range in seconds of Unix time, inclusive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first second.
    pub from: Option<i64>,
    /// Its last second.
    pub to: Option<i64>,
}
