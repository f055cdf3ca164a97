//! Requests about all keys: each tenure is asked, and the answers add up.
//!
//! ```text
//! request -> partitions 0..n, grouped by (tenure, core of this gateway) -> one part each
//! part answered      -> merged
//! part: not the owner -> its partitions are grouped anew by whom they belong to now
//! all covered        -> the reply
//! ```
//!
//! Each partition is covered once by an owner that had it when it answered. While tenures move, one that is asked for
//! part of what it has answers for all of it: a count may then be too large. A flush says which partitions it is of, as
//! one that goes over some again would end what was stored there meanwhile.
//!
//! Must not know: how a part is asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::StoreError;
use crate::engine::Token;
use crate::request::{KeyspaceReply, KeyspaceRequest, Reply, RequestId};

/// To a request about all keys, or to a part of it.
pub type Answer = Result<KeyspaceReply, StoreError>;

/// Whom a part is asked: an epoch, and the core when it is this gateway's own.
pub type Whom = (u32, Option<usize>);

/// One request under way.
#[derive(Debug)]
pub struct Gathered {
    pub origin: Token,
    pub request: KeyspaceRequest,
    pub deadline_us: u64,
    pub may_travel: bool,
    /// Epochs and partitions of the parts under way, by part.
    parts: BTreeMap<u32, (u32, Vec<u16>)>,
    part_next: u32,
    /// Partitions that nobody is asked for at present.
    pub loose: Vec<u16>,
    /// Epochs that were asked in vain.
    refused: BTreeSet<u32>,
    result: Option<Answer>,
}

/// A part to be asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    pub token: Token,
    pub epoch: u32,
    /// One of its partitions.
    pub partition: u16,
    pub request: KeyspaceRequest,
}

/// Requests under way on one core.
#[derive(Debug)]
pub struct Gather {
    /// Connection under which the parts are asked.
    connection: u64,
    gathered: BTreeMap<u64, Gathered>,
    /// Those of which a part came back, and has not been looked at since.
    fresh: BTreeSet<u64>,
    /// Those of which it was: whoever was asked is to be asked again.
    returned: BTreeSet<u64>,
    next: u64,
}

impl Gather {
    pub fn new(connection: u64) -> Self {
        Gather { connection, gathered: BTreeMap::new(), fresh: BTreeSet::new(), returned: BTreeSet::new(), next: 0 }
    }

    pub fn connection(&self) -> u64 {
        self.connection
    }

    pub fn is_part(&self, token: Token) -> bool {
        token.connection == self.connection
    }

    /// Notes a request about these partitions, by its number; none is asked yet.
    pub fn begin(
        &mut self,
        origin: Token,
        request: KeyspaceRequest,
        partitions: Vec<u16>,
        deadline_us: u64,
        may_travel: bool,
    ) -> u64 {
        let gathered = Gathered {
            origin,
            request,
            deadline_us,
            may_travel,
            parts: BTreeMap::new(),
            part_next: 0,
            loose: partitions,
            refused: BTreeSet::new(),
            result: None,
        };
        self.gathered.insert(self.next, gathered);
        self.next += 1;
        self.next - 1
    }

    /// Parts of one request for all loose partitions whose owner is known.
    pub fn ask(&mut self, seq: u64, whom: impl Fn(u16) -> Option<Whom>) -> Vec<(Part, u64, bool)> {
        self.fresh.remove(&seq);
        self.returned.remove(&seq);
        let Some(gathered) = self.gathered.get_mut(&seq) else { return Vec::new() };
        gathered.ask_loose(self.connection, seq, whom)
    }

    /// The same of those that have just come back, as far as others own their partitions than were asked: these know
    /// of it, or will in a moment.
    pub fn ask_moved(&mut self, whom: impl Fn(u16) -> Option<Whom>) -> Vec<(Part, u64, bool)> {
        let mut asked = Vec::new();
        for seq in std::mem::take(&mut self.fresh) {
            let Some(gathered) = self.gathered.get_mut(&seq) else { continue };
            let refused = gathered.refused.clone();
            asked.extend(gathered.ask_loose(self.connection, seq, |partition| {
                whom(partition).filter(|(epoch, _)| !refused.contains(epoch))
            }));
            self.returned.insert(seq);
        }
        asked
    }

    /// The same of those that came back: the owners of the others are as unknown as they were.
    pub fn ask_returned(&mut self, whom: impl Fn(u16) -> Option<Whom>) -> Vec<(Part, u64, bool)> {
        self.returned.append(&mut self.fresh);
        let returned = std::mem::take(&mut self.returned);
        returned.into_iter().flat_map(|seq| self.ask(seq, &whom)).collect()
    }

    /// The same of all: others own partitions now.
    pub fn ask_loose(&mut self, whom: impl Fn(u16) -> Option<Whom>) -> Vec<(Part, u64, bool)> {
        self.fresh.clear();
        self.returned.clear();
        let all = self.gathered.iter_mut();
        all.flat_map(|(&seq, gathered)| gathered.ask_loose(self.connection, seq, &whom)).collect()
    }

    /// Takes what became of a part, as [`Gather::add`]; `None`: nothing was done. An owner that says that it is none
    /// did nothing.
    pub fn add_reply(&mut self, token: Token, reply: Option<Reply>) -> Option<(Token, Answer)> {
        let answer = match reply {
            Some(Reply::Keyspace(Err(StoreError::NotOwner))) | None => None,
            Some(Reply::Keyspace(answer)) => Some(answer),
            Some(_) => Some(Err(StoreError::Unreadable)),
        };
        self.add(token, answer)
    }

    /// Takes the answer to a part, `None`: of one that does not own it. The whole answer when nothing is left to ask.
    pub fn add(&mut self, token: Token, answer: Option<Answer>) -> Option<(Token, Answer)> {
        let gathered = self.gathered.get_mut(&token.id.seq)?;
        let (epoch, partitions) = gathered.parts.remove(&token.id.part)?;
        let is_flush = matches!(gathered.request, KeyspaceRequest::Flush { .. });
        match answer {
            // One that another gateway asked is its to ask again.
            None if !gathered.may_travel => {
                let error = gathered.error();
                return self.end(token.id.seq, Err(error));
            }
            None => {
                gathered.loose.extend(partitions);
                gathered.refused.insert(epoch);
                self.fresh.insert(token.id.seq);
            }
            Some(answer) => {
                gathered.result = Some(match (gathered.result.take(), answer) {
                    (None, answer) => answer,
                    (Some(Ok(so_far)), Ok(answer)) => Ok(merge(so_far, answer)),
                    (Some(Err(error)), Err(other)) if error == other => Err(error),
                    // Some of it was done, or may have been.
                    _ if is_flush => Err(StoreError::OutcomeUnknown),
                    (Some(Err(error)), _) | (Some(Ok(_)), Err(error)) => Err(error),
                });
            }
        }
        if !gathered.parts.is_empty() || !gathered.loose.is_empty() {
            return None;
        }
        let result = gathered.result.take()?;
        self.end(token.id.seq, result)
    }

    fn end(&mut self, seq: u64, result: Answer) -> Option<(Token, Answer)> {
        self.gathered.remove(&seq).map(|gathered| (gathered.origin, result))
    }

    /// Ends what waited for owners for too long.
    pub fn take_expired(&mut self, now_us: u64) -> Vec<(Token, Answer)> {
        let is_expired = |gathered: &Gathered| !gathered.loose.is_empty() && gathered.deadline_us <= now_us;
        let expired = self.gathered.extract_if(.., |_, gathered| is_expired(gathered));
        expired.map(|(_, gathered)| (gathered.origin, Err(gathered.error()))).collect()
    }
}

impl Gathered {
    fn ask_loose(&mut self, connection: u64, seq: u64, whom: impl Fn(u16) -> Option<Whom>) -> Vec<(Part, u64, bool)> {
        let mut groups: BTreeMap<Whom, Vec<u16>> = BTreeMap::new();
        self.loose.retain(|&partition| match whom(partition) {
            Some(whom) => {
                groups.entry(whom).or_default().push(partition);
                false
            }
            None => true,
        });
        let mut asked = Vec::with_capacity(groups.len());
        for ((epoch, _), partitions) in groups {
            let id = RequestId { seq, part: self.part_next };
            self.part_next += 1;
            let token = Token { connection, id };
            let part = Part { token, epoch, partition: partitions[0], request: self.request.part(&partitions) };
            self.parts.insert(id.part, (epoch, partitions));
            asked.push((part, self.deadline_us, self.may_travel));
        }
        asked
    }

    /// Of a flush, some owners may have done their part, and must not be asked to do it again.
    fn error(&self) -> StoreError {
        let is_begun = self.result.is_some() || !self.parts.is_empty();
        match &self.request {
            KeyspaceRequest::Flush { .. } if is_begun => StoreError::OutcomeUnknown,
            _ => StoreError::NotOwner,
        }
    }
}

fn merge(one: KeyspaceReply, other: KeyspaceReply) -> KeyspaceReply {
    match (one, other) {
        (KeyspaceReply::Count(one), KeyspaceReply::Count(other)) => KeyspaceReply::Count(one.saturating_add(other)),
        (KeyspaceReply::RandomKey(one), KeyspaceReply::RandomKey(other)) => KeyspaceReply::RandomKey(one.or(other)),
        (KeyspaceReply::Stats(one), KeyspaceReply::Stats(other)) => KeyspaceReply::Stats(Box::new(one.plus(&other))),
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token { connection: 1, id: RequestId { seq: 0, part: 0 } };

    fn gather() -> Gather {
        let mut gather = Gather::new(99);
        gather.begin(TOKEN, KeyspaceRequest::Count, vec![0, 1, 2, 3], 500, true);
        gather
    }

    fn tokens(asked: Vec<(Part, u64, bool)>) -> Vec<(Token, u32, u16)> {
        asked.into_iter().map(|(part, ..)| (part.token, part.epoch, part.partition)).collect()
    }

    fn has_loose(gather: &Gather) -> bool {
        gather.gathered.values().any(|gathered| !gathered.loose.is_empty())
    }

    /// All clients of a gateway ask how much there is, while one partition has no owner.
    #[test]
    fn what_waits_for_an_owner_is_not_looked_at_while_there_is_none() {
        const REQUESTS: usize = 10_000;
        const PARTITIONS: u16 = 8;
        let mut gather = Gather::new(99);
        let looks = std::cell::Cell::new(0);
        let whom = |partition: u16| {
            looks.set(looks.get() + 1);
            (partition > 0).then_some((7, None))
        };
        let mut asked = Vec::new();
        for _ in 0..REQUESTS {
            let number = gather.begin(TOKEN, KeyspaceRequest::Count, (0..PARTITIONS).collect(), 500, true);
            asked.extend(tokens(gather.ask(number, whom)));
            gather.ask_returned(whom);
        }
        assert_eq!((asked.len(), looks.take()), (REQUESTS, REQUESTS * usize::from(PARTITIONS)));
        // One is asked again that was asked in vain, once; the others wait.
        gather.add(asked[5].0, None);
        assert_eq!((0..100).map(|_| gather.ask_returned(whom).len()).sum::<usize>(), 1);
        assert_eq!(looks.take(), usize::from(PARTITIONS));
        assert_eq!(gather.ask_loose(|_| Some((8, None))).len(), REQUESTS, "there is an owner");
    }

    #[test]
    fn a_flush_that_some_did_is_not_refused_as_if_nobody_had() {
        let whole = |request: KeyspaceRequest, answers: [Answer; 2]| {
            let mut gather = Gather::new(99);
            gather.begin(TOKEN, request, vec![0, 1], 500, true);
            let asked = tokens(gather.ask_loose(|partition| Some((u32::from(partition), None))));
            let mut ended =
                answers.into_iter().zip(asked).filter_map(|(answer, part)| gather.add(part.0, Some(answer)));
            ended.next().map(|(_, answer)| answer)
        };
        let flush = || KeyspaceRequest::flush(None);
        let (done, full) = (Ok(KeyspaceReply::Flushed), Err(StoreError::OutOfMemory));
        let unknown = Some(Err(StoreError::OutcomeUnknown));
        assert_eq!(whole(flush(), [done.clone(), full.clone()]), unknown);
        assert_eq!(whole(flush(), [full.clone(), done.clone()]), unknown);
        assert_eq!(whole(flush(), [full.clone(), full.clone()]), Some(full.clone()));
        assert_eq!(whole(flush(), [done.clone(), done.clone()]), Some(done));
        assert_eq!(whole(KeyspaceRequest::Count, [Ok(KeyspaceReply::Count(3)), full.clone()]), Some(full));
    }

    /// Partitions of two tenures, of which one has done its part, become one tenure's.
    #[test]
    fn a_flush_is_of_no_partition_twice() {
        let mut gather = Gather::new(99);
        gather.begin(TOKEN, KeyspaceRequest::flush(None), vec![0, 1, 2, 3], 500, true);
        let of = |part: &Part| part.request.named().map(<[u16]>::to_vec);
        let asked = gather.ask_loose(|partition| Some((7 + u32::from(partition / 2), None)));
        assert_eq!(asked.iter().map(|(part, ..)| of(part)).collect::<Vec<_>>(), [Some(vec![0, 1]), Some(vec![2, 3])]);
        assert_eq!(gather.add(asked[0].0.token, Some(Ok(KeyspaceReply::Flushed))), None);
        assert_eq!(gather.add(asked[1].0.token, None), None);
        let again = gather.ask_returned(|_| Some((9, None)));
        assert_eq!(again.iter().map(|(part, ..)| of(part)).collect::<Vec<_>>(), [Some(vec![2, 3])]);
    }

    #[test]
    fn each_tenure_and_core_is_asked_once_and_counts_add_up() {
        let mut gather = gather();
        let whom = |partition: u16| Some((if partition < 3 { 7 } else { 9 }, Some(usize::from(partition % 2))));
        let asked = tokens(gather.ask_loose(whom));
        assert_eq!(asked.iter().map(|part| (part.1, part.2)).collect::<Vec<_>>(), [(7, 0), (7, 1), (9, 3)]);
        assert!(gather.is_part(asked[0].0) && !gather.is_part(TOKEN) && !has_loose(&gather));
        assert_eq!(gather.add(asked[2].0, Some(Ok(KeyspaceReply::Count(2)))), None);
        assert_eq!(gather.add(asked[0].0, Some(Ok(KeyspaceReply::Count(3)))), None);
        assert_eq!(gather.add(asked[0].0, Some(Ok(KeyspaceReply::Count(3)))), None, "answered once");
        assert_eq!(
            gather.add(asked[1].0, Some(Ok(KeyspaceReply::Count(4)))),
            Some((TOKEN, Ok(KeyspaceReply::Count(9))))
        );
    }

    /// Who was asked in vain may be about to own it: in the next moment it would say the same.
    #[test]
    fn what_came_back_is_asked_of_another_owner_at_once_and_of_the_same_one_later() {
        let mut gather = gather();
        let asked = tokens(gather.ask_loose(|_| Some((7, None))));
        assert_eq!(gather.ask_moved(|_| Some((8, None))), [], "nothing came back");
        gather.add(asked[0].0, None);
        let at_once = tokens(gather.ask_moved(|partition| Some((7 + u32::from(partition / 2), None))));
        assert_eq!(at_once.iter().map(|part| (part.1, part.2)).collect::<Vec<_>>(), [(8, 2)]);
        assert_eq!(gather.ask_moved(|_| Some((9, None))), [], "looked at once");
        let later = tokens(gather.ask_returned(|_| Some((7, None))));
        assert_eq!(later.iter().map(|part| (part.1, part.2)).collect::<Vec<_>>(), [(7, 0)]);
    }

    #[test]
    fn what_moved_is_asked_again_and_an_error_wins() {
        let mut gather = gather();
        let asked = tokens(gather.ask_loose(|_| Some((7, None))));
        assert_eq!(gather.add(asked[0].0, None), None);
        assert!(has_loose(&gather));
        let again =
            tokens(gather.ask_returned(|partition| (partition != 3).then_some((8 + u32::from(partition), None))));
        assert_eq!((again.len(), has_loose(&gather)), (3, true), "one has no owner");
        assert_eq!(gather.add(again[0].0, Some(Err(StoreError::Unreadable))), None);
        assert_eq!(gather.add(again[1].0, Some(Ok(KeyspaceReply::Count(1)))), None);
        assert_eq!(gather.add(again[2].0, Some(Ok(KeyspaceReply::Count(1)))), None);
        assert_eq!(gather.ask_returned(|_| Some((20, None))), [], "nobody owned it, and that is so until it is said");
        let last = tokens(gather.ask_loose(|_| Some((20, None))));
        let whole = gather.add(last[0].0, Some(Ok(KeyspaceReply::Count(1))));
        assert_eq!(whole, Some((TOKEN, Err(StoreError::Unreadable))));
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let mut gather = gather();
        gather.begin(TOKEN, KeyspaceRequest::flush(None), vec![0, 1], 600, true);
        let asked = tokens(gather.ask_loose(|partition| (partition == 0).then_some((7, None))));
        assert_eq!(gather.take_expired(499), []);
        gather.add(asked[1].0, Some(Ok(KeyspaceReply::Flushed)));
        assert_eq!(gather.take_expired(500), [(TOKEN, Err(StoreError::NotOwner))]);
        assert_eq!(gather.take_expired(600), [(TOKEN, Err(StoreError::OutcomeUnknown))], "part of it was done");
    }

    #[test]
    fn a_flush_that_some_may_have_done_is_not_asked_for_again() {
        let whom = |partition: u16| Some((7, Some(usize::from(partition))));
        for (is_answered, has_other, error) in [
            (true, true, StoreError::OutcomeUnknown),
            (false, true, StoreError::OutcomeUnknown),
            (false, false, StoreError::NotOwner),
        ] {
            let mut gather = Gather::new(99);
            let partitions = if has_other { vec![0, 1] } else { vec![0] };
            gather.begin(TOKEN, KeyspaceRequest::flush(None), partitions, 500, false);
            let asked = tokens(gather.ask_loose(whom));
            if is_answered {
                assert_eq!(gather.add(asked[1].0, Some(Ok(KeyspaceReply::Flushed))), None);
            }
            assert_eq!(gather.add(asked[0].0, None), Some((TOKEN, Err(error))));
        }
        let mut gather = Gather::new(99);
        gather.begin(TOKEN, KeyspaceRequest::flush(None), vec![0, 1], 500, true);
        gather.ask_loose(|partition| (partition == 0).then_some((7, None)));
        assert_eq!(gather.take_expired(500), [(TOKEN, Err(StoreError::OutcomeUnknown))], "one is asked");
    }

    #[test]
    fn what_another_gateway_asked_is_its_to_ask_again() {
        let mut gather = Gather::new(99);
        gather.begin(TOKEN, KeyspaceRequest::Count, vec![0], 500, false);
        let asked = tokens(gather.ask_loose(|_| Some((7, None))));
        assert_eq!(gather.add(asked[0].0, None), Some((TOKEN, Err(StoreError::NotOwner))));
    }
}
