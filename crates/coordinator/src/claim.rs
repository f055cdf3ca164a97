//! A coordinator's claim to lead, in a store with revisions and leases as etcd has them: what is asked, one question at
//! a time, and what the answers mean.
//!
//! ```text
//! leader   the leader's name; bound to its lease, so that it vanishes when the leader is gone            (created: c)
//! state    what must survive                                                                             (changed: r)
//!
//! campaign   leader not there?               put leader, get state          else get both
//! save       leader created at c,
//!            state changed at r?             put state                      else get both
//! renew      keep the lease alive
//! ```
//!
//! Who hears nothing of the store may still be heard there, and would keep the others from leading for as long as it
//! prolonged its lease. So a lease that has run out by the own clock is prolonged only by who was just answered.
//!
//! Whether a save may happen is decided by the store in one transaction. So a coordinator that was stopped beyond its
//! lease changes nothing, whatever its clock says; its clock only tells when to stop pretending. A transaction whose
//! answer was lost may have happened: the next one finds what it wrote itself, and takes it as done. What is to be
//! saved again is looked for first, as a store that is slow to write may be quick to say what it has.
//!
//! A leader's key that is bound to no lease never goes by itself: somebody copied it. Nobody can lead until it is
//! deleted.
//!
//! A state that was there and is not any more was deleted by somebody: that is no new cluster. The one that is known is
//! not put back either, as nobody knows why it went; nobody leads until a state is there again.
//!
//! Invariant: `reign` and `seen` are of the same moment, so whoever created the leader's key at `c`
//! knows the state at `r`.
//!
//! Must not know: how a question travels, or what the state says.

use crate::candidate::Term;

/// A share of the lease that is not used: clocks may run apart, and something is done between looking and acting.
const LEASE_MARGIN: u64 = 10;
/// Renewals in a lease: two may fail.
const RENEWALS: u64 = 3;
/// Microseconds after its end at which a lease is let go that the store may have kept while it was away: whoever waits
/// longer gains no more by leading on at once.
const LET_GO_US: u64 = 60_000_000;

/// What the store is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// A new lease.
    Grant,
    KeepAlive {
        lease: i64,
    },
    /// If nobody leads, the leader's key is put, bound to this lease; both keys are got.
    Lead {
        lease: i64,
    },
    /// Both keys are got.
    Look,
    /// If the leader's key is of this reign and the state of this revision, the state is put; both keys are got.
    Save {
        reign: i64,
        revision: i64,
        text: Vec<u8>,
    },
}

/// What the store answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Granted {
        lease: i64,
        ttl_s: i64,
    },
    /// Without a time it has ended.
    Kept {
        ttl_s: i64,
    },
    /// Both keys after the transaction, whether it put something or not.
    Found {
        leader: Option<Entry>,
        state: Option<Entry>,
    },
    /// The lease that was named is not there.
    NoLease,
    /// Nothing: what was asked may have happened.
    Away(String),
}

/// A key as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub value: Vec<u8>,
    /// Revisions.
    pub created: i64,
    pub changed: i64,
    /// That it is bound to; 0: none.
    pub lease: i64,
}

/// What follows from an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// One more question.
    Ask(Question),
    Done(Outcome),
}

/// What became of a campaign, a renewal or a save.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Won {
        term: Term,
        found: Found,
    },
    /// The leader's name, and the state as it is at present.
    Lost {
        leader: Option<String>,
        state: Option<Entry>,
    },
    /// It would have led, and the state that was there is gone.
    Gone,
    /// The leader's key names this one, and does not end.
    Unbound(String),
    Renewed(Term),
    Saved,
    Lapsed,
    Away(String),
}

/// The state that a new leader found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// What it loaded or tried to save last.
    NoNews,
    Nothing,
    State(Vec<u8>),
}

/// A lease that the store granted, and what it promised.
#[derive(Clone, Copy, Debug)]
struct HeldLease {
    id: i64,
    term: Term,
}

impl HeldLease {
    /// At the store it may last longer: the clocks run apart, or an answer was lost.
    fn has_run_out(self, now_us: u64) -> bool {
        self.term.until_us <= now_us
    }
}

/// What this coordinator knows of the state.
#[derive(Debug, Default)]
struct Seen {
    /// Revision of its last change; 0: it was not there. `None`: never looked.
    revision: Option<i64>,
    /// What may or may not have been saved.
    tried: Option<Vec<u8>>,
}

/// The question that is not answered; the times are those at which it was asked.
#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Renewing {
        sent_us: u64,
        campaigns: bool,
    },
    Granting {
        sent_us: u64,
    },
    Leading,
    /// For what was to be saved before, with the question that saves it.
    Looking {
        reign: i64,
        save: Question,
    },
    Saving {
        reign: i64,
    },
}

#[derive(Debug, Default)]
pub struct Claim {
    lease: Option<HeldLease>,
    /// The revision at which this coordinator created the leader's key.
    reign: Option<i64>,
    seen: Seen,
    /// A state was there once.
    has_state: bool,
    doing: Doing,
}

impl Claim {
    /// Tries to lead; with a lease that has some time left: the one at hand or a new one.
    pub fn campaign(&mut self, now_us: u64) -> Question {
        match self.lease {
            Some(lease) if lease.has_run_out(now_us) => self.ask_to_lead(lease),
            Some(lease) => self.prolong(lease, now_us),
            None => self.grant(now_us),
        }
    }

    /// Prolongs the lease; `None`: there is none that surely lasts.
    pub fn renew(&mut self, now_us: u64) -> Option<Question> {
        let lease = self.lease.filter(|lease| !lease.has_run_out(now_us))?;
        self.doing = Doing::Renewing { sent_us: now_us, campaigns: false };
        Some(Question::KeepAlive { lease: lease.id })
    }

    /// Replaces the state; `None`: it does not lead.
    pub fn save(&mut self, text: Vec<u8>) -> Option<Question> {
        let (reign, revision) = (self.reign?, self.seen.revision?);
        let may_be_saved = self.seen.tried.as_ref() == Some(&text);
        self.seen.tried = Some(text.clone());
        let save = Question::Save { reign, revision, text };
        if may_be_saved {
            self.doing = Doing::Looking { reign, save };
            return Some(Question::Look);
        }
        self.doing = Doing::Saving { reign };
        Some(save)
    }

    /// Gives up leadership and returns the lease to revoke. The machine is dropped, so whatever state is found on the
    /// next win counts as new.
    pub fn resign(&mut self) -> Option<i64> {
        self.reign = None;
        self.seen = Seen::default();
        self.lease.take().map(|lease| lease.id)
    }

    /// The lease at hand, which may have ended.
    pub fn lease(&self) -> Option<i64> {
        self.lease.map(|lease| lease.id)
    }

    /// Until when it surely lasts, by the own clock.
    pub fn lease_until_us(&self) -> Option<u64> {
        self.lease.map(|lease| lease.term.until_us)
    }

    /// Takes the answer to the last question.
    ///
    /// # Panics
    /// If it answers another one.
    pub fn handle(&mut self, now_us: u64, answer: Answer) -> Step {
        match (std::mem::take(&mut self.doing), answer) {
            (Doing::Renewing { sent_us, campaigns }, Answer::Kept { ttl_s }) if ttl_s > 0 => {
                let id = self.lease.expect("it is renewed").id;
                self.lease = Some(HeldLease { id, term: term(sent_us, ttl_s) });
                if campaigns { self.lead() } else { Step::Done(Outcome::Renewed(term(sent_us, ttl_s))) }
            }
            (Doing::Renewing { campaigns, .. }, Answer::Kept { .. } | Answer::NoLease) => {
                self.lease = None;
                if campaigns { Step::Ask(self.grant(now_us)) } else { Step::Done(Outcome::Lapsed) }
            }
            // It may have some time left: the transaction shows that.
            (Doing::Renewing { campaigns: true, .. }, Answer::Away(_)) if self.lease_lasts(now_us) => self.lead(),
            (Doing::Granting { sent_us }, Answer::Granted { lease, ttl_s }) => {
                self.lease = Some(HeldLease { id: lease, term: term(sent_us, ttl_s) });
                self.lead()
            }
            // None was named: whoever says so is not the store.
            (Doing::Granting { .. }, Answer::NoLease) => {
                Step::Done(Outcome::Away("a lease is missed where one was to be granted".to_owned()))
            }
            (Doing::Leading, Answer::Found { leader, state }) => self.handle_election(now_us, leader, state),
            // One that looks seldom knew that it may be over. Else it ended between two questions: the next attempt
            // begins with a new one.
            (Doing::Leading, Answer::NoLease) => {
                let had_run_out = self.lease.take().is_some_and(|lease| lease.has_run_out(now_us));
                if had_run_out {
                    return Step::Ask(self.grant(now_us));
                }
                Step::Done(Outcome::Away("the lease ended while it was used".to_owned()))
            }
            (Doing::Looking { reign, save }, Answer::Found { leader, state }) => {
                let (leader, tried) = (leader.as_ref(), self.seen.tried.as_ref());
                if state.as_ref().map(|state| &state.value) == tried {
                    return Step::Done(self.handle_saved(reign, leader, state));
                }
                self.doing = Doing::Saving { reign };
                Step::Ask(save)
            }
            (Doing::Saving { reign }, Answer::Found { leader, state }) => {
                Step::Done(self.handle_saved(reign, leader.as_ref(), state))
            }
            // Should the store answer, and never say that it is gone.
            (Doing::Leading, Answer::Away(why)) => {
                self.lease.take_if(|lease| lease.term.until_us + LET_GO_US <= now_us);
                Step::Done(Outcome::Away(why))
            }
            (Doing::Looking { .. } | Doing::Saving { .. }, Answer::NoLease) => Step::Done(Outcome::Lapsed),
            (Doing::Nothing, answer) => panic!("nothing was asked, and {answer:?} answered"),
            (_, Answer::Away(why)) => Step::Done(Outcome::Away(why)),
            (doing, answer) => panic!("{answer:?} is no answer to {doing:?}"),
        }
    }

    fn grant(&mut self, now_us: u64) -> Question {
        self.doing = Doing::Granting { sent_us: now_us };
        Question::Grant
    }

    fn prolong(&mut self, lease: HeldLease, now_us: u64) -> Question {
        self.doing = Doing::Renewing { sent_us: now_us, campaigns: true };
        Question::KeepAlive { lease: lease.id }
    }

    fn lead(&mut self) -> Step {
        Step::Ask(self.ask_to_lead(self.lease.expect("one leads with a lease")))
    }

    fn ask_to_lead(&mut self, lease: HeldLease) -> Question {
        self.doing = Doing::Leading;
        Question::Lead { lease: lease.id }
    }

    fn lease_lasts(&self, now_us: u64) -> bool {
        self.lease.is_some_and(|lease| !lease.has_run_out(now_us))
    }

    fn handle_election(&mut self, now_us: u64, leader: Option<Entry>, state: Option<Entry>) -> Step {
        let lease = self.lease.expect("one leads with a lease");
        self.has_state |= state.is_some();
        match leader {
            // The store is heard again, and has kept the lease: it is worth some time once it is prolonged.
            Some(leader) if leader.lease == lease.id && lease.has_run_out(now_us) => {
                Step::Ask(self.prolong(lease, now_us))
            }
            Some(leader) if leader.lease == lease.id && state.is_none() && self.has_state => {
                self.reign = None;
                Step::Done(Outcome::Gone)
            }
            // Also when the put of an earlier attempt happened and its answer was lost.
            Some(leader) if leader.lease == lease.id => Step::Done(self.enter(&leader, state, lease.term)),
            Some(leader) if leader.lease == 0 => {
                self.reign = None;
                self.seen = Seen::default();
                Step::Done(Outcome::Unbound(String::from_utf8_lossy(&leader.value).into_owned()))
            }
            leader => {
                self.reign = None;
                self.seen = Seen::default();
                // A later attempt is not to rest on what may be over by then.
                self.lease.take_if(|lease| lease.has_run_out(now_us));
                let leader = leader.map(|leader| String::from_utf8_lossy(&leader.value).into_owned());
                Step::Done(Outcome::Lost { leader, state })
            }
        }
    }

    /// Begins to reign: what is new of the state is told.
    fn enter(&mut self, leader: &Entry, state: Option<Entry>, term: Term) -> Outcome {
        self.reign = Some(leader.created);
        let revision = state.as_ref().map_or(0, |state| state.changed);
        let is_tried = state.as_ref().is_some_and(|state| Some(&state.value) == self.seen.tried.as_ref());
        let found = match state {
            _ if self.seen.revision == Some(revision) || is_tried => Found::NoNews,
            None => Found::Nothing,
            Some(state) => Found::State(state.value),
        };
        self.seen = Seen { revision: Some(revision), tried: None };
        Outcome::Won { term, found }
    }

    fn handle_saved(&mut self, reign: i64, leader: Option<&Entry>, state: Option<Entry>) -> Outcome {
        let still_leads = leader.is_some_and(|leader| leader.created == reign);
        match state.filter(|state| still_leads && Some(&state.value) == self.seen.tried.as_ref()) {
            Some(state) => {
                self.seen = Seen { revision: Some(state.changed), tried: None };
                self.has_state = true;
                Outcome::Saved
            }
            None => {
                self.reign = None;
                Outcome::Lapsed
            }
        }
    }
}

/// What a lease of so many seconds promises, counted from before it was asked for.
fn term(sent_us: u64, ttl_s: i64) -> Term {
    let whole_us = u64::try_from(ttl_s).unwrap_or(0) * 1_000_000;
    Term { until_us: sent_us + whole_us - whole_us / LEASE_MARGIN, renew_at_us: sent_us + whole_us / RENEWALS }
}
