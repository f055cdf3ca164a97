//! Lines for people that hold nobody up. Where nobody reads (a pipe that is full, a terminal that is stopped) a line is
//! left out instead of waited for, and the next one that is written says how many were. That one cannot be written is no
//! reason to end.
//!
//! A role that waited for its log would be taken for dead, and what it owns for nobody's.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What takes anything takes so many bytes at once (a pipe: PIPE_BUF); longer lines are cut.
const LINE_BYTES_MAX: usize = 4096;

/// The last words of a program are worth waiting for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Lines that were left out since the last one that was written.
static LEFT_OUT_OF_OUTPUT: AtomicU64 = AtomicU64::new(0);
static LEFT_OUT_OF_ERRORS: AtomicU64 = AtomicU64::new(0);

/// A line on standard error.
pub fn warn(text: &str) {
    write_error(format!("{text}\n").into_bytes(), Duration::ZERO);
}

/// A line on standard error with which the program ends.
pub fn end_with(text: &str) {
    write_error(format!("{text}\n").into_bytes(), LAST_WORDS);
}

/// Standard error, for log lines: each is written as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Errors;

impl Write for Errors {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_error(line.to_vec(), Duration::ZERO);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output, as [`Errors`].
#[derive(Clone, Copy, Debug)]
pub struct Output;

impl Write for Output {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_line(&mut io::stdout(), &LEFT_OUT_OF_OUTPUT, line.to_vec(), Duration::ZERO);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_error(line: Vec<u8>, within: Duration) {
    write_line(&mut io::stderr(), &LEFT_OUT_OF_ERRORS, line, within);
}

/// Writes a line, or counts it.
pub fn write_line<W: Write + AsFd>(to: &mut W, left_out: &AtomicU64, mut line: Vec<u8>, within: Duration) {
    if line.len() > LINE_BYTES_MAX {
        line.truncate(LINE_BYTES_MAX - "...\n".len());
        line.extend_from_slice(b"...\n");
    }
    if !takes_more(to, within) {
        left_out.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let count = left_out.swap(0, Ordering::Relaxed);
    if count > 0 {
        _ = writeln!(to, "shorttail: {count} lines were left out here, as nobody read them");
        if !takes_more(to, within) {
            left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    _ = to.write_all(&line).and_then(|()| to.flush());
}

/// Can something be written without waiting for somebody to read?
fn takes_more(to: &impl AsFd, within: Duration) -> bool {
    let mut asked = [PollFd::new(to, PollFlags::OUT)];
    let within = Timespec { tv_sec: within.as_secs().cast_signed(), tv_nsec: within.subsec_nanos().into() };
    // What cannot be asked is tried: it is not there, and an error comes back.
    poll(&mut asked, Some(&within)).is_err() || asked[0].revents().intersects(PollFlags::OUT | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn say(to: &mut io::PipeWriter, left_out: &AtomicU64, text: &str) {
        write_line(to, left_out, format!("{text}\n").into_bytes(), Duration::ZERO);
    }

    #[test]
    fn who_does_not_read_misses_lines_and_is_told_how_many() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        let left_out = AtomicU64::new(0);
        let line = "x".repeat(999);
        let mut said = 0;
        while left_out.load(Ordering::Relaxed) < 7 {
            say(&mut writer, &left_out, &line);
            said += 1;
        }
        let mut bytes = vec![0; (said - 7) * 1000];
        reader.read_exact(&mut bytes).expect("whole lines");
        assert!(bytes.chunks(1000).all(|chunk| chunk[..999] == *line.as_bytes() && chunk[999] == b'\n'));
        say(&mut writer, &left_out, "again");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "shorttail: 7 lines were left out here, as nobody read them\nagain\n");
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_one_that_nobody_can_read_is_no_reason_to_end() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        let left_out = AtomicU64::new(0);
        say(&mut writer, &left_out, &"x".repeat(2 * LINE_BYTES_MAX));
        let mut bytes = vec![0; LINE_BYTES_MAX];
        reader.read_exact(&mut bytes).expect("a line");
        assert!(bytes.ends_with(b"x...\n"));
        drop(reader);
        say(&mut writer, &left_out, "nobody");
        assert_eq!(left_out.into_inner(), 0, "it was tried");
    }
}
