//! Where the coordinator keeps what must survive: one small JSON file, replaced atomically.
//!
//! The file is written beside, synced, renamed over the old one, and the directory is synced: after a crash at any
//! point there is the old state or the new one. A lock on the directory keeps two coordinators from sharing it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use shorttail_coordinator::Durable;

const FILE_NAME: &str = "coordinator.json";
const LOCK_NAME: &str = "coordinator.lock";
/// Bytes of the file: some 200 for each of 4096 nodes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The coordinator's directory; without one, nothing survives.
pub struct Disk {
    dir: Option<Held>,
}

struct Held {
    path: PathBuf,
    /// Its lock is released when the process ends, however it ends.
    _lock: File,
}

impl Disk {
    /// # Errors
    /// When the directory cannot be made or another coordinator holds it.
    pub fn open(dir: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = dir else { return Ok(Disk { dir: None }) };
        std::fs::create_dir_all(path).with_context(|| format!("cannot make the directory {}", path.display()))?;
        let lock_path = path.join(LOCK_NAME);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.with_context(|| format!("cannot open {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Disk { dir: Some(Held { path: path.to_owned(), _lock: lock }) }),
            Err(std::fs::TryLockError::WouldBlock) => bail!("another coordinator uses {}", path.display()),
            Err(std::fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", lock_path.display()))
            }
        }
    }

    /// The state that was saved last, or that of a new cluster, saved now.
    ///
    /// # Errors
    /// When the file is there and unreadable: starting over would hand out old epochs again.
    pub fn load_or_create(&self) -> anyhow::Result<Durable> {
        if let Some(durable) = self.load()? {
            return Ok(durable);
        }
        let durable = Durable::new(random_u64().context("cannot draw the identity of a new cluster")?);
        self.save(&durable)?;
        Ok(durable)
    }

    fn load(&self) -> anyhow::Result<Option<Durable>> {
        let Some(held) = &self.dir else { return Ok(None) };
        let path = held.path.join(FILE_NAME);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot open {}", path.display())),
        };
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
        read.with_context(|| format!("cannot read {}", path.display()))?;
        let durable: Durable = serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        if durable.format != Durable::FORMAT {
            bail!("{} has format {}, this program knows {}", path.display(), durable.format, Durable::FORMAT);
        }
        Ok(Some(durable))
    }

    /// # Errors
    /// When the state is not surely on disk.
    pub fn save(&self, durable: &Durable) -> anyhow::Result<()> {
        let Some(held) = &self.dir else { return Ok(()) };
        let text = serde_json::to_vec_pretty(durable).context("cannot serialise the state")?;
        replace(&held.path, &text).with_context(|| format!("cannot save the state in {}", held.path.display()))
    }
}

fn replace(dir: &Path, text: &[u8]) -> io::Result<()> {
    let beside = dir.join("coordinator.json.new");
    let mut file = File::create(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&beside, dir.join(FILE_NAME))?;
    File::open(dir)?.sync_all()
}

/// From the system's generator.
fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
