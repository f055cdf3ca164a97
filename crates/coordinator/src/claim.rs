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
//! Whether a save may happen is decided by the store in one transaction. So a coordinator that was stopped beyond its
//! lease changes nothing, whatever its clock says; its clock only tells when to stop pretending. A transaction whose
//! answer was lost may have happened: the next one finds what it wrote itself, and takes it as done.
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
    Won { term: Term, found: Found },
    Lost { leader: Option<String> },
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
    doing: Doing,
}

impl Claim {
    /// Tries to lead; with a lease that has some time left: the one at hand or a new one.
    pub fn campaign(&mut self, now_us: u64) -> Question {
        match self.lease {
            Some(lease) => {
                self.doing = Doing::Renewing { sent_us: now_us, campaigns: true };
                Question::KeepAlive { lease: lease.id }
            }
            None => self.grant(now_us),
        }
    }

    /// Prolongs the lease; `None`: there is none.
    pub fn renew(&mut self, now_us: u64) -> Option<Question> {
        let lease = self.lease?;
        self.doing = Doing::Renewing { sent_us: now_us, campaigns: false };
        Some(Question::KeepAlive { lease: lease.id })
    }

    /// Replaces the state; `None`: it does not lead.
    pub fn save(&mut self, text: Vec<u8>) -> Option<Question> {
        let (reign, revision) = (self.reign?, self.seen.revision?);
        self.seen.tried = Some(text.clone());
        self.doing = Doing::Saving { reign };
        Some(Question::Save { reign, revision, text })
    }

    /// Leads no more; the lease that is to be ended.
    pub fn resign(&mut self) -> Option<i64> {
        self.reign = None;
        self.lease.take().map(|lease| lease.id)
    }

    /// The lease at hand, which may have ended.
    pub fn lease(&self) -> Option<i64> {
        self.lease.map(|lease| lease.id)
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
            (Doing::Renewing { campaigns: true, .. }, Answer::Away(_)) => self.lead(),
            (Doing::Granting { sent_us }, Answer::Granted { lease, ttl_s }) => {
                self.lease = Some(HeldLease { id: lease, term: term(sent_us, ttl_s) });
                self.lead()
            }
            (Doing::Leading, Answer::Found { leader, state }) => Step::Done(self.handle_election(leader, state)),
            // The lease ended between two questions: the next attempt begins with a new one.
            (Doing::Leading, Answer::NoLease) => {
                self.lease = None;
                Step::Done(Outcome::Away("the lease ended while it was used".to_owned()))
            }
            (Doing::Saving { reign }, Answer::Found { leader, state }) => {
                Step::Done(self.handle_saved(reign, leader.as_ref(), state))
            }
            (Doing::Saving { .. }, Answer::NoLease) => Step::Done(Outcome::Lapsed),
            (Doing::Nothing, answer) => panic!("nothing was asked, and {answer:?} answered"),
            (_, Answer::Away(why)) => Step::Done(Outcome::Away(why)),
            (doing, answer) => panic!("{answer:?} is no answer to {doing:?}"),
        }
    }

    fn grant(&mut self, now_us: u64) -> Question {
        self.doing = Doing::Granting { sent_us: now_us };
        Question::Grant
    }

    fn lead(&mut self) -> Step {
        self.doing = Doing::Leading;
        Step::Ask(Question::Lead { lease: self.lease.expect("one leads with a lease").id })
    }

    fn handle_election(&mut self, leader: Option<Entry>, state: Option<Entry>) -> Outcome {
        let lease = self.lease.expect("one leads with a lease");
        match leader {
            // Also when the put of an earlier attempt happened and its answer was lost.
            Some(leader) if leader.lease == lease.id => self.enter(&leader, state, lease.term),
            leader => {
                self.reign = None;
                self.seen = Seen::default();
                Outcome::Lost { leader: leader.map(|leader| String::from_utf8_lossy(&leader.value).into_owned()) }
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
