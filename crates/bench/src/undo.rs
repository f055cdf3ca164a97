//! What a measurement made outside of itself and must not outlive it: directories, network namespaces, control groups.
//! An [`Undo`] runs when it is dropped, or at the first SIGINT or SIGTERM, the youngest first; the process ends by that
//! signal then. A second one ends it at once.

use std::collections::BTreeMap;
use std::sync::Mutex;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::interrupt::ends_on_signal;

type Deed = Box<dyn FnOnce() + Send>;

/// What is still to be done. Held while a signal has it done: nobody leaves before that.
static DUE: Mutex<Due> = Mutex::new(Due { is_watched: false, made: 0, deeds: BTreeMap::new() });

struct Due {
    is_watched: bool,
    /// Numbers given so far.
    made: u64,
    deeds: BTreeMap<u64, Deed>,
}

#[derive(Debug)]
pub struct Undo(u64);

impl Undo {
    /// # Errors
    /// Signals cannot be listened to; it is done already.
    pub fn of(deed: impl FnOnce() + Send + 'static) -> anyhow::Result<Self> {
        let mut due = DUE.lock().expect("no holder panics");
        if !due.is_watched {
            if let Err(error) = watch() {
                deed();
                return Err(error);
            }
            due.is_watched = true;
        }
        due.made += 1;
        let number = due.made;
        due.deeds.insert(number, Box::new(deed));
        Ok(Undo(number))
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // Done after the lock is let go of: a deed may take its time.
        let deed = DUE.lock().expect("no holder panics").deeds.remove(&self.0);
        if let Some(deed) = deed {
            deed();
        }
    }
}

fn watch() -> anyhow::Result<()> {
    // For the second signal.
    ends_on_signal()?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    std::thread::Builder::new()
        .name("undo".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let mut due = DUE.lock().expect("no holder panics");
                while let Some((_, deed)) = due.deeds.pop_last() {
                    deed();
                }
                // Both end a process by default, and are signals.
                let _ = emulate_default_handler(signal);
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}
