//! Where the coordinator keeps what must survive, and who may change it: one trait and two engines. A third one keeps
//! nothing: a coordinator that is told no place has it.
//!
//! | engine | survives | coordinators | leads |
//! |---|---|---|---|
//! | [`volatile`] | nothing | one | always |
//! | [`file`] | a crash of the process or the machine | one, by a lock on the directory | while the process lives |
//! | [`etcd`] | what etcd survives | any number, one leads | while it renews a lease |
//!
//! A coordinator leads or stands by. Whoever leads may save; nothing is saved that rests on an older state than
//! the last, however long the process was stopped in between. The engines block, so a thread of its own
//! ([`keeper`]) drives them.
//!
//! Must not know: what the state means, or the coordinator's members.

pub mod etcd;
pub mod file;
pub mod keeper;
#[cfg(test)]
pub mod tests;
pub mod volatile;

use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use shorttail_coordinator::Durable;
pub use shorttail_coordinator::candidate::{Campaign, Lease, State};

use crate::clock::Clock;
use crate::config::MetadataPlace;

/// A coordinator that was killed a moment ago has so long to end, and is looked for so often.
const FREED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Is called, on any thread, when somebody else may have begun or ceased to lead.
pub type Changed = Box<dyn Fn() + Send>;

/// A store of metadata, as one coordinator uses it.
pub trait Metadata: Send {
    /// Begins to tell of changes, until it is dropped. Not every one need be told, and what is told need not be one.
    ///
    /// # Errors
    /// When the system starts no more threads.
    fn watch(&mut self, changed: Changed) -> anyhow::Result<()>;

    /// Tries to lead. Also tried again by a leader whose lease ended.
    ///
    /// # Errors
    /// [`Trouble::Away`] when the store cannot be asked; [`Trouble::Gone`].
    fn campaign(&mut self) -> Result<Campaign, Trouble>;

    /// Prolongs the lease.
    ///
    /// # Errors
    /// [`Trouble::Lapsed`] when it has ended.
    fn renew(&mut self) -> Result<Lease, Trouble>;

    /// Replaces the state; when it returns, the new one survives. After [`Trouble::Away`] it is not known which one
    /// does; saving again is right.
    ///
    /// # Errors
    /// [`Trouble::Lapsed`] when this coordinator does not lead any more: nothing was changed.
    fn save(&mut self, durable: &Durable) -> Result<(), Trouble>;

    /// Lets another one lead at once.
    fn resign(&mut self);
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It cannot be asked, or did not answer: later it may.
    #[error("{0}")]
    Away(String),
    /// It answers, and nobody can lead before people have seen to it: the state that it kept is gone, and to make a new
    /// cluster would turn all members of the old one away; or its key of who leads never ends.
    #[error("{0}")]
    Gone(String),
    #[error("another coordinator leads or led meanwhile")]
    Lapsed,
    /// It never will.
    #[error(transparent)]
    Fatal(#[from] anyhow::Error),
}

/// Opens the store. `name` is what others are told of this coordinator; leases are told by its clock.
///
/// # Errors
/// When this process can never use it: another one holds the directory, a certificate cannot be read.
pub fn open(place: &MetadataPlace, name: &str, clock: Clock) -> anyhow::Result<Box<dyn Metadata>> {
    Ok(match place {
        MetadataPlace::Nowhere => Box::new(volatile::Volatile),
        MetadataPlace::File(dir) => {
            Box::new(file::Directory::open_within(dir, FREED_WITHIN, || std::thread::sleep(LOOK_EVERY))?)
        }
        MetadataPlace::Etcd(config) => Box::new(etcd::Etcd::new(config, name, clock)?),
    })
}

/// The layout of the state that this program reads and writes.
pub const METADATA_FORMAT: u32 = Durable::FORMAT;

/// Of a state in any layout.
#[derive(Deserialize)]
struct Layout {
    format: u32,
}

/// The state from its JSON; `place` says where it lay.
fn decode(text: &str, place: &str) -> anyhow::Result<Durable> {
    let Layout { format } = serde_json::from_str(text).with_context(|| damaged(place))?;
    if format != METADATA_FORMAT {
        bail!("{place} has format {format}, this program knows {METADATA_FORMAT}");
    }
    serde_json::from_str(text).map_err(|error| {
        let told = if error.is_data() { unlike(place) } else { damaged(place) };
        anyhow::Error::new(error).context(told)
    })
}

/// Of a state that is well formed, but has what this program does not know, or lacks what it does.
fn unlike(place: &str) -> String {
    format!("{place} is not as this program writes it: start the version that wrote it, or put it back from a backup")
}

fn damaged(place: &str) -> String {
    format!("{place} is damaged: put it back from a backup, or remove it to begin a new cluster without what is stored")
}
