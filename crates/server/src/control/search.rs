//! Looks for another coordinator that leads, beside the connection with the one at hand.
//!
//! ```text
//! at hand   --status--> --status--> --status-->        beats are late, but it may lead all the same
//! search         register -----(one that stands still answers nothing)----- the next one's turn, or found
//! ```
//! Once beats are very late the one at hand is asked too, last: the connection with it may be dead though nobody was told.
//! Who lets the member in leads, and so does who says that it is over for good; whatever else is said is left. One is asked
//! at a time. Only connecting blocks, and for less than the coordinator at hand misses.
//!
//! Names are not looked up: that may take longer than the coordinator at hand would wait for a status.
//!
//! Must not know: what is said to the coordinator at hand.

use std::io;
use std::time::{Duration, Instant};

use shorttail_wire::control::{FromCoordinator, Refusal};

use super::role::Role;
use super::stream::{Closer, ControlStream, IO_TIMEOUT};
use crate::config::Addresses;

/// Until a connection stands: less than a heartbeat, as there are none meanwhile.
const CONNECT_MAX: Duration = Duration::from_millis(400);
/// For so long one that was asked may still answer when the one at hand is lost: more than it takes if it leads.
const FINISH_MAX: Duration = Duration::from_millis(500);

/// One that was asked to let the member in.
struct Asked {
    place: usize,
    stream: ControlStream,
    until: Instant,
}

/// A coordinator that let the member in.
pub struct Found<W> {
    pub place: usize,
    pub stream: ControlStream,
    pub welcome: W,
}

/// What one that leads answered.
pub enum Answer<W> {
    LetIn(Found<W>),
    /// The member is over for good.
    Over(Refusal),
}

/// One look round over all others.
pub struct Search {
    /// Places that are still to be asked, the next one last.
    left: Vec<usize>,
    asked: Option<Asked>,
}

impl Search {
    /// `current`: the place of the one at hand, and whether it is asked too.
    pub fn new(current: usize, count: usize, asks_current: bool) -> Self {
        let steps = 1..count + usize::from(asks_current);
        Search { left: steps.rev().map(|step| (current + step) % count).collect(), asked: None }
    }

    /// All were asked, and none let the member in.
    pub fn is_over(&self) -> bool {
        self.asked.is_none() && self.left.is_empty()
    }

    /// Asks the next one if none is asked, and waits a moment for the answer.
    pub fn advance<R: Role>(
        &mut self,
        coordinators: &Addresses,
        registration: &R::Registration,
        moment: Duration,
    ) -> Option<Answer<R::Welcome>> {
        let mut asked = match self.asked.take() {
            Some(asked) => asked,
            None => {
                let place = self.left.pop()?;
                ask::<R>(coordinators, place, registration.clone()).ok()?
            }
        };
        match asked.stream.receive_until(Instant::now() + moment) {
            Ok(Some(message)) => asked.take_answer::<R>(message),
            Ok(None) if Instant::now() < asked.until => {
                self.asked = Some(asked);
                None
            }
            Ok(None) | Err(_) => None,
        }
    }

    /// The one at hand is lost: what another one says that was asked is waited for, as it may have let the member in.
    pub fn finish<R: Role>(mut self, wait_with: impl FnOnce(Closer)) -> Option<Answer<R::Welcome>> {
        let mut asked = self.asked.take()?;
        wait_with(asked.stream.closer().ok()?);
        let message = asked.stream.receive_until(Instant::now() + FINISH_MAX).ok()??;
        asked.take_answer::<R>(message)
    }
}

impl Asked {
    fn take_answer<R: Role>(self, message: FromCoordinator) -> Option<Answer<R::Welcome>> {
        match R::welcome(message) {
            Ok(welcome) => Some(Answer::LetIn(Found { place: self.place, stream: self.stream, welcome })),
            Err(FromCoordinator::Refused(refusal)) if refusal.is_final() => Some(Answer::Over(refusal)),
            Err(_) => None,
        }
    }
}

fn ask<R: Role>(coordinators: &Addresses, place: usize, registration: R::Registration) -> io::Result<Asked> {
    let mut stream = ControlStream::connect_within(&coordinators.0[place].address, CONNECT_MAX)?;
    stream.send(&R::register(registration))?;
    Ok(Asked { place, stream, until: Instant::now() + IO_TIMEOUT })
}
