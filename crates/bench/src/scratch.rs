//! A directory for what servers write, which is removed at the end.

use std::path::{Path, PathBuf};

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
        let (path, removal) = Undo::making(|| {
            let made = tempfile::Builder::new().prefix(&format!("shorttail-bench-{name}-")).tempdir_in(parent);
            let made = made.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
            // Servers that write there are younger, and have ended.
            Ok((made.path().to_owned(), move || drop(made)))
        })?;
        Ok(Scratch { path, _removal: removal })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
