//! The bootstrap file of `serve`.

use super::{in_file, is_told};
use crate::process::error_causes;
use crate::service::bootstrap::BootstrapError;
use crate::service::fuzzing;

pub(super) fn target(bytes: &[u8]) {
    let Err(error) = in_file(bytes, fuzzing::bootstrap) else { return };
    let told = error_causes::said_once(&error).join(": ");
    is_told(&told);
    match error {
        // What is no text has no lines.
        BootstrapError::Invalid(_, place, _) => {
            assert!(!place.is_empty() && (told.contains("line ") || told.contains("UTF-8")), "{told}");
        }
        BootstrapError::Value { key, why, .. } => assert!(!key.is_empty() && !why.is_empty(), "{told}"),
        BootstrapError::Empty(_) => assert!(bytes.trim_ascii().is_empty(), "{told}"),
        other => panic!("{other:?}"),
    }
}
