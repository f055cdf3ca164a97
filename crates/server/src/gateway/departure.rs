//! How a gateway leaves whose process is told to end: others are to go on with what it owns, and clients are not to
//! wait until what nodes promised it is over.
//!
//! ```text
//! told to end --> asks to be drained --owns nothing--> stays a moment --> ends
//!                      | no other one, no coordinator:                    ^
//!                      '--> lets go of all, by itself --let go------------'
//! ```
//! For that moment other gateways may ask it that have not heard of the new owner: it gives back what they ask. Were it
//! gone they would not know what became of it.
//!
//! Must not know: clocks, who the others are, what is let go of.

/// Microseconds within which a coordinator that is there has begun to drain it, and that are waited for one that is
/// not.
const ASKED_US_MAX: u64 = 1_500_000;

/// Microseconds by which all gateways that the coordinator hears know that it owns nothing.
const HEARD_US: u64 = 1_000_000;

/// Microseconds for which a gateway that lets go by itself waits for what is under way, and for nodes to hear of it.
const LET_GO_US_MAX: u64 = 1_000_000;

/// Microseconds after which it ends anyway: whoever told it to end kills it after half a minute, mostly.
const LEAVE_US_MAX: u64 = 20_000_000;

/// How it stands now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Is it to own something, by what the coordinator said last?
    pub owns: bool,
    /// Is there another gateway that may own it, by what the coordinator said last?
    pub has_others: bool,
    /// Is it being drained?
    pub is_drained: bool,
    /// Has each of its engines let go?
    pub has_let_go: bool,
}

/// What is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Goes on as it is.
    Stay,
    /// Lets go of all that it owns; said once.
    LetGo,
    End,
}

/// Where it is on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Departure {
    /// Nobody told it to end.
    #[default]
    Stays,
    Asks {
        since_us: u64,
        /// Since when it owns nothing.
        nothing_since_us: Option<u64>,
    },
    LetsGo {
        since_us: u64,
    },
}

impl Departure {
    /// It is told to end.
    pub fn begin(&mut self, now_us: u64) {
        if *self == Departure::Stays {
            *self = Departure::Asks { since_us: now_us, nothing_since_us: None };
        }
    }

    /// Does it ask to be drained?
    pub fn asks(self) -> bool {
        matches!(self, Departure::Asks { .. })
    }

    /// From here on the coordinator has no say: what it gave back would be another's to wait for.
    pub fn lets_go(self) -> bool {
        matches!(self, Departure::LetsGo { .. })
    }

    pub fn look(&mut self, now_us: u64, facts: Facts) -> Step {
        let has_been = |since_us: u64, us: u64| now_us >= since_us + us;
        match self {
            Departure::Stays => Step::Stay,
            Departure::Asks { nothing_since_us, .. } if !facts.owns => {
                let since_us = *nothing_since_us.get_or_insert(now_us);
                if facts.has_others && !has_been(since_us, HEARD_US) { Step::Stay } else { Step::End }
            }
            Departure::Asks { since_us, nothing_since_us } => {
                *nothing_since_us = None;
                let is_in_vain = !facts.has_others || !facts.is_drained && has_been(*since_us, ASKED_US_MAX);
                if !is_in_vain && !has_been(*since_us, LEAVE_US_MAX) {
                    return Step::Stay;
                }
                *self = Departure::LetsGo { since_us: now_us };
                Step::LetGo
            }
            Departure::LetsGo { since_us } if facts.has_let_go || has_been(*since_us, LET_GO_US_MAX) => Step::End,
            Departure::LetsGo { .. } => Step::Stay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Facts = Facts { owns: true, has_others: true, is_drained: false, has_let_go: false };

    fn told_to_end() -> Departure {
        let mut departure = Departure::default();
        assert_eq!(departure.look(1, OWNER), Step::Stay);
        departure.begin(1_000);
        departure.begin(2_000);
        assert!(departure.asks());
        departure
    }

    #[test]
    fn who_is_drained_stays_until_others_know_that_it_owns_nothing() {
        let mut departure = told_to_end();
        let drained = Facts { is_drained: true, ..OWNER };
        assert_eq!(departure.look(1_000, OWNER), Step::Stay);
        let late_us = 1_000 + LEAVE_US_MAX;
        assert_eq!(departure.look(late_us - 1, drained), Step::Stay);
        assert_eq!({ departure }.look(late_us, drained), Step::LetGo, "it took too long");
        let (nothing, at_us) = (Facts { owns: false, ..drained }, late_us / 2);
        assert_eq!(departure.look(at_us, nothing), Step::Stay);
        assert_eq!(departure.look(at_us + HEARD_US - 1, nothing), Step::Stay);
        let mut other = departure;
        assert_eq!(other.look(at_us + HEARD_US, drained), Step::Stay, "it got something back");
        assert_eq!(other.look(at_us + HEARD_US, nothing), Step::Stay);
        assert_eq!(departure.look(at_us + HEARD_US, nothing), Step::End);
    }

    #[test]
    fn who_is_not_drained_lets_go_by_itself() {
        for (facts, at_us) in [(OWNER, 1_000 + ASKED_US_MAX), (Facts { has_others: false, ..OWNER }, 1_000)] {
            let mut departure = told_to_end();
            if facts.has_others {
                assert_eq!(departure.look(at_us - 1, facts), Step::Stay);
            }
            assert_eq!(departure.look(at_us, facts), Step::LetGo);
            assert!(departure.lets_go() && !departure.asks());
            assert_eq!(departure.look(at_us + 1, facts), Step::Stay);
            assert_eq!(departure.look(at_us + 1, Facts { has_let_go: true, ..facts }), Step::End);
            assert_eq!(departure.look(at_us + LET_GO_US_MAX, facts), Step::End, "nodes do not answer");
        }
    }

    #[test]
    fn who_owns_nothing_and_is_the_only_one_ends_at_once() {
        let mut departure = told_to_end();
        assert_eq!(departure.look(1_000, Facts::default()), Step::End);
    }
}
