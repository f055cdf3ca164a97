//! The directory of one run: sockets, and the coordinator's state unless the user gave a place for it.
//!
//! A run that was killed outright leaves its directory behind; the next one finds that nobody holds its lock, and
//! removes it.
//!
//! What lies in /tmp for long is removed there: sockets, that nobody reads or writes by their names, after ten days.
//! systemd-tmpfiles leaves a directory alone that somebody has locked itself, with all that is in it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use shorttail_server::config::{SOCKET_PATH_BYTES_MAX, Size};
use shorttail_server::node::made_for_other_size;
use tempfile::TempDir;

const PREFIX: &str = "shorttail-run-";
const LOCK: &str = "lock";
/// Files that are memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// The longest name of a socket in the directory.
const SOCKET_NAME_LONGEST: &str = "coordinator.sock";

/// Removed when dropped.
pub struct RunDir {
    dir: TempDir,
    state: PathBuf,
    /// Where memory files of nodes are, if there are any; a directory of this run alone unless the user gave one.
    memory: Option<PathBuf>,
    _memory_dir: Option<(TempDir, Held)>,
    _held: Held,
}

/// Locks that are held while this run lives, however it ends.
struct Held {
    /// The next run removes what nobody holds.
    _file: File,
    /// Whoever tidies up leaves it alone.
    _dir: File,
}

impl RunDir {
    /// # Errors
    /// When the directory cannot be made or its path is too long for sockets.
    pub fn create(dir: Option<&Path>) -> anyhow::Result<Self> {
        let parent = match dir {
            Some(dir) => {
                std::fs::create_dir_all(dir).with_context(|| format!("--dir {}: cannot be made", dir.display()))?;
                dir.canonicalize().with_context(|| format!("--dir {}: cannot be resolved", dir.display()))?
            }
            None => std::env::temp_dir(),
        };
        remove_stale(&parent);
        // The memory of nodes whose run was killed takes memory until it is removed.
        remove_stale(Path::new(SHARED_MEMORY));
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
        let made = made.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        let longest = made.path().join(SOCKET_NAME_LONGEST);
        if longest.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            bail!("--dir {}: the path is too long for the sockets below it", parent.display());
        }
        let held = hold(made.path()).with_context(|| format!("cannot lock {}", made.path().display()))?;
        let state = dir.map_or_else(|| made.path().join("coordinator"), |_| parent.join("coordinator"));
        Ok(RunDir { dir: made, state, memory: None, _memory_dir: None, _held: held })
    }

    /// Nodes are to keep their memory in files: in the user's directory, where the next run finds them, or in memory
    /// that goes with this run.
    ///
    /// # Errors
    /// When a directory cannot be made, or another run has it.
    pub fn keep_memory(&mut self, dir: Option<&Path>) -> anyhow::Result<()> {
        if let Some(dir) = dir {
            let memory = dir.canonicalize()?.join("memory");
            self.check_alone(&memory)?;
            std::fs::create_dir_all(&memory).with_context(|| format!("cannot make {}", memory.display()))?;
            self.memory = Some(memory);
            return Ok(());
        }
        let parent = Path::new(SHARED_MEMORY);
        let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
        let made = made.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        let held = hold(made.path()).with_context(|| format!("cannot lock {}", made.path().display()))?;
        self.memory = Some(made.path().to_owned());
        self._memory_dir = Some((made, held));
        Ok(())
    }

    /// Nodes are to begin with nothing.
    ///
    /// # Errors
    /// When an earlier run kept its memory in the user's directory: the cluster would give it up.
    pub fn keep_nothing(&self, dir: Option<&Path>) -> anyhow::Result<()> {
        let Some(memory) = dir.map(|dir| dir.join("memory")) else { return Ok(()) };
        self.check_alone(&memory)?;
        if is_filled(&memory) {
            bail!(
                "{} holds what a cluster stored, which would be given up: start it with --memory-file, or remove that directory",
                memory.display()
            );
        }
        Ok(())
    }

    /// Does no other run that lives keep its memory there?
    fn check_alone(&self, memory: &Path) -> anyhow::Result<()> {
        let parent = self.path().parent().unwrap_or(self.path());
        let is_other = |path: &PathBuf| path != self.path() && is_held(path);
        match is_filled(memory) && runs_in(parent).any(|path| is_other(&path)) {
            true => bail!("a cluster runs in {} already: end it first, or give another --dir", parent.display()),
            false => Ok(()),
        }
    }

    /// Was the memory that is kept made for nodes of this size?
    ///
    /// # Errors
    /// Says with what the cluster is to be started.
    pub fn check_size(&self, node_count: usize, threads: usize, node_memory: Size) -> anyhow::Result<()> {
        let ids = 0..u16::try_from(node_count).unwrap_or(u16::MAX);
        let files = ids.filter_map(|id| Some((id, self.node_memory(id)?)));
        let mut others = files.filter_map(|(id, file)| Some((id, made_for_other_size(&file, threads, node_memory.0)?)));
        let Some((id, (threads, size))) = others.next() else { return Ok(()) };
        bail!(
            "the memory file of node {id} was made for another size: start the cluster with --node-memory {size} \
             --node-threads {threads}, as it was; nothing was started"
        )
    }

    /// The file of a node's memory, if it is kept.
    pub fn node_memory(&self, id: u16) -> Option<PathBuf> {
        self.memory.as_ref().map(|memory| memory.join(format!("node-{id}")))
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn coordinator_socket(&self) -> PathBuf {
        self.path().join(SOCKET_NAME_LONGEST)
    }

    /// What children may be told anew while they run.
    pub fn children_file(&self) -> PathBuf {
        self.path().join("children.toml")
    }

    pub fn node_socket(&self, id: u16) -> PathBuf {
        self.path().join(format!("node-{id}.sock"))
    }

    pub fn gateway_socket(&self, place: usize) -> PathBuf {
        self.path().join(format!("gateway-{place}.sock"))
    }

    /// Where the coordinator keeps its state.
    pub fn state(&self) -> &Path {
        &self.state
    }
}

/// The file appears under its name only once it is locked, so that nobody takes a starting run for a dead one.
fn hold(path: &Path) -> std::io::Result<Held> {
    let dir = File::open(path)?;
    dir.lock()?;
    let beside = path.join("lock.new");
    let file = File::create_new(&beside)?;
    file.lock()?;
    std::fs::rename(&beside, path.join(LOCK))?;
    Ok(Held { _file: file, _dir: dir })
}

/// Removes the directories of runs that are no more. Whatever cannot be looked at or removed is left alone.
fn remove_stale(parent: &Path) {
    for run in runs_in(parent) {
        let Ok(file) = lock_of(&run) else { continue };
        match file.try_lock() {
            Ok(()) => drop(std::fs::remove_dir_all(run)),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

/// The directories of runs, whether they live or not.
fn runs_in(parent: &Path) -> impl Iterator<Item = PathBuf> {
    let ours = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(PREFIX));
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter(move |entry| ours(&entry.file_name())).map(|entry| entry.path())
}

fn is_held(run: &Path) -> bool {
    lock_of(run).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn lock_of(run: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).open(run.join(LOCK))
}

fn is_filled(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut files| files.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_directory_is_gone_when_its_run_is() {
        let parent = tempfile::tempdir().expect("a directory");
        let run = RunDir::create(Some(parent.path())).expect("made");
        let path = run.path().to_owned();
        assert!(path.is_dir());
        drop(run);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_a_living_one_kept() {
        let parent = tempfile::tempdir().expect("a directory");
        let living = RunDir::create(Some(parent.path())).expect("made");
        let killed = parent.path().join(format!("{PREFIX}dead"));
        std::fs::create_dir(&killed).expect("made");
        std::fs::write(killed.join(LOCK), "").expect("written");
        let starting = parent.path().join(format!("{PREFIX}starting"));
        std::fs::create_dir(&starting).expect("made");
        let _next = RunDir::create(Some(parent.path())).expect("made");
        assert!(living.path().is_dir() && starting.is_dir());
        assert!(!killed.exists());
    }

    /// As systemd-tmpfiles asks before it looks into a directory.
    #[test]
    fn a_run_holds_its_directories_themselves() {
        let parent = tempfile::tempdir().expect("a directory");
        let mut run = RunDir::create(Some(parent.path())).expect("made");
        run.keep_memory(None).expect("made");
        for path in [run.path(), run.memory.as_deref().expect("kept")] {
            let asked = File::open(path).expect("a directory").try_lock();
            assert!(matches!(asked, Err(TryLockError::WouldBlock)), "{}: {asked:?}", path.display());
        }
    }

    #[test]
    fn memory_that_was_kept_is_not_given_up_by_mistake() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = Some(parent.path());
        let mut run = RunDir::create(dir).expect("made");
        run.keep_nothing(dir).expect("nothing was kept");
        run.keep_nothing(None).expect("nothing can be kept");
        run.keep_memory(dir).expect("made");
        run.keep_nothing(dir).expect("no node has run yet");
        std::fs::write(run.node_memory(0).expect("kept"), "").expect("written");
        let error = run.keep_nothing(dir).expect_err("it is there").to_string();
        assert!(error.contains("--memory-file"), "{error}");
    }

    #[test]
    fn nobody_is_told_to_remove_what_a_running_cluster_stores() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = Some(parent.path());
        let mut running = RunDir::create(dir).expect("made");
        running.keep_memory(dir).expect("made");
        std::fs::write(running.node_memory(0).expect("kept"), "").expect("written");
        let mut next = RunDir::create(dir).expect("made");
        for error in [next.keep_nothing(dir), next.keep_memory(dir)].map(|kept| kept.expect_err("it runs").to_string())
        {
            assert!(error.contains(" runs in ") && !error.contains("remove"), "{error}");
        }
        drop(running);
        next.keep_memory(dir).expect("it is there for the next one");
    }

    #[test]
    fn a_path_too_long_for_sockets_is_refused() {
        let parent = tempfile::tempdir().expect("a directory");
        let deep = parent.path().join("d".repeat(SOCKET_PATH_BYTES_MAX));
        let error = RunDir::create(Some(&deep)).err().expect("too long");
        assert!(error.to_string().contains("too long"), "{error}");
        assert_eq!(std::fs::read_dir(&deep).expect("made").count(), 0, "nothing is left in it");
    }
}
