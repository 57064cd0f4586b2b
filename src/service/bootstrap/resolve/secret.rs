//! Secrets, where the file refers to them.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;

use super::shown;
use crate::domain::visible::Visible;
use crate::process::files::read_up_to;
use crate::service::bootstrap::file::Reference;

/// The largest secret, in bytes.
const MOST_BYTES: u64 = 4 * 1024;

/// The largest bundle of certificates, in bytes.
const MOST_PEM: u64 = 4 * 1024 * 1024;

/// The shortest secret that nobody may guess: 128 random bits take 22 letters of base64.
const SHORTEST: usize = 22;

/// A secret that nobody may guess: a token, or what messages are signed with.
pub(super) fn random(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    either(reference, path).and_then(long_enough)
}

/// A secret of any length: an address, or somebody's password.
pub(super) fn given(reference: &Reference, path: &Path) -> Result<SecretString, String> {
    let text = either(reference, path)?;
    if text.is_empty() { Err("what it refers to is empty".into()) } else { Ok(text.into()) }
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
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("the file \"{}\" was expected to hold certificates in PEM", shown(&file))),
    }
}

fn either(reference: &Reference, path: &Path) -> Result<String, String> {
    match (&reference.file, &reference.variable) {
        (Some(file), None) => read_file(file, path),
        (None, Some(variable)) => read_variable(variable),
        _ => Err("exactly one of file and variable was expected".into()),
    }
}

fn read_file(file: &Path, path: &Path) -> Result<String, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let bytes = read_up_to(MOST_BYTES, &file)
        .map_err(|error| format!("the file \"{}\" cannot be read: {error}", shown(&file)))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| format!("the file \"{}\" was expected to be text", shown(&file)))?;
    Ok(text.trim_ascii().to_owned())
}

fn read_variable(variable: &str) -> Result<String, String> {
    let text = std::env::var_os(variable)
        .ok_or_else(|| format!("the variable \"{}\" is not set", Visible(variable)))?;
    let text = text.into_string();
    let text = text.map_err(|_| format!("the variable \"{}\" was expected to be text", Visible(variable)))?;
    Ok(text.trim_ascii().to_owned())
}

fn long_enough(secret: String) -> Result<SecretString, String> {
    if secret.len() < SHORTEST || !secret.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!(
            "at least {SHORTEST} visible ASCII characters were expected, as `openssl rand -hex 32` prints"
        ));
    }
    Ok(secret.into())
}
