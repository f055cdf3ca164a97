//! What `up` prints: lines that stay, and on a terminal one below them that tells how far something is.
//!
//! The cursor waits at the beginning of that line: what a child says on the same terminal is written over it.
//!
//! Must not know: what is told.

use std::io::{IsTerminal, Write};

use crate::lines::Output;

/// Columns of a terminal that is narrow: a longer line would not be erased as a whole.
const COLUMNS: usize = 79;
const ERASE: &str = "\r\x1b[K";

pub struct Screen<W: Write = Output> {
    out: W,
    is_terminal: bool,
    progress: Option<String>,
}

impl Screen {
    pub fn new() -> Self {
        Screen { out: Output, is_terminal: std::io::stdout().is_terminal(), progress: None }
    }
}

impl<W: Write> Screen<W> {
    /// Lines that stay.
    pub fn say(&mut self, text: &str) {
        self.erase();
        text.lines().for_each(|line| self.put(format!("{line}\n")));
    }

    /// That nobody reads it is no reason to end.
    fn put(&mut self, text: String) {
        let _ = self.out.write_all(text.as_bytes());
    }

    /// How far something is, until something else is said; none: nothing is under way.
    pub fn show(&mut self, progress: Option<String>) {
        if self.is_terminal && progress != self.progress {
            self.erase();
            let Some(text) = &progress else { return };
            let text: String = text.chars().take(COLUMNS).collect();
            self.put(format!("{text}\r"));
            self.progress = progress;
        }
    }

    /// Makes room for what somebody else writes.
    pub fn erase(&mut self) {
        if self.progress.take().is_some() {
            self.put(ERASE.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(is_terminal: bool) -> String {
        let mut screen = Screen { out: Vec::new(), is_terminal, progress: None };
        screen.say("one");
        screen.show(Some("9 left".to_owned()));
        screen.show(Some("9 left".to_owned()));
        screen.show(Some("x".repeat(200)));
        screen.say("two");
        screen.show(Some("1 left".to_owned()));
        screen.show(None);
        screen.show(None);
        String::from_utf8(screen.out).expect("text")
    }

    #[test]
    fn a_terminal_sees_how_far_something_is_and_a_file_only_what_stays() {
        assert_eq!(said(false), "one\ntwo\n");
        let long = "x".repeat(COLUMNS);
        assert_eq!(said(true), format!("one\n9 left\r{ERASE}{long}\r{ERASE}two\n1 left\r{ERASE}"));
    }
}
