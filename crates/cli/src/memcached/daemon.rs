//! Around serving: another user, the background, the pid file.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, User, geteuid, getuid, setgid, setgroups, setuid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use super::{EX_NOUSER, EX_OSERR, EXIT_FAILURE, Refusal};
use crate::lines;

/// Gives up root's rights for those of a user. Who is not root stays who they are, as in memcached.
///
/// # Errors
/// When the user is unknown or the system refuses.
pub fn switch_user(name: &str) -> Result<(), Refusal> {
    if !getuid().is_root() && !geteuid().is_root() {
        return Ok(());
    }
    let user = User::from_name(name).ok().flatten();
    let user = user.ok_or_else(|| Refusal::new(EX_NOUSER, format!("can't find the user {name} to switch to")))?;
    match setgroups(&[]) {
        // Already without groups to give up.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(error) => {
            return Err(Refusal::new(EX_OSERR, format!("failed to drop supplementary groups: {}", error.desc())));
        }
    }
    let switched = setgid(user.gid).and_then(|()| setuid(user.uid));
    switched.map_err(|_| Refusal::new(EX_OSERR, format!("failed to assume identity of user {name}")))
}

/// Goes on in the background. Must be called before the first thread is started.
///
/// # Errors
/// When the system refuses.
pub fn daemonize(keep_directory: bool, keep_output: bool) -> Result<(), Refusal> {
    let went = nix::unistd::daemon(keep_directory, keep_output);
    went.map_err(|_| Refusal::new(EXIT_FAILURE, "failed to daemon() in order to daemonize"))
}

/// SIGINT, SIGTERM and SIGUSR1 end the process with exit code 0, as memcached does, also when it was started with
/// them ignored. SIGHUP, which makes memcached read its authentication file again, ends nothing.
///
/// # Errors
/// When the system refuses the handlers or the thread.
pub fn end_at_signals(pid_file: Option<PidFile>) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGHUP])?;
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                lines::warn("SIGHUP: the authentication file is read at the start only");
                continue;
            }
            pid_file.iter().for_each(PidFile::remove);
            std::process::exit(0);
        }
    };
    std::thread::Builder::new().name("signals".into()).stack_size(64 << 10).spawn(watch).map(drop)
}

/// The file of `-P`.
#[derive(Clone)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes this process' number, beside and then renamed, so that nobody reads half of it. That it cannot be
    /// written is said and is no reason not to serve.
    pub fn write(path: &Path) -> Self {
        warn_of_running(path);
        let beside = PathBuf::from(format!("{}.tmp", path.display()));
        if let Err(error) = std::fs::write(&beside, format!("{}\n", std::process::id())) {
            lines::warn(&format!("Could not open the pid file {} for writing: {error}", beside.display()));
        } else if let Err(error) = std::fs::rename(&beside, path) {
            lines::warn(&format!(
                "Could not rename the pid file from {} to {}: {error}",
                beside.display(),
                path.display()
            ));
        }
        PidFile { path: path.to_owned() }
    }

    pub fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            lines::warn(&format!("Could not remove the pid file {}: {error}", self.path.display()));
        }
    }
}

fn warn_of_running(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if let Ok(pid) = text.trim().parse::<i32>()
        && pid > 0
        && kill(Pid::from_raw(pid), None).is_ok()
    {
        lines::warn(&format!("WARNING: The pid file contained the following (running) pid: {pid}"));
    }
}
