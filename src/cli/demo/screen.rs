//! Prints headings, commands, sentences and tables on standard output.
//!
//! Everything is indented below its heading and wrapped to the terminal's width, or to 80 columns where standard
//! output is not a terminal. Color follows the rules of the other commands.

use std::fmt::Display;
use std::io::{self, Stdout, Write};

use crate::cli::output::{Table, terminal_width};
use runtime::colors::Color;
use runtime::logs::is_colored;

/// The width where standard output is not a terminal, in columns.
const DEFAULT_WIDTH: u16 = 80;

/// The smallest width that text is wrapped to, in columns.
const MIN_WIDTH: usize = 20;

pub(super) struct Screen<W> {
    output: W,
    is_colored: bool,
    /// The terminal's width in columns, if there is a terminal.
    columns: Option<u16>,
}

impl Screen<Stdout> {
    pub(super) fn stdout() -> Self {
        let output = io::stdout();
        Self { is_colored: is_colored(&output), output, columns: terminal_width() }
    }
}

impl<W: Write> Screen<W> {
    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint("\x1b[1m", text);
        self.line("", &text)
    }

    /// A command to paste. Its words are printed as they are: the caller quotes them where a shell needs it.
    pub(super) fn command(&mut self, words: impl IntoIterator<Item = impl AsRef<str>>) -> io::Result<()> {
        let width = self.width(" \\".len() + 2);
        let lines = wrap(words, width);
        for (n, line) in lines.iter().enumerate() {
            let indent = if n == 0 { "" } else { "  " };
            let end = if n + 1 < lines.len() { " \\" } else { "" };
            self.line(&format!("  {indent}"), &format!("{line}{end}"))?;
        }
        Ok(())
    }

    pub(super) fn paragraph(&mut self, text: impl Display) -> io::Result<()> {
        for line in wrap(text.to_string().split_whitespace(), self.width(0)) {
            self.line("  ", &line)?;
        }
        Ok(())
    }

    /// The result of a command. A verdict at its end is colored.
    pub(super) fn result(&mut self, text: impl Display) -> io::Result<()> {
        let mut lines = wrap(text.to_string().split_whitespace(), self.width(2));
        if let Some(last) = lines.last_mut() {
            let (start, word) = last.split_at(last.rfind(' ').map_or(0, |space| space + 1));
            *last = match word {
                "passed" | "compliant" => format!("{start}{}", self.paint(Color::Green, word)),
                "failed" | "non-compliant" => format!("{start}{}", self.paint(Color::Red, word)),
                _ => format!("{start}{word}"),
            };
        }
        for (n, line) in lines.iter().enumerate() {
            self.line(if n == 0 { "  → " } else { "    " }, line)?;
        }
        Ok(())
    }

    /// An empty line, then a table.
    pub(super) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.line("", "")?;
        let width = self.columns.map(|columns| columns.saturating_sub(2));
        table.render(width, self.is_colored).lines().try_for_each(|line| self.line("  ", line))
    }

    /// A text that has to stay on one line.
    pub(super) fn line(&mut self, indent: &str, text: &str) -> io::Result<()> {
        // One write, flushed: readers of a pipe get whole lines at once.
        self.output.write_all(format!("{}\n", format!("{indent}{text}").trim_end()).as_bytes())?;
        self.output.flush()
    }

    fn paint(&self, style: impl Display, text: &str) -> String {
        if self.is_colored { format!("{style}{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The columns that are left for text between two margins and beside this many others.
    fn width(&self, others: usize) -> usize {
        usize::from(self.columns.unwrap_or(DEFAULT_WIDTH)).saturating_sub(4 + others).max(MIN_WIDTH)
    }
}

/// Lines of at most this many characters. A longer word stays whole.
fn wrap(words: impl IntoIterator<Item = impl AsRef<str>>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = word.as_ref();
        match lines.last_mut() {
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

    fn print(columns: Option<u16>, is_colored: bool) -> String {
        let mut screen = Screen { output: Vec::new(), is_colored, columns };
        screen.command(["attest", "--flow", "web", "--fingerprint", &"a".repeat(30), "f.xml"]).unwrap();
        screen.paragraph("one two three four five six").unwrap();
        screen.result("1 test, 1 failed").unwrap();
        String::from_utf8(screen.output).unwrap()
    }

    #[test]
    fn output_is_wrapped_to_the_terminal_and_commands_can_be_pasted() {
        let digest = "a".repeat(30);
        assert_eq!(
            print(Some(28), false),
            format!(
                "  attest --flow web \\\n    --fingerprint \\\n    {digest} \\\n    f.xml\n  one two three four five\n  six\n  → 1 test, 1 failed\n"
            )
        );
        assert_eq!(
            print(None, false),
            format!(
                "  attest --flow web --fingerprint {digest} f.xml\n  one two three four five six\n  → 1 test, 1 failed\n"
            )
        );
    }

    #[test]
    fn commands_are_plain_and_a_verdict_is_colored() {
        let printed = print(Some(100), true);
        assert!(printed.starts_with("  attest --flow"), "{printed:?}");
        assert!(printed.ends_with("  → 1 test, 1 \x1b[38;5;160mfailed\x1b[0m\n"), "{printed:?}");
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("/tmp/a-b_c.json"), "/tmp/a-b_c.json");
        assert_eq!(quoted("/tmp/it's $here"), "'/tmp/it'\\''s $here'");
        assert_eq!(quoted(""), "''");
    }
}
