//! etcd: the state under one key, the leader under another that ends with its lease. What is asked, and what it means, is
//! the claim's matter (`shorttail_coordinator::claim`); here is how it is asked.
//!
//! ```text
//! PREFIX leader   the leader's name
//! PREFIX state    JSON
//! ```
//!
//! Must not know: who leads when.

mod client;
mod messages;

use anyhow::Context;
use serde_json::{Value, json};
use shorttail_coordinator::Durable;
use shorttail_coordinator::claim::{Answer, Claim, Entry, Found, Outcome, Question, Step};

use super::{Campaign, Lease, Metadata, State, Trouble, decode};
use crate::clock::Clock;
use crate::config::EtcdConfig;
use client::{Client, bytes};
use messages::{Granted, Kept, Transacted};

/// Seconds until etcd forgets a leader that it does not hear of: as long as a coordinator needs to call
/// a silent node dead.
pub const LEASE_S: i64 = 5;

pub struct Etcd {
    client: Client,
    clock: Clock,
    name: String,
    leader_key: String,
    state_key: String,
    claim: Claim,
}

impl Etcd {
    /// # Errors
    /// When a certificate cannot be read.
    pub fn new(config: &EtcdConfig, name: &str, clock: Clock) -> anyhow::Result<Self> {
        Ok(Etcd {
            client: Client::new(config)?,
            clock,
            name: name.to_owned(),
            leader_key: bytes(format!("{}leader", config.prefix).as_bytes()),
            state_key: bytes(format!("{}state", config.prefix).as_bytes()),
            claim: Claim::default(),
        })
    }

    fn now_us(&self) -> u64 {
        self.clock.now().mono_us
    }

    /// Asks until the claim knows what became of it.
    fn settle(&mut self, mut question: Question) -> Result<Outcome, Trouble> {
        loop {
            let answer = match self.ask(&question) {
                Ok(answer) => answer,
                Err(Trouble::Lapsed) => Answer::NoLease,
                Err(Trouble::Away(why)) => Answer::Away(why),
                Err(fatal) => return Err(fatal),
            };
            match self.claim.handle(self.now_us(), answer) {
                Step::Ask(next) => question = next,
                Step::Done(Outcome::Lapsed) => return Err(Trouble::Lapsed),
                Step::Done(Outcome::Away(why)) => return Err(Trouble::Away(why)),
                Step::Done(outcome) => return Ok(outcome),
            }
        }
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Trouble> {
        let created = |revision: i64| {
            json!({ "key": self.leader_key, "target": "CREATE", "result": "EQUAL",
                "create_revision": revision.to_string() })
        };
        match question {
            Question::Grant => {
                let asked = json!({ "TTL": LEASE_S.to_string() });
                let Granted { id, ttl_s } = self.client.ask("/v3/lease/grant", &asked)?;
                Ok(Answer::Granted { lease: id, ttl_s })
            }
            Question::KeepAlive { lease } => {
                let kept: Kept = self.client.ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }))?;
                Ok(Answer::Kept { ttl_s: kept.result.ttl_s })
            }
            Question::Lead { lease } => {
                let name = bytes(self.name.as_bytes());
                let put = json!({ "key": self.leader_key, "value": name, "lease": lease.to_string() });
                self.transact(json!([created(0)]), put)
            }
            Question::Save { reign, revision, text } => {
                let unchanged = json!({ "key": self.state_key, "target": "MOD", "result": "EQUAL",
                    "mod_revision": revision.to_string() });
                let put = json!({ "key": self.state_key, "value": bytes(text) });
                self.transact(json!([created(*reign), unchanged]), put)
            }
        }
    }

    fn transact(&mut self, compare: Value, put: Value) -> Result<Answer, Trouble> {
        let get = |key: &str| json!({ "request_range": { "key": key } });
        let gets = [get(&self.leader_key), get(&self.state_key)];
        let success = [json!({ "request_put": put }), gets[0].clone(), gets[1].clone()];
        let asked = json!({ "compare": compare, "success": success, "failure": gets });
        let done: Transacted = self.client.ask("/v3/kv/txn", &asked)?;
        let entry = |key: &str| {
            done.get(key).map(|found| Entry {
                value: found.value.clone(),
                created: found.create_revision,
                changed: found.mod_revision,
                lease: found.lease,
            })
        };
        Ok(Answer::Found { leader: entry(&self.leader_key), state: entry(&self.state_key) })
    }

    fn revoke(&mut self, lease: i64) -> Result<Value, Trouble> {
        self.client.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }))
    }
}

#[cfg(test)]
impl Etcd {
    /// As if this process had been stopped for longer than its lease.
    pub fn forget_lease_at_etcd(&mut self) {
        let lease = self.claim.lease().expect("leads");
        self.revoke(lease).expect("etcd answers");
    }

    pub fn save_and_lose_the_answer(&mut self, durable: &Durable) {
        let text = serde_json::to_vec(durable).expect("plain data");
        let question = self.claim.save(text).expect("leads");
        self.ask(&question).expect("saved");
        let lost = self.claim.handle(0, Answer::Away("the answer was lost".to_owned()));
        assert!(matches!(lost, Step::Done(Outcome::Away(_))), "{lost:?}");
    }
}

impl Metadata for Etcd {
    fn campaign(&mut self) -> Result<Campaign, Trouble> {
        let question = self.claim.campaign(self.now_us());
        match self.settle(question)? {
            Outcome::Won { term, found } => {
                let news = match found {
                    Found::NoNews => None,
                    Found::Nothing => Some(State::NewCluster),
                    Found::State(text) => {
                        let text = std::str::from_utf8(&text).context("the state in etcd is no text")?;
                        Some(State::Known(decode(text, "the state in etcd")?))
                    }
                };
                Ok(Campaign::Won { lease: Some(term), news })
            }
            Outcome::Lost { leader } => Ok(Campaign::Lost { leader }),
            other => panic!("{other:?} came of a campaign"),
        }
    }

    fn renew(&mut self) -> Result<Lease, Trouble> {
        let question = self.claim.renew(self.now_us()).ok_or(Trouble::Lapsed)?;
        match self.settle(question)? {
            Outcome::Renewed(term) => Ok(Some(term)),
            other => panic!("{other:?} came of a renewal"),
        }
    }

    fn save(&mut self, durable: &Durable) -> Result<(), Trouble> {
        let text = serde_json::to_vec(durable).context("cannot serialise the state")?;
        let question = self.claim.save(text).ok_or(Trouble::Lapsed)?;
        match self.settle(question)? {
            Outcome::Saved => Ok(()),
            other => panic!("{other:?} came of a save"),
        }
    }

    fn resign(&mut self) {
        if let Some(lease) = self.claim.resign() {
            // If nobody answers, the lease ends by itself.
            let _ = self.revoke(lease);
        }
    }
}
