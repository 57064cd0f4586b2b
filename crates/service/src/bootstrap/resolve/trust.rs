//! Trusted signers: reads their roots and keys, and checks them.

use std::path::Path;

use crate::bootstrap::resolve::secret::read_text;
use crate::bootstrap::resolve::value::{InvalidValue, unique};
use model::FlowName;
use store::bootstrap::file::Trust;

/// Maximum size of a trusted root, in bytes.
const MAX_ROOT: u64 = 256 * 1024;

/// Maximum size of a key, in bytes.
const MAX_KEY: u64 = 16 * 1024;

pub(crate) fn resolve(trusted: &mut [Trust], place: &str, path: &Path) -> Result<(), InvalidValue> {
    unique(place, trusted.iter().map(|trust| trust.name.as_str()))?;
    for (n, trust) in trusted.iter_mut().enumerate() {
        resolve_trust(trust, path).map_err(|(key, why)| (format!("{place}[{n}]{key}"), why))?;
    }
    Ok(())
}

fn resolve_trust(trust: &mut Trust, path: &Path) -> Result<(), InvalidValue> {
    let Trust { name, root, identities, keys, resolved } = trust;
    let invalid = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    if name.parse::<FlowName>().is_err() || name.len() > 64 {
        return invalid(".name", "expected at most 64 letters, digits, '-', '_', '.' or '~'");
    }
    if identities.is_empty() && keys.is_empty() {
        return invalid("", "expected identities or keys");
    }
    if let Some(n) = identities.iter().position(|identity| !identity.issuer.starts_with("https://")) {
        return invalid(&format!(".identities[{n}].issuer"), "expected an https URL");
    }
    let read = |max, file: &Path, key: String| read_text(max, file, path).map_err(|why| (key, why));
    let mut entry = rules::trust::Trust {
        name: name.clone(),
        root: None,
        keys: Vec::new(),
        identities: identities.clone(),
    };
    if let Some(root) = root {
        let found = read(MAX_ROOT, &root.file, ".root.file".to_owned())?;
        bundle::check_root(&found.content)
            .map_err(|error| (".root.file".to_owned(), format!("{}: {error}", found.place)))?;
        entry.root = Some(found.content);
    }
    for (n, key) in keys.iter().enumerate() {
        let place = format!(".keys[{n}].file");
        let found = read(MAX_KEY, &key.file, place.clone())?;
        bundle::check_key(&found.content).map_err(|error| (place, format!("{}: {error}", found.place)))?;
        entry.keys.push(found.content);
    }
    *resolved = Some(entry);
    Ok(())
}
