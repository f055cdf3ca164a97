//! The file that a node's memory is in, if it is to outlive the process.
//!
//! ```text
//! new, or wiped:            register as anybody, then the file becomes this node's
//! left by an earlier life:  register as that one: same cluster, number and incarnation; chunks and fences are there again
//! given up meanwhile, or of an earlier start of the machine:   wiped, and as if new
//! of another cluster, of another layout or size, in use:  refused in plain words
//! ```
//!
//! Must not know: what lies in it.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use shorttail_store::{BootId, CoreMemory, MemoryFile, MemoryFileError, MemoryIdentity};
use shorttail_wire::control::NodeSession;

use crate::config::{NodeConfig, NodeMembership, Size};

/// Nobody else reads what is stored, nor locks the file.
const FILE_MODE: u32 = 0o600;

pub struct Memory {
    file: MemoryFile,
    path: PathBuf,
}

impl Memory {
    /// # Errors
    /// Says what is wrong with the file, and what to do.
    pub fn open(path: &Path, config: &NodeConfig) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(path).with_context(|| format!("--memory-file {shown}: cannot be opened"))?;
        let cores = u16::try_from(config.threads).context("threads")?;
        let core_bytes = usize::try_from(config.memory_bytes)? / config.threads;
        let file = MemoryFile::take(file, boot_id()?, cores, core_bytes)
            .map_err(|error| anyhow!("--memory-file {shown} cannot be used: {error}{}", what_to_do(&error)))?;
        let mut memory = Memory { file, path: path.to_owned() };
        memory.check(config)?;
        if let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(FILE_MODE)) {
            tracing::warn!(%error, "others may read {shown}, and keep a later process from it");
        }
        if memory.file.is_stale() {
            tracing::warn!("the machine was started since {shown} was written: it is wiped");
            memory.wipe()?;
        }
        match memory.file.lacking_bytes() {
            Ok(0) => {}
            Ok(lacking_bytes) => tracing::warn!(
                lacking_bytes,
                "the file system of {shown} has less than --memory takes: once it is full, no more chunks are taken"
            ),
            Err(error) => tracing::warn!(%error, "the file system of {shown} does not tell what is free"),
        }
        Ok(memory)
    }

    /// Is the memory that of the node which is wanted?
    fn check(&self, config: &NodeConfig) -> anyhow::Result<()> {
        let Some(found) = self.file.identity() else { return Ok(()) };
        let shown = self.path.display();
        let wanted_id = match &config.membership {
            NodeMembership::Coordinator { wanted_id, .. } => *wanted_id,
            NodeMembership::Static { cluster_id, node_id } if *cluster_id == found.cluster => Some(*node_id),
            NodeMembership::Static { .. } => {
                bail!("--memory-file {shown} is the memory of a node of cluster {:016x}, another one", found.cluster.0)
            }
        };
        match wanted_id {
            Some(wanted) if wanted != found.node => {
                bail!("--memory-file {shown} is the memory of node {}, not of node {}", found.node.0, wanted.0)
            }
            _ => Ok(()),
        }
    }

    pub fn identity(&self) -> Option<MemoryIdentity> {
        self.file.identity()
    }

    /// As whom it is to register.
    pub fn session(&self) -> Option<NodeSession> {
        self.identity().map(|found| NodeSession { cluster_id: found.cluster, node_id: found.node })
    }

    /// # Errors
    /// What the kernel says.
    pub fn begin(&mut self, identity: MemoryIdentity) -> anyhow::Result<()> {
        self.file.begin(identity).with_context(|| format!("--memory-file {}", self.path.display()))
    }

    /// # Errors
    /// What the kernel says.
    pub fn wipe(&mut self) -> anyhow::Result<()> {
        self.file.wipe().with_context(|| format!("--memory-file {}: cannot be wiped", self.path.display()))
    }

    /// # Errors
    /// What the kernel says.
    pub fn void(&mut self) -> anyhow::Result<()> {
        self.file.void().with_context(|| format!("--memory-file {}: cannot be voided", self.path.display()))
    }

    /// # Errors
    /// What the kernel says.
    pub fn core(&self, core: u16) -> anyhow::Result<CoreMemory> {
        self.file.core(core).with_context(|| format!("--memory-file {}: cannot be mapped", self.path.display()))
    }
}

/// Threads and memory that a node had for which a file was made, if that is not what it is to have now. Says nothing of
/// whatever else may be wrong with the file: the node does.
pub fn made_for_other_size(path: &Path, threads: usize, memory_bytes: u64) -> Option<(u16, Size)> {
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    if file.metadata().ok()?.len() == 0 {
        return None;
    }
    let core_bytes = usize::try_from(memory_bytes).ok()?.checked_div(threads)?;
    match MemoryFile::take(file, boot_id().ok()?, u16::try_from(threads).ok()?, core_bytes) {
        Err(MemoryFileError::Size { cores, core_bytes }) => Some((cores, node_bytes(cores, core_bytes))),
        Ok(_) | Err(_) => None,
    }
}

/// A node with so many bytes makes such a file.
fn node_bytes(cores: u16, core_bytes: u64) -> Size {
    Size(core_bytes.saturating_mul(cores.into()))
}

/// Who does so with all nodes at once loses everything.
pub const REPLACE: &str = "one node at a time while the others serve, remove this one file and wait until `shorttail status` \
                       says that no chunk is missing";

/// Files that somebody may still want are never to be removed.
fn what_to_do(error: &MemoryFileError) -> String {
    match *error {
        MemoryFileError::InUse => "; end that process first, or give another path".into(),
        MemoryFileError::Foreign => "; give another path".into(),
        MemoryFileError::Size { cores, core_bytes } => format!(
            "; start the node as it was before (--threads {cores} --memory {}), or, {REPLACE}",
            node_bytes(cores, core_bytes)
        ),
        MemoryFileError::Length { .. } => format!("; {REPLACE}"),
        MemoryFileError::Layout => format!("; use the version that wrote it, or, {REPLACE}"),
        MemoryFileError::Io(_) => String::new(),
    }
}

/// Which start of the machine this is, as the kernel tells: a UUID in text.
fn boot_id() -> anyhow::Result<BootId> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(PATH).with_context(|| format!("cannot read {PATH}"))?;
    parse_boot_id(&text).with_context(|| format!("{PATH} is no UUID: {text}"))
}

fn parse_boot_id(text: &str) -> Option<BootId> {
    let digits: String = text.trim().chars().filter(|&digit| digit != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(BootId(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use shorttail_units::{ClusterId, Incarnation, NodeId};

    use super::*;

    #[test]
    fn a_start_of_the_machine_has_a_number() {
        let id = parse_boot_id("01020304-0506-0708-090a-0b0c0d0e0f10\n").expect("a UUID");
        assert_eq!(id.0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert!(parse_boot_id("01020304").is_none() && parse_boot_id("").is_none());
        assert_eq!(boot_id().expect("told"), boot_id().expect("told"));
    }

    #[test]
    fn nobody_is_told_to_remove_a_file_in_use_or_of_something_else() {
        let size = MemoryFileError::Size { cores: 1, core_bytes: 1 << 20 };
        for (error, may_be_removed) in [
            (MemoryFileError::InUse, false),
            (MemoryFileError::Foreign, false),
            (size, true),
            (MemoryFileError::Layout, true),
            (MemoryFileError::Length { found: 1, wanted: 2 }, true),
        ] {
            let told = what_to_do(&error);
            assert_eq!(told.contains("remove this one file"), may_be_removed, "{error}");
            assert_eq!(told.contains("one node at a time while the others serve"), may_be_removed, "{error}");
        }
    }

    #[test]
    fn the_size_that_a_file_was_made_for_is_told_as_it_is_given() {
        let size = MemoryFileError::Size { cores: 2, core_bytes: 32 << 20 };
        assert!(what_to_do(&size).contains("(--threads 2 --memory 64MiB)"), "{}", what_to_do(&size));
    }

    #[test]
    fn a_file_of_another_size_is_found_before_a_node_takes_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("node-0");
        let other = |memory_bytes| made_for_other_size(&path, 2, memory_bytes);
        assert_eq!(other(32 << 20), None, "there is no file");
        std::fs::write(&path, "").expect("written");
        assert_eq!(other(32 << 20), None, "it was made for nothing yet");
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
        let mut memory = MemoryFile::take(file, boot_id().expect("told"), 2, 16 << 20).expect("new");
        let identity = MemoryIdentity { cluster: ClusterId(1), node: NodeId(0), incarnation: Incarnation(1) };
        memory.begin(identity).expect("written");
        assert_eq!(other(64 << 20), None, "a node has it, and will say so");
        drop(memory);
        assert_eq!(other(32 << 20), None);
        assert_eq!(other(64 << 20), Some((2, Size::mib(32))));
        assert_eq!(made_for_other_size(&path, 1, 32 << 20), Some((2, Size::mib(32))));
    }
}
