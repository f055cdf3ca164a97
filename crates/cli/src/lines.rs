//! Lines for people that hold nobody up. Where nobody reads (a pipe that is full, a terminal that is stopped) a line is
//! left out instead of waited for, and the next one that is written says how many were. That one cannot be written is
//! no reason to end.
//!
//! A role that waited for its log would be taken for dead, and what it owns for nobody's.
//!
//! ```text
//! pipe, terminal -> opened once more for this line, so as not to wait: whoever shares the first opening does not notice
//! socket         -> sent so as not to wait
//! file           -> written: there is always somebody who takes it
//! ```
//! Who became another user may not open a pipe or terminal of the earlier one: [`keep`] opens it before. Where it was
//! never to be opened a line is written once something can be, and a terminal that then takes a part of it is waited
//! for.
//!
//! What a child of `up` says begins with its name: all children share one place for it.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Set by `up` for its children: who speaks.
pub const VARIABLE: &str = "SHORTTAIL_SPEAKER";

/// A pipe takes so many bytes as a whole or not at all (POSIX: PIPE_BUF), with a note before them; longer lines are
/// cut.
const LINE_BYTES_MAX: usize = 4000;

/// The last words of a program are worth waiting for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A console takes some dozen bytes at once, and more soon.
const SOON: Duration = Duration::from_millis(100);

/// Standard output and error, opened by an earlier user.
static KEPT: OnceLock<[Option<OwnedFd>; 2]> = OnceLock::new();

static SPEAKER: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

static OUTPUT: Lines = Lines::new();
static ERRORS: Lines = Lines::new();

/// What became of the lines that were to go to one place.
#[derive(Debug)]
struct Lines {
    /// Left out since the last one that was written.
    left_out: AtomicU64,
    /// The last one was written in part.
    owes_end: AtomicBool,
}

/// Is to be called before this process becomes another user's.
pub fn keep() {
    let kept = [io::stdout().as_fd(), io::stderr().as_fd()].map(|to| reopen(to).ok());
    // The first user's are those that may be opened.
    let _ = KEPT.set(kept);
}

/// A line on standard error.
pub fn warn(text: &str) {
    write_error(format!("{text}\n").as_bytes(), Duration::ZERO);
}

/// A line on standard error with which the program ends.
pub fn end_with(text: &str) {
    write_error(format!("{text}\n").as_bytes(), LAST_WORDS);
}

fn write_error(line: &[u8], within: Duration) {
    ERRORS.write(io::stderr().as_fd(), &said_by(SPEAKER.as_deref(), line), within);
}

fn said_by<'a>(speaker: Option<&str>, line: &'a [u8]) -> Cow<'a, [u8]> {
    match speaker {
        None => line.into(),
        Some(speaker) => [speaker.as_bytes(), b": ", line].concat().into(),
    }
}

/// Standard error, for log lines: each is written as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Errors;

impl Write for Errors {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_error(line, Duration::ZERO);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output, as [`Errors`]; who is slow to read is waited for a moment.
#[derive(Clone, Copy, Debug)]
pub struct Output;

impl Write for Output {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Who did not read the last one is not waited for again.
        let within = if OUTPUT.left_out.load(Ordering::Relaxed) > 0 { Duration::ZERO } else { SOON };
        OUTPUT.write(io::stdout().as_fd(), line, within);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    const fn new() -> Self {
        Lines { left_out: AtomicU64::new(0), owes_end: AtomicBool::new(false) }
    }

    /// Writes a line, or counts it. What does not end a line tells how far something is, and is no loss.
    fn write(&self, to: BorrowedFd<'_>, line: &[u8], within: Duration) {
        let mut bytes = Vec::with_capacity(line.len());
        let owes_end = self.owes_end.swap(false, Ordering::Relaxed);
        if owes_end {
            bytes.push(b'\n');
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let _ = writeln!(bytes, "shorttail: {left_out} lines were left out here, as nobody read them");
        }
        let noted = bytes.len();
        bytes.extend_from_slice(&line[..line.len().min(LINE_BYTES_MAX)]);
        if line.len() > LINE_BYTES_MAX {
            bytes.extend_from_slice(b"...\n");
        }
        let written = write_within(to, &bytes, within);
        if written == bytes.len() {
            return;
        }
        let left_out = if written < noted { left_out } else { 0 } + u64::from(bytes.ends_with(b"\n"));
        self.left_out.fetch_add(left_out, Ordering::Relaxed);
        let is_cut = bytes[..written].last().map_or(owes_end, |&last| last != b'\n');
        self.owes_end.fetch_or(is_cut, Ordering::Relaxed);
    }
}

/// How something is written without waiting.
enum Way<'a> {
    Reopened(OwnedFd),
    Kept(&'static OwnedFd),
    Socket(BorrowedFd<'a>),
    File(BorrowedFd<'a>),
}

impl Way<'_> {
    fn to(to: BorrowedFd<'_>) -> Way<'_> {
        let kind = fstat(to).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            FileType::Fifo | FileType::CharacterDevice => match (reopen(to), kept(to)) {
                (Ok(reopened), _) => Way::Reopened(reopened),
                (Err(Errno::ACCESS), Some(kept)) => Way::Kept(kept),
                _ => Way::File(to),
            },
            FileType::Socket => Way::Socket(to),
            _ => Way::File(to),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Way::Reopened(to) => rustix::io::write(to, bytes),
            Way::Kept(to) => rustix::io::write(to, bytes),
            Way::Socket(to) => send(to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Way::File(to) if !takes_more(*to, Duration::ZERO) => Err(Errno::AGAIN),
            Way::File(to) => rustix::io::write(to, bytes),
        }
    }
}

fn reopen(to: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(format!("/proc/self/fd/{}", to.as_raw_fd()), flags, Mode::empty())
}

/// What [`keep`] opened of it.
fn kept(to: BorrowedFd<'_>) -> Option<&'static OwnedFd> {
    let place = [io::stdout().as_raw_fd(), io::stderr().as_raw_fd()].iter().position(|&it| it == to.as_raw_fd())?;
    KEPT.get()?[place].as_ref()
}

/// How many bytes were written. Where nothing can be, all were: there is nobody to read them, now or later.
fn write_within(to: BorrowedFd<'_>, bytes: &[u8], within: Duration) -> usize {
    let (way, until) = (Way::to(to), Instant::now() + within);
    let mut written = 0;
    while written < bytes.len() {
        match way.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !takes_more(to, left) {
                    return written;
                }
            }
            Err(_) => return bytes.len(),
        }
    }
    written
}

/// Can something be written, or may it be tried, within that time?
fn takes_more(to: BorrowedFd<'_>, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut asked = [PollFd::new(&to, PollFlags::OUT)];
        match poll(&mut asked, Some(&left)) {
            Err(Errno::INTR) => {}
            result => return result.is_ok_and(|count| count > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    fn say(lines: &Lines, to: impl AsFd, text: &str) {
        lines.write(to.as_fd(), format!("{text}\n").as_bytes(), Duration::ZERO);
    }

    /// Says the same until so many are left out; how often it was said.
    fn fill(lines: &Lines, to: impl AsFd, line: &str) -> usize {
        let until_left_out = |said: &usize| *said > 100_000 || lines.left_out.load(Ordering::Relaxed) == 7;
        let mut said = 0..;
        let count = said.find(|said| {
            say(lines, &to, line);
            until_left_out(said)
        });
        count.expect("it is found") + 1
    }

    #[test]
    fn who_does_not_read_a_pipe_misses_lines_and_is_told_how_many() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let (lines, line) = (Lines::new(), "x".repeat(999));
        let said = fill(&lines, &writer, &line);
        let mut bytes = vec![0; (said - 7) * 1000];
        reader.read_exact(&mut bytes).expect("whole lines");
        assert!(bytes.chunks(1000).all(|chunk| chunk[..999] == *line.as_bytes() && chunk[999] == b'\n'));
        say(&lines, &writer, "again");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "shorttail: 7 lines were left out here, as nobody read them\nagain\n");
    }

    /// A terminal takes a part of a line, where a pipe takes none.
    #[test]
    fn a_terminal_that_nobody_reads_holds_nobody_up() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("ours");
        unlockpt(&ours).expect("unlocked");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let theirs = open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it is there");
        let (lines, line) = (Lines::new(), "x".repeat(300));
        assert!(fill(&lines, &theirs, &line) > 7, "some were taken");
        let mut ours = File::from(ours);
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while !seen.ends_with(b"again\r\n") {
            let count = ours.read(&mut buffer).expect("it is there");
            seen.extend_from_slice(&buffer[..count]);
            if lines.left_out.load(Ordering::Relaxed) > 0 {
                say(&lines, &theirs, "again");
            }
        }
        let seen = String::from_utf8(seen).expect("text");
        let note = seen.lines().find(|line| line.starts_with("shorttail: ")).unwrap_or_else(|| panic!("{seen:?}"));
        assert!(note.ends_with(" lines were left out here, as nobody read them"), "{note}");
        let cut = seen.lines().find(|line| line.len() != 300).expect("it went on");
        assert!(cut.is_empty() || cut == note || cut.chars().all(|char| char == 'x'), "what was cut is ended: {cut}");
    }

    #[test]
    fn a_socket_that_nobody_reads_holds_nobody_up() {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let lines = Lines::new();
        assert!(fill(&lines, &writer, &"x".repeat(999)) > 7);
        drop(reader);
        say(&lines, &writer, "nobody");
        assert_eq!(lines.left_out.into_inner(), 0, "it was tried");
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_one_that_nobody_can_read_is_no_reason_to_end() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let lines = Lines::new();
        say(&lines, &writer, &"x".repeat(2 * LINE_BYTES_MAX));
        let mut bytes = vec![0; LINE_BYTES_MAX + 4];
        reader.read_exact(&mut bytes).expect("a line");
        assert!(bytes.ends_with(b"x...\n"));
        drop(reader);
        say(&lines, &writer, "nobody");
        lines.write(writer.as_fd(), b"half", Duration::ZERO);
        assert_eq!(lines.left_out.into_inner(), 0, "it was tried");
    }

    #[test]
    fn what_a_child_says_begins_with_its_name() {
        assert_eq!(*said_by(Some("node 3"), b"WARN full\n"), *b"node 3: WARN full\n");
        assert_eq!(*said_by(None, b"WARN full\n"), *b"WARN full\n");
    }

    /// How far something is, is said again soon.
    #[test]
    fn what_ends_no_line_is_not_counted() {
        let (_reader, writer) = io::pipe().expect("a pipe");
        let lines = Lines::new();
        // It takes nothing more.
        fill(&lines, &writer, &"x".repeat(1023));
        lines.write(writer.as_fd(), b"9 left\r", Duration::ZERO);
        assert_eq!(lines.left_out.into_inner(), 7);
    }
}
