//! `shorttail config`: check a file, or print one.

use std::io::Write;

use anyhow::Context;
use shorttail_server::config::{ConfigFile, EXAMPLE};

use crate::arguments::{ConfigCommand, ConfigVerb};
use crate::exit::Failure;

pub fn run(command: ConfigCommand) -> Result<(), Failure> {
    match command.verb {
        ConfigVerb::Check { file } => {
            ConfigFile::check(&file)?;
            say(&format!("{}: ok\n", file.display()))
        }
        ConfigVerb::Example => say(EXAMPLE),
    }
}

fn say(text: &str) -> Result<(), Failure> {
    Ok(std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?)
}
