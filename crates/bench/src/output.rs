//! Where the results of a measurement go: the flags that most of them share, and what these do.
//!
//! Must not know: what was measured.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

/// Of a measurement that takes a while.
#[derive(Clone, Debug, clap::Args)]
pub struct OutputOptions {
    /// Write the results as JSON to a file, or - for the standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}

impl OutputOptions {
    /// How far it is, for who did not ask for silence.
    pub fn tell(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
}

/// Of a measurement that is judged.
#[derive(Clone, Debug, clap::Args)]
pub struct GoalOptions {
    /// Write all results as JSON to a file, or - for the standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// End with an error if a goal is missed, or cannot be judged.
    #[arg(long)]
    pub enforce: bool,
}

/// Writes `results` as JSON if asked, and prints the table unless the JSON took its place.
///
/// # Errors
/// The file cannot be written.
pub fn write_results<T: Serialize>(
    json: Option<&Path>,
    results: &T,
    table: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let text = || crate::json::to_lines(results).context("the results do not fit JSON");
    let shown = match json {
        Some(path) if path == Path::new("-") => text()?,
        Some(path) => {
            std::fs::write(path, text()?).with_context(|| format!("cannot write {}", path.display()))?;
            table()
        }
        None => table(),
    };
    std::io::stdout().write_all(shown.as_bytes()).context("cannot write to standard output")
}
