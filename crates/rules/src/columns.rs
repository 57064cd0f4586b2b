//! How the store keeps types of this crate in columns.

use model::column_type;

use crate::compliance::Compliance;
use crate::ownership::Pattern;

column_type!(Pattern, String, |pattern| pattern.as_str().to_owned(), |text| Ok(text.parse()?));
// `NULL` means that compliance was never evaluated.
column_type!(Compliance, Option<String>, |compliance| Some(compliance.as_str().to_owned()), |text| {
    text.map_or(Ok(Compliance::Unknown), |text| Ok(text.parse()?))
});
