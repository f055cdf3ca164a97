//! Tries to lead, keeps leading, and saves: what is to be asked of the metadata store next, and what its answer means.
//!
//! ```text
//!              won, other state: Leads(state)
//!   follows ---------------------------------> leads --- renewed: Renewed, saved: Saved
//!      ^  |                                    |   ^
//!      |  `-- lost: Follows                    |   | won, nothing changed meanwhile: Renewed
//!      |            lost: Follows              v   |
//!      `--------------------------------- lapsed --'--- won, other state: Leads(state)
//!
//!   leads --- renews its lease for longer than that lasts, and nothing is saved: Resigned ---> follows, for a while
//! ```
//!
//! One question is asked at a time. While the store is away nothing is told but that; what is to be saved waits. Each
//! `Leads` begins a reign with a number: what was wanted saved in an earlier one is dropped.
//!
//! Whoever is told that another one may lead or not *looks*, which is to campaign: one that follows at once, one that
//! leads when nothing is to be saved, as a save shows it as well. Nothing rests on being told: one that follows looks
//! now and then by itself, and one that leads renews its lease.
//!
//! One that may renew and not save (a store asks for less to prolong a lease) would keep others from leading for ever,
//! and do nothing. So it resigns, and lets others try first: alone, it tries again, as it may be the store that takes
//! nothing. So does one that wins and hears of no state, although it did not lead a moment ago.
//!
//! Must not know: how a store is asked, or the coordinator's machine.

use crate::durable::{Durable, DurableChoice};

/// Microseconds between two attempts at a store that is away.
pub const AGAIN_AFTER_US: u64 = 250_000;
/// Microseconds from a resignation until it tries to lead again: others have done so by then, several times.
pub const RESIGNED_US: u64 = 10_000_000;
/// Renewals in which nothing was saved until it resigns: three are a lease.
const RENEWALS_IN_VAIN_MAX: u32 = 4;

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
    /// Another one leads: its name, and what the cluster was made with, as far as is known. So many microseconds later
    /// to be tried again, if nothing is told before.
    Lost { leader: Option<String>, choice: Option<DurableChoice>, again_after_us: u64 },
}

/// What to do next with the store.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    Campaign,
    Renew,
    Save(Durable),
    /// Let another one lead.
    Resign,
    /// Nothing until then, unless something is to be saved or looked at; `None`: for ever.
    Rest(Option<u64>),
}

/// What the store said.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Campaigned(Campaign),
    Renewed(Lease),
    Saved,
    Resigned,
    /// Another coordinator leads or led meanwhile: nothing was changed.
    Lapsed,
    /// The state that it kept is gone, or it says for ever that another one leads: nobody leads until people have seen
    /// to it.
    Gone(String),
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
    /// It does not lead; who does, and what the cluster was made with, as far as is known.
    Follows {
        leader: Option<String>,
        choice: Option<DurableChoice>,
    },
    /// It leads no more, as it could save nothing, for this reason.
    Resigned(String),
    /// The store cannot be used at present.
    Away(String),
}

/// What is to be saved, and is not.
#[derive(Clone, PartialEq, Debug)]
struct Refused {
    why: String,
    /// How often the lease was renewed since.
    renewal_count: u32,
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
    refused: Option<Refused>,
    /// A save is asked for.
    is_saving: bool,
    rests_until_us: u64,
    /// It resigned, and lets others lead until then.
    resigned_until_us: u64,
    /// Who leads may have changed since it was asked last; or since it is asked now, by one that leads.
    looks: bool,
    is_looking: bool,
}

impl Candidate {
    /// Has it saved, if the reign still lasts; at most one state at a time is under way.
    pub fn save(&mut self, reign: u64, durable: Durable) {
        if reign == self.reign {
            self.pending = Some(durable);
            self.rests_until_us = 0;
        }
    }

    /// Another one may have begun or ceased to lead.
    pub fn look(&mut self) {
        self.looks = true;
    }

    /// To be done before anything is told, saved or asked for again; and to be asked again after each answer.
    pub fn next(&mut self, now_us: u64) -> Next {
        if now_us < self.resigned_until_us {
            return Next::Rest(Some(self.resigned_until_us));
        }
        let is_roused = self.looks && matches!(self.standing, Standing::Follows { .. });
        if now_us < self.rests_until_us && !is_roused {
            return Next::Rest(Some(self.rests_until_us));
        }
        let Standing::Leads(lease) = self.standing else { return self.campaign() };
        let is_in_vain = |refused: &Refused| refused.renewal_count >= RENEWALS_IN_VAIN_MAX;
        match &self.pending {
            _ if self.refused.as_ref().is_some_and(is_in_vain) => Next::Resign,
            _ if lease.is_some_and(|term| term.renew_at_us <= now_us) => Next::Renew,
            Some(durable) => {
                self.is_saving = true;
                Next::Save(durable.clone())
            }
            None if self.looks => self.campaign(),
            None => Next::Rest(lease.map(|term| term.renew_at_us)),
        }
    }

    /// What is told from here on is reason for another look.
    fn campaign(&mut self) -> Next {
        self.is_looking = std::mem::take(&mut self.looks) && matches!(self.standing, Standing::Leads(_));
        Next::Campaign
    }

    /// Takes the answer to what was to be done.
    pub fn handle(&mut self, now_us: u64, answer: Answer) -> Option<News> {
        let was_looking = std::mem::take(&mut self.is_looking);
        let was_saving = std::mem::take(&mut self.is_saving);
        match answer {
            Answer::Campaigned(Campaign::Won { lease, news }) => Some(self.win(lease, news)),
            Answer::Campaigned(Campaign::Lost { leader, choice, again_after_us }) => {
                self.rests_until_us = now_us + again_after_us;
                self.lose(leader.clone());
                Some(News::Follows { leader, choice })
            }
            Answer::Renewed(lease) => {
                self.standing = Standing::Leads(lease);
                self.refused.iter_mut().for_each(|refused| refused.renewal_count += 1);
                Some(News::Renewed { until_us: lease.map(|term| term.until_us) })
            }
            Answer::Saved => {
                (self.pending, self.refused) = (None, None);
                Some(News::Saved { reign: self.reign })
            }
            Answer::Resigned => {
                self.resigned_until_us = now_us + RESIGNED_US;
                let refused = self.refused.take();
                self.lose(None);
                refused.map(|refused| News::Resigned(refused.why))
            }
            Answer::Lapsed => {
                self.standing = Standing::Lapsed;
                None
            }
            Answer::Gone(why) => {
                // It is not to go on by renewing: what it led with is no more.
                self.standing = Standing::Lapsed;
                self.rests_until_us = now_us + AGAIN_AFTER_US;
                Some(News::Away(why))
            }
            Answer::Away(why) => {
                self.looks |= was_looking;
                if was_saving {
                    let renewal_count = self.refused.as_ref().map_or(0, |refused| refused.renewal_count);
                    self.refused = Some(Refused { why: why.clone(), renewal_count });
                }
                self.rests_until_us = now_us + AGAIN_AFTER_US;
                Some(News::Away(why))
            }
        }
    }

    fn win(&mut self, lease: Lease, news: Option<State>) -> News {
        let until_us = lease.map(|term| term.until_us);
        // One that was told to look rested as a follower, for longer than a lease perhaps.
        self.rests_until_us = 0;
        let has_led = matches!(self.standing, Standing::Leads(_) | Standing::Lapsed);
        self.standing = Standing::Leads(lease);
        let state = match news {
            Some(state) => state,
            None if has_led => return News::Renewed { until_us },
            // It would keep others from leading, and do nothing.
            None => {
                let why = "it leads, and was not told from which state on".to_owned();
                self.refused = Some(Refused { why: why.clone(), renewal_count: RENEWALS_IN_VAIN_MAX });
                return News::Away(why);
            }
        };
        self.reign += 1;
        (self.pending, self.refused) = (None, None);
        News::Leads { reign: self.reign, state, until_us }
    }

    fn lose(&mut self, leader: Option<String>) {
        (self.pending, self.refused) = (None, None);
        let follows = Standing::Follows { leader };
        if self.standing != follows {
            self.standing = follows;
            self.reign += 1;
        }
    }
}
