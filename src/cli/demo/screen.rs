//! How the demo looks: headings, commands and sentences on standard output.
//!
//! In a terminal with a little colour; elsewhere, or where colour is unwanted, as plain text.
//! Sentences take the width of the terminal; everything else but a long path fits 80 columns.

use std::fmt;
use std::io::{self, Stdout, Write};

use crate::cli::output::terminal_width;
use crate::process::logs::is_coloured;

/// How wide sentences are where that is not known, in columns.
const WIDTH: u16 = 80;

/// What of the width stays free: the indentation, and as much on the right.
const MARGINS: usize = 4;

/// The least that is left for sentences, whatever the width.
const LEAST: usize = 20;

/// The look of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
}

/// A word and its look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word(pub(super) Look, pub(super) String);

/// Something to print on.
pub(super) struct Screen<W> {
    to: W,
    is_coloured: bool,
    /// How many columns the terminal has, where it is one.
    columns: Option<u16>,
}

impl Screen<Stdout> {
    /// Standard output.
    pub(super) fn stdout() -> Self {
        let to = io::stdout();
        Self { is_coloured: is_coloured(&to), to, columns: terminal_width() }
    }
}

impl<W: Write> Screen<W> {
    /// The heading of a step.
    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        self.line("", &[])?;
        self.line("", &[Word(Look::Bold, text.to_owned())])
    }

    /// A command to paste: its parts, a line each.
    pub(super) fn command(&mut self, parts: &[String]) -> io::Result<()> {
        let parts: Vec<_> = parts.iter().flat_map(|part| self.fitting(part)).collect();
        for (n, part) in parts.iter().enumerate() {
            let indent = if n == 0 { "  " } else { "    " };
            let goes_on = if n + 1 < parts.len() { " \\" } else { "" };
            self.line(indent, &[Word(Look::Dim, format!("{part}{goes_on}"))])?;
        }
        Ok(())
    }

    /// An option and what it is given, on two lines where one would be too long for the terminal.
    fn fitting(&self, part: &str) -> Vec<String> {
        let takes = MARGINS + part.chars().count() + " \\".len();
        let is_long = self.columns.is_some_and(|columns| takes > columns.into());
        match part.split_once(' ') {
            Some((option, given)) if is_long && option.starts_with("--") => {
                vec![option.to_owned(), format!("  {given}")]
            }
            _ => vec![part.to_owned()],
        }
    }

    /// How wide sentences are, in characters, without their indentation.
    fn width(&self) -> usize {
        usize::from(self.columns.unwrap_or(WIDTH)).saturating_sub(MARGINS).max(LEAST)
    }

    /// A sentence, broken between words.
    pub(super) fn say(&mut self, text: impl fmt::Display) -> io::Result<()> {
        for line in wrapped(&text.to_string(), self.width()) {
            self.line("  ", &[Word(Look::Plain, line)])?;
        }
        Ok(())
    }

    /// What came of a command: a sentence, and a verdict that stands out.
    pub(super) fn came(&mut self, text: impl fmt::Display, verdict: Option<Word>) -> io::Result<()> {
        let mut lines = wrapped(&text.to_string(), self.width() - 2).into_iter();
        let first = lines.next().unwrap_or_default();
        let mut words = vec![Word(Look::Plain, first)];
        words.extend(verdict);
        self.line("  → ", &words)?;
        lines.try_for_each(|line| self.line("    ", &[Word(Look::Plain, line)]))
    }

    /// A table, apart from what is around it.
    pub(super) fn table(&mut self, lines: &[Vec<Word>]) -> io::Result<()> {
        self.line("", &[])?;
        lines.iter().try_for_each(|line| self.line("  ", line))
    }

    /// A line of words, one space between two.
    pub(super) fn line(&mut self, indent: &str, words: &[Word]) -> io::Result<()> {
        let words: Vec<_> = words.iter().map(|word| self.painted(word)).collect();
        let line = format!("{indent}{}", words.join(" "));
        // In one piece, and at once: whoever waits for a line gets it.
        self.to.write_all(format!("{}\n", line.trim_end()).as_bytes())?;
        self.to.flush()
    }

    /// The last line.
    pub(super) fn farewell(&mut self, was_kept: bool) -> io::Result<()> {
        self.line("", &[])?;
        self.say(if was_kept {
            "The service has stopped, and its folder is gone."
        } else {
            "The service has stopped, and its folder is gone. `supercargo demo --keep` stays up, so that each command above can be tried."
        })
    }

    fn painted(&self, Word(look, text): &Word) -> String {
        let code = match look {
            Look::Plain => return text.clone(),
            Look::Bold => "1",
            Look::Dim => "2",
            Look::Good => "32",
            Look::Bad => "31",
        };
        if self.is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.clone() }
    }
}

/// A text in lines of at most so many characters, broken at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_broken_between_words_and_a_long_word_stays_whole() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a incomprehensibilities b", 5), ["a", "incomprehensibilities", "b"]);
    }

    #[test]
    fn what_the_terminal_has_no_room_for_in_a_line_has_several() {
        let print = |columns| {
            let mut screen = Screen { to: Vec::new(), is_coloured: false, columns };
            screen.command(&["attest".to_owned(), format!("--fingerprint {}", "a".repeat(20))]).unwrap();
            screen.say("one two three four five six seven eight nine ten eleven twelve").unwrap();
            String::from_utf8(screen.to).unwrap()
        };
        let digest = "a".repeat(20);
        assert_eq!(
            print(Some(30)),
            format!(
                "  attest \\\n    --fingerprint \\\n      {digest}\n  one two three four five\n  six seven eight nine ten\n  eleven twelve\n"
            )
        );
        assert_eq!(
            print(None),
            format!(
                "  attest \\\n    --fingerprint {digest}\n  one two three four five six seven eight nine ten eleven twelve\n"
            )
        );
    }

    #[test]
    fn a_path_is_quoted_where_a_shell_would_read_it_otherwise() {
        assert_eq!(quoted("/tmp/a-b_c.json"), "/tmp/a-b_c.json");
        assert_eq!(quoted("/tmp/it's $here"), "'/tmp/it'\\''s $here'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_command_can_be_pasted_and_colour_is_there_only_where_it_is_wanted() {
        let print = |is_coloured| {
            let mut screen = Screen { to: Vec::new(), is_coloured, columns: None };
            screen.command(&["curl -sS".to_owned(), "http://x".to_owned()]).unwrap();
            String::from_utf8(screen.to).unwrap()
        };
        assert_eq!(print(false), "  curl -sS \\\n    http://x\n");
        assert_eq!(print(true), "  \x1b[2mcurl -sS \\\x1b[0m\n    \x1b[2mhttp://x\x1b[0m\n");
    }
}
