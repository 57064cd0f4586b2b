//! Reads large results.
//!
//! sqlx passes each row of SQLite between threads and copies each value to the heap, which costs several times as
//! much as the query. On SQLite, a large result is therefore read as one JSON text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sqlx::types::Uuid;

use model::Fingerprint;

/// Reads a field from another type: from what a column is in JSON.
pub(crate) fn converted<'de, D: Deserializer<'de>, C: Deserialize<'de>, T: From<C>>(
    deserializer: D,
) -> Result<T, D::Error> {
    C::deserialize(deserializer).map(T::from)
}

/// Reads a boolean, which is 0 or 1 in JSON from SQLite.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    i64::deserialize(deserializer).map(|flag| flag != 0)
}

/// An identifier: a column value, or the output of SQLite's `hex`. Responses have its usual form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Id(pub Uuid);

/// A fingerprint: a column value, or the output of SQLite's `hex`.
#[derive(Debug, Clone, Copy, sqlx::Type)]
#[sqlx(transparent, no_pg_array)]
pub(crate) struct Bytes(pub(crate) Fingerprint);

impl From<Id> for Uuid {
    fn from(Id(id): Id) -> Self {
        id
    }
}

impl From<Bytes> for Fingerprint {
    fn from(Bytes(fingerprint): Bytes) -> Self {
        fingerprint
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = <&str>::deserialize(deserializer)?;
        Uuid::try_parse(digits).map(Self).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = <&str>::deserialize(deserializer)?;
        let bytes = Fingerprint::from_hex(digits);
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("expected 32 bytes in hex"))
    }
}

/// All rows of a `SELECT`, as tuples or as structs with `FromRow` and `Deserialize`. SQLite needs the columns again,
/// in the order of the fields, with identifiers and bytes inside `hex`:
/// `rows!(tx, "hex(id), name", "SELECT id, name FROM …", |query| query.bind(…))`.
macro_rules! rows {
    ($transaction:expr, $columns:literal, $select:expr, |$query:ident| $bind:expr) => {
        match $transaction {
            $crate::Transaction::Sqlite(transaction) => {
                let $query = sqlx::query(concat!(
                    "SELECT json_group_array(json_array(",
                    $columns,
                    ")) FROM (",
                    $select,
                    ")"
                ));
                let row = $bind.fetch_one(&mut **transaction).await?;
                let json: &str = sqlx::Row::try_get(&row, 0)?;
                serde_json::from_str(json).map_err(|_| $crate::Error::Unreadable("rows"))?
            }
            $crate::Transaction::Postgres(transaction) => {
                let $query = sqlx::query($select);
                $bind
                    .fetch_all(&mut **transaction)
                    .await
                    .and_then($crate::database::from_row::all_from_rows)?
            }
        }
    };
}
pub(crate) use rows;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_of_identifiers_and_bytes_is_parsed() {
        let id = Uuid::from_u128(0x0197_ab00_0000_7000_8000_0000_0000_00ff);
        let json = format!(r#"[["{:X}", "{}", "a\"b\u000a", null]]"#, id.simple(), "0F".repeat(32));
        let rows: Vec<(Id, Bytes, String, Option<i64>)> = serde_json::from_str(&json).unwrap();
        let [(Id(read), Bytes(fingerprint), text, None)] = rows.as_slice() else { panic!("{json}") };
        assert_eq!((*read, fingerprint.bytes(), text.as_str()), (id, &[15; 32], "a\"b\n"));
        for bad in [r#"["", "00"]"#, r#"["0197", "0197"]"#, "[1, 2]"] {
            assert!(serde_json::from_str::<(Id, Bytes)>(bad).is_err(), "{bad}");
            assert!(serde_json::from_str::<(Bytes, Id)>(bad).is_err(), "{bad}");
        }
    }
}
