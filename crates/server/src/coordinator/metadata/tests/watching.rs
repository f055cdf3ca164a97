//! What coordinators hear of each other over a real etcd. None of them looks by itself: they would look an hour later.

use std::sync::Arc;

use mio::{Events, Poll, Token, Waker};

use super::super::keeper::{Keeper, News};
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
        let poll = Poll::new().expect("epoll");
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        Ear { keeper: Keeper::start(Box::new(server.open(name)), waker).expect("a thread"), poll }
    }

    /// Waits for news that are wanted.
    fn hear<A>(&mut self, wanted: impl Fn(News) -> Option<A>) -> A {
        let mut events = Events::with_capacity(1);
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(news) = self.keeper.poll_news() {
                if let Some(found) = wanted(news) {
                    return found;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not heard");
            self.poll.poll(&mut events, Some(left)).expect("epoll");
        }
    }

    fn leads(&mut self) {
        self.hear(|news| matches!(news, News::Leads { .. }).then_some(()));
    }

    fn follows(&mut self, name: &str) {
        self.hear(|news| matches!(news, News::Follows { leader } if leader.as_deref() == Some(name)).then_some(()));
    }
}

#[test]
fn who_follows_hears_that_the_leader_resigned_and_who_leads_then() {
    let server = EtcdServer::start();
    let mut first = Ear::open(&server, "first");
    first.leads();
    let mut others = ["second", "third"].map(|name| Ear::open(&server, name));
    others.iter_mut().for_each(|other| other.follows("first"));
    drop(first);
    let [second, third] = &mut others;
    let is_second = second.hear(|news| match news {
        News::Leads { .. } => Some(true),
        News::Follows { leader } if leader.as_deref() == Some("third") => Some(false),
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
    server.open("intruder").overwrite_leader("intruder");
    leader.follows("intruder");
}
