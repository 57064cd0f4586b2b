//! Errors of expressions, with their position.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid expression at character {}: {problem}", .offset + 1)]
pub struct ExpressionError {
    /// The offset of the problem in bytes.
    pub(super) offset: usize,
    pub(super) problem: String,
}

impl ExpressionError {
    pub(super) fn new(offset: usize, problem: impl Into<String>) -> Self {
        Self { offset, problem: problem.into() }
    }
}
