//! The thread that uses the store: tries to lead, renews the lease, saves, and tells the coordinator's loop.
//!
//! ```text
//!              won, other state: Leads(state)
//!   follows ---------------------------------> leads --- renewed: Renewed, saved: Saved
//!      ^  |                                    |   ^
//!      |  `-- lost: Follows                    |   | won, nothing changed meanwhile: Renewed
//!      |            lost: Follows              v   |
//!      `--------------------------------- lapsed --'--- won, other state: Leads(state)
//! ```
//!
//! One that follows tries again when the store says that something changed, and now and then. One that leads is told
//! too when it does not lead any more, before it would renew its lease: it asks.
//!
//! While the store is away nothing is told but that; what is to be saved waits. Each `Leads` begins a reign with a
//! number: what the loop wanted saved in an earlier one is dropped.
//!
//! Must not know: the coordinator's machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::Waker;
use shorttail_coordinator::Durable;

use super::{Campaign, Changed, Lease, Metadata, State, Trouble};

/// Between two attempts at a store that is away.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Without a lease nothing is due.
const NEVER: Duration = Duration::from_secs(3600);
/// Certificates are checked on it; the default of 2 MiB would be most of the coordinator's memory map.
const STACK_BYTES: usize = 512 << 10;

/// What the loop is told.
#[derive(Debug)]
pub enum News {
    /// This coordinator leads, from this state on.
    Leads {
        reign: u64,
        state: State,
        until: Option<Instant>,
    },
    /// It goes on to lead.
    Renewed {
        until: Option<Instant>,
    },
    Saved {
        reign: u64,
    },
    /// It does not lead; who does, as far as is known.
    Follows {
        leader: Option<String>,
    },
    Away(String),
    /// The store can never be used again.
    Fatal(anyhow::Error),
}

enum Job {
    Save {
        reign: u64,
        durable: Box<Durable>,
    },
    /// Somebody else may have begun or ceased to lead.
    Look,
    Stop,
}

/// The loop's end of the thread. Dropping it resigns.
pub struct Keeper {
    jobs: Sender<Job>,
    news: Receiver<News>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// # Errors
    /// When the system starts no more threads.
    pub fn start(mut store: Box<dyn Metadata>, waker: Arc<Waker>) -> anyhow::Result<Self> {
        let (jobs, queue) = channel();
        let (told, news) = channel();
        let looks = Arc::new(AtomicBool::new(false));
        store.watch(look(jobs.clone(), Arc::clone(&looks)))?;
        let (reign, standing, pending) = (0, Standing::Unknown, None);
        let worker = Worker { store, jobs: queue, looks, told, waker, reign, standing, pending };
        let builder = std::thread::Builder::new().name("metadata".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || worker.run())?;
        Ok(Keeper { jobs, news, thread: Some(thread) })
    }

    pub fn poll_news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// Saves, if the reign still lasts; at most one state at a time is under way.
    pub fn save(&self, reign: u64, durable: Durable) {
        // If the thread ended it told why.
        let _ = self.jobs.send(Job::Save { reign, durable: Box::new(durable) });
    }
}

/// Asks the thread to look; one request is enough, however often there is reason.
fn look(jobs: Sender<Job>, looks: Arc<AtomicBool>) -> Changed {
    Box::new(move || {
        if !looks.swap(true, Ordering::AcqRel) {
            // A thread that ended looks at nothing.
            let _ = jobs.send(Job::Look);
        }
    })
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

#[derive(Clone, PartialEq)]
enum Standing {
    Unknown,
    Follows {
        leader: Option<String>,
    },
    Leads(Lease),
    /// Led until lately: whether it still may is to be asked.
    Lapsed,
}

struct Worker {
    store: Box<dyn Metadata>,
    jobs: Receiver<Job>,
    /// A request to look is among the jobs.
    looks: Arc<AtomicBool>,
    told: Sender<News>,
    waker: Arc<Waker>,
    reign: u64,
    standing: Standing,
    pending: Option<Box<Durable>>,
}

impl Worker {
    fn run(mut self) {
        loop {
            let wait = match self.turn() {
                Ok(wait) => wait,
                Err(Trouble::Lapsed) => {
                    self.standing = Standing::Lapsed;
                    Duration::ZERO
                }
                Err(Trouble::Away(why)) => {
                    self.tell(News::Away(why));
                    AGAIN_AFTER
                }
                Err(Trouble::Fatal(error)) => return self.tell(News::Fatal(error)),
            };
            match self.jobs.recv_timeout(wait) {
                Ok(Job::Save { reign, durable }) if reign == self.reign => self.pending = Some(durable),
                Ok(Job::Look) => self.look(),
                Ok(Job::Save { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return self.store.resign(),
            }
        }
    }

    fn look(&mut self) {
        // Before the store is asked: what changes from here on is reason for another look.
        self.looks.store(false, Ordering::Release);
        if let Standing::Leads(_) = self.standing {
            self.standing = Standing::Lapsed;
        }
    }

    /// Does what is due; how long nothing else is.
    fn turn(&mut self) -> Result<Duration, Trouble> {
        let Standing::Leads(mut lease) = self.standing else { return self.campaign() };
        if lease.is_some_and(|term| term.renew_at <= Instant::now()) {
            lease = self.store.renew()?;
            self.standing = Standing::Leads(lease);
            self.tell(News::Renewed { until: lease.map(|term| term.until) });
        }
        if let Some(durable) = &self.pending {
            self.store.save(durable)?;
            self.pending = None;
            self.tell(News::Saved { reign: self.reign });
        }
        Ok(lease.map_or(NEVER, |term| term.renew_at.saturating_duration_since(Instant::now())))
    }

    fn campaign(&mut self) -> Result<Duration, Trouble> {
        match self.store.campaign()? {
            Campaign::Won { lease, news } => {
                let until = lease.map(|term| term.until);
                self.standing = Standing::Leads(lease);
                match news {
                    Some(state) => {
                        self.reign += 1;
                        self.pending = None;
                        self.tell(News::Leads { reign: self.reign, state, until });
                    }
                    None => self.tell(News::Renewed { until }),
                }
                Ok(Duration::ZERO)
            }
            Campaign::Lost { leader, again_after } => {
                self.pending = None;
                let follows = Standing::Follows { leader: leader.clone() };
                if self.standing != follows {
                    self.standing = follows;
                    self.reign += 1;
                }
                self.tell(News::Follows { leader });
                Ok(again_after)
            }
        }
    }

    fn tell(&self, news: News) {
        // Whoever does not listen any more is ending, and asks nothing.
        if self.told.send(news).is_ok() {
            let _ = self.waker.wake();
        }
    }
}
