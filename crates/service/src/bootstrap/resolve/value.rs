//! Errors of single values, and checks that several parts of the file share.

use std::collections::BTreeSet;

use model::escape::Escaped;

/// The key of an invalid value, and the reason.
pub(crate) type InvalidValue = (String, String);

pub(crate) fn unique<'a>(place: &str, names: impl Iterator<Item = &'a str>) -> Result<(), InvalidValue> {
    let mut seen = BTreeSet::new();
    for (n, name) in names.enumerate() {
        if !seen.insert(name) {
            return Err((format!("{place}[{n}]"), format!("\"{}\" must not occur twice", Escaped(name))));
        }
    }
    Ok(())
}
