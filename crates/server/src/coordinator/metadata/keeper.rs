//! The thread that uses the store: does what the candidate says, and tells the coordinator's loop.
//!
//! Must not know: the coordinator's machine, or who leads when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Waker;
use shorttail_coordinator::Durable;
use shorttail_coordinator::candidate::{Answer, Candidate, News, Next};

use super::{Changed, Metadata, Trouble};
use crate::clock::Clock;

/// With so many news that the loop did not take it stands still: three renewals are a lease.
const UNTAKEN_MAX: usize = 3;
/// Until the next look whether it goes on.
const STILL: Duration = Duration::from_millis(50);
/// When nothing is due.
const NEVER: Duration = Duration::from_secs(3600);
/// Certificates are checked on it; the default of 2 MiB would be most of the coordinator's memory map.
const STACK_BYTES: usize = 512 << 10;

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
    news: Receiver<anyhow::Result<News>>,
    /// Told, and not taken yet.
    untaken: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// # Errors
    /// When the system starts no more threads.
    pub fn start(mut store: Box<dyn Metadata>, clock: Clock, waker: Arc<Waker>) -> anyhow::Result<Self> {
        let (jobs, queue) = channel();
        let (told, news) = channel();
        let looks = Arc::new(AtomicBool::new(false));
        store.watch(look(jobs.clone(), Arc::clone(&looks)))?;
        let untaken = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            store,
            clock,
            jobs: queue,
            looks,
            told,
            untaken: Arc::clone(&untaken),
            waker,
            candidate: Candidate::default(),
        };
        let builder = std::thread::Builder::new().name("metadata".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || worker.run())?;
        Ok(Keeper { jobs, news, untaken, thread: Some(thread) })
    }

    /// An error: the store can never be used again.
    pub fn poll_news(&self) -> Option<anyhow::Result<News>> {
        let news = self.news.try_recv().ok()?;
        self.untaken.fetch_sub(1, Ordering::AcqRel);
        Some(news)
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

struct Worker {
    store: Box<dyn Metadata>,
    clock: Clock,
    jobs: Receiver<Job>,
    /// A request to look is among the jobs.
    looks: Arc<AtomicBool>,
    told: Sender<anyhow::Result<News>>,
    untaken: Arc<AtomicUsize>,
    waker: Arc<Waker>,
    candidate: Candidate,
}

impl Worker {
    fn run(mut self) {
        loop {
            let wait = match self.turn() {
                Ok(wait) => wait,
                Err(error) => {
                    // It may just have won: nobody else would lead before its lease ends.
                    self.store.resign();
                    return self.tell(Err(error));
                }
            };
            match self.jobs.recv_timeout(wait) {
                Ok(Job::Save { reign, durable }) => self.candidate.save(reign, *durable),
                Ok(Job::Look) => {
                    // Before the store is asked: what changes from here on is reason for another look.
                    self.looks.store(false, Ordering::Release);
                    self.candidate.look();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return self.store.resign(),
            }
        }
    }

    /// Does what is due; how long nothing else is. For a loop that stands still nothing is done: its lease is to end,
    /// so that another one leads.
    fn turn(&mut self) -> anyhow::Result<Duration> {
        if self.untaken.load(Ordering::Acquire) >= UNTAKEN_MAX {
            return Ok(STILL);
        }
        let now_us = self.clock.now().mono_us;
        let done = match self.candidate.next(now_us) {
            Next::Rest(None) => return Ok(NEVER),
            Next::Rest(Some(until_us)) => return Ok(Duration::from_micros(until_us.saturating_sub(now_us))),
            Next::Campaign => self.store.campaign().map(Answer::Campaigned),
            Next::Renew => self.store.renew().map(Answer::Renewed),
            Next::Save(durable) => self.store.save(&durable).map(|()| Answer::Saved),
            Next::Resign => {
                self.store.resign();
                Ok(Answer::Resigned)
            }
        };
        let answer = match done {
            Ok(answer) => answer,
            Err(Trouble::Lapsed) => Answer::Lapsed,
            Err(Trouble::Away(why)) => Answer::Away(why),
            Err(Trouble::Gone(why)) => Answer::Gone(why),
            Err(Trouble::Fatal(error)) => return Err(error),
        };
        let news = self.candidate.handle(self.clock.now().mono_us, answer);
        news.into_iter().for_each(|news| self.tell(Ok(news)));
        Ok(Duration::ZERO)
    }

    fn tell(&self, news: anyhow::Result<News>) {
        self.untaken.fetch_add(1, Ordering::AcqRel);
        // Whoever does not listen any more is ending, and asks nothing.
        if self.told.send(news).is_ok() {
            let _ = self.waker.wake();
        }
    }
}
