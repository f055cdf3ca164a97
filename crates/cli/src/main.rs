//! The `shorttail` program: roles, a local cluster, status, measurements, and the drop-in for memcached.
//!
//! Exit codes: 0 done, 1 it failed, 2 the command line or configuration makes no sense, 3 a node was taken out of the
//! cluster; `shorttail memcached` uses memcached's own (64 for usage).
//!
//! Must not know: anything a role does; this crate parses, starts and reports.

mod acknowledge;
mod admin;
mod arguments;
mod chaos;
mod config_command;
mod drain;
mod exit;
mod lifeline;
mod lines;
mod logging;
mod memcached;
mod output;
mod policy;
mod reload;
mod remove;
mod resources;
mod roles;
mod starting;
mod status;
mod up;
mod wait;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use shorttail_server::config::LogLevel;

use arguments::{Cli, Verb};
use exit::Failure;
use starting::Starting;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(flags) = memcached::flags_of(&arguments) {
        return memcached::run(flags);
    }
    let starting = Starting::begin(&arguments);
    let cli = parse(arguments);
    logging::start(cli.log.unwrap_or_default());
    match starting.context("cannot watch for signals").map_err(Failure::from).and_then(|it| run(cli.verb, cli.log, &it))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Parses the command line in a thread of its own: half a megabyte of heap and stack that it takes once then ends
/// with it, instead of lying between the few things that a role keeps for as long as it runs.
fn parse(arguments: Vec<OsString>) -> Cli {
    let parsing = std::thread::spawn(move || arguments::parse(&arguments)).join();
    parsing.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run(verb: Verb, log: Option<LogLevel>, starting: &Starting) -> Result<(), Failure> {
    if !verb.is_role() {
        starting.end();
    }
    match verb {
        Verb::Up(command) => up::run(command, log, starting),
        Verb::Node(command) => roles::node(command, log),
        Verb::Gateway(command) => roles::gateway(command, log, starting),
        Verb::Coordinator(command) => roles::coordinator(command, log, starting),
        Verb::Status(command) => status::run(&command),
        Verb::Wait(command) => wait::run(&command),
        Verb::Chaos(command) => chaos::run(command),
        Verb::Policy(command) => policy::run(command),
        Verb::Drain(command) => drain::run(&command),
        Verb::Remove(command) => remove::run(&command),
        Verb::Acknowledge(command) => acknowledge::run(&command),
        Verb::Config(command) => config_command::run(command),
        Verb::Completions(command) => output::print(&arguments::completions(command.shell)),
        Verb::Bench { measurement } => Ok(measurement.run()?),
        Verb::Sim(options) => Ok(shorttail_sim::cli::run(*options)?),
        Verb::Memcached => unreachable!("taken before the flags are parsed"),
    }
}
