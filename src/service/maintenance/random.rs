//! What nobody can guess.

/// So many random bytes of the operating system, in hex.
///
/// # Errors
///
/// Where it gives none.
pub(crate) fn random<const BYTES: usize>() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}
