//! Where log lines go: standard error, in one line each, which nobody waits for. How much is said may change while the
//! process runs.

use std::sync::OnceLock;

use shorttail_server::config::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

use crate::lines::Errors;

static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts logging for this process.
pub fn start(level: LogLevel) {
    let (filter, handle) = reload::Layer::new(filter(level));
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = fmt::layer().with_ansi(ansi).with_writer(|| Errors);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // Set once: logging is started once.
    let _ = FILTER.set(handle);
}

/// From now on so much is said.
pub fn set(level: LogLevel) {
    // Without a filter nothing is logged, or the process is ending.
    let _ = FILTER.get().map(|handle| handle.reload(filter(level)));
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
