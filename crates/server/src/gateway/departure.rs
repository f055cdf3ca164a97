//! How a gateway leaves whose process is told to end: others are to go on with what it owns, and clients are not to
//! wait until what nodes promised it is over.
//!
//! ```text
//! told to end --> asks to be drained --owns nothing--> stays a moment --> ends
//!                      | no other one, no coordinator:                    ^
//!                      '--> lets go of all, by itself --stays a moment----'
//! ```
//! For that moment other gateways may ask it that have not heard of the new owner: it gives back what they ask. Were it
//! gone they would not know what became of it.
//!
//! Must not know: clocks, who the others are, what is let go of.

/// Microseconds within which a coordinator that is heard has begun to drain it.
const ASKED_US_MAX: u64 = 1_500_000;

/// Microseconds for which a coordinator that is not heard is waited for: mostly another one leads by then.
const UNHEARD_US_MAX: u64 = 5_000_000;

/// Microseconds for which no other gateway was to be seen until that is believed: a coordinator that has just begun
/// hears of them one by one.
const ALONE_US: u64 = 1_000_000;

/// Microseconds by which all gateways that the coordinator hears know that it owns nothing.
const HEARD_US: u64 = 1_000_000;

/// Microseconds for which a gateway that lets go by itself waits for what is under way, and for nodes to hear of it;
/// and for which it then gives back what others asked it meanwhile.
const LET_GO_US_MAX: u64 = 1_000_000;
const GIVE_BACK_US: u64 = 100_000;

/// Microseconds after which it lets go anyway: whoever told it to end kills it after half a minute, mostly.
const LEAVE_US_MAX: u64 = 20_000_000;

/// How it stands now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Is it to own something, by what the coordinator said last?
    pub owns: bool,
    /// Since when no other gateway may own it, by what the coordinator said last.
    pub alone_since_us: Option<u64>,
    /// Is it being drained?
    pub is_drained: bool,
    /// Is the coordinator heard, and since when is that so, or not so?
    pub is_heard: bool,
    pub turned_us: u64,
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
        /// Since when it has let go of all.
        done_since_us: Option<u64>,
    },
}

impl Facts {
    /// A gateway that has just been let in.
    pub fn begin(now_us: u64) -> Self {
        let alone_since_us = Some(now_us);
        Facts { owns: false, alone_since_us, is_drained: false, is_heard: true, turned_us: now_us, has_let_go: false }
    }

    /// The coordinator says whether another gateway may own something.
    pub fn note_others(&mut self, now_us: u64, are_there: bool) {
        self.alone_since_us = if are_there { None } else { Some(self.alone_since_us.unwrap_or(now_us)) };
    }

    /// The coordinator is heard from now on, or is not.
    pub fn turn(&mut self, now_us: u64, is_heard: bool) {
        (self.is_heard, self.turned_us) = (is_heard, now_us);
    }

    fn is_alone(&self, now_us: u64) -> bool {
        self.is_heard && self.alone_since_us.is_some_and(|since_us| now_us >= since_us.max(self.turned_us) + ALONE_US)
    }

    /// Does it ask in vain, as of a gateway that was told to end then?
    fn is_in_vain(&self, now_us: u64, since_us: u64) -> bool {
        let since_us = since_us.max(self.turned_us);
        match self.is_heard {
            true => self.is_alone(now_us) || !self.is_drained && now_us >= since_us + ASKED_US_MAX,
            false => now_us >= since_us + UNHEARD_US_MAX,
        }
    }
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
                if facts.is_alone(now_us) || has_been(since_us, HEARD_US) { Step::End } else { Step::Stay }
            }
            Departure::Asks { since_us, nothing_since_us } => {
                *nothing_since_us = None;
                if !facts.is_in_vain(now_us, *since_us) && !has_been(*since_us, LEAVE_US_MAX) {
                    return Step::Stay;
                }
                *self = Departure::LetsGo { since_us: now_us, done_since_us: None };
                Step::LetGo
            }
            Departure::LetsGo { since_us, done_since_us } => {
                let done_us = facts.has_let_go.then(|| *done_since_us.get_or_insert(now_us));
                let is_over = done_us.is_some_and(|at_us| has_been(at_us, GIVE_BACK_US));
                if is_over || has_been(*since_us, LET_GO_US_MAX) { Step::End } else { Step::Stay }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a gateway that runs for long.
    const NOW_US: u64 = 100_000_000;

    fn owner() -> Facts {
        let mut facts = Facts { owns: true, ..Facts::begin(0) };
        facts.note_others(1, true);
        facts
    }

    fn told_to_end() -> Departure {
        let mut departure = Departure::default();
        assert_eq!(departure.look(NOW_US - 1, owner()), Step::Stay);
        departure.begin(NOW_US);
        departure.begin(NOW_US + 1);
        assert!(departure.asks());
        departure
    }

    #[test]
    fn who_is_drained_stays_until_others_know_that_it_owns_nothing() {
        let mut departure = told_to_end();
        let drained = Facts { is_drained: true, ..owner() };
        assert_eq!(departure.look(NOW_US, owner()), Step::Stay);
        let late_us = NOW_US + LEAVE_US_MAX;
        assert_eq!(departure.look(late_us - 1, drained), Step::Stay);
        assert_eq!({ departure }.look(late_us, drained), Step::LetGo, "it took too long");
        let (nothing, at_us) = (Facts { owns: false, ..drained }, NOW_US + LEAVE_US_MAX / 2);
        assert_eq!(departure.look(at_us, nothing), Step::Stay);
        assert_eq!(departure.look(at_us + HEARD_US - 1, nothing), Step::Stay);
        let mut other = departure;
        assert_eq!(other.look(at_us + HEARD_US, drained), Step::Stay, "it got something back");
        assert_eq!(other.look(at_us + HEARD_US, nothing), Step::Stay);
        assert_eq!(departure.look(at_us + HEARD_US, nothing), Step::End);
    }

    #[test]
    fn who_is_not_drained_lets_go_by_itself() {
        let unheard = Facts { is_heard: false, ..owner() };
        let drained_before = Facts { is_drained: true, ..unheard };
        for (facts, after_us) in [(owner(), ASKED_US_MAX), (unheard, UNHEARD_US_MAX), (drained_before, UNHEARD_US_MAX)]
        {
            let mut departure = told_to_end();
            let at_us = NOW_US + after_us;
            assert_eq!(departure.look(at_us - 1, facts), Step::Stay);
            assert_eq!(departure.look(at_us, facts), Step::LetGo);
            assert!(departure.lets_go() && !departure.asks());
            let done = Facts { has_let_go: true, ..facts };
            assert_eq!(departure.look(at_us + 1, facts), Step::Stay);
            assert_eq!(departure.look(at_us + 1, done), Step::Stay);
            assert_eq!(departure.look(at_us + GIVE_BACK_US, done), Step::Stay);
            assert_eq!({ departure }.look(at_us + 1 + GIVE_BACK_US, done), Step::End);
            assert_eq!(departure.look(at_us + LET_GO_US_MAX, facts), Step::End, "nodes do not answer");
        }
    }

    /// A coordinator that has just begun to lead names the gateways that it has heard.
    #[test]
    fn others_that_are_not_named_yet_are_waited_for() {
        let mut facts = owner();
        facts.turn(NOW_US, false);
        facts.turn(NOW_US + 10, true);
        facts.note_others(NOW_US + 20, false);
        let mut departure = told_to_end();
        assert_eq!(departure.look(NOW_US + 19 + ALONE_US, facts), Step::Stay);
        assert_eq!({ departure }.look(NOW_US + 20 + ALONE_US, facts), Step::LetGo, "there are none");
        facts.note_others(NOW_US + 30, true);
        assert_eq!(departure.look(NOW_US + 20 + ALONE_US, facts), Step::Stay);
        assert_eq!(departure.look(NOW_US + 10 + ASKED_US_MAX, facts), Step::LetGo, "it asks anew, and in vain");
    }

    #[test]
    fn the_only_one_does_not_wait() {
        let alone = Facts { owns: true, ..Facts::begin(0) };
        assert_eq!(told_to_end().look(NOW_US, alone), Step::LetGo);
        assert_eq!(told_to_end().look(NOW_US, Facts { owns: false, ..alone }), Step::End);
    }
}
