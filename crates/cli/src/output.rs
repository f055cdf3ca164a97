//! What is printed for people.

use std::fmt::Write;
use std::io::Write as _;

use anyhow::Context;

use crate::exit::Failure;

/// Prints to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    Ok(std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?)
}

/// Left-aligned columns, two spaces apart.
pub fn columns<const N: usize>(heads: [&str; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end()).expect("writing to memory");
    }
    out
}
