//! Target `bootstrap`: the bootstrap file of `serve`.

use super::checks::{assert_printable, with_file};
use crate::process::error_causes;
use crate::service::bootstrap::BootstrapError;
use crate::service::fuzzing;

pub(super) fn target(bytes: &[u8]) {
    let Err(error) = with_file(bytes, fuzzing::bootstrap) else { return };
    let message = error_causes::describe(&error);
    assert_printable(&message);
    match error {
        // Input that is not UTF-8 has no lines.
        BootstrapError::Invalid(_, place, _) => {
            assert!(
                !place.is_empty() && (message.contains("line ") || message.contains("UTF-8")),
                "{message}"
            );
        }
        BootstrapError::Value { key, why, .. } => assert!(!key.is_empty() && !why.is_empty(), "{message}"),
        BootstrapError::Empty(_) => assert!(bytes.trim_ascii().is_empty(), "{message}"),
        other => panic!("{other:?}"),
    }
}
