//! Random secrets.

/// Random bytes of the operating system, in hex.
///
/// # Errors
///
/// Returns an error if the operating system provides none.
pub fn random<const BYTES: usize>() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}
