//! What JSON takes as parsed values, which are larger than their text.

/// Number of values that an object counts as.
const VALUES_PER_OBJECT: usize = 20;

/// An upper bound of the number of values if the text is JSON. Each takes about 32 bytes.
#[must_use]
pub fn values(text: &[u8]) -> usize {
    let weight = |byte: &u8| match byte {
        b',' | b'[' => 1,
        b'{' => VALUES_PER_OBJECT,
        _ => 0,
    };
    text.iter().map(weight).sum()
}
