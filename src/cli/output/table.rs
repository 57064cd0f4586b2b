//! Tables: columns that fit the terminal, and words that stand out.

use comfy_table::{Attribute, Color, ColumnConstraint, ContentArrangement, Width, presets};

use super::age::ago;
use crate::domain::escape::Visible;
use crate::domain::model::Timestamp;

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

impl Table {
    pub(in crate::cli) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        Self { headings: headings.into_iter().collect(), rows: Vec::new() }
    }

    /// A row of these cells, one below each heading.
    pub(in crate::cli) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Its lines; nothing, where it has no rows. Where a width is given, texts that are too long for it are
    /// broken between words; where the words do not fit, each row stands by itself.
    pub(in crate::cli) fn render(&self, width: Option<u16>, is_coloured: bool) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let Some(width) = width else { return self.drawn(None, is_coloured) };
        match self.widths(width.into()) {
            None if self.headings.len() > 2 => {
                let particulars = self.rows.iter().map(|row| {
                    let named = self.headings.iter().copied().zip(row.iter().cloned());
                    details(named).render(Some(width), is_coloured)
                });
                particulars.collect::<Vec<_>>().join("\n")
            }
            // Of what is too long even so, the first of two columns is a name.
            widths => {
                let widths = widths.unwrap_or_else(|| vec![self.of_column(0, Cell::least)]);
                self.drawn(Some((width, widths)), is_coloured)
            }
        }
    }

    /// How wide each column is, so that all of them fit and no word is broken; `None` where they do not. What the
    /// words leave goes first to those that lack least.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let columns = self.headings.len();
        let mut widths: Vec<_> = (0..columns).map(|n| self.of_column(n, Cell::least)).collect();
        let taken = widths.iter().sum::<usize>() + GAP * columns.saturating_sub(1);
        let mut left = width.checked_sub(taken)?;
        let lacks = widths.iter().enumerate().map(|(n, width)| (self.of_column(n, Cell::length) - width, n));
        let mut lacks: Vec<_> = lacks.collect();
        lacks.sort_unstable();
        for (of, (lacks, n)) in (1..=columns).rev().zip(lacks) {
            let more = lacks.min(left / of);
            left -= more;
            if let Some(width) = widths.get_mut(n) {
                *width += more;
            }
        }
        Some(widths)
    }

    /// The most that a cell of a column measures, or a heading's text.
    fn of_column(&self, column: usize, measured: impl Fn(&Cell) -> usize) -> usize {
        let heading = self.headings.get(column).map_or(0, |heading| heading.chars().count());
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(measured);
        cells.fold(heading, usize::max)
    }

    /// Within a width, of which each column has its own where they are given.
    fn drawn(&self, within: Option<(u16, Vec<usize>)>, is_coloured: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        if is_coloured {
            table.enforce_styling();
        }
        let mut widths = Vec::new();
        match within {
            Some((width, given)) => {
                widths = given;
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width)
            }
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if self.headings.iter().any(|heading| !heading.is_empty()) {
            let heading = |text: &&str| comfy_table::Cell::new(text).add_attribute(Attribute::Dim);
            table.set_header(self.headings.iter().map(heading));
        }
        table.add_rows(self.rows.iter().map(|row| row.iter().map(Cell::painted)));
        let last = self.headings.len().saturating_sub(1);
        for (n, column) in table.column_iter_mut().enumerate() {
            let gap = if n == last { 0 } else { GAP };
            column.set_padding((0, columns(gap)));
            if let Some(width) = widths.get(n) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(columns(width + gap))));
            }
        }
        let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
        lines.collect()
    }
}

/// A terminal has no more of them than this can be.
fn columns(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
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
            "compliant" | "approved" | "ok" | "pass" => Look::Good,
            "non-compliant" | "unapproved" | "failing" | "fail" => Look::Bad,
            _ => Look::Plain,
        };
        Self { look, ..Self::text(word) }
    }

    /// How many characters it has.
    fn length(&self) -> usize {
        self.text.chars().count()
    }

    /// How many of them its longest word has, or all of it where it is never broken.
    fn least(&self) -> usize {
        let words = self.text.split(' ').map(|word| word.chars().count());
        if self.is_whole { self.length() } else { words.max().unwrap_or_default() }
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
    use proptest::prelude::*;

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
    fn a_narrow_terminal_breaks_a_text_between_words() {
        let mut table = Table::new(["NAME", "WHERE", "LAST"]);
        let targets = "WEBHOOK https://example.com, SLACK alerts";
        table.row([Cell::text("all of them"), Cell::text(targets), Cell::ago(None, Timestamp::EPOCH)]);
        assert_eq!(
            table.render(Some(50), false),
            "\
NAME         WHERE                            LAST
all of them  WEBHOOK https://example.com,     -
             SLACK alerts
"
        );
    }

    #[test]
    fn a_narrow_terminal_has_each_row_by_itself_where_its_words_do_not_fit() {
        assert_eq!(table().render(Some(51), false), table().render(None, false),);
        assert_eq!(
            table().render(Some(50), false),
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

    proptest! {
        /// Whatever the terminal's width: nothing is wider, and no word is broken that fits into it.
        #[test]
        fn no_word_is_broken_that_fits(
            rows in proptest::collection::vec(proptest::collection::vec("[a-z/:.-]{1,40}( [a-z]{1,12}){0,5}", 4), 1..5),
            width in 1..200_u16,
        ) {
            let mut table = Table::new(["FIRST", "SECOND", "THIRD", "FOURTH"]);
            for row in &rows {
                table.row(row.iter().map(Cell::text));
            }
            let drawn = table.render(Some(width), false);
            let seen: Vec<_> = drawn.split_whitespace().collect();
            // A row by itself has the name of the column before each text.
            for word in rows.iter().flatten().flat_map(|text| text.split(' ')) {
                let is_whole = seen.contains(&word);
                prop_assert!(is_whole || word.len() + "FOURTH".len() + GAP > width.into(), "{}", drawn);
            }
            if width > 10 {
                prop_assert!(drawn.lines().all(|line| line.len() <= width.into()), "{}", drawn);
            }
        }
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
