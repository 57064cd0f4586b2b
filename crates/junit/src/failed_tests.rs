//! Failed tests with their messages and output.

use quick_xml::events::BytesStart;

use super::attributes::attributes;
use model::escape::shortened;

/// Limit for the message of a failure, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// Limit for the output of a failure, in bytes.
const MAX_OUTPUT_BYTES: usize = 2_000;

/// A test case with a failure or an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedTest {
    /// The suite that contains the test.
    pub suite: String,
    /// The test's class; empty if the file has none.
    pub class: String,
    /// The test's name; empty for a suite that could not be run.
    pub name: String,
    /// The test ended with an error instead of a failure.
    pub is_error: bool,
    /// The first failure message, up to 500 characters.
    pub message: String,
    /// The text of the failures, for example a stack trace, up to 2,000 bytes.
    pub output: String,
}

impl FailedTest {
    /// The message of a failure; empty if there is none or it is unreadable.
    pub(super) fn message_of(failure: &BytesStart<'_>) -> String {
        let message = attributes(failure).flatten().find(|(key, _)| *key == "message");
        message.map_or_else(String::new, |(_, text)| shortened(text.trim(), MAX_MESSAGE_CHARS))
    }

    /// Appends text of a failure, up to the limit.
    pub(super) fn append_output(output: &mut String, text: &str) {
        let room = MAX_OUTPUT_BYTES.saturating_sub(output.len());
        let end = text.floor_char_boundary(room);
        output.push_str(text.get(..end).unwrap_or_default());
    }
}
