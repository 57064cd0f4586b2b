//! JSON bodies, with the place of what is wrong in them.

use serde::Deserialize;

use super::problem::Problem;
use crate::domain::escape::{Visible, shortened};

/// How much of a reason is told, in characters: it quotes what was sent.
const TOLD: usize = 300;

/// Reads a JSON object: serde would take an array of a struct's fields for it. The second reading, which knows
/// the place, is only made for what is wrong.
pub(crate) fn read<'de, T: Deserialize<'de>>(what: &str, bytes: &'de [u8]) -> Result<T, Problem> {
    if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(Problem::invalid(format!("{what} cannot be read: an object was expected")));
    }
    let error = match serde_json::from_slice(bytes) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let place =
        serde_path_to_error::deserialize::<_, T>(&mut reader).err().map(|error| error.path().to_string());
    let why = Visible(&shortened(&error.to_string(), TOLD)).to_string();
    match place.filter(|place| place != "." && !error.is_syntax() && !error.is_eof()) {
        Some(place) => Err(Problem::field(Visible(&shortened(&place, TOLD)).to_string(), &why)),
        None => Err(Problem::invalid(format!("{what} cannot be read: {why}"))),
    }
}
