//! Looks for another coordinator that leads, beside the connection with the one at hand.
//!
//! ```text
//! at hand   --status--> --status--> --status-->        beats are late, but it may lead all the same
//! search         register -----(one that stands still answers nothing)----- the next one's turn, or found
//! ```
//! All known addresses of each place have their turn, those of the place at hand last. When nothing is heard for long
//! the one at hand is asked too, last: the connection with it may be dead though nobody was told. Who lets the member
//! in leads, and so does who says that it is over for good; whatever else is said is left. One is asked at a time. Only
//! connecting blocks, and for less than the coordinator at hand misses.
//!
//! Must not know: what is said to the coordinator at hand, how a name is looked up.

use std::io;
use std::time::{Duration, Instant};

use shorttail_wire::control::{FromCoordinator, Refusal};

use super::role::Role;
use super::stream::{Closer, ControlStream, IO_TIMEOUT};
use crate::config::{Address, Addresses};

/// Until a connection stands: less than a heartbeat, as there are none meanwhile.
const CONNECT_MAX: Duration = Duration::from_millis(400);
/// For so long one that was asked may still answer when the one at hand is lost: more than it takes if it leads.
const FINISH_MAX: Duration = Duration::from_millis(500);

/// One that was asked to let the member in.
struct Asked {
    place: usize,
    address: Address,
    stream: ControlStream,
    until: Instant,
}

/// A coordinator that let the member in.
pub struct Found<W> {
    pub place: usize,
    pub address: Address,
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
    /// Who is still to be asked, by place and address, the next one last.
    left: Vec<(usize, Address)>,
    at_hand: Address,
    asks_at_hand: bool,
    asked: Option<Asked>,
    does_not_lead: bool,
}

impl Search {
    /// `current`: the place of the one at hand, and whether it is asked too.
    pub fn new(current: usize, coordinators: &Addresses, asks_at_hand: bool) -> Self {
        let count = coordinators.0.len();
        let at_hand = coordinators.0[current].address.clone();
        let of_place = |place: usize| {
            let coordinator = &coordinators.0[place];
            let addresses = std::iter::once(coordinator.address.clone()).chain(coordinator.others());
            addresses.map(move |address| (place, address))
        };
        let all = (1..=count).flat_map(|step| of_place((current + step) % count));
        let mut left: Vec<(usize, Address)> = all.filter(|(_, address)| *address != at_hand).collect();
        left.extend(asks_at_hand.then(|| (current, at_hand.clone())));
        left.reverse();
        Search { left, at_hand, asks_at_hand, asked: None, does_not_lead: false }
    }

    /// Is the one at hand asked, too?
    pub fn asks_at_hand(&self) -> bool {
        self.asks_at_hand
    }

    /// Did the one at hand say that it does not lead?
    pub fn does_not_lead(&self) -> bool {
        self.does_not_lead
    }

    /// All were asked, and none let the member in.
    pub fn is_over(&self) -> bool {
        self.asked.is_none() && self.left.is_empty()
    }

    /// Asks the next one if none is asked, and waits a moment for the answer.
    pub fn advance<R: Role>(&mut self, registration: &R::Registration, moment: Duration) -> Option<Answer<R::Welcome>> {
        let mut asked = match self.asked.take() {
            Some(asked) => asked,
            None => {
                let (place, address) = self.left.pop()?;
                ask::<R>(place, address, registration.clone()).ok()?
            }
        };
        match asked.stream.receive_until(Instant::now() + moment) {
            Ok(Some(message)) => {
                let does_not_lead = matches!(message, FromCoordinator::Refused(Refusal::NotLeading(_)));
                self.does_not_lead |= does_not_lead && asked.address == self.at_hand;
                asked.take_answer::<R>(message)
            }
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
            Ok(welcome) => {
                let Asked { place, address, stream, .. } = self;
                Some(Answer::LetIn(Found { place, address, stream, welcome }))
            }
            Err(FromCoordinator::Refused(refusal)) if refusal.is_final() => Some(Answer::Over(refusal)),
            Err(_) => None,
        }
    }
}

fn ask<R: Role>(place: usize, address: Address, registration: R::Registration) -> io::Result<Asked> {
    let mut stream = ControlStream::connect_within(&address, CONNECT_MAX)?;
    stream.send(&R::register(registration))?;
    Ok(Asked { place, address, stream, until: Instant::now() + IO_TIMEOUT })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::with_resolver;

    #[test]
    fn all_addresses_but_the_one_at_hand_have_their_turn_and_that_one_last_if_at_all() {
        let answers = |name: &str| {
            let hosts: [u8; 3] = if name.starts_with("one") { [1, 2, 3] } else { [4, 1, 5] };
            Ok(hosts.map(|host| ([10, 0, 0, host], 7000).into()).to_vec())
        };
        let parse = || "one:7000,two:7000".parse::<Addresses>().expect("well-formed");
        let mut coordinators = with_resolver(answers, parse);
        coordinators.0[0].address = "10.0.0.2:7000".parse().expect("literal");
        let turns = |current: usize, asks_at_hand: bool| {
            let search = Search::new(current, &coordinators, asks_at_hand);
            let turns = search.left.into_iter().rev().map(|(place, address)| format!("{place} {address}"));
            turns.map(|turn| turn.replace("10.0.0.", "").replace(":7000", "")).collect::<Vec<_>>()
        };
        assert_eq!(turns(0, false), ["1 4", "1 1", "1 5", "0 3", "0 1"]);
        assert_eq!(turns(0, true), ["1 4", "1 1", "1 5", "0 3", "0 1", "0 2"]);
        assert_eq!(turns(1, true), ["0 2", "0 3", "0 1", "1 1", "1 5", "1 4"]);
    }
}
