//! What is printed for people.

use std::fmt::Write;
use std::io::{self, ErrorKind};

use crate::exit::Failure;

/// Prints to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    is_read(text).map(|_| ())
}

/// Prints to standard output; does anybody read on? Who reads no further (`| head`) has seen enough.
pub fn is_read(text: &str) -> Result<bool, Failure> {
    print_to(io::stdout(), text)
}

fn print_to(mut out: impl io::Write, text: &str) -> Result<bool, Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to standard output").into()),
    }
}

/// Left-aligned columns, two spaces apart: each row has a cell for each head.
pub fn columns<R: IntoIterator<Item = String>>(heads: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    let rows = rows.into_iter().map(|row| row.into_iter().collect::<Vec<String>>());
    let heads = heads.iter().map(|&head| head.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end()).expect("writing to memory");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_no_further_has_seen_enough() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        assert!(!print_to(writer, "text\n").expect("nobody misses it"));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        print_to(full, "text\n").expect_err("it is missed");
    }
}
