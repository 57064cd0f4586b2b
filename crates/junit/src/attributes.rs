//! Reads the attributes of XML elements.

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::events::BytesStart;

use super::error::Problem;

/// Limit for the name of a suite or test, in characters.
pub(super) const MAX_NAME_CHARS: usize = 255;

/// The attributes of an element by local name, duplicates included.
pub(super) fn attributes<'a>(
    element: &'a BytesStart<'_>,
) -> impl Iterator<Item = Result<(&'a str, Cow<'a, str>), Problem>> {
    let mut attributes = element.attributes();
    // The check for duplicates takes quadratic time.
    attributes.with_checks(false);
    attributes.map(|read| {
        let attribute = read.map_err(|error| Problem::Syntax(error.into()))?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0)?;
        Ok((attribute.key.local_name().into_inner(), value))
    })
}

/// Parses seconds from 0 to 1e9, the interface's maximum, with or without commas between thousands.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let seconds: f64 = if text.contains('.') { text.replace(',', "").parse() } else { text.parse() }.ok()?;
    (0.0..=1e9).contains(&seconds).then_some(seconds)
}
