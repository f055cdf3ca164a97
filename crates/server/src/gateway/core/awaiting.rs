//! How long a core waits for its next turn: not at all while something is left to read or to do, else until something
//! is due.
//!
//! Must not know: what arrives, what is due.

use std::io;
use std::time::Duration;

use mio::Events;

use super::Core;
use crate::net::{self, ASK_US_MAX};

impl Core {
    /// Waits until something arrived or is due, asleep or asking (see [`Patience`](crate::net::Patience)).
    pub(super) fn await_events(&mut self, events: &mut Events) -> io::Result<()> {
        let wants_turn = || self.exchange.tenures.iter().any(|tenure| tenure.engine.wants_turn());
        let has_left = self.has_left();
        if has_left || wants_turn() {
            if !has_left && !self.exchange.tenures.iter().any(|tenure| tenure.engine.is_hurried()) {
                // A client on this processor goes first: it has a reply to take, or something to ask.
                std::thread::yield_now();
            }
            return net::poll(&mut self.poll, events, Some(Duration::ZERO));
        }
        let began_us = self.clock.now().mono_us;
        let mut now_us = began_us;
        while self.patience.asks() && now_us - began_us <= ASK_US_MAX {
            // Whoever is to answer may need this very core; and what arrives together costs less.
            std::thread::yield_now();
            net::poll(&mut self.poll, events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                break;
            }
            now_us = self.clock.now().mono_us;
        }
        if events.is_empty() || !self.patience.asks() {
            let wait = self.wait(now_us);
            net::poll(&mut self.poll, events, Some(wait))?;
        }
        self.patience.waited(self.clock.now().mono_us - began_us);
        Ok(())
    }

    /// Is something left to read, to hand out, or to ask, and may it be done at once?
    pub(super) fn has_left(&self) -> bool {
        let now_us = self.now.mono_us;
        let has_come = self.listeners.iter().any(|(accepting, _)| accepting.is_due(now_us))
            || self.forward.as_ref().is_some_and(|forward| forward.is_due(now_us));
        let has_room_for_some = !self.without_room.is_empty() && self.exchange.has_room();
        let has_unread = !self.unread.is_empty() || self.input_room.has_next() || has_room_for_some;
        has_come || self.incoming.has_some() || has_unread || self.exchange.has_answers() || self.exchange.wants_turn()
    }

    fn wait(&self, now_us: u64) -> Duration {
        let engines = self.exchange.tenures.iter().filter_map(|tenure| tenure.engine.poll_deadline());
        let due_us = engines.chain(self.exchange.poll_deadline()).min().unwrap_or(u64::MAX).min(self.housekeeping_us);
        net::until(due_us, now_us)
    }
}
