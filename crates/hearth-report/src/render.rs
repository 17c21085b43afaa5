//! The same numbers for people at a terminal, for a browser, and for programs.

mod html;
mod svg;
mod text;

use crate::report::Report;

impl Report {
    /// For a terminal of any width from 100 columns on.
    pub fn text(&self) -> String {
        text::render(self)
    }

    /// One page that needs nothing beside itself.
    pub fn html(&self) -> String {
        html::render(self)
    }

    /// For programs; ends in a newline.
    pub fn json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("numbers and names are plain data");
        text.push('\n');
        text
    }
}
