//! Tests that went wrong, with what they say of it.

use quick_xml::events::BytesStart;

use super::attributes;
use super::case::Case;
use crate::domain::escape::shortened;

/// How much of a failure's message is kept, in characters.
const LONGEST_MESSAGE: usize = 500;

/// How much of what else is said of a failure is kept, in bytes.
const LONGEST_OUTPUT: usize = 2_000;

/// A test case that failed, or could not be run to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wrong {
    /// The suite that it lies in.
    pub suite: String,
    /// Its class; empty where it says none.
    pub class: String,
    /// Its name; empty for a suite that could not be run at all.
    pub name: String,
    /// It could not be run to its end; otherwise it failed.
    pub is_error: bool,
    /// The first message of its failures, up to 500 characters.
    pub message: String,
    /// What else is said of them, as a stack trace, up to 2,000 bytes.
    pub output: String,
}

impl Wrong {
    /// Takes the message of a failure. One that cannot be read counts all the same.
    pub(crate) fn hear(&mut self, failure: &BytesStart<'_>, keeps: bool) {
        if keeps && self.message.is_empty() {
            let message = attributes(failure).flatten().find(|(key, _)| *key == "message");
            self.message =
                message.map_or_else(String::new, |(_, text)| shortened(text.trim(), LONGEST_MESSAGE));
        }
    }

    /// Takes what is said of a failure, as far as there is room.
    pub(crate) fn say(&mut self, text: &str) {
        let room = LONGEST_OUTPUT.saturating_sub(self.output.len());
        let end = text.floor_char_boundary(room);
        self.output.push_str(text.get(..end).unwrap_or_default());
    }
}

/// The tests that are kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    most: usize,
    pub(crate) wrong: Vec<Wrong>,
}

impl Kept {
    /// Nothing yet, and up to `most`.
    pub(crate) fn at_most(most: usize) -> Self {
        Self { most, wrong: Vec::new() }
    }

    /// Whether another would be kept.
    pub(crate) fn wants_more(&self) -> bool {
        self.wrong.len() < self.most
    }

    /// Keeps a test case that went wrong.
    pub(crate) fn looked_at(&mut self, mut case: Case, suite: &str) -> Case {
        if let Some(is_error) = case.went_wrong()
            && self.wants_more()
        {
            let wrong = std::mem::take(&mut case.described);
            let output = wrong.output.trim().to_owned();
            self.wrong.push(Wrong { suite: suite.to_owned(), is_error, output, ..wrong });
        }
        case
    }
}
