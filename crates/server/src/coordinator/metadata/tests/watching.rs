//! What coordinators hear of each other over a real etcd. None of them looks by itself: they would look an hour later.
//! But one that hears nothing.

use std::sync::Arc;
use std::time::Instant;

use mio::{Events, Poll, Token, Waker};
use shorttail_coordinator::candidate::News;

use super::super::keeper::Keeper;
use super::*;

/// Until a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A coordinator without its loop.
struct Ear {
    keeper: Keeper,
    poll: Poll,
}

impl Ear {
    fn open(server: &EtcdServer, name: &str) -> Self {
        let clock = Clock::start();
        Ear::before(Box::new(Etcd::new(&server.config(), name, clock).expect("no certificates")), clock)
    }

    fn before(store: Box<dyn Metadata>, clock: Clock) -> Self {
        let poll = Poll::new().expect("epoll");
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        Ear { keeper: Keeper::start(store, clock, waker).expect("a thread"), poll }
    }

    /// Waits for news that are wanted.
    fn hear<A>(&mut self, wanted: impl Fn(News) -> Option<A>) -> A {
        let mut events = Events::with_capacity(1);
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(news) = self.keeper.poll_news() {
                if let Some(found) = wanted(news.expect("etcd can be used")) {
                    return found;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not heard");
            self.poll.poll(&mut events, Some(left)).expect("epoll");
        }
    }

    /// As a loop does that lives.
    fn take_all(&mut self) {
        while self.keeper.poll_news().is_some() {}
    }

    fn leads(&mut self) {
        self.hear(|news| matches!(news, News::Leads { .. }).then_some(()));
    }

    fn follows(&mut self, name: &str) {
        self.hear(|news| matches!(news, News::Follows { leader, .. } if leader.as_deref() == Some(name)).then_some(()));
    }
}

/// An etcd that tells of no change.
struct Deaf(Etcd);

impl Metadata for Deaf {
    fn watch(&mut self, _: Changed) -> anyhow::Result<()> {
        Ok(())
    }

    fn campaign(&mut self) -> Result<Campaign, Trouble> {
        self.0.campaign()
    }

    fn renew(&mut self) -> Result<Lease, Trouble> {
        self.0.renew()
    }

    fn save(&mut self, durable: &Durable) -> Result<(), Trouble> {
        self.0.save(durable)
    }

    fn resign(&mut self) {
        self.0.resign();
    }
}

#[test]
fn who_hears_nothing_leads_and_takes_over_all_the_same() {
    let server = EtcdServer::start();
    let deaf = |name: &str| {
        let (clock, config) = (Clock::start(), EtcdConfig { poll: Duration::from_millis(100), ..server.config() });
        Ear::before(Box::new(Deaf(Etcd::new(&config, name, clock).expect("no certificates"))), clock)
    };
    let mut leader = deaf("leader");
    leader.leads();
    leader.hear(|news| matches!(news, News::Renewed { .. }).then_some(()));
    let mut follower = deaf("follower");
    follower.follows("leader");
    drop(leader);
    follower.leads();
}

#[test]
fn who_follows_hears_that_the_leader_resigned_and_who_leads_then() {
    let server = EtcdServer::start();
    let mut first = Ear::open(&server, "first");
    first.leads();
    let mut others = ["second", "third"].map(|name| Ear::open(&server, name));
    for other in &mut others {
        first.take_all();
        other.follows("first");
    }
    drop(first);
    let [second, third] = &mut others;
    let is_second = second.hear(|news| match news {
        News::Leads { .. } => Some(true),
        News::Follows { leader, .. } if leader.as_deref() == Some("third") => Some(false),
        _ => None,
    });
    if is_second { third.follows("second") } else { third.leads() }
}

#[test]
fn who_follows_hears_that_the_lease_of_the_leader_ended() {
    let server = EtcdServer::start();
    let mut dead = server.open("dead");
    won(dead.campaign());
    let mut follower = Ear::open(&server, "follower");
    follower.follows("dead");
    follower.leads();
}

/// Its thread could go on for ever, and nobody would deal what a dead gateway owned.
#[test]
fn a_leader_whose_loop_stands_still_is_followed() {
    let server = EtcdServer::start();
    let mut stuck = Ear::open(&server, "stuck");
    stuck.leads();
    let mut follower = Ear::open(&server, "follower");
    follower.leads();
    stuck.follows("follower");
}

#[test]
fn who_follows_hears_it_of_an_etcd_that_restarted() {
    let mut server = EtcdServer::start();
    let mut leader = Ear::open(&server, "leader");
    leader.leads();
    let mut follower = Ear::open(&server, "follower");
    follower.follows("leader");
    server.restart();
    drop(leader);
    follower.leads();
}

#[test]
fn who_leads_hears_that_another_one_does() {
    let server = EtcdServer::start();
    let mut leader = Ear::open(&server, "leader");
    leader.leads();
    // Its lease goes on, and it has nothing to save.
    server.open("intruder").overwrite_leader("intruder", Some(60));
    leader.follows("intruder");
}
