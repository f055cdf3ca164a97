//! etcd: the state under one key, the leader under another that ends with its lease. What is asked, and what it means,
//! is the claim's matter (`shorttail_coordinator::claim`); here is how it is asked. The leader's key is watched: that
//! only says when to ask.
//!
//! ```text
//! PREFIX leader   the leader's name
//! PREFIX state    JSON
//! ```
//!
//! Must not know: who leads when.

mod client;
mod messages;
mod names;
mod watch;

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use shorttail_coordinator::claim::{Answer, Claim, Entry, Found, Outcome, Question, Step};
use shorttail_coordinator::{Durable, DurableChoice};

use super::{Campaign, Changed, Lease, Metadata, State, Trouble, decode};
use crate::clock::Clock;
use crate::config::EtcdConfig;
use client::{Client, TIMEOUT, bytes};
use messages::{Granted, Kept, Transacted};
use watch::Watch;

/// Seconds until etcd forgets a leader that it does not hear of: little more than the least that it grants with its
/// usual settings. Should a gateway die with the leader, requests for what it owned wait this long and as long again,
/// and no longer than requests wait.
const LEASE_S: i64 = 2;
/// The longest that anything written is waited for: nearly what a lease that was just prolonged leaves.
const CHANGE_MAX: Duration = Duration::from_millis(1200);
/// Of a lease, what is kept to prolong it: the rest after a question in vain (250 ms), and as long for the answer.
const KEPT_TO_PROLONG: Duration = Duration::from_millis(500);

pub struct Etcd {
    config: EtcdConfig,
    client: Client,
    watch: Option<Watch>,
    clock: Clock,
    name: String,
    leader_key: String,
    state_key: String,
    claim: Claim,
    made_with: MadeWith,
}

/// What the cluster was made with, as one that stands by found it.
#[derive(Default)]
struct MadeWith {
    /// Of the state that was decoded last.
    revision: i64,
    choice: Option<DurableChoice>,
}

impl Etcd {
    /// # Errors
    /// When a certificate cannot be read.
    pub fn new(config: &EtcdConfig, name: &str, clock: Clock) -> anyhow::Result<Self> {
        Ok(Etcd {
            config: config.clone(),
            client: Client::new(config)?,
            watch: None,
            clock,
            name: name.to_owned(),
            leader_key: bytes(format!("{}leader", config.prefix).as_bytes()),
            state_key: bytes(format!("{}state", config.prefix).as_bytes()),
            claim: Claim::default(),
            made_with: MadeWith::default(),
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
                Step::Done(Outcome::Gone) => return Err(Trouble::Gone(self.what_is_gone())),
                Step::Done(Outcome::Unbound(leader)) => return Err(Trouble::Gone(self.what_is_unbound(&leader))),
                Step::Done(outcome) => return Ok(outcome),
            }
        }
    }

    /// For people.
    fn what_is_gone(&self) -> String {
        format!(
            "the state of this cluster is gone from etcd (key {0}state): put it back from a backup of etcd. Until then \
             clients are served and nothing else changes, and a coordinator that is started with {0} makes a new cluster, \
             which lets no member of this one in",
            self.config.prefix
        )
    }

    /// For people.
    fn what_is_unbound(&self, leader: &str) -> String {
        format!(
            "nobody leads: etcd's key {0}leader names {leader:?} and is bound to no lease, so that it stays for ever, as after \
             a copy of all keys; delete it (etcdctl del {0}leader)",
            self.config.prefix
        )
    }

    /// How long this may take. What is written takes etcd a commit, and more time is given while the lease leaves some:
    /// whoever asked in vain rests, and is to prolong it then.
    fn time_for(&self, question: &Question) -> Duration {
        match question {
            Question::KeepAlive { .. } | Question::Look => TIMEOUT,
            Question::Grant => CHANGE_MAX,
            Question::Lead { .. } | Question::Save { .. } => {
                let left_us = self.claim.lease_until_us().unwrap_or(0).saturating_sub(self.now_us());
                time_to_change(Duration::from_micros(left_us))
            }
        }
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Trouble> {
        let within = self.time_for(question);
        let created = |revision: i64| {
            json!({ "key": self.leader_key, "target": "CREATE", "result": "EQUAL",
                "create_revision": revision.to_string() })
        };
        match question {
            Question::Grant => {
                let asked = json!({ "TTL": LEASE_S.to_string() });
                let Granted { id, ttl_s } = self.client.ask_within("/v3/lease/grant", &asked, within)?;
                Ok(Answer::Granted { lease: id, ttl_s })
            }
            Question::KeepAlive { lease } => {
                let kept: Kept = self.client.ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }))?;
                Ok(Answer::Kept { ttl_s: kept.result.ttl_s })
            }
            Question::Lead { lease } => {
                let name = bytes(self.name.as_bytes());
                let put = json!({ "key": self.leader_key, "value": name, "lease": lease.to_string() });
                self.transact(json!([created(0)]), Some(put), within)
            }
            Question::Look => self.transact(json!([]), None, within),
            Question::Save { reign, revision, text } => {
                let unchanged = json!({ "key": self.state_key, "target": "MOD", "result": "EQUAL",
                    "mod_revision": revision.to_string() });
                let put = json!({ "key": self.state_key, "value": bytes(text) });
                self.transact(json!([created(*reign), unchanged]), Some(put), within)
            }
        }
    }

    /// One that puts nothing is answered without a commit.
    fn transact(&mut self, compare: Value, put: Option<Value>, within: Duration) -> Result<Answer, Trouble> {
        let get = |key: &str| json!({ "request_range": { "key": key } });
        let gets = [get(&self.leader_key), get(&self.state_key)];
        let put = put.map(|put| json!({ "request_put": put }));
        let success: Vec<Value> = put.into_iter().chain(gets.clone()).collect();
        let asked = json!({ "compare": compare, "success": success, "failure": gets });
        let done: Transacted = self.client.ask_within("/v3/kv/txn", &asked, within)?;
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

    /// What the cluster was made with. That stays, but each state is decoded: a later version may lead, and write what
    /// this one cannot read. Better it says so now than when it is to lead.
    fn choice(&mut self, state: Option<&Entry>) -> anyhow::Result<Option<DurableChoice>> {
        let Some(state) = state else { return Ok(None) };
        if self.made_with.revision != state.changed {
            self.made_with = MadeWith { revision: state.changed, choice: decode_bytes(&state.value)?.choice };
        }
        Ok(self.made_with.choice.clone())
    }

    fn revoke(&mut self, lease: i64) -> Result<Value, Trouble> {
        self.client.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }))
    }
}

/// With so much left of the lease.
fn time_to_change(left: Duration) -> Duration {
    left.saturating_sub(KEPT_TO_PROLONG).clamp(TIMEOUT, CHANGE_MAX)
}

fn decode_bytes(text: &[u8]) -> anyhow::Result<Durable> {
    let text = std::str::from_utf8(text).context("the state in etcd is no text")?;
    decode(text, "the state in etcd")
}

#[cfg(test)]
impl Etcd {
    /// Somebody who heeds no rule writes down that another one leads, for as long as a lease lasts or for ever.
    pub fn overwrite_leader(&mut self, name: &str, ttl_s: Option<i64>) {
        let lease = ttl_s.map_or(0, |ttl_s| {
            let granted: Result<Granted, Trouble> =
                self.client.ask("/v3/lease/grant", &json!({ "TTL": ttl_s.to_string() }));
            granted.expect("etcd answers").id
        });
        let put = json!({ "key": self.leader_key, "value": bytes(name.as_bytes()), "lease": lease.to_string() });
        let done: Result<Value, Trouble> = self.client.ask("/v3/kv/put", &put);
        done.expect("etcd answers");
    }

    /// Somebody deletes both keys; what the state was.
    pub fn delete_state(&mut self) -> Vec<u8> {
        let got: Value = self.client.ask("/v3/kv/range", &json!({ "key": self.state_key })).expect("etcd answers");
        let value = got["kvs"][0]["value"].as_str().expect("it was there").to_owned();
        for key in [&self.leader_key, &self.state_key] {
            let done: Result<Value, Trouble> = self.client.ask("/v3/kv/deleterange", &json!({ "key": key }));
            done.expect("etcd answers");
        }
        value.into_bytes()
    }

    pub fn delete_leader(&mut self) {
        let done: Result<Value, Trouble> = self.client.ask("/v3/kv/deleterange", &json!({ "key": self.leader_key }));
        done.expect("etcd answers");
    }

    /// Puts back what was deleted.
    pub fn put_state(&mut self, value: &[u8]) {
        let value = std::str::from_utf8(value).expect("text");
        let put = json!({ "key": self.state_key, "value": value });
        let done: Result<Value, Trouble> = self.client.ask("/v3/kv/put", &put);
        done.expect("etcd answers");
    }

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
    fn watch(&mut self, changed: Changed) -> anyhow::Result<()> {
        // Its questions are not to wait for others, and end apart from them.
        let client = Client::new(&self.config)?;
        self.watch = Some(Watch::start(client, self.leader_key.clone(), changed).context("cannot start a thread")?);
        Ok(())
    }

    fn campaign(&mut self) -> Result<Campaign, Trouble> {
        let question = self.claim.campaign(self.now_us());
        match self.settle(question)? {
            Outcome::Won { term, found } => {
                let news = match found {
                    Found::NoNews => None,
                    Found::Nothing => Some(State::NewCluster),
                    Found::State(text) => Some(State::Known(decode_bytes(&text)?)),
                };
                Ok(Campaign::Won { lease: Some(term), news })
            }
            Outcome::Lost { leader, state } => {
                let again_after_us = u64::try_from(self.config.poll.as_micros()).unwrap_or(u64::MAX);
                Ok(Campaign::Lost { leader, choice: self.choice(state.as_ref())?, again_after_us })
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever asks in vain as late as a lease is prolonged rests, and still has time to prolong it.
    #[test]
    fn what_is_written_leaves_time_to_prolong_the_lease() {
        let lasts = Duration::from_secs(2) * 9 / 10;
        assert_eq!(time_to_change(lasts), CHANGE_MAX);
        let until_renewal = Duration::from_secs(2) / 3;
        let rest = Duration::from_micros(shorttail_coordinator::candidate::AGAIN_AFTER_US);
        assert!(until_renewal + time_to_change(lasts - until_renewal) + rest + rest <= lasts);
        assert_eq!(time_to_change(Duration::ZERO), TIMEOUT, "nothing is left to be kept");
    }
}
