//! Tries to lead, keeps leading, and saves: what is to be asked of the metadata store next, and what its answer means.
//!
//! ```text
//!              won, other state: Leads(state)
//!   follows ---------------------------------> leads --- renewed: Renewed, saved: Saved
//!      ^  |                                    |   ^
//!      |  `-- lost: Follows                    |   | won, nothing changed meanwhile: Renewed
//!      |            lost: Follows              v   |
//!      `--------------------------------- lapsed --'--- won, other state: Leads(state)
//! ```
//!
//! One question is asked at a time. While the store is away nothing is told but that; what is to be saved waits. Each
//! `Leads` begins a reign with a number: what was wanted saved in an earlier one is dropped.
//!
//! Must not know: how a store is asked, or the coordinator's machine.

use crate::durable::Durable;

/// Microseconds between two attempts of one that follows to lead, and of one that leads at a store that is away.
pub const AGAIN_AFTER_US: u64 = 250_000;

/// The state that was found in the store.
#[derive(Clone, PartialEq, Debug)]
pub enum State {
    NewCluster,
    Known(Durable),
}

/// Until when a coordinator surely leads, and when to renew that; `None`: for as long as it lives.
pub type Lease = Option<Term>;

/// In monotonic microseconds of the coordinator's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    pub until_us: u64,
    pub renew_at_us: u64,
}

/// What came of trying to lead.
#[derive(Clone, PartialEq, Debug)]
pub enum Campaign {
    Won {
        lease: Lease,
        /// The state, unless it is what this coordinator loaded or tried to save last.
        news: Option<State>,
    },
    /// Another one leads: its name, as far as is known.
    Lost { leader: Option<String> },
}

/// What to do next with the store.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    Campaign,
    Renew,
    Save(Durable),
    /// Nothing until then, unless something is to be saved; `None`: for ever.
    Rest(Option<u64>),
}

/// What the store said.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Campaigned(Campaign),
    Renewed(Lease),
    Saved,
    /// Another coordinator leads or led meanwhile: nothing was changed.
    Lapsed,
    /// It cannot be asked, or did not answer: what was asked may have happened.
    Away(String),
}

/// What the coordinator is told.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// It leads, from this state on.
    Leads {
        reign: u64,
        state: State,
        until_us: Option<u64>,
    },
    /// It goes on to lead.
    Renewed {
        until_us: Option<u64>,
    },
    Saved {
        reign: u64,
    },
    /// It does not lead; who does, as far as is known.
    Follows {
        leader: Option<String>,
    },
    Away(String),
}

#[derive(Clone, PartialEq, Debug, Default)]
enum Standing {
    #[default]
    Unknown,
    Follows {
        leader: Option<String>,
    },
    Leads(Lease),
    /// Led until lately: whether it still may is to be asked.
    Lapsed,
}

/// One coordinator before the store.
#[derive(Debug, Default)]
pub struct Candidate {
    reign: u64,
    standing: Standing,
    pending: Option<Durable>,
    rests_until_us: u64,
}

impl Candidate {
    /// Has it saved, if the reign still lasts; at most one state at a time is under way.
    pub fn save(&mut self, reign: u64, durable: Durable) {
        if reign == self.reign {
            self.pending = Some(durable);
            self.rests_until_us = 0;
        }
    }

    /// To be asked again after each answer.
    pub fn next(&self, now_us: u64) -> Next {
        if now_us < self.rests_until_us {
            return Next::Rest(Some(self.rests_until_us));
        }
        let Standing::Leads(lease) = self.standing else { return Next::Campaign };
        match &self.pending {
            _ if lease.is_some_and(|term| term.renew_at_us <= now_us) => Next::Renew,
            Some(durable) => Next::Save(durable.clone()),
            None => Next::Rest(lease.map(|term| term.renew_at_us)),
        }
    }

    /// Takes the answer to what was to be done.
    pub fn handle(&mut self, now_us: u64, answer: Answer) -> Option<News> {
        match answer {
            Answer::Campaigned(Campaign::Won { lease, news }) => Some(self.win(lease, news)),
            Answer::Campaigned(Campaign::Lost { leader }) => {
                self.rests_until_us = now_us + AGAIN_AFTER_US;
                Some(self.lose(leader))
            }
            Answer::Renewed(lease) => {
                self.standing = Standing::Leads(lease);
                Some(News::Renewed { until_us: lease.map(|term| term.until_us) })
            }
            Answer::Saved => {
                self.pending = None;
                Some(News::Saved { reign: self.reign })
            }
            Answer::Lapsed => {
                self.standing = Standing::Lapsed;
                None
            }
            Answer::Away(why) => {
                self.rests_until_us = now_us + AGAIN_AFTER_US;
                Some(News::Away(why))
            }
        }
    }

    fn win(&mut self, lease: Lease, news: Option<State>) -> News {
        let until_us = lease.map(|term| term.until_us);
        self.standing = Standing::Leads(lease);
        let Some(state) = news else { return News::Renewed { until_us } };
        self.reign += 1;
        self.pending = None;
        News::Leads { reign: self.reign, state, until_us }
    }

    fn lose(&mut self, leader: Option<String>) -> News {
        self.pending = None;
        let follows = Standing::Follows { leader: leader.clone() };
        if self.standing != follows {
            self.standing = follows;
            self.reign += 1;
        }
        News::Follows { leader }
    }
}
