//! Signals before a role listens to them: names are looked up, files read, and that may take long.
//!
//! Must not know: how a process ends that has begun.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

/// What runs until it is told to end.
const ROLES: [&str; 4] = ["up", "node", "gateway", "coordinator"];

/// As long as it is not over, the signals that end a role end the process at once.
pub struct Starting(Arc<AtomicBool>);

impl Starting {
    /// Only the first process of a container needs it: for that one a signal that it does not catch does not exist, and
    /// whoever sent it would wait in vain. The arguments are those of the command line, not yet parsed.
    pub fn begin(arguments: &[OsString]) -> io::Result<Self> {
        let starting = Starting(Arc::new(AtomicBool::new(true)));
        if std::process::id() == 1 && arguments.iter().any(|argument| ROLES.iter().any(|role| argument == role)) {
            for signal in [SIGINT, SIGTERM] {
                register_conditional_shutdown(signal, 0, Arc::clone(&starting.0))?;
            }
        }
        Ok(starting)
    }

    /// Others listen to the signals, or it is no role.
    pub fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
