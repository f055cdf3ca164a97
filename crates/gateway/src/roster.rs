//! Who is connected: the clients of all cores of a gateway, as CLIENT LIST and `stats conns` tell of them.
//!
//! A session has a seat, and leaves when it is dropped. At each command it marks its seat, by two stores without a
//! lock; what seldom changes is behind a lock of the seat's own. So sessions tell each other without messages between
//! cores.
//!
//! Must not know: sockets, what commands do.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shorttail_units::Now;

/// What a connection speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientProtocol {
    Memcached,
    Redis,
}

impl fmt::Display for ClientProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientProtocol::Memcached => "memcached",
            ClientProtocol::Redis => "Redis",
        })
    }
}

/// What a Redis client told of itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub name: Vec<u8>,
    pub user: Vec<u8>,
    pub library_name: Vec<u8>,
    pub library_version: Vec<u8>,
    pub no_evict: bool,
    pub speaks_resp3: bool,
}

/// One connection, as all others see it.
#[derive(Debug)]
pub struct Member {
    /// Never given to another one, and growing.
    pub id: u64,
    pub protocol: ClientProtocol,
    /// Address of the client and of this end.
    pub peer: String,
    pub local: String,
    pub since_us: u64,
    last_us: AtomicU64,
    /// What its protocol calls its last command by; 0: there was none.
    command: AtomicUsize,
    facts: Mutex<Facts>,
}

impl Member {
    /// A command begins.
    pub fn mark(&self, now: Now, command: usize) {
        self.last_us.store(now.mono_us, Ordering::Relaxed);
        self.command.store(command, Ordering::Relaxed);
    }

    pub fn command(&self) -> usize {
        self.command.load(Ordering::Relaxed)
    }

    /// Whole seconds that it has been here.
    pub fn age_s(&self, now: Now) -> u64 {
        now.mono_us.saturating_sub(self.since_us) / 1_000_000
    }

    /// Whole seconds since its last command.
    pub fn idle_s(&self, now: Now) -> u64 {
        now.mono_us.saturating_sub(self.last_us.load(Ordering::Relaxed)) / 1_000_000
    }

    pub fn facts(&self) -> Facts {
        unpoisoned(&self.facts).clone()
    }

    pub fn tell(&self, facts: Facts) {
        *unpoisoned(&self.facts) = facts;
    }
}

/// Nothing is left half done while these locks are held.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that are connected, by their ids.
#[derive(Debug, Default)]
pub struct Roster {
    last_id: AtomicU64,
    members: Mutex<BTreeMap<u64, Arc<Member>>>,
}

impl Roster {
    /// A connection begins. It is told of until its seat is dropped.
    pub fn enter(self: &Arc<Self>, protocol: ClientProtocol, peer: String, local: String, now: Now) -> Seat {
        let id = 1 + self.last_id.fetch_add(1, Ordering::Relaxed);
        let (last_us, command) = (AtomicU64::new(now.mono_us), AtomicUsize::new(0));
        let since_us = now.mono_us;
        let member = Member { id, protocol, peer, local, since_us, last_us, command, facts: Mutex::default() };
        let member = Arc::new(member);
        unpoisoned(&self.members).insert(id, Arc::clone(&member));
        Seat { roster: Arc::clone(self), member }
    }

    /// Those that speak it, longest connected first.
    pub fn of_protocol(&self, protocol: ClientProtocol) -> Vec<Arc<Member>> {
        unpoisoned(&self.members).values().filter(|member| member.protocol == protocol).cloned().collect()
    }

    pub fn get(&self, id: u64) -> Option<Arc<Member>> {
        unpoisoned(&self.members).get(&id).cloned()
    }
}

/// A connection's own place in the roster.
#[derive(Debug)]
pub struct Seat {
    roster: Arc<Roster>,
    member: Arc<Member>,
}

impl Deref for Seat {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.member
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        unpoisoned(&self.roster.members).remove(&self.member.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { mono_us: seconds * 1_000_000, ..Now::default() }
    }

    #[test]
    fn who_is_connected_is_told_until_they_leave() {
        let roster = Arc::new(Roster::default());
        let enter = |protocol| roster.enter(protocol, "peer".into(), "local".into(), at(3));
        let (first, second, third) =
            (enter(ClientProtocol::Redis), enter(ClientProtocol::Memcached), enter(ClientProtocol::Redis));
        let ids = |protocol| roster.of_protocol(protocol).iter().map(|member| member.id).collect::<Vec<_>>();
        assert_eq!((ids(ClientProtocol::Redis), ids(ClientProtocol::Memcached)), (vec![1, 3], vec![2]));
        drop(first);
        assert_eq!(
            (ids(ClientProtocol::Redis), roster.get(1).is_none(), roster.get(3).is_some()),
            (vec![3], true, true)
        );
        assert_eq!(enter(ClientProtocol::Redis).id, 4, "an id is given once");
        drop((second, third));
        assert_eq!((ids(ClientProtocol::Redis), ids(ClientProtocol::Memcached)), (vec![], vec![]));
    }

    #[test]
    fn others_see_what_a_connection_does() {
        let roster = Arc::new(Roster::default());
        let seat = roster.enter(ClientProtocol::Redis, String::new(), String::new(), at(3));
        let seen = roster.get(seat.id).expect("it is connected");
        assert_eq!((seen.age_s(at(9)), seen.idle_s(at(9)), seen.command()), (6, 6, 0));
        seat.mark(at(8), 5);
        seat.tell(Facts { name: b"me".to_vec(), ..Facts::default() });
        assert_eq!((seen.age_s(at(9)), seen.idle_s(at(9)), seen.command()), (6, 1, 5));
        assert_eq!(seen.facts().name, b"me");
    }
}
