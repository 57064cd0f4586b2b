//! The colors of text in a terminal, the same in logs, tables and the demo.
//!
//! They are of the 256-color palette, because the 16 named ones differ between terminals: their green and yellow are
//! often unreadable on white.

use std::fmt;

/// A color. `Display` switches to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// Good.
    Green = 28,
    /// Doubtful.
    Amber = 130,
    /// Bad.
    Red = 160,
}

impl Color {
    /// Its number in the palette.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\x1b[38;5;{}m", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2) of a color of the palette's cube.
    fn luminance(color: Color) -> f64 {
        const LEVELS: [f64; 6] = [0.0, 95.0, 135.0, 175.0, 215.0, 255.0];
        let index = usize::from(color.number()) - 16;
        let channel = |level: usize| ((LEVELS[level] / 255.0 + 0.055) / 1.055).powf(2.4);
        let [red, green, blue] = [index / 36, index / 6 % 6, index % 6].map(|level| match level {
            0 => 0.0,
            level => channel(level),
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    #[test]
    fn colors_are_legible_on_white_and_on_black() {
        for color in [Color::Green, Color::Amber, Color::Red] {
            let (on_white, on_black) = (1.05 / (luminance(color) + 0.05), (luminance(color) + 0.05) / 0.05);
            assert!(on_white >= 4.5 && on_black >= 3.5, "{color:?}: {on_white} {on_black}");
        }
    }
}
