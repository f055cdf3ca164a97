//! Results as JSON that a person can look through: the fields of a report, and each of its rows or runs on a line.
//!
//! ```text
//! {
//!   "figure": "9",
//!   "samples": [
//!     {"repetition":1,"label":"t = 10 ms", ...},
//!     {"repetition":2, ...}
//!   ]
//! }
//! ```
//!
//! Must not know: what is reported.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// What is nested deeper stays on the line of what it is a part of.
const BROKEN_DEPTH: usize = 2;

/// `results` as text that ends with a line's end.
///
/// # Errors
/// They do not fit JSON.
pub fn to_lines(results: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    results.serialize(&mut Serializer::with_formatter(&mut text, Lines::default()))?;
    text.push(b'\n');
    Ok(String::from_utf8(text).expect("JSON is text"))
}

#[derive(Default)]
struct Lines {
    depth: usize,
    /// Whether the list or object that ends next has anything in it.
    has_value: bool,
}

impl Lines {
    fn is_broken(&self) -> bool {
        self.depth <= BROKEN_DEPTH
    }

    fn begin<W: Write + ?Sized>(&mut self, out: &mut W, mark: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        out.write_all(mark)
    }

    fn separate<W: Write + ?Sized>(&self, out: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            out.write_all(b",")?;
        }
        self.break_line(out, self.depth)
    }

    fn end<W: Write + ?Sized>(&mut self, out: &mut W, mark: &[u8]) -> io::Result<()> {
        if self.has_value {
            self.break_line(out, self.depth - 1)?;
        }
        self.depth -= 1;
        self.has_value = true;
        out.write_all(mark)
    }

    fn break_line<W: Write + ?Sized>(&self, out: &mut W, indent: usize) -> io::Result<()> {
        if self.is_broken() {
            out.write_all(b"\n")?;
            (0..indent).try_for_each(|_| out.write_all(b"  "))?;
        }
        Ok(())
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.separate(out, is_first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _out: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.separate(out, is_first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.is_broken() { b": " } else { b":" })
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _out: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::to_lines;

    #[test]
    fn each_run_is_on_a_line_and_nothing_is_changed() {
        let report =
            json!({"empty": [], "name": "a \"b\"", "runs": [{"at": [1, 2.5], "of": {}}, {"at": [], "of": null}]});
        let text = to_lines(&report).expect("plain data");
        let wanted = "{\n  \"empty\": [],\n  \"name\": \"a \\\"b\\\"\",\n  \"runs\": [\n    {\"at\":[1,2.5],\"of\":{}},\n    \
                      {\"at\":[],\"of\":null}\n  ]\n}\n";
        assert_eq!(text, wanted);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), report);
    }
}
