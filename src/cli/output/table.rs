//! Tables: columns that fit the terminal, and words that stand out.

use comfy_table::{Attribute, Color, ColumnConstraint, ContentArrangement, presets};

use super::age::ago;
use crate::domain::model::Timestamp;
use crate::domain::visible::Visible;

/// Rows under headings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// A text of a table, and how it looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Cell {
    text: String,
    look: Look,
    /// It is of one piece, and never broken.
    is_whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Plain,
    Dim,
    Good,
    Bad,
}

/// How much is shown of a digest, and of a commit, as their own tools do.
const SHORT_DIGEST: usize = 12;
const SHORT_COMMIT: usize = 7;

/// Between two columns, in characters.
const GAP: usize = 2;

/// The least width of a text that is broken.
const READABLE: usize = 16;

impl Table {
    pub(in crate::cli) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        Self { headings: headings.into_iter().collect(), rows: Vec::new() }
    }

    /// A row of these cells, one below each heading.
    pub(in crate::cli) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Its lines; nothing, where it has no rows. Where a width is given, texts that are too long for it are
    /// broken, and what is best read whole is not; where that does not fit, each row stands by itself.
    pub(in crate::cli) fn render(&self, width: Option<u16>, is_coloured: bool) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let least = |column| match self.widest(column) {
            widest if self.is_whole(column) => widest,
            widest => widest.min(READABLE),
        };
        let gaps = GAP * self.columns().saturating_sub(1);
        let fits = |width: u16| (0..self.columns()).map(least).sum::<usize>() + gaps <= width.into();
        match width {
            Some(width) if self.columns() > 2 && !fits(width) => {
                let particulars = self.rows.iter().map(|row| {
                    let named = self.headings.iter().copied().zip(row.iter().cloned());
                    details(named).render(Some(width), is_coloured)
                });
                particulars.collect::<Vec<_>>().join("\n")
            }
            width => self.drawn(width, is_coloured),
        }
    }

    fn drawn(&self, width: Option<u16>, is_coloured: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        if is_coloured {
            table.enforce_styling();
        }
        match width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if self.headings.iter().any(|heading| !heading.is_empty()) {
            let heading = |text: &&str| comfy_table::Cell::new(text).add_attribute(Attribute::Dim);
            table.set_header(self.headings.iter().map(heading));
        }
        table.add_rows(self.rows.iter().map(|row| row.iter().map(Cell::painted)));
        for (n, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, u16::try_from(GAP).unwrap_or_default()));
            if width.is_some() && self.is_whole(n) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
        lines.collect()
    }

    fn columns(&self) -> usize {
        self.headings.len()
    }

    /// Whether all of a column's cells are best read whole.
    fn is_whole(&self, column: usize) -> bool {
        self.rows.iter().all(|row| row.get(column).is_some_and(|cell| cell.is_whole))
    }

    /// How many characters its widest text has.
    fn widest(&self, column: usize) -> usize {
        let texts = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.as_str());
        let texts = texts.chain(self.headings.get(column).copied());
        texts.map(|text| text.chars().count()).max().unwrap_or_default()
    }
}

impl Cell {
    /// A text from outside.
    pub(in crate::cli) fn text(text: impl AsRef<str>) -> Self {
        Self { text: Visible(text.as_ref()).to_string(), look: Look::Plain, is_whole: false }
    }

    /// A text that may be missing.
    pub(in crate::cli) fn maybe(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(Self::none, Self::text)
    }

    /// Nothing is known.
    pub(in crate::cli) fn none() -> Self {
        Self { text: "-".to_owned(), look: Look::Dim, is_whole: true }
    }

    /// A number, or another word that is short.
    pub(in crate::cli) fn number(number: Option<u64>) -> Self {
        number.map_or_else(Self::none, |number| Self { is_whole: true, ..Self::text(number.to_string()) })
    }

    /// The beginning of a digest.
    pub(in crate::cli) fn digest(digest: Option<impl AsRef<str>>) -> Self {
        Self::beginning(digest, SHORT_DIGEST)
    }

    /// The beginning of a commit's hash.
    pub(in crate::cli) fn commit(commit: Option<impl AsRef<str>>) -> Self {
        Self::beginning(commit, SHORT_COMMIT)
    }

    fn beginning(hash: Option<impl AsRef<str>>, length: usize) -> Self {
        let Some(hash) = hash else { return Self::none() };
        let short: String = hash.as_ref().chars().take(length).collect();
        Self { is_whole: true, ..Self::text(short) }
    }

    /// How long ago that was.
    pub(in crate::cli) fn ago(at: Option<Timestamp>, now: Timestamp) -> Self {
        at.map_or_else(Self::none, |at| Self { is_whole: true, ..Self::text(ago(at, now)) })
    }

    /// Whether something is as it has to be.
    pub(in crate::cli) fn compliance(is_compliant: Option<bool>) -> Self {
        match is_compliant {
            Some(true) => Self::word("compliant"),
            Some(false) => Self::word("non-compliant"),
            None => Self::none(),
        }
    }

    /// A word of the service, which stands out where it is good or bad.
    pub(in crate::cli) fn word(word: &str) -> Self {
        let look = match word.to_ascii_lowercase().as_str() {
            "compliant" | "approved" | "ok" => Look::Good,
            "non-compliant" | "unapproved" | "failing" => Look::Bad,
            _ => Look::Plain,
        };
        Self { look, is_whole: word.len() < READABLE, ..Self::text(word) }
    }

    fn painted(&self) -> comfy_table::Cell {
        let cell = comfy_table::Cell::new(&self.text);
        match self.look {
            Look::Plain => cell,
            Look::Dim => cell.add_attribute(Attribute::Dim),
            Look::Good => cell.fg(Color::Green),
            Look::Bad => cell.fg(Color::Red),
        }
    }
}

/// One thing in all its particulars: a line each.
pub(in crate::cli) fn details(particulars: impl IntoIterator<Item = (&'static str, Cell)>) -> Table {
    let mut table = Table::new(["", ""]);
    for (name, cell) in particulars {
        table.row([Cell { text: name.to_owned(), look: Look::Dim, is_whole: true }, cell]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["NAME", "COMPLIANCE", "DIGEST"]);
        table.row([
            Cell::text("unit-tests-of-the-cart"),
            Cell::compliance(Some(true)),
            Cell::digest(Some("a".repeat(64))),
        ]);
        table.row([Cell::text("\u{1b}[2Jbad"), Cell::compliance(Some(false)), Cell::none()]);
        table
    }

    #[test]
    fn rows_that_nobody_looks_at_are_whole_and_plain() {
        assert_eq!(
            table().render(None, false),
            "\
NAME                    COMPLIANCE     DIGEST
unit-tests-of-the-cart  compliant      aaaaaaaaaaaa
\\u{1b}[2Jbad            non-compliant  -
"
        );
        assert_eq!(Table::new(["NAME"]).render(None, false), "");
    }

    #[test]
    fn a_narrow_terminal_breaks_what_is_too_long_for_it_and_no_hash() {
        assert_eq!(
            table().render(Some(50), false),
            "\
NAME                 COMPLIANCE     DIGEST
unit-tests-of-the-c  compliant      aaaaaaaaaaaa
art
\\u{1b}[2Jbad         non-compliant  -
"
        );
        assert_eq!(
            table().render(Some(40), false),
            "\
NAME        unit-tests-of-the-cart
COMPLIANCE  compliant
DIGEST      aaaaaaaaaaaa

NAME        \\u{1b}[2Jbad
COMPLIANCE  non-compliant
DIGEST      -
"
        );
    }

    #[test]
    fn in_colour_the_verdict_stands_out() {
        let text = table().render(None, true);
        assert!(text.contains("\u{1b}[38;5;10mcompliant") || text.contains("\u{1b}[32m"), "{text:?}");
    }

    #[test]
    fn particulars_have_no_headings() {
        let text =
            details([("state", Cell::word("APPROVED")), ("environment", Cell::none())]).render(None, false);
        assert_eq!(text, "state        APPROVED\nenvironment  -\n");
    }
}
