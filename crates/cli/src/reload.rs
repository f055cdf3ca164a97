//! SIGHUP: the configuration file is read again, and what may change while a role runs does.
//!
//! Only roles that were given a file listen for it; without one the signal ends the process, as it ends any other.

use std::path::PathBuf;

use anyhow::Context;
use shorttail_server::config::{ConfigError, ConfigFile, LogLevel};
use signal_hook::consts::SIGHUP;

use crate::exit::Failure;
use crate::logging;

/// The thread parses a small file.
const STACK_BYTES: usize = 256 << 10;

/// How much is to be said: a flag or variable wins over the file.
pub fn log_level(said: Option<LogLevel>, file: &ConfigFile) -> LogLevel {
    said.or(file.log).unwrap_or_default()
}

/// Reads the file again at each SIGHUP: takes its log level, and gives the rest to `apply`. A file that makes no sense
/// changes nothing.
pub fn watch(
    file: Option<PathBuf>,
    said: Option<LogLevel>,
    mut apply: impl FnMut(ConfigFile) -> Result<(), ConfigError> + Send + 'static,
) -> Result<(), Failure> {
    let Some(path) = file else { return Ok(()) };
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP]).context("cannot watch for SIGHUP")?;
    let watch = move || {
        for _ in signals.forever() {
            let applied = ConfigFile::read(Some(&path)).and_then(|file| {
                let level = log_level(said, &file);
                apply(file)?;
                logging::set(level);
                Ok(())
            });
            match applied {
                Ok(()) => tracing::info!(file = %path.display(), "the configuration was read again"),
                Err(error) => tracing::error!(%error, "nothing was changed: the configuration stays as it was"),
            }
        }
    };
    let builder = std::thread::Builder::new().name("signals".into()).stack_size(STACK_BYTES);
    builder.spawn(watch).context("cannot start a thread")?;
    Ok(())
}
