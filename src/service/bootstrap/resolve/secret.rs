//! Secrets, where the file refers to them.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use secrecy::SecretString;

use super::shown;
use crate::domain::escape::Visible;
use crate::process::certificate_authorities;
use crate::process::files::read_up_to;
use crate::service::bootstrap::file::Reference;

/// The largest secret, in bytes.
const MOST_BYTES: u64 = 4 * 1024;

/// The largest bundle of certificates, in bytes.
const MOST_PEM: u64 = 4 * 1024 * 1024;

/// The shortest secret that nobody may guess: 128 random bits take 22 letters of base64.
const SHORTEST: usize = 22;

/// What was found, and where, in words.
struct Found {
    text: String,
    place: String,
}

/// A secret that nobody may guess: a token, or what messages are signed with.
pub(super) fn random(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    either(reference, path).and_then(long_enough)
}

/// A secret of any length: an address, or somebody's password.
pub(super) fn given(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    let Found { text, place } = either(reference, path)?;
    if text.is_empty() { Err(format!("{place} is empty")) } else { Ok(text.into()) }
}

/// The token that a file beside the bootstrap file holds, wherever that is.
pub(super) fn of_file(file: &Path, path: &Path) -> Result<SecretString, String> {
    read_file(file, path).and_then(long_enough)
}

/// The token that a variable holds.
pub(super) fn of_variable(variable: &str) -> Result<SecretString, String> {
    read_variable(variable).and_then(long_enough)
}

/// The certificates of a PEM bundle: not secret, but found in the same way.
pub(super) fn authorities(file: &Path, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let bytes = read_up_to(MOST_PEM, &file)
        .map_err(|error| format!("the file \"{}\" cannot be read: {error}", shown(&file)))?;
    certificate_authorities::read(&bytes).map_err(|wrong| format!("the file \"{}\" {wrong}", shown(&file)))
}

fn either(reference: &Reference, path: &Path) -> Result<Found, String> {
    match (&reference.file, &reference.variable) {
        (Some(file), None) => read_file(file, path),
        (None, Some(variable)) => read_variable(variable),
        _ => Err("exactly one of file and variable was expected".into()),
    }
}

fn read_file(file: &Path, path: &Path) -> Result<Found, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let place = format!("the file \"{}\"", shown(&file));
    let bytes = read_up_to(MOST_BYTES, &file).map_err(|error| format!("{place} cannot be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{place} was expected to be text"))?;
    Ok(Found { text: text.trim_ascii().to_owned(), place })
}

fn read_variable(variable: &str) -> Result<Found, String> {
    let place = format!("the variable \"{}\"", Visible(variable));
    let text = std::env::var_os(variable).ok_or_else(|| format!("{place} is not set"))?;
    let text = text.into_string().map_err(|_| format!("{place} was expected to be text"))?;
    Ok(Found { text: text.trim_ascii().to_owned(), place })
}

fn long_enough(Found { text, place }: Found) -> Result<SecretString, String> {
    let wrong = if text.is_empty() {
        "is empty"
    } else if !text.bytes().all(|b| b.is_ascii_graphic()) {
        "holds a space, a control character or a letter outside ASCII"
    } else if text.len() < SHORTEST {
        "holds a text that is too short"
    } else {
        return Ok(text.into());
    };
    Err(format!(
        "{place} {wrong}: at least {SHORTEST} visible ASCII characters were expected, as `openssl rand -hex 32` prints"
    ))
}
