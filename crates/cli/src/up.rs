//! `shorttail up`: a whole cluster on this machine, each role a child process of the same binary.
//!
//! Everything is checked before anything starts, and whatever way this process ends, its children end: they are told,
//! they hold a pipe that ends with it, and the kernel kills them with it.
//!
//! The main thread starts and reaps all children: the kernel's parent-death signal is tied to the thread that forked.

mod banner;
mod child;
mod children_file;
mod feasible;
mod plan;
mod ports;
mod probe;
mod problems;
mod repairs;
mod run_dir;
mod screen;
mod silent;
mod supervisor;
#[cfg(test)]
mod tests;

use std::sync::mpsc::{Sender, channel};

use anyhow::Context;
use shorttail_bench::interrupt::is_ignored;
use shorttail_server::config::{LogLevel, Size};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::arguments::UpCommand;
use crate::exit::Failure;
use crate::lines;
use crate::reload::log_level;
use crate::resources;
use crate::roles::prepare;
use crate::starting::Starting;
use plan::Plan;
use run_dir::RunDir;
use supervisor::{Event, Source, Supervisor};

pub fn run(command: UpCommand, log: Option<LogLevel>, starting: &Starting) -> Result<(), Failure> {
    let file = prepare(command.config.as_deref(), log)?;
    let level = log_level(log, &file);
    let config = command.options.clone().or(file.up).resolve()?;
    let source = Source { file: command.config, options: command.options, log };
    ports::check(&config)?;
    let wanted = Size(config.node_memory.0.saturating_mul(config.node_count as u64));
    if let Some(problem) = resources::memory_problem("the nodes together (--nodes times --node-memory)", wanted) {
        lines::warn(&format!("shorttail: {problem}"));
    }
    feasible::problems(&config).iter().for_each(|problem| lines::warn(&format!("shorttail: {problem}")));
    let (tell, events) = channel();
    // Before the first child, so that no signal finds the default, which would leave the run directory behind.
    watch_signals(tell.clone(), source.file.is_some()).context("cannot watch for signals")?;
    starting.end();
    let mut run_dir = RunDir::create(config.dir.as_deref())?;
    if config.memory_file {
        run_dir.keep_memory(config.dir.as_deref())?;
        run_dir.check_size(config.node_count, config.node_threads, config.node_memory)?;
    } else {
        run_dir.keep_nothing(config.dir.as_deref())?;
    }
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let mut supervisor = Supervisor::new(Plan::new(config, level, program, run_dir), source, tell, events);
    let result = supervisor.run();
    supervisor.stop();
    Ok(result?)
}

/// SIGHUP means that the file is to be read again, if there is one. Else it ends the cluster, unless who started it
/// wants it to be ignored (nohup).
fn watch_signals(tell: Sender<Event>, has_file: bool) -> std::io::Result<()> {
    let hang_up = Some(SIGHUP).filter(|&signal| has_file || !is_ignored(signal));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGCHLD].into_iter().chain(hang_up))?;
    let watch = move || {
        for signal in signals.forever() {
            let event = match signal {
                SIGCHLD => Event::ChildChanged,
                SIGHUP if has_file => Event::Reload,
                _ => Event::End,
            };
            if tell.send(event).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
}
