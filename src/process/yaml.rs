//! A file in YAML as a type of ours, and where in it is what cannot be.

use serde::de::DeserializeOwned;

/// A file that does not say what is expected.
#[derive(Debug)]
pub struct Misread {
    /// The key, with those that it lies within.
    pub place: String,
    /// What is wrong there, and on which line.
    pub source: Box<serde_saphyr::Error>,
}

/// Reads a file.
///
/// # Errors
///
/// [`Misread`] where it is no YAML, or does not say what `T` expects.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Misread> {
    let options = serde_saphyr::options! { with_snippet: false };
    let mut place = String::new();
    let read = serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |yaml| {
        let mut track = serde_path_to_error::Track::new();
        let read = T::deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track));
        read.inspect_err(|_| place = track.path().to_string())
    });
    read.map_err(|source| {
        let place = if matches!(place.as_str(), "" | "." | "?") { "its top level".to_owned() } else { place };
        Misread { place, source: Box::new(source) }
    })
}

/// Whether there is nothing in a file.
#[must_use]
pub fn is_empty(bytes: &[u8]) -> bool {
    bytes.trim_ascii().is_empty()
}
