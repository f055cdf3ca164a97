//! A directory on this machine: one small JSON file, replaced atomically.
//!
//! The file is written beside, synced, renamed over the old one, and the directory is synced: after a crash at any
//! point there is the old state or the new one. A lock on the directory keeps two coordinators from sharing it.
//!
//! ```text
//! {"format":3,...}       the state, as etcd has it
//! crc32c 0f1e2d3c        of that line
//! ```
//! A disk may give back other bytes than it was given, and another number is JSON as well: an epoch that is lower than
//! the last one would be handed out twice. A file without the second line counts: earlier versions wrote none, and who
//! changes a state by hand removes it.
//!
//! What is found is synced before it counts: it may be what a process renamed just before it died, and whoever acts on
//! it is not to be followed by one that finds the state before it.
//!
//! What cannot be written (the disk is full, as some file systems say only when they sync) is written later, all of it
//! anew: the old file is as it was. Only a sync of the directory that failed is the end: which of both files a crash
//! would leave is unknown, and another sync would say nothing of it.
//!
//! The lock is on a file, so it says nothing of a directory that was removed and made again: there another coordinator
//! may have its own. Who does not find its lock there any more ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use shorttail_coordinator::Durable;
use shorttail_wire::crc32c;

use super::{Campaign, Changed, Lease, Metadata, State, Trouble, damaged, decode};

const FILE_NAME: &str = "coordinator.json";
const NEW_NAME: &str = "coordinator.json.new";
const LOCK_NAME: &str = "coordinator.lock";
/// Bytes of the file: some 200 for each of 4096 nodes, some 30 for each node of some hundred sets of voters, and room.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// What stands between the state and its checksum.
const SUM_MARK: &str = "\ncrc32c ";

/// Somebody else holds the directory.
#[derive(Debug, thiserror::Error)]
#[error("another coordinator uses {}", .0.display())]
struct Held(PathBuf);

/// A directory that this process holds.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Released when the process ends, however it ends.
    lock: File,
}

impl Directory {
    /// As [`Directory::open`], but a process that holds it and is killed has so long to end. Between two attempts this
    /// one `rests`.
    pub fn open_within(path: &Path, within: Duration, mut rests: impl FnMut()) -> anyhow::Result<Self> {
        let until = Instant::now() + within;
        loop {
            match Self::open(path) {
                Err(error) if error.is::<Held>() && Instant::now() < until => rests(),
                opened => return opened,
            }
        }
    }

    /// # Errors
    /// When the directory cannot be made or another coordinator holds it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        make(path).with_context(|| format!("cannot make the directory {}", path.display()))?;
        let lock_path = path.join(LOCK_NAME);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.with_context(|| format!("cannot open {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Directory { path: path.to_owned(), lock }),
            Err(std::fs::TryLockError::WouldBlock) => Err(Held(path.to_owned()).into()),
            Err(std::fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", lock_path.display()))
            }
        }
    }

    fn load(&self) -> anyhow::Result<State> {
        let path = self.path.join(FILE_NAME);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::NewCluster),
            Err(error) => return Err(error).with_context(|| format!("cannot open {}", path.display())),
        };
        let mut bytes = Vec::new();
        let read = (&file).take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        read.with_context(|| format!("cannot read {}", path.display()))?;
        let place = path.display().to_string();
        let text = verified(&bytes).with_context(|| damaged(&place))?;
        let state = decode(text, &place)?;
        let synced = file.sync_all().and_then(|()| sync_directory(&self.path));
        synced.with_context(|| format!("cannot sync {place}: another crash might bring back an older state"))?;
        Ok(State::Known(state))
    }

    /// Is the lock that is held the one that another process would ask for?
    fn find_lock(&self) -> io::Result<anyhow::Result<()>> {
        let held = self.lock.metadata()?;
        let is_held = |found: std::fs::Metadata| (found.dev(), found.ino()) == (held.dev(), held.ino());
        Ok(match std::fs::metadata(self.path.join(LOCK_NAME)).map(is_held) {
            Ok(true) => Ok(()),
            Err(error) if !is_absent(&error) => return Err(error),
            _ => Err(anyhow!(
                "{} was removed or replaced while this coordinator used it: another one may use what is there now",
                self.path.display()
            )),
        })
    }

    fn encode(durable: &Durable) -> anyhow::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(durable).context("cannot serialise the state")?;
        let sum = sum_of(&text);
        text.extend_from_slice(SUM_MARK.as_bytes());
        text.extend_from_slice(sum.as_bytes());
        if text.len() as u64 > FILE_BYTES_MAX {
            bail!("a state of {} bytes could not be read again: the most is {FILE_BYTES_MAX}", text.len());
        }
        Ok(text)
    }

    fn replace(&self, text: &[u8]) -> Result<(), Trouble> {
        let cannot = |error| format!("cannot save the state in {}: {error}", self.path.display());
        let later = |error| Trouble::Away(cannot(error));
        let never = |error| Trouble::Fatal(anyhow!(cannot(error)));
        self.find_lock().map_err(later)?.map_err(Trouble::Fatal)?;
        let new = self.path.join(NEW_NAME);
        let mut file = File::create(&new).map_err(later)?;
        file.write_all(text).map_err(later)?;
        file.sync_all().map_err(later)?;
        std::fs::rename(&new, self.path.join(FILE_NAME)).map_err(later)?;
        File::open(&self.path).map_err(later)?.sync_all().map_err(never)
    }
}

/// Also if what was a directory is none any more.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// With all above it, if it is not there. What was made is synced where that is allowed; the one right above always is:
/// it may have been made by a process that died before it synced.
fn make(path: &Path) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let made = path.ancestors().take_while(is_missing).count().max(1);
    std::fs::create_dir_all(path)?;
    for made in path.ancestors().take(made) {
        let above = made.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match sync_directory(above) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What was made or renamed in it outlives a crash of the machine.
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// As it stands in the file, to its end.
fn sum_of(state: &[u8]) -> String {
    format!("{:08x}\n", crc32c(state))
}

/// The state in these bytes, as text.
fn verified(bytes: &[u8]) -> anyhow::Result<&str> {
    let text = std::str::from_utf8(bytes)?;
    let Some((state, sum)) = text.split_once(SUM_MARK) else { return Ok(text) };
    if sum != sum_of(state.as_bytes()) {
        bail!("its checksum does not hold (who changed it on purpose removes the last line)");
    }
    Ok(state)
}

impl Metadata for Directory {
    /// Nobody else can lead.
    fn watch(&mut self, _: Changed) -> anyhow::Result<()> {
        Ok(())
    }

    /// A file that is there and unreadable is fatal: starting over would hand out old epochs again.
    fn campaign(&mut self) -> Result<Campaign, Trouble> {
        Ok(Campaign::Won { lease: None, news: Some(self.load()?) })
    }

    fn renew(&mut self) -> Result<Lease, Trouble> {
        Ok(None)
    }

    fn save(&mut self, durable: &Durable) -> Result<(), Trouble> {
        self.replace(&Self::encode(durable)?)
    }

    fn resign(&mut self) {}
}
