//! A member looks for another coordinator that leads, beside the connection with the one at hand.
//!
//! ```text
//! at hand   --status--> --status--> --status-->        beats are late, but it may lead all the same
//! look           register -----(one that stands still answers nothing)----- the next one's turn, or found
//! ```
//! As the server's members do (`server/src/control/search.rs`): one is asked at a time, all in turn.

use shorttail_wire::control::{FromCoordinator, HEARTBEAT_MS, next_message};

use super::{ControlEvent, Event, Who, World};
use crate::network::{SessionId, What};

/// Without a beat for so long a coordinator may have ceased to lead: three are missing.
pub(super) const BEAT_LATE_US: u64 = 4 * HEARTBEAT_MS * 1_000;
/// Between two looks round.
const LOOK_AGAIN_US: u64 = 1_000_000;
/// One that was asked may answer for so long when the one at hand is lost.
const FINISH_US: u64 = 500_000;

/// One look round over all others.
pub(super) struct Look {
    /// Places that are still to be asked, the next one last.
    left: Vec<usize>,
    place: usize,
    session: SessionId,
    input: Vec<u8>,
}

impl World {
    /// Where it is time, the others are asked.
    pub(super) fn look_round_if_late(&mut self, who: Who) {
        let (now_us, count) = (self.schedule.now_us(), self.config.coordinator_count);
        let member = self.member(who);
        if count > 1 && member.look.is_none() && now_us >= member.look_at_us {
            let left = (1..count).rev().map(|step| (member.place + step) % count).collect();
            self.ask_next(who, left);
        }
    }

    fn ask_next(&mut self, who: Who, mut left: Vec<usize>) {
        let now_us = self.schedule.now_us();
        self.member(who).look = None;
        match left.pop() {
            Some(place) => {
                let session = self.ask_coordinator(who, place);
                self.member(who).look = Some(Look { left, place, session, input: Vec::new() });
            }
            None => self.member(who).look_at_us = now_us + LOOK_AGAIN_US,
        }
    }

    /// The one at hand is lost: what another one says that was asked is waited for, as it may have let the member in.
    pub(super) fn finish_look(&mut self, who: Who) {
        let Some(look) = &mut self.member(who).look else { return };
        look.left.clear();
        let session = look.session;
        self.schedule.after(FINISH_US, Event::Control(ControlEvent::Impatient { who, session }));
    }

    /// The one that is asked does not answer, or not well: it is left.
    pub(super) fn look_on_without(&mut self, who: Who, session: SessionId) {
        let Some(look) = self.member(who).look.take_if(|look| look.session == session) else { return };
        self.coordinators.member_of.remove(&session);
        self.network.close(&mut self.schedule, who.endpoint(), session);
        match self.member(who).connection {
            Some(_) => self.ask_next(who, look.left),
            None => self.come_again(who, true),
        }
    }

    pub(super) fn look_notice(&mut self, who: Who, session: SessionId, what: What) {
        let Some(look) = self.member(who).look.as_mut().filter(|look| look.session == session) else { return };
        match what {
            What::Accepted { .. } | What::Connected => {}
            What::Broken(_) => self.look_on_without(who, session),
            What::Received(bytes) => {
                look.input.extend_from_slice(&bytes);
                match next_message::<FromCoordinator>(&look.input) {
                    Ok(Some((FromCoordinator::NodeRegistered(_) | FromCoordinator::GatewayRegistered(_), _))) => {
                        self.change_over(who);
                    }
                    // Whoever says so leads: that is heard as of the one at hand.
                    Ok(Some((FromCoordinator::Refused(refusal), _))) if refusal.is_final() => self.change_over(who),
                    Ok(Some(_)) => self.look_on_without(who, session),
                    Ok(None) => {}
                    Err(error) => {
                        self.end_hurt(who.endpoint(), session, &error);
                        self.look_on_without(who, session);
                    }
                }
            }
        }
    }

    /// Another coordinator let the member in.
    fn change_over(&mut self, who: Who) {
        let Some(Look { place, session, input, .. }) = self.member(who).look.take() else { return };
        let member = self.member(who);
        let before = member.connection.replace(session);
        (member.place, member.input) = (place, input);
        self.coordinators.counts.changes_over += 1;
        self.note(format_args!("{who:?} changes over to coordinator {place}"));
        if let Some(before) = before {
            self.coordinators.member_of.remove(&before);
            self.network.close(&mut self.schedule, who.endpoint(), before);
        }
        self.hear_coordinator(who, session);
    }
}
