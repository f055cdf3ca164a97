//! What a gateway has mapped of its nodes' memory, and when it lets go of it.

use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use shorttail_store::{NearReader, NearView};
use shorttail_wire::node::NearMemory;

use super::{NearFile, open_file, opened};
use crate::locks::lock;

/// For so long a view rests before it is let go of: one of a gateway with little to do is soon.
const RESTS_FOR: Duration = Duration::from_secs(1);

/// How often one is let go of that never rests. Finding a page again costs about a microsecond, with its neighbours;
/// letting go, some milliseconds for each GiB of the thread that passes on what the coordinator says: so it is one at a
/// time.
const BUSY_FOR: Duration = Duration::from_secs(60);

/// The views of one core.
#[derive(Debug, Default)]
pub struct Views(Mutex<Vec<Looked>>);

/// A view, and how often it had been read when somebody last checked, and when it was let go of.
#[derive(Debug)]
struct Looked {
    view: Weak<NearView>,
    checked: u64,
    let_go: u64,
}

impl Views {
    /// As [`open`](super::open), for a gateway: mapped if that is safe.
    ///
    /// # Errors
    /// As of [`open`](super::open).
    pub fn open(&self, near: &NearMemory) -> io::Result<Box<dyn NearReader>> {
        let file = Arc::new(open_file(near, OFlags::RDONLY)?);
        let Ok(view) = NearView::open(&file) else { return Ok(opened(NearFile(Arc::clone(&file)), file)) };
        let view = Arc::new(view);
        let mut views = lock(&self.0);
        views.retain(|looked| looked.view.strong_count() > 0);
        views.push(Looked { view: Arc::downgrade(&view), checked: 0, let_go: 0 });
        Ok(opened(Shared(view), file))
    }

    /// Which are to be let go of: those of which nothing was read since the check before, or, if `also_busy`, all; none
    /// that was not read since it was let go of.
    fn check(&self, also_busy: bool) -> Vec<Weak<NearView>> {
        let mut views = Vec::new();
        for looked in lock(&self.0).iter_mut() {
            let Some(view) = looked.view.upgrade() else { continue };
            let read_count = view.read_count();
            if looked.let_go != read_count && (also_busy || looked.checked == read_count) {
                looked.let_go = read_count;
                views.push(Weak::clone(&looked.view));
            }
            looked.checked = read_count;
        }
        views
    }
}

/// When views are let go of.
#[derive(Debug)]
pub struct LettingGo {
    checked: Instant,
    also_busy: Instant,
    /// Those that are to be let go of, one each time that somebody comes by.
    due: Vec<Weak<NearView>>,
}

impl LettingGo {
    /// How long until there is something to check, at the most.
    pub const EVERY: Duration = RESTS_FOR;

    pub fn begin() -> Self {
        let now = Instant::now();
        LettingGo { checked: now, also_busy: now, due: Vec::new() }
    }

    /// To be called now and then.
    pub fn check<'a>(&mut self, views: impl Iterator<Item = &'a Views>) {
        if let Some(due) = self.due.pop() {
            return due.upgrade().into_iter().for_each(|view| view.let_go());
        }
        let now = Instant::now();
        if now.duration_since(self.checked) < RESTS_FOR {
            return;
        }
        let also_busy = now.duration_since(self.also_busy) >= BUSY_FOR;
        if also_busy {
            self.also_busy = now;
        }
        self.due = views.flat_map(|views| views.check(also_busy)).collect();
        self.checked = now;
    }
}

/// A view that somebody else may let go of.
#[derive(Debug)]
struct Shared(Arc<NearView>);

impl NearReader for Shared {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read(position, into)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_store::RingReader;

    use super::super::place_of;
    use super::*;

    #[test]
    fn a_view_is_let_go_of_once_it_rests_or_all_are() {
        // A file that is as those of nodes are: nobody can make it shorter.
        let memory = RingReader::new().expect("memory");
        let near = place_of(memory.file()).expect("it is a file");
        let views = Views::default();
        let [first, second] = [(); 2].map(|()| views.open(&near).expect("it opens"));
        let read = |view: &dyn NearReader| assert_eq!(view.read(0, &mut [0; 8]), 8);
        assert_eq!(views.check(true).len(), 0, "nothing was read");
        read(&*first);
        read(&*second);
        assert_eq!(views.check(false).len(), 0, "both were read since");
        read(&*second);
        assert_eq!(views.check(false).len(), 1);
        assert_eq!(views.check(false).len(), 1, "now the other rests");
        assert_eq!(views.check(true).len(), 0, "nothing was read since");
        read(&*first);
        assert_eq!(views.check(true).len(), 1);
        drop((first, second));
    }
}
