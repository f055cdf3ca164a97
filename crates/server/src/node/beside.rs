//! Watches over what a node's cores do in the background: by a thread each, or resting while there is nothing to do.
//!
//! ```text
//! resting: its events wake this thread --something came up--> a thread of its own
//!    '------------------ nothing to do, or another thread because it starves --------'
//! ```
//! Must not know: what there is to do.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::Context;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::STACK_BYTES;
use super::background::{Background, Returned, Watcher};

struct Beside {
    watcher: Watcher,
    resting: Option<Background>,
}

pub struct AllBeside {
    all: Vec<Beside>,
    /// Of those that rest.
    poll: Poll,
    events: Events,
}

impl AllBeside {
    pub fn new() -> io::Result<Self> {
        Ok(AllBeside { all: Vec::new(), poll: Poll::new()?, events: Events::with_capacity(16) })
    }

    pub fn add(&mut self, background: Background, watcher: Watcher) -> anyhow::Result<()> {
        self.all.push(Beside { watcher, resting: None });
        self.rest(self.all.len() - 1, background)
    }

    /// Waits for so long, or until something comes up; starts threads for that, and another one where one starves.
    ///
    /// # Errors
    /// When the system has no thread, or its polling fails.
    pub fn watch(&mut self, longest: Duration) -> anyhow::Result<()> {
        match self.poll.poll(&mut self.events, Some(longest)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        for place in 0..self.all.len() {
            match self.all[place].watcher.look() {
                Some(Returned { work, starves: true }) => {
                    tracing::info!("the processors have no time for repair: it goes on at their cost");
                    start(work, true)?;
                }
                Some(Returned { work, starves: false }) => self.rest(place, work)?,
                None => {}
            }
            let Some(mut background) = self.all[place].resting.take() else { continue };
            if background.turn(Duration::ZERO)? {
                self.poll.registry().deregister(&mut SourceFd(&background.as_raw_fd()))?;
                start(background, false)?;
            } else {
                self.all[place].resting = Some(background);
            }
        }
        Ok(())
    }

    fn rest(&mut self, place: usize, background: Background) -> anyhow::Result<()> {
        let events = &mut SourceFd(&background.as_raw_fd());
        self.poll.registry().register(events, Token(place), Interest::READABLE).context("cannot watch a core")?;
        self.all[place].resting = Some(background);
        Ok(())
    }
}

/// Starts what a core does in the background, or goes on with it.
fn start(background: Background, makes_up: bool) -> anyhow::Result<()> {
    let builder = std::thread::Builder::new().name("background".to_owned()).stack_size(STACK_BYTES);
    builder.spawn(move || {
        if let Err(error) = background.run(makes_up) {
            tracing::error!(%error, "what a core does in the background ended; the node ends with it");
            std::process::exit(1);
        }
    })?;
    Ok(())
}
