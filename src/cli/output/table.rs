//! Tables that fit the terminal, with highlighted states.

use comfy_table::{Attribute, ColumnConstraint, ContentArrangement, Width, presets};

use super::age::ago;
use model::Timestamp;
use model::escape::Escaped;
use runtime::colors::Color;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// An escaped line above the rows, also without any.
    title: Option<String>,
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// Headings of columns that are left out, first to last, where the words do not fit.
    optional: Vec<&'static str>,
    /// Headings of columns that only the wide table has.
    wide: Vec<&'static str>,
}

/// Text of a table cell and its style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    style: Style,
    /// Never wrap the text.
    is_unbreakable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Dim,
    Good,
    Bad,
}

/// Lengths of shortened digests and commits, as docker and git shorten them.
const SHORT_DIGEST: usize = 12;
const SHORT_COMMIT: usize = 7;

/// Space between two columns, in characters.
const GAP: usize = 2;

impl Table {
    pub(crate) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        let headings = headings.into_iter().collect();
        Self { title: None, headings, rows: Vec::new(), optional: Vec::new(), wide: Vec::new() }
    }

    /// Sets the line above the rows.
    pub(crate) fn titled(self, title: &str) -> Self {
        Self { title: Some(Escaped(title).to_string()), ..self }
    }

    /// Sets the columns that only the wide table has.
    pub(crate) fn only_wide(self, wide: impl IntoIterator<Item = &'static str>) -> Self {
        Self { wide: wide.into_iter().collect(), ..self }
    }

    /// The table with all columns, unwrapped.
    pub(crate) fn render_wide(&self, is_colored: bool) -> String {
        Self { wide: Vec::new(), ..self.clone() }.render(None, is_colored)
    }

    /// Sets the columns that are left out where the words do not fit.
    pub(crate) fn leaving_out(self, optional: impl IntoIterator<Item = &'static str>) -> Self {
        Self { optional: optional.into_iter().collect(), ..self }
    }

    /// Appends a row with one cell per heading.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Renders the table; without rows, only its title. Given a width, wraps texts between words. If the words do not
    /// fit, leaves out optional columns, or else prints each row as a list of the fields that have a value.
    pub(crate) fn render(&self, width: Option<u16>, is_colored: bool) -> String {
        let title = self.title.as_ref().map(|title| format!("{title}\n")).unwrap_or_default();
        if self.rows.is_empty() { title } else { title + &self.narrow().fit(width, is_colored) }
    }

    /// The table without the columns that only the wide one has.
    fn narrow(&self) -> Self {
        let mut narrow = self.clone();
        self.wide.iter().for_each(|heading| narrow.remove(heading));
        narrow
    }

    fn remove(&mut self, heading: &str) {
        if let Some(at) = self.headings.iter().position(|known| *known == heading) {
            self.headings.remove(at);
            for row in &mut self.rows {
                row.remove(at);
            }
        }
    }

    fn fit(&self, width: Option<u16>, is_colored: bool) -> String {
        let Some(width) = width else { return self.draw(None, is_colored) };
        let widths = self.widths(width.into());
        if widths.is_none()
            && let Some(smaller) = self.smaller(width.into())
        {
            return smaller.fit(Some(width), is_colored);
        }
        match widths {
            None if self.headings.len() > 2 => {
                let records = self.rows.iter().map(|row| {
                    let named = self.headings.iter().copied().zip(row.iter().cloned());
                    let named = named.filter(|(_, cell)| *cell != Cell::none());
                    details(named).render(Some(width), is_colored)
                });
                records.collect::<Vec<_>>().join("\n")
            }
            // Too narrow even so: keep the first column, which holds names, unwrapped.
            widths => {
                let widths = widths.unwrap_or_else(|| vec![self.column_max(0, Cell::min_width)]);
                self.draw(Some((width, widths)), is_colored)
            }
        }
    }

    /// The table in Markdown; without rows, only its title.
    pub(crate) fn markdown(&self) -> String {
        let title = self.title.as_ref().map(|title| format!("{}\n", markdown(title))).unwrap_or_default();
        if self.rows.is_empty() {
            return title;
        }
        let separator = if title.is_empty() { "" } else { "\n" };
        format!("{title}{separator}{}", self.narrow().rows_in_markdown())
    }

    fn rows_in_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let headings = line(self.headings.iter().map(|&heading| heading.to_owned()).collect());
        let rule = line(vec!["---".to_owned(); self.headings.len()]);
        let row = |row: &Vec<Cell>| line(row.iter().map(Cell::markdown).collect());
        [headings, rule].into_iter().chain(self.rows.iter().map(row)).collect()
    }

    /// The table without the optional columns that do not fit; `None` if it does not fit without them.
    fn smaller(&self, width: usize) -> Option<Self> {
        let mut smaller = self.clone();
        for left_out in &self.optional {
            smaller.remove(left_out);
            if smaller.widths(width).is_some() {
                return Some(smaller);
            }
        }
        None
    }

    /// Widths of the columns without breaking a word; `None` if they do not fit. Spare width goes first to the columns
    /// that need least.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let columns = self.headings.len();
        let mut widths: Vec<_> = (0..columns).map(|n| self.column_max(n, Cell::min_width)).collect();
        let used = widths.iter().sum::<usize>() + GAP * columns.saturating_sub(1);
        let mut left = width.checked_sub(used)?;
        let needs = widths.iter().enumerate().map(|(n, width)| (self.column_max(n, Cell::length) - width, n));
        let mut needs: Vec<_> = needs.collect();
        needs.sort_unstable();
        for (remaining, (need, n)) in (1..=columns).rev().zip(needs) {
            let more = need.min(left / remaining);
            left -= more;
            if let Some(width) = widths.get_mut(n) {
                *width += more;
            }
        }
        Some(widths)
    }

    /// Maximum measure of a column's cells and its heading.
    fn column_max(&self, column: usize, measure: impl Fn(&Cell) -> usize) -> usize {
        let heading = self.headings.get(column).map_or(0, |heading| heading.chars().count());
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(measure);
        cells.fold(heading, usize::max)
    }

    /// Draws the table, given its width and the widths of its columns.
    fn draw(&self, widths: Option<(u16, Vec<usize>)>, is_colored: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        if is_colored {
            table.enforce_styling();
        }
        let mut column_widths = Vec::new();
        match widths {
            Some((width, widths)) => {
                column_widths = widths;
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width)
            }
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if self.headings.iter().any(|heading| !heading.is_empty()) {
            let heading = |text: &&str| comfy_table::Cell::new(text).add_attribute(Attribute::Dim);
            table.set_header(self.headings.iter().map(heading));
        }
        table.add_rows(self.rows.iter().map(|row| row.iter().map(Cell::styled)));
        let last = self.headings.len().saturating_sub(1);
        for (n, column) in table.column_iter_mut().enumerate() {
            let gap = if n == last { 0 } else { GAP };
            column.set_padding((0, columns(gap)));
            if let Some(width) = column_widths.get(n) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(columns(width + gap))));
            }
        }
        let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
        lines.collect()
    }
}

/// Saturates: terminals are narrower.
fn columns(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

impl Cell {
    /// Untrusted text, escaped.
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self { text: Escaped(text.as_ref()).to_string(), style: Style::Plain, is_unbreakable: false }
    }

    pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(Self::none, Self::text)
    }

    pub(crate) fn none() -> Self {
        Self { text: "-".to_owned(), style: Style::Dim, is_unbreakable: true }
    }

    /// A shortened digest.
    pub(crate) fn digest(digest: Option<impl AsRef<str>>) -> Self {
        Self::prefix(digest, SHORT_DIGEST)
    }

    /// A shortened commit hash.
    pub(crate) fn commit(commit: Option<impl AsRef<str>>) -> Self {
        Self::prefix(commit, SHORT_COMMIT)
    }

    fn prefix(hash: Option<impl AsRef<str>>, length: usize) -> Self {
        let Some(hash) = hash else { return Self::none() };
        let short: String = hash.as_ref().chars().take(length).collect();
        Self { is_unbreakable: true, ..Self::text(short) }
    }

    pub(crate) fn ago(at: Option<Timestamp>, now: Timestamp) -> Self {
        at.map_or_else(Self::none, |at| Self { is_unbreakable: true, ..Self::text(ago(at, now)) })
    }

    pub(crate) fn compliance(is_compliant: Option<bool>) -> Self {
        match is_compliant {
            Some(true) => Self::state(COMPLIANT),
            Some(false) => Self::state(NON_COMPLIANT),
            None => Self::none(),
        }
    }

    /// The result of an attestation.
    pub(crate) fn result(passes: Option<bool>) -> Self {
        Self::state(match passes {
            Some(true) => "passed",
            Some(false) => "failed",
            None => "no verdict",
        })
    }

    /// A state of the service in its one spelling (docs/reference/glossary.md), highlighted if it is good or bad.
    pub(crate) fn state(word: &str) -> Self {
        Self::stating(word, "")
    }

    /// A state, and what it is about.
    pub(crate) fn stating(word: &str, more: &str) -> Self {
        let word = state(word);
        let style = match word.as_str() {
            "compliant" | "approved" | "passed" | "working" => Style::Good,
            "non-compliant" | "unapproved" | "failing" | "failed" => Style::Bad,
            _ => Style::Plain,
        };
        Self { style, ..Self::text(format!("{word}{more}")) }
    }

    /// Length in characters.
    fn length(&self) -> usize {
        self.text.chars().count()
    }

    /// Length of the longest unbreakable part, in characters.
    fn min_width(&self) -> usize {
        let words = self.text.split(' ').map(|word| word.chars().count());
        if self.is_unbreakable { self.length() } else { words.max().unwrap_or_default() }
    }

    fn markdown(&self) -> String {
        markdown(&self.text)
    }

    fn styled(&self) -> comfy_table::Cell {
        let cell = comfy_table::Cell::new(&self.text);
        match self.style {
            Style::Plain => cell,
            Style::Dim => cell.add_attribute(Attribute::Dim),
            Style::Good => cell.fg(palette(Color::Green)),
            Style::Bad => cell.fg(palette(Color::Red)),
        }
    }
}

fn palette(color: Color) -> comfy_table::Color {
    comfy_table::Color::AnsiValue(color.number())
}

/// States of artifacts and environments.
pub(crate) const COMPLIANT: &str = "compliant";
pub(crate) const NON_COMPLIANT: &str = "non-compliant";
pub(crate) const UNKNOWN: &str = "unknown";

/// A state in its one spelling, escaped: `non-compliant` for the `NON-COMPLIANT` and `NON_COMPLIANT` of the interface.
pub(crate) fn state(word: &str) -> String {
    Escaped(&word.to_ascii_lowercase().replace('_', "-")).to_string()
}

/// A text without characters that Markdown or HTML interprets.
pub(crate) fn markdown(text: &str) -> String {
    let is_special = |c: char| "\\`*_[]<>|#&~".contains(c);
    let escaped = |c: char| if is_special(c) { format!("\\{c}") } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// A list of fields, one per line.
pub(crate) fn details(fields: impl IntoIterator<Item = (&'static str, Cell)>) -> Table {
    let mut table = Table::new(["", ""]);
    for (name, cell) in fields {
        table.row([Cell { text: name.to_owned(), style: Style::Dim, is_unbreakable: true }, cell]);
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
    fn table_without_terminal_is_plain_and_unwrapped() {
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
    fn markdown_is_escaped() {
        let mut table = Table::new(["NAME", "DIGEST"]);
        table.row([Cell::text("a|b <b>_c_\n"), Cell::none()]);
        assert_eq!(table.markdown(), "| NAME | DIGEST |\n| --- | --- |\n| a\\|b \\<b\\>\\_c\\_\\\\n | - |\n");
        assert_eq!(Table::new(["NAME"]).markdown(), "");
    }

    #[test]
    fn narrow_terminal_wraps_text_between_words() {
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
    fn narrow_terminal_lists_fields_if_words_do_not_fit() {
        assert_eq!(table().render(Some(51), false), table().render(None, false),);
        assert_eq!(
            table().render(Some(50), false),
            "\
NAME        unit-tests-of-the-cart
COMPLIANCE  compliant
DIGEST      aaaaaaaaaaaa

NAME        \\u{1b}[2Jbad
COMPLIANCE  non-compliant
"
        );
        assert_eq!(
            table().leaving_out(["WHO", "DIGEST", "COMPLIANCE"]).render(Some(50), false),
            "\
NAME                    COMPLIANCE
unit-tests-of-the-cart  compliant
\\u{1b}[2Jbad            non-compliant
"
        );
    }

    #[test]
    fn title_precedes_rows_and_wide_columns_are_left_out() {
        let table = table().titled("prod: 2 of 3").only_wide(["COMPLIANCE"]);
        assert_eq!(
            table.render(Some(50), false),
            "\
prod: 2 of 3
NAME                    DIGEST
unit-tests-of-the-cart  aaaaaaaaaaaa
\\u{1b}[2Jbad            -
"
        );
        assert_eq!(
            table.render_wide(false).lines().nth(2),
            Some("unit-tests-of-the-cart  compliant      aaaaaaaaaaaa")
        );
        assert!(table.markdown().starts_with("prod: 2 of 3\n\n| NAME | DIGEST |\n"));
        assert_eq!(Table::new(["NAME"]).titled("none").render(Some(50), false), "none\n");
        assert_eq!(Table::new(["NAME"]).titled("none").markdown(), "none\n");
    }

    proptest! {
        /// No line is wider than the terminal, and no word that fits is broken, at any width.
        #[test]
        fn words_that_fit_are_not_broken(
            rows in proptest::collection::vec(proptest::collection::vec("[a-z/:.-]{1,40}( [a-z]{1,12}){0,5}", 4), 1..5),
            width in 1..200_u16,
        ) {
            let mut table = Table::new(["FIRST", "SECOND", "THIRD", "FOURTH"]);
            for row in &rows {
                table.row(row.iter().map(Cell::text));
            }
            let drawn = table.render(Some(width), false);
            let seen: Vec<_> = drawn.split_whitespace().collect();
            // A list of fields has the column's name before each text.
            for word in rows.iter().flatten().flat_map(|text| text.split(' ')) {
                let is_unbroken = seen.contains(&word);
                prop_assert!(is_unbroken || word.len() + "FOURTH".len() + GAP > width.into(), "{}", drawn);
            }
            if width > 10 {
                prop_assert!(drawn.lines().all(|line| line.len() <= width.into()), "{}", drawn);
            }
        }
    }

    #[test]
    fn compliance_is_colored() {
        let text = table().render(None, true);
        assert!(text.contains("\u{1b}[38;5;28mcompliant"), "{text:?}");
    }

    #[test]
    fn details_have_no_headings() {
        let text =
            details([("state", Cell::state("APPROVED")), ("environment", Cell::none())]).render(None, false);
        assert_eq!(text, "state        approved\nenvironment  -\n");
    }
}
