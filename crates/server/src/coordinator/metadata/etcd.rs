//! etcd: the state under one key, the leader under another that ends with its lease.
//!
//! ```text
//! PREFIX leader   the leader's name; bound to its lease, so that it vanishes when the leader is gone     (created: c)
//! PREFIX state    JSON                                                                                   (changed: r)
//!
//! campaign   leader not there?               put leader, get state          else get both
//! save       leader created at c,
//!            state changed at r?             put state                      else get both
//! renew      keep the lease alive
//! watch      the leader's key
//! ```
//!
//! Whether a save may happen is decided by etcd in one transaction. So a coordinator that was stopped beyond its lease
//! changes nothing, whatever its clock says; its clock only tells when to stop pretending. A transaction whose answer
//! was lost may have happened: the next one finds what it wrote itself, and takes it as done. The watch only says when
//! to ask: nothing rests on what it tells, and whoever hears nothing asks now and then.
//!
//! Invariant: `reign` and `seen` are of the same moment, so whoever created the leader's key at `c`
//! knows the state at `r`.

mod client;
mod messages;
mod watch;

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use shorttail_coordinator::Durable;

use super::{Campaign, Changed, Lease, Metadata, State, Term, Trouble, decode};
use crate::config::EtcdConfig;
use client::{Client, bytes};
use messages::{Granted, Kept, KeyValue, Transacted};
use watch::Watch;

/// Seconds until etcd forgets a leader that it does not hear of: as long as a coordinator needs to call
/// a silent node dead.
pub const LEASE_S: i64 = 5;
/// A share of the lease that is not used: clocks may run apart, and something is done between looking and acting.
const LEASE_MARGIN: u32 = 10;
/// Renewals in a lease: two may fail.
const RENEWALS: u32 = 3;

pub struct Etcd {
    config: EtcdConfig,
    client: Client,
    watch: Option<Watch>,
    name: String,
    leader_key: String,
    state_key: String,
    lease: Option<HeldLease>,
    /// The revision at which this coordinator created the leader's key.
    reign: Option<i64>,
    seen: Seen,
}

/// A lease that etcd granted, and what it promised.
#[derive(Clone, Copy)]
struct HeldLease {
    id: i64,
    term: Term,
}

/// What this coordinator knows of the state.
#[derive(Default)]
struct Seen {
    /// Revision of its last change; 0: it was not there. `None`: never looked.
    revision: Option<i64>,
    /// What may or may not have been saved.
    tried: Option<Vec<u8>>,
}

impl Etcd {
    /// # Errors
    /// When a certificate cannot be read.
    pub fn new(config: &EtcdConfig, name: &str) -> anyhow::Result<Self> {
        Ok(Etcd {
            config: config.clone(),
            client: Client::new(config)?,
            watch: None,
            name: name.to_owned(),
            leader_key: bytes(format!("{}leader", config.prefix).as_bytes()),
            state_key: bytes(format!("{}state", config.prefix).as_bytes()),
            lease: None,
            reign: None,
            seen: Seen::default(),
        })
    }

    /// A lease that has some time left: the one at hand or a new one.
    fn ensure_lease(&mut self) -> Result<HeldLease, Trouble> {
        if self.lease.is_some() && matches!(self.renew(), Err(Trouble::Lapsed)) {
            self.lease = None;
        }
        if let Some(lease) = self.lease {
            return Ok(lease);
        }
        let sent = Instant::now();
        let granted: Granted = self.client.ask("/v3/lease/grant", &json!({ "TTL": LEASE_S.to_string() }))?;
        let lease = HeldLease { id: granted.id, term: term(sent, granted.ttl_s) };
        self.lease = Some(lease);
        Ok(lease)
    }

    fn get(&self, key: &str) -> Value {
        json!({ "request_range": { "key": key } })
    }

    fn transact(&mut self, compare: Value, put: Value) -> Result<Transacted, Trouble> {
        let gets = [self.get(&self.leader_key), self.get(&self.state_key)];
        let success = [json!({ "request_put": put }), gets[0].clone(), gets[1].clone()];
        self.client.ask("/v3/kv/txn", &json!({ "compare": compare, "success": success, "failure": gets }))
    }

    /// Begins to reign: what is new of the state is told.
    fn enter(&mut self, leader: &KeyValue, state: Option<&KeyValue>, term: Term) -> Result<Campaign, Trouble> {
        self.reign = Some(leader.create_revision);
        let revision = state.map_or(0, |state| state.mod_revision);
        let is_tried = state.is_some_and(|state| Some(&state.value) == self.seen.tried.as_ref());
        let is_known = self.seen.revision == Some(revision) || is_tried;
        let news = match state {
            _ if is_known => None,
            None => Some(State::NewCluster),
            Some(state) => Some(State::Known(self.decode(&state.value)?)),
        };
        self.seen = Seen { revision: Some(revision), tried: None };
        Ok(Campaign::Won { lease: Some(term), news })
    }

    fn decode(&self, text: &[u8]) -> anyhow::Result<Durable> {
        let text = std::str::from_utf8(text).context("the state in etcd is no text")?;
        decode(text, "the state in etcd")
    }
}

#[cfg(test)]
impl Etcd {
    /// Somebody who heeds no rule writes down that another one leads.
    pub fn overwrite_leader(&mut self, name: &str) {
        let put = json!({ "key": self.leader_key, "value": bytes(name.as_bytes()) });
        let done: Result<Value, Trouble> = self.client.ask("/v3/kv/put", &put);
        done.expect("etcd answers");
    }

    /// As if this process had been stopped for longer than its lease.
    pub fn forget_lease_at_etcd(&mut self) {
        let id = self.lease.expect("leads").id.to_string();
        let revoked: Result<Value, Trouble> = self.client.ask("/v3/lease/revoke", &json!({ "ID": id }));
        revoked.expect("etcd answers");
    }

    pub fn save_and_lose_the_answer(&mut self, durable: &Durable) {
        let revision = self.seen.revision;
        self.save(durable).expect("saved");
        self.seen = Seen { revision, tried: Some(serde_json::to_vec(durable).expect("plain data")) };
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
        let lease = self.ensure_lease()?;
        let compare =
            json!([{ "key": self.leader_key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }]);
        let name = bytes(self.name.as_bytes());
        let put = json!({ "key": self.leader_key, "value": name, "lease": lease.id.to_string() });
        let done = match self.transact(compare, put) {
            // The lease ended between two questions: the next attempt begins with a new one.
            Err(Trouble::Lapsed) => {
                self.lease = None;
                return Err(Trouble::Away("the lease ended while it was used".to_owned()));
            }
            done => done?,
        };
        let state = done.get(&self.state_key);
        match done.get(&self.leader_key) {
            // Also when the put of an earlier attempt happened and its answer was lost.
            Some(leader) if leader.lease == lease.id => self.enter(leader, state, lease.term),
            leader => {
                self.reign = None;
                self.seen = Seen::default();
                let leader = leader.map(|leader| String::from_utf8_lossy(&leader.value).into_owned());
                Ok(Campaign::Lost { leader, again_after: self.config.poll })
            }
        }
    }

    fn renew(&mut self) -> Result<Lease, Trouble> {
        let Some(lease) = self.lease else { return Err(Trouble::Lapsed) };
        let sent = Instant::now();
        let kept: Kept = self.client.ask("/v3/lease/keepalive", &json!({ "ID": lease.id.to_string() }))?;
        if kept.result.ttl_s <= 0 {
            self.lease = None;
            return Err(Trouble::Lapsed);
        }
        let term = term(sent, kept.result.ttl_s);
        self.lease = Some(HeldLease { term, ..lease });
        Ok(Some(term))
    }

    fn save(&mut self, durable: &Durable) -> Result<(), Trouble> {
        let (Some(reign), Some(revision)) = (self.reign, self.seen.revision) else { return Err(Trouble::Lapsed) };
        let text = serde_json::to_vec(durable).context("cannot serialise the state")?;
        let compare = json!([
            { "key": self.leader_key, "target": "CREATE", "result": "EQUAL", "create_revision": reign.to_string() },
            { "key": self.state_key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() },
        ]);
        let put = json!({ "key": self.state_key, "value": bytes(&text) });
        self.seen.tried = Some(text);
        let done = self.transact(compare, put)?;
        let still_leads = done.get(&self.leader_key).is_some_and(|leader| leader.create_revision == reign);
        let state = done.get(&self.state_key);
        match state.filter(|state| still_leads && Some(&state.value) == self.seen.tried.as_ref()) {
            Some(state) => {
                self.seen = Seen { revision: Some(state.mod_revision), tried: None };
                Ok(())
            }
            None => {
                self.reign = None;
                Err(Trouble::Lapsed)
            }
        }
    }

    fn resign(&mut self) {
        if let Some(lease) = self.lease.take() {
            // If nobody answers, the lease ends by itself.
            let _: Result<Value, Trouble> = self.client.ask("/v3/lease/revoke", &json!({ "ID": lease.id.to_string() }));
        }
        self.reign = None;
    }
}

/// What a lease of so many seconds promises, counted from before it was asked for.
fn term(sent: Instant, ttl_s: i64) -> Term {
    let whole = Duration::from_secs(u64::try_from(ttl_s).unwrap_or(0));
    Term { until: sent + whole - whole / LEASE_MARGIN, renew_at: sent + whole / RENEWALS }
}
