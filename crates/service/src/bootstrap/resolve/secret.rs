//! Reads files that the bootstrap file refers to, and secrets in files and variables.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use secrecy::SecretString;

use model::escape::Escaped;
use runtime::certificate_authorities;
use runtime::files::{quoted, read_up_to};
use store::bootstrap::file::Reference;

/// Maximum size of a secret, in bytes.
const MAX_BYTES: u64 = 4 * 1024;

/// Maximum size of a bundle of certificates, in bytes.
const MAX_PEM: u64 = 4 * 1024 * 1024;

/// Minimum length of a strong secret: 128 random bits need 22 characters of base64.
const MIN_LENGTH: usize = 22;

/// The content of a file or variable, and a description of that.
pub(crate) struct Found<Content> {
    pub(crate) content: Content,
    pub(crate) place: String,
}

/// A secret of at least the minimum length: a token, or a key for signatures.
pub(crate) fn strong(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    either(reference, path).and_then(check_strength)
}

/// A secret of any length: a URL, or a password.
pub(crate) fn any(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    let Found { content, place } = either(reference, path)?;
    if content.is_empty() { Err(format!("{place} is empty")) } else { Ok(content.into()) }
}

/// The certificates of a PEM bundle. They are not secret, but referred to in the same way.
pub(crate) fn authorities(file: &Path, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let Found { content, place } = read(MAX_PEM, file, path)?;
    certificate_authorities::read(&content).map_err(|wrong| format!("{place} {wrong}"))
}

/// The text of a file, relative to the bootstrap file.
pub(crate) fn read_text(max_bytes: u64, file: &Path, path: &Path) -> Result<Found<String>, String> {
    let Found { content, place } = read(max_bytes, file, path)?;
    let content = String::from_utf8(content).map_err(|_| format!("{place}: expected text"))?;
    Ok(Found { content, place })
}

fn read(max_bytes: u64, file: &Path, path: &Path) -> Result<Found<Vec<u8>>, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let place = format!("the file {}", quoted(&file));
    let content = read_up_to(max_bytes, &file).map_err(|error| format!("failed to read {place}: {error}"))?;
    Ok(Found { content, place })
}

fn either(reference: &Reference, path: &Path) -> Result<Found<String>, String> {
    let Found { content, place } = match (&reference.file, &reference.variable) {
        (Some(file), None) => read_text(MAX_BYTES, file, path)?,
        (None, Some(variable)) => {
            let place = format!("the variable \"{}\"", Escaped(variable));
            let content = std::env::var_os(variable).ok_or_else(|| format!("{place} is not set"))?;
            let content = content.into_string().map_err(|_| format!("{place}: expected text"))?;
            Found { content, place }
        }
        _ => return Err("expected exactly one of file and variable".into()),
    };
    Ok(Found { content: content.trim_ascii().to_owned(), place })
}

fn check_strength(Found { content: text, place }: Found<String>) -> Result<SecretString, String> {
    let wrong = if text.is_empty() {
        "is empty"
    } else if !text.bytes().all(|b| b.is_ascii_graphic()) {
        "contains a space, a control character or a non-ASCII character"
    } else if text.len() < MIN_LENGTH {
        "is too short"
    } else {
        return Ok(text.into());
    };
    Err(format!(
        "{place} {wrong}: expected at least {MIN_LENGTH} visible ASCII characters, for example from `openssl rand -hex 32`"
    ))
}
