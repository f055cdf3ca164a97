//! `shorttail memcached`, also under the name `memcached`: takes the place of the memcached program.
//!
//! memcached's flags are taken as memcached takes them. What has no meaning here is accepted and said on standard
//! error with `-v`; what cannot be honoured is an error, with memcached's exit codes (sysexits).
//!
//! Must not know: how the cluster inside the process is built.

mod daemon;
mod getopt;
mod listen;
mod options;
mod suboptions;
#[cfg(test)]
mod tests;
mod usage;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use options::{Parsed, Request};
use shorttail_server::config::LogLevel;

use crate::lines;

/// memcached's exit codes, from sysexits.h where it uses those.
pub const EXIT_FAILURE: u8 = 1;
pub const EX_USAGE: u8 = 64;
pub const EX_NOUSER: u8 = 67;
pub const EX_OSERR: u8 = 71;

/// Names of the program that make it memcached; the second is what memcached's own test suite runs.
const NAMES: [&str; 2] = ["memcached", "memcached-debug"];

/// Why it does not start: the message, and the exit code memcached would give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub code: u8,
    pub message: String,
}

impl Refusal {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into() }
    }
}

/// The flags after the name, if the program was called as memcached.
pub fn flags_of(arguments: &[OsString]) -> Option<&[OsString]> {
    let called = |argument: &OsString| {
        let name = Path::new(argument).file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| NAMES.contains(&name))
    };
    match arguments {
        [name, flags @ ..] if called(name) => Some(flags),
        [_, verb, flags @ ..] if verb == "memcached" => Some(flags),
        _ => None,
    }
}

/// Does what the flags say, until it ends.
pub fn run(flags: &[OsString]) -> ExitCode {
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string_lossy().into_owned()).collect();
    let result = options::parse(&flags, |name| std::env::var(name).ok()).and_then(|parsed| match parsed {
        Parsed::Help => say(usage::HELP),
        Parsed::Version => say(usage::VERSION),
        Parsed::License => say(usage::LICENSE),
        Parsed::Serve(request) => serve(*request),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            lines::end_with(&refusal.message);
            ExitCode::from(refusal.code)
        }
    }
}

fn say(text: &str) -> Result<(), Refusal> {
    use std::io::Write;
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Refusal::new(EXIT_FAILURE, format!("cannot write to standard output: {error}")))
}

fn serve(mut request: Request) -> Result<(), Refusal> {
    request.warnings.iter().for_each(|warning| lines::warn(warning));
    if request.options.verbosity > 0 {
        request.notes.iter().for_each(|note| lines::warn(note));
    }
    let level = match request.options.verbosity {
        0 => LogLevel::Error,
        1 => LogLevel::Warn,
        2 => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    crate::logging::start(level);
    let options = &mut request.options;
    options.connection_count_max =
        crate::resources::allow_inner_files(options.connection_count_max, options.node_count * options.core_count);
    if let Some(user) = &request.user {
        lines::keep();
        daemon::switch_user(user)?;
    }
    // Before the first thread: only the thread that forks goes on in the child.
    if request.daemonize {
        daemon::daemonize(request.keep_directory, request.options.verbosity > 0)?;
    }
    let pid_file = request.pid_file.as_deref().map(daemon::PidFile::write);
    let pid_file = pid_file.filter(|_| request.daemonize);
    let watching = daemon::end_at_signals(pid_file.clone());
    watching.map_err(|error| Refusal::new(EX_OSERR, format!("cannot watch for signals: {error}")))?;
    let result = shorttail_server::single::run(request.options);
    pid_file.iter().for_each(daemon::PidFile::remove);
    result.map_err(|error| Refusal::new(EX_OSERR, format!("{error:#}")))
}
