//! What a measurement made outside of itself and must not outlive it: servers, directories, network namespaces, control
//! groups. An [`Undo`] runs when it is dropped, or at the first SIGINT, SIGTERM or SIGHUP: then all that are there
//! do, the youngest first, and the process ends by that signal. A second one ends it at once.

use std::collections::BTreeMap;
use std::sync::Mutex;

use signal_hook::low_level::emulate_default_handler;

use crate::interrupt::on_signal;

type Deed = Box<dyn FnOnce() + Send>;

/// What is still to be done. Held while anything is made or undone: a signal comes before that or after, and nobody
/// leaves while it has all undone.
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
    /// Has something made, and is to undo it by the deed that comes with it. Neither may make another one.
    ///
    /// # Errors
    /// Signals cannot be listened to: nothing is made. What making it says.
    pub fn making<T, D: FnOnce() + Send + 'static>(
        make: impl FnOnce() -> anyhow::Result<(T, D)>,
    ) -> anyhow::Result<(T, Self)> {
        let mut due = DUE.lock().expect("no holder panics");
        if !due.is_watched {
            on_signal(undo_all)?;
            due.is_watched = true;
        }
        let (made, deed) = make()?;
        due.made += 1;
        let number = due.made;
        due.deeds.insert(number, Box::new(deed));
        Ok((made, Undo(number)))
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let mut due = DUE.lock().expect("no holder panics");
        if let Some(deed) = due.deeds.remove(&self.0) {
            deed();
        }
    }
}

fn undo_all(signal: i32) {
    let mut due = DUE.lock().expect("no holder panics");
    while let Some((_, deed)) = due.deeds.pop_last() {
        deed();
    }
    // It is one that was listened to, and ends a process by default.
    let _ = emulate_default_handler(signal);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn what_was_made_is_undone_once() {
        let undone = Arc::new(AtomicU32::new(0));
        let count = undone.clone();
        let deed = move || _ = count.fetch_add(1, Ordering::Relaxed);
        let (made, undo) = Undo::making(|| Ok((7, deed))).expect("signals are listened to");
        assert_eq!((made, undone.load(Ordering::Relaxed)), (7, 0));
        drop(undo);
        assert_eq!(undone.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_could_not_be_made_is_not_undone() {
        let made = Undo::making(|| Err::<((), fn()), _>(anyhow::anyhow!("no")));
        assert_eq!(made.map(drop).expect_err("it says why").to_string(), "no");
    }
}
