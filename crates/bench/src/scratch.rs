//! A directory for what servers write, which is removed at the end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use crate::undo::Undo;

pub struct Scratch {
    path: PathBuf,
    _removal: Undo,
}

impl Scratch {
    /// # Errors
    /// The system's directory for such files cannot be written, or signals cannot be listened to.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        Self::within(&std::env::temp_dir(), name)
    }

    /// # Errors
    /// As with [`new`](Self::new), for `parent`.
    pub fn within(parent: &Path, name: &str) -> anyhow::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("shorttail-bench-{name}-{}-{number}", std::process::id()));
        let (path, removal) = Undo::making(|| {
            // What is there already is not ours to remove.
            std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
            let removed = path.clone();
            // Servers that write there are younger, and have ended.
            Ok((path, move || drop(std::fs::remove_dir_all(removed))))
        })?;
        Ok(Scratch { path, _removal: removal })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
