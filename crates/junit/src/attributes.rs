//! Reads the attributes of XML elements.

use std::borrow::Cow;

use quick_xml::escape::EscapeError;
use quick_xml::events::BytesStart;
use quick_xml::{Error, XmlVersion};

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
        let mut attribute = read.map_err(|error| Problem::Syntax(error.into()))?;
        let value = match attribute.normalized_value(XmlVersion::Implicit1_0) {
            Err(Error::Escape(EscapeError::InvalidCharRef(_))) => {
                attribute.value = Cow::Owned(without_invalid_references(&attribute.value));
                Cow::Owned(attribute.normalized_value(XmlVersion::Implicit1_0)?.into_owned())
            }
            value => value?,
        };
        Ok((attribute.key.local_name().into_inner(), value))
    })
}

/// Replaces references to characters that XML does not have, such as `&#0;`, which some producers write nevertheless.
fn without_invalid_references(text: &str) -> String {
    let mut pieces = text.split("&#");
    let mut valid = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once(';') {
            Some((number, rest)) if character(number).is_none() => {
                valid.push(char::REPLACEMENT_CHARACTER);
                valid.push_str(rest);
            }
            _ => {
                valid.push_str("&#");
                valid.push_str(piece);
            }
        }
    }
    valid
}

/// The character of a reference: `38` or `x26`.
pub(super) fn character(number: &str) -> Option<char> {
    let code = match number.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?).filter(|character| *character != '\0')
}

/// Whether an attribute such as `flaky` is set: `true`, `yes` or a positive number.
pub(super) fn is_set(value: &str) -> bool {
    let value = value.trim();
    value.eq_ignore_ascii_case("true")
        || value.eq_ignore_ascii_case("yes")
        || value.parse::<u32>().is_ok_and(|number| number > 0)
}

/// Parses seconds from 0 to 1e9, the interface's maximum. The last of `.` and `,` begins the fraction if the other one
/// separates thousands; a comma alone may be either.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let seconds: f64 = match (text.find(','), text.find('.')) {
        (None, _) => text.parse(),
        (Some(comma), Some(point)) => {
            let (thousands, fraction) = if comma < point { (',', '.') } else { ('.', ',') };
            let (whole, fraction) = text.split_once(fraction)?;
            let is_grouped = whole.split(thousands).enumerate().all(|(index, group)| {
                let length = if index == 0 { 1..=3 } else { 3..=3 };
                length.contains(&group.len()) && is_number(group)
            });
            if !is_grouped || !is_number(fraction) {
                return None;
            }
            format!("{}.{fraction}", whole.replace(thousands, "")).parse()
        }
        (Some(_), None) => return None,
    }
    .ok()?;
    (0.0..=1e9).contains(&seconds).then_some(seconds)
}

fn is_number(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_digit())
}
