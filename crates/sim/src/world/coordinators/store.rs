//! The metadata store: keys with revisions and leases, as etcd has them. A write of who leads no more is refused here.
//!
//! Must not know: how a question travels, or what the state says.

use std::collections::BTreeMap;

use shorttail_coordinator::claim::{Answer, Entry, Question};

#[derive(Default)]
pub(super) struct Store {
    revision: i64,
    /// Until when each lasts.
    leases: BTreeMap<i64, u64>,
    leader: Option<Entry>,
    state: Option<Entry>,
    pub away_until_us: u64,
    /// The coordinator of which it takes nothing, though it prolongs its lease.
    pub refused: Option<usize>,
}

impl Store {
    /// Does what is asked, at this time. `name`: of who asks; `ttl_s`: what a lease promises, in seconds.
    pub fn answer(&mut self, now_us: u64, name: &str, ttl_s: i64, question: &Question) -> Answer {
        self.end_leases(now_us);
        let until_us = now_us + ttl_s as u64 * 1_000_000;
        match question {
            Question::Grant => {
                self.revision += 1;
                self.leases.insert(self.revision, until_us);
                Answer::Granted { lease: self.revision, ttl_s }
            }
            Question::KeepAlive { lease } => match self.leases.get_mut(lease) {
                Some(ends_us) => {
                    *ends_us = until_us;
                    Answer::Kept { ttl_s }
                }
                None => Answer::Kept { ttl_s: 0 },
            },
            Question::Lead { lease } if self.leader.is_none() && !self.leases.contains_key(lease) => Answer::NoLease,
            Question::Lead { lease } => {
                if self.leader.is_none() {
                    self.leader = Some(self.put(None, name.as_bytes().to_vec(), *lease));
                }
                self.found()
            }
            Question::Look => self.found(),
            Question::Save { reign, revision, text } => {
                let leads = self.leader.as_ref().is_some_and(|leader| leader.created == *reign);
                if leads && self.state.as_ref().map_or(0, |state| state.changed) == *revision {
                    let before = self.state.take();
                    self.state = Some(self.put(before, text.clone(), 0));
                }
                self.found()
            }
        }
    }

    /// As a lock on a directory that ends with its process: whoever comes next finds nobody who leads.
    pub fn forget_leader(&mut self) {
        self.leases.clear();
        self.leader = None;
    }

    fn end_leases(&mut self, now_us: u64) {
        self.leases.retain(|_, until_us| *until_us > now_us);
        self.leader.take_if(|leader| !self.leases.contains_key(&leader.lease));
    }

    fn put(&mut self, before: Option<Entry>, value: Vec<u8>, lease: i64) -> Entry {
        self.revision += 1;
        Entry { value, created: before.map_or(self.revision, |it| it.created), changed: self.revision, lease }
    }

    fn found(&self) -> Answer {
        Answer::Found { leader: self.leader.clone(), state: self.state.clone() }
    }
}
