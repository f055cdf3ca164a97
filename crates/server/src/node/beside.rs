//! Watches over what a node's cores do in the background: by a thread each, or resting while there is nothing to do.
//!
//! ```text
//! resting: its events wake this thread --something came up--> a thread of its own
//!    |'----------------- nothing to do, or another thread because it starves --------'
//!    '--there is no thread--> waiting: tried again at each look
//! ```
//! All nodes of a machine may be without a thread more at the same time, where the system bounds their number. So none
//! ends for want of one: the node serves, and of what is done in the background a little is done at each look, so that
//! orders are carried out or fail, and connections end that others gave up.
//!
//! Must not know: what there is to do.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::STACK_BYTES;
use super::background::{BackgroundLoop, Returned, Watcher};
use crate::locks::lock;
use crate::net;

struct Beside {
    watcher: Watcher,
    /// Of what has no thread.
    idle: Option<Idle>,
}

enum Idle {
    Resting(BackgroundLoop),
    /// There was no thread for it; whether that is to make up for one that starved.
    Waiting(BackgroundLoop, bool),
}

/// What is done at a look for want of a thread: little, as the thread that looks has other things to do.
const TURNS_IN_A_LOOK: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

pub struct AllBeside {
    all: Vec<Beside>,
    /// Of those that rest.
    poll: Poll,
    events: Events,
    spawn: Box<dyn FnMut(Job) -> io::Result<()>>,
}

impl AllBeside {
    /// # Errors
    /// When the system has no polling.
    pub fn new() -> io::Result<Self> {
        Self::with_threads_from(|job| {
            let builder = std::thread::Builder::new().name("background".to_owned()).stack_size(STACK_BYTES);
            builder.spawn(job).map(drop)
        })
    }

    fn with_threads_from(spawn: impl FnMut(Job) -> io::Result<()> + 'static) -> io::Result<Self> {
        let events = Events::with_capacity(16);
        Ok(AllBeside { all: Vec::new(), poll: Poll::new()?, events, spawn: Box::new(spawn) })
    }

    pub fn add(&mut self, background: BackgroundLoop, watcher: Watcher) {
        self.all.push(Beside { watcher, idle: None });
        self.rest(self.all.len() - 1, background);
    }

    /// Waits for so long, or until something comes up; starts threads for that, and another one where one starves.
    ///
    /// # Errors
    /// When the system's polling fails.
    pub fn watch(&mut self, longest: Duration) -> io::Result<()> {
        net::poll(&mut self.poll, &mut self.events, Some(longest))?;
        for place in 0..self.all.len() {
            match self.all[place].watcher.look() {
                Some(Returned { work, starves: true }) => {
                    tracing::info!("the processors have no time for repair: it goes on at their cost");
                    self.start(place, work, true);
                }
                Some(Returned { work, starves: false }) => self.rest(place, work),
                None => self.attend(place)?,
            }
        }
        Ok(())
    }

    fn attend(&mut self, place: usize) -> io::Result<()> {
        match self.all[place].idle.take() {
            Some(Idle::Resting(mut background)) => {
                if background.turn(Duration::ZERO)? {
                    // It is not there if it could not be watched.
                    let _ = self.poll.registry().deregister(&mut SourceFd(&background.as_raw_fd()));
                    self.start(place, background, false);
                } else {
                    self.all[place].idle = Some(Idle::Resting(background));
                }
            }
            Some(Idle::Waiting(mut background, makes_up)) => {
                let mut turns = 0..TURNS_IN_A_LOOK;
                while turns.next().is_some() && background.turn(Duration::ZERO)? {}
                // That there is still none was told.
                drop(self.try_start(place, background, makes_up));
            }
            None => {}
        }
        Ok(())
    }

    fn rest(&mut self, place: usize, background: BackgroundLoop) {
        let events = &mut SourceFd(&background.as_raw_fd());
        if let Err(error) = self.poll.registry().register(events, Token(place), Interest::READABLE) {
            tracing::debug!(%error, "what a core does in the background is only looked at now and then");
        }
        self.all[place].idle = Some(Idle::Resting(background));
    }

    fn start(&mut self, place: usize, background: BackgroundLoop, makes_up: bool) {
        if let Err(error) = self.try_start(place, background, makes_up) {
            tracing::warn!(%error, "no thread is to be had for what a core does in the background: it waits for one");
        }
    }

    /// Starts what a core does in the background, or goes on with it; if there is no thread it waits.
    fn try_start(&mut self, place: usize, background: BackgroundLoop, makes_up: bool) -> io::Result<()> {
        // What a thread is to begin with goes with it if there is none.
        let kept = Arc::new(Mutex::new(Some(background)));
        let take = |kept: &Mutex<Option<BackgroundLoop>>| lock(kept).take();
        let begun = Arc::clone(&kept);
        let run = move || {
            let Some(background) = take(&begun) else { return };
            if let Err(error) = background.run(makes_up) {
                tracing::error!(%error, "what a core does in the background ended; the node ends with it");
                std::process::exit(1);
            }
        };
        (self.spawn)(Box::new(run)).inspect_err(|_| {
            self.all[place].idle = take(&kept).map(|background| Idle::Waiting(background, makes_up));
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread::JoinHandle;

    use mio::net::UnixStream;
    use shorttail_node::{Node, NodeConfig, Pace};
    use shorttail_units::{ClusterId, Incarnation, NodeId};

    use super::super::background::{INBOX, ToLoop};
    use super::*;
    use crate::net::{Feed, Feeder, Stream};

    /// What a core does in the background, and how it is told something.
    fn background() -> (BackgroundLoop, Watcher, Feeder<ToLoop>) {
        let config = NodeConfig {
            node: NodeId(1),
            cluster: ClusterId(9),
            incarnation: Incarnation(1),
            core: 0,
            core_count: 1,
            memory_bytes: 1 << 20,
            pace: Pace { repair_bytes_per_s: 1, scrub_bytes_per_s: 0 },
        };
        let mut node = Node::new(config).expect("memory");
        let [poll, core_poll] = [(); 2].map(|()| Poll::new().expect("polling"));
        let (inbox, feeder) = Feed::new(&poll, INBOX).expect("an event");
        let (_, core) = Feed::new(&core_poll, INBOX).expect("an event");
        let (background, watcher) = BackgroundLoop::new(poll, inbox, core, node.background(None, None));
        (background, watcher, feeder)
    }

    #[test]
    fn a_node_without_a_thread_more_goes_on_and_its_background_waits() {
        let started: Arc<Mutex<Option<JoinHandle<()>>>> = Arc::default();
        let (handle, mut tries) = (Arc::clone(&started), 0);
        let spawn = move |job: Job| {
            tries += 1;
            if tries <= 2 {
                return Err(io::Error::from_raw_os_error(libc::EAGAIN));
            }
            *handle.lock().expect("no panic") = Some(std::thread::Builder::new().spawn(job)?);
            Ok(())
        };
        let mut all = AllBeside::with_threads_from(spawn).expect("polling");
        let (background, watcher, mut feeder) = background();
        all.add(background, watcher);
        all.watch(Duration::ZERO).expect("it goes on");
        assert!(matches!(all.all[0].idle, Some(Idle::Resting(_))), "there is nothing to do");
        let (stream, mut other_end) = UnixStream::pair().expect("sockets");
        other_end.write_all(&[0xff; 64]).expect("it takes what is no message");
        feeder.send(ToLoop::Connection { stream: Stream::Unix(stream), bytes: Vec::new() });
        for look in 1..=2 {
            all.watch(Duration::ZERO).expect("it goes on");
            assert!(matches!(all.all[0].idle, Some(Idle::Waiting(_, false))), "look {look}");
        }
        assert_eq!(other_end.read(&mut [0; 64]).ok(), Some(0), "a connection ends without a thread, too");
        all.watch(Duration::ZERO).expect("it goes on");
        assert!(all.all[0].idle.is_none(), "a thread has it");
        let thread = started.lock().expect("no panic").take().expect("started");
        thread.join().expect("it ends when there is nothing to do");
        all.watch(Duration::ZERO).expect("it goes on");
        assert!(matches!(all.all[0].idle, Some(Idle::Resting(_))), "what it worked on is there again");
    }
}
