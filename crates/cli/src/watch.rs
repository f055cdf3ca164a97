//! `shorttail status --watch`: the same again and again. A terminal sees it in place, a file one after the other.
//!
//! Must not know: what a status says.

use std::fmt::Write;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::tcgetwinsize;

use crate::exit::Failure;
use crate::lines;
use crate::output::is_read;

/// Looks again after so many seconds, unless said otherwise.
pub const USUAL: &str = "1";
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// To the corner; the rest of the line goes; all below goes.
const HOME: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

/// Rows and columns.
type Size = (usize, usize);

pub fn parse(text: &str) -> Result<u64, String> {
    match shorttail_server::config::parse_seconds(text)? {
        seconds @ 1..=SECONDS_MAX => Ok(seconds),
        _ => Err(format!("{text} is not between a second and a day")),
    }
}

/// Shows what `look` tells, until the program ends or nobody reads it. Who cannot be asked for a while may be back.
///
/// # Errors
/// If the first look fails, or nothing can be written.
pub fn watch(every_s: u64, is_table: bool, look: impl Fn() -> Result<String, Failure>) -> Result<(), Failure> {
    let mut seen: Result<String, Failure> = Ok(look()?);
    loop {
        let goes_on = match (seen, size().filter(|_| is_table)) {
            (Ok(text), Some(size)) => is_read(&in_place(&text, size))?,
            (Err(failure), Some(size)) => is_read(&in_place(&failure.text(), size))?,
            (Ok(text), None) => is_read(&text)?,
            (Err(failure), None) => {
                lines::warn(&failure.text());
                true
            }
        };
        if !goes_on || closes_within(std::io::stdout(), Duration::from_secs(every_s)) {
            return Ok(());
        }
        seen = look();
    }
}

/// Waits; did whoever reads close it meanwhile?
fn closes_within(out: impl AsFd, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).expect("a day at most");
        match poll(&mut [PollFd::new(&out, PollFlags::empty())], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            // Who cannot be watched is written to.
            Err(_) => {
                std::thread::sleep(left);
                return false;
            }
        }
    }
}

/// None: it is no terminal.
fn size() -> Option<Size> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| tcgetwinsize(&out).ok())??;
    // One that does not know its size scrolls.
    let known = |count: u16| if count == 0 { usize::MAX } else { count.into() };
    Some((known(size.ws_row), known(size.ws_col)))
}

/// Over what was there: nothing is erased that stays the same, so nothing flickers. What the terminal has no room for
/// is left out, and the last row says so.
fn in_place(text: &str, (rows, columns): Size) -> String {
    let lines: Vec<String> = text.lines().flat_map(|line| wrapped(line, columns)).collect();
    // The cursor waits in the row below.
    let room = rows.saturating_sub(1).max(1);
    let shown = if lines.len() > room { room - 1 } else { lines.len() };
    let rest = (shown < lines.len()).then(|| format!("... {} lines more", lines.len() - shown));
    let mut out = HOME.to_owned();
    for line in lines[..shown].iter().chain(&rest) {
        // In a full row the cursor is still on the last letter, which would go.
        let erase = if line.chars().count() < columns { ERASE_LINE } else { "" };
        writeln!(out, "{line}{erase}").expect("writing to memory");
    }
    out + ERASE_BELOW
}

/// In rows of a terminal.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    if letters.is_empty() {
        vec![String::new()]
    } else {
        letters.chunks(columns).map(|row| row.iter().collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, size: Size) -> Vec<String> {
        let text = in_place(text, size);
        let text = text.strip_prefix(HOME).and_then(|text| text.strip_suffix(ERASE_BELOW)).expect("in place");
        let row = |line: &str| {
            let erased = line.strip_suffix(ERASE_LINE);
            assert_eq!(erased.is_some(), erased.unwrap_or(line).chars().count() < size.1, "nothing is left, or lost");
            erased.unwrap_or(line).to_owned()
        };
        text.lines().map(row).collect()
    }

    #[test]
    fn what_a_terminal_has_no_room_for_is_left_out_and_told() {
        assert_eq!(seen("one\ntwo\nthree\n", (4, 80)), ["one", "two", "three"]);
        assert_eq!(seen("one\ntwo\nthree\n", (3, 80)), ["one", "... 2 lines more"]);
        assert_eq!(seen("one\ntwo\n", (1, 80)), ["... 2 lines more"]);
        assert_eq!(seen("zwölf\n", (9, 3)), ["zwö", "lf"]);
        assert_eq!(seen("zwölf\neins\n", (3, 3)), ["zwö", "... 3 lines more"]);
        assert_eq!(seen("one\n\ntwo\n", (usize::MAX, usize::MAX)), ["one", "", "two"]);
    }

    #[test]
    fn between_two_looks_there_is_a_second_at_least() {
        assert_eq!((parse(USUAL), parse("5s"), parse("2m")), (Ok(1), Ok(5), Ok(120)));
        assert!(parse("0").unwrap_err().contains("between a second and a day") && parse("25h").is_err());
    }

    #[test]
    fn who_closes_what_is_written_ends_it() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert!(!closes_within(&writer, Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| closes_within(&writer, Duration::from_secs(240)));
            drop(reader);
            assert!(waits.join().expect("no panic"));
        });
    }

    /// One that was never there is told at once.
    #[test]
    fn the_first_look_must_succeed() {
        let failure = watch(1, true, || Err(Failure::Failed(anyhow::anyhow!("nobody")))).expect_err("nobody answers");
        assert_eq!(failure.text(), "shorttail: nobody");
    }
}
