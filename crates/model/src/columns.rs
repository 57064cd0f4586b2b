//! How the store keeps types of this crate in columns.

use crate::access::Role;
use crate::{AnyJson, ApprovalState, EnvironmentName, Fingerprint, FreeForm, TargetKind, Timestamp, Trigger};

/// Declares how a type is stored: the type of its column, and both conversions.
#[macro_export]
macro_rules! column_type {
    ($type:ty, $column:ty, $encode:expr, $decode:expr) => {
        impl<DB: sqlx::Database> sqlx::Type<DB> for $type
        where
            $column: sqlx::Type<DB>,
        {
            fn type_info() -> DB::TypeInfo {
                <$column>::type_info()
            }

            fn compatible(other: &DB::TypeInfo) -> bool {
                <$column>::compatible(other)
            }
        }

        impl<'q, DB: sqlx::Database> sqlx::Encode<'q, DB> for $type
        where
            $column: sqlx::Encode<'q, DB>,
        {
            fn encode_by_ref(
                &self,
                buffer: &mut DB::ArgumentBuffer,
            ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                let encode: fn(&$type) -> $column = $encode;
                encode(self).encode(buffer)
            }
        }

        impl<'r, DB: sqlx::Database> sqlx::Decode<'r, DB> for $type
        where
            $column: sqlx::Decode<'r, DB>,
        {
            fn decode(value: DB::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                let decode: fn($column) -> Result<$type, sqlx::error::BoxDynError> = $decode;
                decode(<$column>::decode(value)?)
            }
        }
    };
}

column_type!(Timestamp, i64, |time| time.micros(), |micros| Ok(Timestamp::from_micros(micros)));
column_type!(Fingerprint, Vec<u8>, |hash| hash.bytes().to_vec(), |bytes| {
    let bytes: [u8; 32] = bytes.as_slice().try_into()?;
    Ok(Fingerprint::from(bytes))
});
column_type!(AnyJson, String, |json| json.as_str().to_owned(), |text| Ok(serde_json::from_str(&text)?));
column_type!(FreeForm, String, |json| json.as_str().to_owned(), |text| Ok(serde_json::from_str(&text)?));
column_type!(TargetKind, String, |kind| kind.as_str().to_owned(), |text| Ok(text.parse()?));
column_type!(Trigger, String, |trigger| trigger.as_str().to_owned(), |text| Ok(text.parse()?));
column_type!(Role, String, |role| role.as_str().to_owned(), |text| Ok(text.parse()?));
column_type!(EnvironmentName, String, |name| name.as_str().to_owned(), |text| Ok(text.parse()?));
column_type!(ApprovalState, String, |state| state.as_str().to_owned(), |text| Ok(text.parse()?));
