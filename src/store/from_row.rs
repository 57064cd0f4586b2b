//! Converts fetched rows into tuples and structs.
//!
//! sqlx compiles all of its code for fetching once per type of `query_as`, which takes megabytes. The store therefore
//! fetches plain rows, and converts them here.

#![expect(clippy::needless_pass_by_value, reason = "these functions are arguments of and_then")]

use sqlx::{FromRow, Row};

/// Converts rows.
pub(super) fn all_from_rows<R: Row, T: for<'r> FromRow<'r, R>>(rows: Vec<R>) -> sqlx::Result<Vec<T>> {
    rows.iter().map(T::from_row).collect()
}

/// Converts a row.
pub(super) fn one_from_row<R: Row, T: for<'r> FromRow<'r, R>>(row: R) -> sqlx::Result<T> {
    T::from_row(&row)
}

/// Converts an optional row.
pub(super) fn optional_from_row<R: Row, T: for<'r> FromRow<'r, R>>(
    row: Option<R>,
) -> sqlx::Result<Option<T>> {
    row.map(one_from_row).transpose()
}
