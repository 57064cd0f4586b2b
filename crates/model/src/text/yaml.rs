//! Deserializes YAML files, with the path of the key in errors.

use serde::de::DeserializeOwned;

/// The file is not YAML, or not of the expected type.
#[derive(Debug)]
pub struct YamlError {
    pub path: String,
    /// The problem, with its line.
    pub source: Box<serde_saphyr::Error>,
}

/// Deserializes a file.
///
/// # Errors
///
/// [`YamlError`] for invalid YAML or an unexpected value.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, YamlError> {
    let options = serde_saphyr::options! { with_snippet: false };
    let mut path = String::new();
    let read = serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |yaml| {
        let mut track = serde_path_to_error::Track::new();
        let read = T::deserialize(serde_path_to_error::Deserializer::new(yaml, &mut track));
        read.inspect_err(|_| path = track.path().to_string())
    });
    read.map_err(|source| {
        let path = if matches!(path.as_str(), "" | "." | "?") { "the top level".to_owned() } else { path };
        YamlError { path, source: Box::new(source) }
    })
}

#[must_use]
pub fn is_empty(bytes: &[u8]) -> bool {
    bytes.trim_ascii().is_empty()
}
