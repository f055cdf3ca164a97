//! When a member looks for another coordinator than the one at hand, and when it asks that one to let it in anew.
//!
//! ```text
//! beats ---- none for 2 s ----> others are asked, once a second
//! anything - nothing for 6 s -> the one at hand is asked, too; after it says that it does not lead, ever more rarely
//! ```

use std::time::{Duration, Instant};

use shorttail_wire::control::HEARTBEAT_MS;

/// Without a beat for so long a coordinator may have ceased to lead: three are missing.
const BEAT_LATE: Duration = Duration::from_millis(4 * HEARTBEAT_MS);
/// Without a word for so long the connection may be dead: as many beats are missing as twice more, since who ceased to
/// lead is mostly followed by then.
const SILENT: Duration = Duration::from_millis(3 * 4 * HEARTBEAT_MS);
/// Between two attempts to find another one.
const LOOK_ROUND: Duration = Duration::from_secs(1);
/// At most so long until one is asked again that does not lead for want of its store: all members ask.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(10);

/// What was heard on the connection with the coordinator at hand, and when.
#[derive(Debug)]
pub struct AtHand {
    heard_at: Instant,
    look_at: Instant,
    ask_at: Instant,
    ask_again: Duration,
}

impl AtHand {
    /// It let the member in.
    pub fn new(now: Instant) -> Self {
        AtHand { heard_at: now, look_at: now + BEAT_LATE, ask_at: now, ask_again: LOOK_ROUND }
    }

    /// It says that it leads.
    pub fn beats(&mut self, now: Instant) {
        *self = AtHand::new(now);
    }

    /// It says something else.
    pub fn says(&mut self, now: Instant) {
        self.heard_at = now;
    }

    pub fn is_late(&self, now: Instant) -> bool {
        now >= self.look_at
    }

    pub fn is_to_be_asked(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard_at) >= SILENT && now >= self.ask_at
    }

    /// All were asked in vain; the one at hand, too, and it said that it does not lead?
    pub fn looked_round(&mut self, now: Instant, does_not_lead: bool) {
        self.look_at = now + LOOK_ROUND;
        if does_not_lead {
            self.ask_at = now + self.ask_again;
            self.ask_again = (2 * self.ask_again).min(ASK_AGAIN_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks round wherever it may for so many seconds, and says when it asked the one at hand, in seconds.
    fn asked_s(at_hand: &mut AtHand, began: Instant, seconds: u64, does_not_lead: bool) -> Vec<u64> {
        let mut asked = Vec::new();
        for second in 0..seconds {
            let now = began + Duration::from_secs(second);
            if at_hand.is_late(now) {
                let asks = at_hand.is_to_be_asked(now);
                asked.extend(asks.then_some(second));
                at_hand.looked_round(now, asks && does_not_lead);
            }
        }
        asked
    }

    #[test]
    fn one_that_does_not_lead_is_asked_more_and_more_rarely() {
        let began = Instant::now();
        let mut at_hand = AtHand::new(began);
        assert_eq!(asked_s(&mut at_hand, began, 50, true), [6, 7, 9, 13, 21, 31, 41]);
        let beat = began + Duration::from_secs(50);
        at_hand.beats(beat);
        assert!(!at_hand.is_late(beat) && at_hand.is_late(beat + BEAT_LATE));
        assert_eq!(asked_s(&mut at_hand, beat, 10, true), [6, 7, 9], "it led meanwhile");
    }

    #[test]
    fn one_that_answers_nothing_is_asked_in_every_round() {
        let began = Instant::now();
        assert_eq!(asked_s(&mut AtHand::new(began), began, 10, false), [6, 7, 8, 9]);
    }

    #[test]
    fn one_that_is_heard_is_not_asked_on_another_connection() {
        let began = Instant::now();
        let mut at_hand = AtHand::new(began);
        let now = began + SILENT;
        at_hand.says(now - Duration::from_secs(1));
        assert!(at_hand.is_late(now), "it does not say that it leads");
        assert!(!at_hand.is_to_be_asked(now) && at_hand.is_to_be_asked(now + SILENT));
    }
}
