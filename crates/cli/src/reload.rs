//! SIGHUP: the configuration file is read again, and what may change while a role runs does.
//!
//! Only roles that were given a file listen for it; without one the signal ends the process, as it ends any other.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use shorttail_server::config::{ConfigError, ConfigFile, LogLevel};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::exit::Failure;
use crate::logging;

/// The thread parses a small file.
const STACK_BYTES: usize = 256 << 10;

/// How much is to be said: a flag or variable wins over the file.
pub fn log_level(said: Option<LogLevel>, file: &ConfigFile) -> LogLevel {
    said.or(file.log).unwrap_or_default()
}

/// The signals of a role that was given a file: heard from before the file is read for the first time, so that none is
/// missed.
pub struct Reloads(Option<(PathBuf, Signals)>);

impl Reloads {
    pub fn begin(file: Option<PathBuf>) -> Result<Self, Failure> {
        let signals = |path| Ok::<_, io::Error>((path, Signals::new([SIGHUP])?));
        Ok(Reloads(file.map(signals).transpose().context("cannot watch for SIGHUP")?))
    }

    pub fn file(&self) -> Option<&Path> {
        self.0.as_ref().map(|(path, _)| path.as_path())
    }

    /// Reads the file again at each SIGHUP: takes its log level, and gives the rest to `apply`. A file that makes no
    /// sense changes nothing.
    pub fn watch(
        self,
        said: Option<LogLevel>,
        mut apply: impl FnMut(ConfigFile) -> Result<(), ConfigError> + Send + 'static,
    ) -> Result<(), Failure> {
        let Some((path, mut signals)) = self.0 else { return Ok(()) };
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
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// The file may have been another one when it was read.
    #[test]
    fn a_signal_that_comes_before_anybody_listens_for_it_is_not_missed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("shorttail.toml");
        let reloads = Reloads::begin(Some(path.clone())).expect("signals");
        signal_hook::low_level::raise(SIGHUP).expect("a signal");
        std::fs::write(&path, "log = \"warn\"\n").expect("a file");
        let (tell, told) = channel();
        let watched = reloads.watch(None, move |file| {
            let _ = tell.send(file.log);
            Ok(())
        });
        watched.expect("a thread");
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(Some(LogLevel::Warn)));
    }
}
