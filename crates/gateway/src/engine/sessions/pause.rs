//! A pause of this process (no CPU to be had, stopped and continued) makes nobody else late.
//!
//! While it lasted, answers may have come that were not read yet. So what was under way before it is as old after it as
//! it was then, and a tick more: nodes are neither suspected nor hedged for the owner's own absence. A turn that is
//! long because there was much to do is none: what nodes owe ages meanwhile.
//!
//! Must not know: why the process paused. The monitor is told nothing: it compares nodes, and all looked late alike.

use shorttail_units::Now;

use crate::engine::Engine;
use crate::engine::limits::{PAUSE_US, TICK_US};

impl Engine {
    /// It is `now`, as of the turn that begins or goes on.
    pub(in crate::engine) fn set_now(&mut self, now: Now) {
        let before_us = std::mem::replace(&mut self.now, now).mono_us;
        if now.mono_us <= before_us {
            return;
        }
        let away_us = (now.mono_us - before_us).saturating_sub(std::mem::take(&mut self.worked_us));
        if away_us >= PAUSE_US {
            self.forgive_pause(before_us, away_us - TICK_US);
        }
    }

    /// Of the time since the turn before, this process worked for so long: it was not asleep then, nor waiting for a
    /// processor. To be told at the beginning of a turn; who tells nothing never worked for long.
    pub fn handle_work(&mut self, worked_us: u64) {
        self.worked_us = worked_us;
    }

    /// Takes a pause out of the age of all that was under way before it.
    fn forgive_pause(&mut self, before_us: u64, excess_us: u64) {
        let shift = |time_us: &mut u64| {
            if *time_us <= before_us {
                *time_us += excess_us;
            }
        };
        for node in self.nodes.iter_mut() {
            for session in &mut node.sessions {
                session.asked.iter_mut().for_each(|(made_us, _)| shift(made_us));
                [&mut session.heard_us, &mut session.reached_us].into_iter().for_each(shift);
            }
            node.write_late_us.iter_mut().for_each(shift);
            shift(&mut node.silent_since_us);
        }
        for write in self.striped_writes.values_mut() {
            write.flights.values_mut().for_each(|flight| shift(&mut flight.sent_us));
        }
        for slot in self.stripes.unsealed().to_vec() {
            if let Some(open) = &mut self.stripes.at_mut(slot).open {
                open.sent_times_mut().for_each(shift);
            }
        }
    }
}
