//! Tells when a key of etcd may have changed. A thread of its own waits for etcd to say so; it ends with its owner.
//!
//! ```text
//!            begun: told        changed: told
//!   nothing -------------> hears -----------.
//!    heard <----------------|  ^------------'
//!            forgotten      |
//!                           | broken, silent: after a wait, from the revision after the last that was heard of,
//!                           '-------------->  at another member
//! ```
//!
//! What happened while nobody listened is told by etcd afterwards, from that revision on. If etcd has forgotten it
//! (compaction), or this is the beginning, the owner is told that it may have missed something.
//!
//! Must not know: what the key is for.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::Changed;
use super::client::{Client, Ended, Interrupter};
use super::messages::{Watched, WatchedResult};
use crate::control::backoff::Backoff;

/// Until one that says nothing is asked anew: a member that hangs, or a connection that nobody hears the end of, would
/// be silent for ever. Costs a question now and then, as nearly always nothing happens.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A watch that went on for so long was well: the next one may begin at once. Twice the longest wait of the back-off.
const WELL_AFTER: Duration = Duration::from_secs(1);
/// Certificates are checked on it.
const STACK_BYTES: usize = 512 << 10;

/// The owner's end. Dropping it ends the thread.
pub struct Watch {
    interrupter: Option<Interrupter>,
    /// Its end interrupts a wait.
    lives: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches a key, given as etcd's JSON has it.
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub fn start(client: Client, key: String, changed: Changed) -> io::Result<Self> {
        let (lives, owner) = channel();
        let interrupter = Some(client.interrupter());
        let watcher = Watcher { client, key, changed, owner, heard: None, is_broken: false };
        let builder = std::thread::Builder::new().name("etcd watch".into()).stack_size(STACK_BYTES);
        let thread = Some(builder.spawn(move || watcher.run())?);
        Ok(Watch { interrupter, lives: Some(lives), thread })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.lives.take());
        if let Some(interrupter) = self.interrupter.take() {
            interrupter.interrupt();
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

struct Watcher {
    client: Client,
    key: String,
    changed: Changed,
    owner: Receiver<()>,
    /// The owner was told of all that happened up to this revision.
    heard: Option<i64>,
    /// That it is was logged.
    is_broken: bool,
}

impl Watcher {
    fn run(mut self) {
        let mut backoff = Backoff::new();
        loop {
            let began = Instant::now();
            let ended = self.listen();
            if self.owner.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
            if let Ended::Broken(problem) = ended
                && !std::mem::replace(&mut self.is_broken, true)
            {
                tracing::info!(problem, "etcd does not tell of changes; it is asked now and then");
            }
            self.client.leave_current();
            if began.elapsed() > WELL_AFTER {
                backoff.reset();
            }
            if self.owner.recv_timeout(backoff.next_wait()) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Listens for as long as etcd tells something.
    fn listen(&mut self) -> Ended {
        let mut create = json!({ "key": self.key });
        if let Some(heard) = self.heard {
            create["start_revision"] = (heard + 1).to_string().into();
        }
        let mut answers = match self.client.listen("/v3/watch", &json!({ "create_request": create }), SILENCE_MAX) {
            Ok(answers) => answers,
            Err(trouble) => return Ended::Broken(trouble.to_string()),
        };
        loop {
            match answers.next::<Watched>() {
                Ok(said) => {
                    if let Err(problem) = self.handle(said.result) {
                        return Ended::Broken(problem);
                    }
                }
                Err(ended) => return ended,
            }
        }
    }

    /// # Errors
    /// When nothing more will be said, or it would be of no use.
    fn handle(&mut self, said: WatchedResult) -> Result<(), String> {
        if said.canceled {
            // Also said of a token that ended.
            self.client.forget_token();
            if said.compact_revision > 0 {
                self.heard = None;
            }
            return Err(format!("the watch was cancelled {}", said.cancel_reason));
        }
        if said.created {
            let begun = said.header.revision;
            match self.heard {
                Some(heard) if heard > begun => {
                    self.heard = None;
                    return Err(format!("revision {begun} is before {heard}, which was heard of"));
                }
                Some(_) => {}
                None => self.tell(begun),
            }
            self.is_broken = false;
        }
        if let Some(revision) = said.changed_at() {
            self.tell(revision);
        }
        Ok(())
    }

    fn tell(&mut self, revision: i64) {
        self.heard = self.heard.max(Some(revision));
        (self.changed)();
    }
}
