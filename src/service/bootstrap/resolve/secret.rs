//! Secrets that the bootstrap file refers to, in files and variables.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use secrecy::SecretString;

use super::value::escaped;
use crate::domain::escape::Escaped;
use crate::process::certificate_authorities;
use crate::process::files::read_up_to;
use crate::service::bootstrap::file::Reference;

/// Maximum size of a secret, in bytes.
const MAX_BYTES: u64 = 4 * 1024;

/// Maximum size of a bundle of certificates, in bytes.
const MAX_PEM: u64 = 4 * 1024 * 1024;

/// Minimum length of a strong secret: 128 random bits need 22 characters of base64.
const MIN_LENGTH: usize = 22;

/// A text and a description of its source.
struct Found {
    text: String,
    place: String,
}

/// A secret of at least the minimum length: a token, or a key for signatures.
pub(super) fn strong(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    either(reference, path).and_then(check_strength)
}

/// A secret of any length: a URL, or a password.
pub(super) fn any(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    let Found { text, place } = either(reference, path)?;
    if text.is_empty() { Err(format!("{place} is empty")) } else { Ok(text.into()) }
}

/// The token in a file, relative to the bootstrap file.
pub(super) fn token_from_file(file: &Path, path: &Path) -> Result<SecretString, String> {
    read_file(file, path).and_then(check_strength)
}

/// The token in a variable.
pub(super) fn token_from_variable(variable: &str) -> Result<SecretString, String> {
    read_variable(variable).and_then(check_strength)
}

/// The certificates of a PEM bundle. They are not secret, but referred to in the same way.
pub(super) fn authorities(file: &Path, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let bytes = read_up_to(MAX_PEM, &file)
        .map_err(|error| format!("failed to read \"{}\": {error}", escaped(&file)))?;
    certificate_authorities::read(&bytes).map_err(|wrong| format!("the file \"{}\" {wrong}", escaped(&file)))
}

fn either(reference: &Reference, path: &Path) -> Result<Found, String> {
    match (&reference.file, &reference.variable) {
        (Some(file), None) => read_file(file, path),
        (None, Some(variable)) => read_variable(variable),
        _ => Err("expected exactly one of file and variable".into()),
    }
}

fn read_file(file: &Path, path: &Path) -> Result<Found, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let place = format!("the file \"{}\"", escaped(&file));
    let bytes = read_up_to(MAX_BYTES, &file).map_err(|error| format!("failed to read {place}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{place}: expected text"))?;
    Ok(Found { text: text.trim_ascii().to_owned(), place })
}

fn read_variable(variable: &str) -> Result<Found, String> {
    let place = format!("the variable \"{}\"", Escaped(variable));
    let text = std::env::var_os(variable).ok_or_else(|| format!("{place} is not set"))?;
    let text = text.into_string().map_err(|_| format!("{place}: expected text"))?;
    Ok(Found { text: text.trim_ascii().to_owned(), place })
}

fn check_strength(Found { text, place }: Found) -> Result<SecretString, String> {
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
