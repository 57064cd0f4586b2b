//! The file of `--config`.

use std::collections::BTreeSet;

use super::{in_file, is_told};
use crate::agent::environment::{ConfigError, read_config};
use crate::process::error_causes;

pub(super) fn target(bytes: &[u8]) {
    match in_file(bytes, read_config) {
        Ok(environments) => {
            let names: BTreeSet<_> = environments.iter().map(|environment| &environment.name).collect();
            assert!(!names.is_empty() && names.len() == environments.len());
            for environment in &environments {
                for name in environment.selection.names() {
                    assert!(environment.selection.takes(name.as_str()), "{name} is named and left out");
                }
            }
        }
        Err(error) => {
            let told = error_causes::said_once(&error).join(": ");
            is_told(&told);
            match error {
                // What is no text has no lines.
                ConfigError::Invalid(..) => {
                    assert!(told.contains("line ") || told.contains("UTF-8"), "{told}");
                }
                ConfigError::Unreadable(..) => panic!("{told}"),
                _ => {}
            }
        }
    }
}
