//! Target `configuration`: the file of `agent --config`.

use std::collections::BTreeSet;

use super::checks::{assert_printable, with_file};
use crate::agent::environment::{ConfigError, read_config};
use crate::process::error_causes;

pub(super) fn target(bytes: &[u8]) {
    match with_file(bytes, read_config) {
        Ok(environments) => {
            let names: BTreeSet<_> = environments.iter().map(|environment| &environment.name).collect();
            assert!(!names.is_empty() && names.len() == environments.len());
            for environment in &environments {
                for name in environment.selection.names() {
                    assert!(environment.selection.selects(name.as_str()), "{name} is named but not selected");
                }
            }
        }
        Err(error) => {
            let message = error_causes::describe(&error);
            assert_printable(&message);
            match error {
                // Input that is not UTF-8 has no lines.
                ConfigError::Invalid(..) => {
                    assert!(message.contains("line ") || message.contains("UTF-8"), "{message}");
                }
                ConfigError::Unreadable(..) => panic!("{message}"),
                _ => {}
            }
        }
    }
}
