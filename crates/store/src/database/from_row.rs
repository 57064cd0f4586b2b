//! Converts fetched rows into tuples and structs.
//!
//! sqlx compiles all of its code for fetching once per type of `query_as`, which takes megabytes. The store therefore
//! fetches plain rows, and converts them here.

#![expect(clippy::needless_pass_by_value, reason = "these functions are arguments of and_then")]

use sqlx::{FromRow, Row};

pub(crate) fn all_from_rows<R: Row, T: for<'r> FromRow<'r, R>>(rows: Vec<R>) -> sqlx::Result<Vec<T>> {
    rows.iter().map(T::from_row).collect()
}

pub(crate) fn one_from_row<R: Row, T: for<'r> FromRow<'r, R>>(row: R) -> sqlx::Result<T> {
    T::from_row(&row)
}

pub(crate) fn optional_from_row<R: Row, T: for<'r> FromRow<'r, R>>(
    row: Option<R>,
) -> sqlx::Result<Option<T>> {
    row.map(one_from_row).transpose()
}

/// The only column of each row.
pub(crate) fn all_scalars<R: Row, T>(rows: Vec<R>) -> sqlx::Result<Vec<T>>
where
    (T,): for<'r> FromRow<'r, R>,
{
    rows.into_iter().map(scalar).collect()
}

/// The only column of a row.
pub(crate) fn scalar<R: Row, T>(row: R) -> sqlx::Result<T>
where
    (T,): for<'r> FromRow<'r, R>,
{
    <(T,)>::from_row(&row).map(|(value,)| value)
}

/// The only column of an optional row.
pub(crate) fn optional_scalar<R: Row, T>(row: Option<R>) -> sqlx::Result<Option<T>>
where
    (T,): for<'r> FromRow<'r, R>,
{
    row.map(scalar).transpose()
}
