//! Messages to a core from other threads: a queue and a way to wake the core's loop.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::{Poll, Token, Waker};

/// The core's end.
#[derive(Debug)]
pub struct Inbox<T> {
    receiver: Receiver<T>,
}

/// The other threads' end.
#[derive(Debug)]
pub struct Outlet<T> {
    sender: Sender<T>,
    waker: Arc<Waker>,
}

impl<T> Clone for Outlet<T> {
    fn clone(&self) -> Self {
        Outlet { sender: self.sender.clone(), waker: Arc::clone(&self.waker) }
    }
}

impl<T> Inbox<T> {
    /// # Errors
    /// When the system gives no event descriptor.
    pub fn new(poll: &Poll, token: Token) -> io::Result<(Self, Outlet<T>)> {
        let (sender, receiver) = channel();
        let waker = Arc::new(Waker::new(poll.registry(), token)?);
        Ok((Inbox { receiver }, Outlet { sender, waker }))
    }

    pub fn take(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

/// Of loops: what each waits with, and how to reach it.
type Inboxes<T> = (Vec<(Poll, Inbox<T>)>, Vec<Outlet<T>>);

/// For so many loops.
///
/// # Errors
/// When the system gives no event descriptors.
pub fn inboxes<T>(count: usize, token: Token) -> io::Result<Inboxes<T>> {
    let (mut polls, mut outlets) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let poll = Poll::new()?;
        let (inbox, outlet) = Inbox::new(&poll, token)?;
        polls.push((poll, inbox));
        outlets.push(outlet);
    }
    Ok((polls, outlets))
}

impl<T> Outlet<T> {
    /// Sends without waking: several messages of a turn share one [`Outlet::wake`].
    pub fn put(&self, message: T) {
        // A core that has ended takes no more messages; its process is ending too.
        let _ = self.sender.send(message);
    }

    pub fn wake(&self) {
        // A wake-up that fails means that the loop is gone.
        let _ = self.waker.wake();
    }

    /// For others who reach the same loop.
    pub(super) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    pub fn send(&self, message: T) {
        self.put(message);
        self.wake();
    }
}
