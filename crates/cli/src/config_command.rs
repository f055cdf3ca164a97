//! `shorttail config`: check a file, or print one.

use shorttail_server::config::{ConfigFile, EXAMPLE};

use crate::arguments::{ConfigCommand, ConfigVerb};
use crate::exit::Failure;
use crate::output::print;

pub fn run(command: ConfigCommand) -> Result<(), Failure> {
    match command.verb {
        ConfigVerb::Check { file } => {
            let notes: String = ConfigFile::check(&file)?.iter().map(|note| format!("; {note}")).collect();
            print(&format!("{}: ok{notes}\n", file.display()))
        }
        ConfigVerb::Example => print(EXAMPLE),
    }
}
