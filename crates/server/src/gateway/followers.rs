//! Keeps the commands of one connection on one key in their order when some of them are asked of another gateway, or
//! wait until somebody can be.
//!
//! An owner here takes them one after the other. Another gateway may refuse the first and, a moment later, accept the
//! second; or the connection to it breaks between them; and reads wait apart from writes. So a command follows those of
//! its connection on its key that were asked elsewhere or wait: it is held until they are answered, or an owner here
//! has them. Reads do not follow reads; but one that comes back unanswered may be read later than those behind it that
//! were asked already, and show what is newer. So the answers of these do not count, and they are asked again.
//!
//! ```text
//! connection 7, key a:   SET (asked) <- GET (held), GET (held) <- SET (held)
//! SET answered:                         GET (asked), GET (asked) <- SET (held)
//! ```
//! What comes back unanswered keeps its place. Nothing is noted of commands that an owner here takes at once, unless
//! one before them is noted.
//!
//! Must not know: who owns what, when a request is asked.

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use shorttail_gateway::command::Command;
use shorttail_gateway::request::Request;

use super::waiting::Waiter;

/// A connection, and a key's hash: two keys of one hash hold each other up for a moment.
type LineName = (u64, u64);

/// Requests of one connection on one key, in the order in which they came.
#[derive(Debug, Default)]
struct Line {
    /// Numbers, and whether it is a write.
    members: VecDeque<(u64, bool)>,
    write_count: usize,
}

#[derive(Debug, Default)]
pub struct Followers {
    hasher: DefaultHashBuilder,
    lines: HashMap<LineName, Line>,
    /// The lines that a request is in.
    entered: HashMap<u64, Vec<LineName>>,
    /// Sessions bound how many, and their bytes, as they do where an owner is here.
    held: BTreeMap<u64, Waiter>,
    /// Those that were behind one when it came back, and were not asked since.
    overtaking: HashSet<u64>,
}

impl Followers {
    pub fn is_empty(&self) -> bool {
        self.entered.is_empty()
    }

    /// Notes a request that goes elsewhere or waits, unless it is noted.
    pub fn enter(&mut self, waiter: &Waiter) {
        if self.entered.contains_key(&waiter.number) {
            return;
        }
        let names = self.names_of(waiter);
        if names.is_empty() {
            return;
        }
        let is_write = waiter.ask.is_write();
        for name in &names {
            let line = self.lines.entry(*name).or_default();
            line.members.push_back((waiter.number, is_write));
            line.write_count += usize::from(is_write);
        }
        self.entered.insert(waiter.number, names);
    }

    /// Is it noted, or behind one that is?
    pub fn concerns(&self, waiter: &Waiter) -> bool {
        let is_known = |key: &[u8]| self.lines.contains_key(&self.name_of(waiter, key));
        match &waiter.ask.request {
            _ if self.is_empty() => false,
            Request::Key(command) => is_known(command.key()),
            Request::Group(group) => group.pairs.iter().any(|(key, _)| is_known(key)),
            Request::Keyspace(_) => false,
        }
    }

    /// May this one go, of all that are noted?
    pub fn may_go(&self, number: u64) -> bool {
        let Some(names) = self.entered.get(&number) else { return true };
        names.iter().all(|name| self.lines.get(name).is_none_or(|line| line.lets_go(number)))
    }

    /// It was asked in vain, and is to be asked again.
    pub fn came_back(&mut self, number: u64) {
        for name in self.entered.get(&number).into_iter().flatten() {
            let members = self.lines.get(name).map(|line| &line.members);
            let behind =
                members.into_iter().flatten().map(|(member, _)| *member).skip_while(|&member| member != number);
            self.overtaking.extend(behind.skip(1));
        }
    }

    /// It is asked now.
    pub fn asked(&mut self, number: u64) {
        self.overtaking.remove(&number);
    }

    /// Was it asked before one that it is behind?
    pub fn is_overtaking(&self, number: u64) -> bool {
        self.overtaking.contains(&number)
    }

    /// Holds one that may not go.
    pub fn hold(&mut self, waiter: Waiter) {
        self.held.insert(waiter.number, waiter);
    }

    /// A request is over, or has nothing more to fear: those that may go now, in their order.
    pub fn leave(&mut self, number: u64) -> Vec<Waiter> {
        let Some(names) = self.entered.remove(&number) else { return Vec::new() };
        self.overtaking.remove(&number);
        let mut next = Vec::new();
        for name in names {
            let Some(line) = self.lines.get_mut(&name) else { continue };
            line.remove(number);
            if line.members.is_empty() {
                self.lines.remove(&name);
            } else if !self.held.is_empty() {
                next.extend(line.first_ones());
            }
        }
        next.sort_unstable();
        next.dedup();
        next.retain(|&number| self.may_go(number));
        next.into_iter().filter_map(|number| self.held.remove(&number)).collect()
    }

    /// Those held whose time is over; they have not left their lines.
    pub fn take_expired(&mut self, now_us: u64) -> Vec<Waiter> {
        self.held.extract_if(.., |_, waiter| waiter.deadline_us <= now_us).map(|(_, waiter)| waiter).collect()
    }

    fn name_of(&self, waiter: &Waiter, key: &[u8]) -> LineName {
        (waiter.token.connection, self.hasher.hash_one(key))
    }

    fn names_of(&self, waiter: &Waiter) -> Vec<LineName> {
        let mut names = match &waiter.ask.request {
            Request::Key(command) => return vec![self.name_of(waiter, command.key())],
            Request::Group(group) => group.pairs.iter().map(|(key, _)| self.name_of(waiter, key)).collect(),
            Request::Keyspace(_) => Vec::new(),
        };
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Line {
    /// Is it the first, or a read with nothing but reads before it?
    fn lets_go(&self, number: u64) -> bool {
        if self.write_count == 0 {
            return true;
        }
        let mut is_behind_reads = false;
        for &(member, is_write) in &self.members {
            if member == number {
                return !is_write || !is_behind_reads;
            }
            if is_write {
                return false;
            }
            is_behind_reads = true;
        }
        true
    }

    fn remove(&mut self, number: u64) {
        if let Some(place) = self.members.iter().position(|(member, _)| *member == number) {
            let is_write = self.members.remove(place).is_some_and(|(_, is_write)| is_write);
            self.write_count -= usize::from(is_write);
        }
    }

    /// Those that may go as far as this line is concerned: one write, or reads.
    fn first_ones(&self) -> impl Iterator<Item = u64> {
        let is_write = self.members.front().is_some_and(|(_, is_write)| *is_write);
        let count = if is_write { 1 } else { self.members.iter().take_while(|(_, is_write)| !is_write).count() };
        self.members.iter().take(count).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_gateway::any::AnyCommand;
    use shorttail_gateway::engine::Token;
    use shorttail_gateway::forward::Ask;
    use shorttail_gateway::redis::RedisSession;
    use shorttail_gateway::request::RequestId;
    use shorttail_gateway::session::{Session, Settings, Shared};
    use shorttail_units::Now;

    use super::*;

    /// What a Redis client of this connection asks; numbers are given from 1.
    fn waiters(connection: u64, lines: &[&str]) -> Vec<Waiter> {
        let mut shared = Shared::new(Settings::default());
        let mut waiters = Vec::new();
        for line in lines {
            // One of its own for each, which holds nothing back by itself.
            let mut session = RedisSession::new(String::new(), String::new(), Now::default(), &shared);
            let mut sink = |id: RequestId, request: Request<_>| {
                let ask = Ask { partition: 0, epoch: 0, request: request.map(AnyCommand::from) };
                let number = waiters.len() as u64 + 1;
                let token = Token { connection, id };
                waiters.push(Waiter {
                    token,
                    ask,
                    number,
                    deadline_us: 10,
                    asked: None,
                    rests_until_us: 0,
                    may_travel: true,
                });
            };
            session.handle_input(Now::default(), &mut shared, format!("{line}\r\n").as_bytes(), &mut sink);
        }
        waiters
    }

    /// Asks all in turn; the numbers of those that go at once.
    fn ask(followers: &mut Followers, waiters: Vec<Waiter>) -> Vec<u64> {
        let mut gone = Vec::new();
        for waiter in waiters {
            followers.enter(&waiter);
            if followers.may_go(waiter.number) {
                gone.push(waiter.number);
            } else {
                followers.hold(waiter);
            }
        }
        gone
    }

    fn left(followers: &mut Followers, number: u64) -> Vec<u64> {
        followers.leave(number).into_iter().map(|waiter| waiter.number).collect()
    }

    #[test]
    fn writes_of_a_key_follow_each_other_and_other_keys_go_on() {
        let mut followers = Followers::default();
        let gone = ask(&mut followers, waiters(7, &["SET a 1", "SET b 1", "SET a 2", "SET a 3"]));
        assert_eq!(gone, [1, 2]);
        assert!(left(&mut followers, 2).is_empty());
        assert_eq!(left(&mut followers, 1), [3]);
        assert!(!followers.may_go(4));
        assert_eq!(left(&mut followers, 3), [4]);
        assert!(left(&mut followers, 4).is_empty());
        assert!(followers.is_empty() && followers.lines.is_empty());
    }

    #[test]
    fn one_that_comes_back_keeps_its_place() {
        let mut followers = Followers::default();
        let mut all = waiters(7, &["SET a 1", "SET a 2"]);
        let second = all.pop().expect("two");
        let first = all.pop().expect("two");
        followers.enter(&first);
        followers.enter(&second);
        followers.hold(second);
        // Refused, and asked again.
        followers.enter(&first);
        assert!(followers.may_go(first.number));
        assert_eq!(left(&mut followers, first.number), [2]);
        assert!(left(&mut followers, 2).is_empty());
        assert!(followers.is_empty() && followers.lines.is_empty(), "it was noted once");
    }

    #[test]
    fn reads_go_side_by_side_but_not_past_writes() {
        let mut followers = Followers::default();
        let gone = ask(&mut followers, waiters(7, &["SET a 1", "GET a", "GET a", "GETDEL a", "GET a"]));
        assert_eq!(gone, [1]);
        assert_eq!(left(&mut followers, 1), [2, 3]);
        assert!(left(&mut followers, 3).is_empty());
        assert_eq!(left(&mut followers, 2), [4]);
        assert_eq!(left(&mut followers, 4), [5]);
    }

    #[test]
    fn a_group_follows_all_its_keys() {
        let mut followers = Followers::default();
        let gone = ask(&mut followers, waiters(7, &["SET {t}a 1", "SET {t}b 1", "MSETNX {t}a 2 {t}b 2", "GET {t}b"]));
        assert_eq!(gone, [1, 2]);
        assert!(left(&mut followers, 1).is_empty());
        assert_eq!(left(&mut followers, 2), [3]);
        assert_eq!(left(&mut followers, 3), [4]);
    }

    #[test]
    fn reads_that_were_asked_before_one_that_came_back_are_asked_again() {
        let mut followers = Followers::default();
        assert_eq!(ask(&mut followers, waiters(7, &["GET a", "GET a", "GET b", "GET a"])), [1, 2, 3, 4]);
        let overtaking =
            |followers: &Followers| -> Vec<u64> { (1..=4).filter(|&number| followers.is_overtaking(number)).collect() };
        followers.came_back(2);
        assert_eq!(overtaking(&followers), [4]);
        followers.came_back(1);
        assert_eq!(overtaking(&followers), [2, 4]);
        [1, 2].into_iter().for_each(|number| followers.asked(number));
        assert_eq!(overtaking(&followers), [4], "it was asked before those");
        assert!(left(&mut followers, 1).is_empty());
        assert_eq!(overtaking(&followers), [4], "one of them may be answered");
        [2, 3, 4].into_iter().for_each(|number| assert!(left(&mut followers, number).is_empty()));
        assert!(followers.is_empty() && followers.lines.is_empty() && followers.overtaking.is_empty());
    }

    #[test]
    fn a_write_waits_for_all_reads_before_it() {
        let mut followers = Followers::default();
        assert_eq!(ask(&mut followers, waiters(7, &["GET a", "GET a", "SET a 1"])), [1, 2]);
        assert!(left(&mut followers, 1).is_empty());
        assert_eq!(left(&mut followers, 2), [3]);
    }

    #[test]
    fn a_group_concerns_those_of_each_of_its_keys() {
        let mut followers = Followers::default();
        let all = waiters(7, &["SET {t}a 1", "MSETNX {t}b 2 {t}a 2", "MSETNX {t}b 2 {t}c 2"]);
        followers.enter(&all[0]);
        assert!(followers.concerns(&all[1]) && !followers.concerns(&all[2]));
    }

    #[test]
    fn those_that_a_group_held_go_in_their_order() {
        let mut followers = Followers::default();
        let keys: Vec<String> = (0..8).map(|number| format!("{{t}}{number}")).collect();
        let group = keys.iter().map(|key| format!(" {key} 1")).collect::<String>();
        let lines: Vec<String> =
            [format!("MSETNX{group}")].into_iter().chain(keys.iter().map(|key| format!("SET {key} 2"))).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(ask(&mut followers, waiters(7, &lines)), [1]);
        assert_eq!(left(&mut followers, 1), [2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn connections_do_not_follow_each_other_and_none_is_held_for_ever() {
        let mut followers = Followers::default();
        let [mine, held] = <[Waiter; 2]>::try_from(waiters(7, &["SET a 1", "SET a 2"])).expect("two");
        let [other] = <[Waiter; 1]>::try_from(waiters(8, &["SET a 3"])).expect("one");
        let other = Waiter { number: 9, ..other };
        followers.enter(&mine);
        assert!(followers.concerns(&held) && !followers.concerns(&other));
        followers.enter(&held);
        followers.hold(held);
        assert!(followers.take_expired(9).is_empty());
        assert_eq!(followers.take_expired(10).len(), 1);
        assert!(left(&mut followers, 2).is_empty());
        assert!(left(&mut followers, 1).is_empty());
        assert!(followers.is_empty());
    }
}
