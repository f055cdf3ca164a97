//! Requests about all keys, when the keys are spread over several cores.
//!
//! Counts, statistics and flushes ask every core and add up. A scan walks the cores one after the other: the top bits of
//! its cursor are the core.

use hashbrown::HashMap;
use shorttail_gateway::command::StoreError;
use shorttail_gateway::engine::Token;
use shorttail_gateway::request::{KeyspaceReply, KeyspaceRequest};

const CORE_SHIFT: u32 = 48;

/// Which cores are asked for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    All,
    One(usize),
}

#[derive(Debug)]
struct Gathered {
    missing: usize,
    result: Option<Result<KeyspaceReply, StoreError>>,
    scan_core: Option<usize>,
}

/// Answers under way.
#[derive(Debug, Default)]
pub struct Gather {
    waiting: HashMap<Token, Gathered>,
}

impl Gather {
    /// Notes a request; whom to ask, and with what.
    pub fn begin(&mut self, token: Token, request: KeyspaceRequest, core_count: usize) -> (Asked, KeyspaceRequest) {
        if let KeyspaceRequest::Scan { cursor, count } = request {
            let core = ((cursor >> CORE_SHIFT) as usize).min(core_count - 1);
            let inner = cursor & ((1 << CORE_SHIFT) - 1);
            self.waiting.insert(token, Gathered { missing: 1, result: None, scan_core: Some(core) });
            return (Asked::One(core), KeyspaceRequest::Scan { cursor: inner, count });
        }
        self.waiting.insert(token, Gathered { missing: core_count, result: None, scan_core: None });
        (Asked::All, request)
    }

    /// Takes one core's answer; the whole answer when it was the last.
    pub fn add(
        &mut self,
        token: Token,
        reply: Result<KeyspaceReply, StoreError>,
        core_count: usize,
    ) -> Option<Result<KeyspaceReply, StoreError>> {
        let gathered = self.waiting.get_mut(&token)?;
        gathered.missing -= 1;
        gathered.result = Some(match (gathered.result.take(), reply) {
            (None, reply) => reply,
            (Some(Ok(so_far)), Ok(reply)) => Ok(merge(so_far, reply)),
            (Some(Err(error)), _) | (Some(Ok(_)), Err(error)) => Err(error),
        });
        if gathered.missing > 0 {
            return None;
        }
        let gathered = self.waiting.remove(&token)?;
        let result = gathered.result?;
        Some(match gathered.scan_core {
            Some(core) => result.map(|reply| with_core(reply, core, core_count)),
            None => result,
        })
    }
}

fn with_core(reply: KeyspaceReply, core: usize, core_count: usize) -> KeyspaceReply {
    let KeyspaceReply::Scanned { next, keys } = reply else { return reply };
    let next = match next {
        0 if core + 1 < core_count => (core as u64 + 1) << CORE_SHIFT,
        0 => 0,
        inner => (core as u64) << CORE_SHIFT | inner,
    };
    KeyspaceReply::Scanned { next, keys }
}

fn merge(one: KeyspaceReply, other: KeyspaceReply) -> KeyspaceReply {
    match (one, other) {
        (KeyspaceReply::Count(one), KeyspaceReply::Count(other)) => KeyspaceReply::Count(one + other),
        (KeyspaceReply::RandomKey(one), KeyspaceReply::RandomKey(other)) => KeyspaceReply::RandomKey(one.or(other)),
        (KeyspaceReply::Stats(one), KeyspaceReply::Stats(other)) => KeyspaceReply::Stats(Box::new(one.plus(&other))),
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests {
    use shorttail_gateway::request::RequestId;

    use super::*;

    const TOKEN: Token = Token { connection: 1, id: RequestId { seq: 0, part: 0 } };

    #[test]
    fn counts_add_up_and_an_error_wins() {
        let mut gather = Gather::default();
        gather.begin(TOKEN, KeyspaceRequest::Count, 2);
        assert_eq!(gather.add(TOKEN, Ok(KeyspaceReply::Count(2)), 2), None);
        assert_eq!(gather.add(TOKEN, Ok(KeyspaceReply::Count(3)), 2), Some(Ok(KeyspaceReply::Count(5))));
        gather.begin(TOKEN, KeyspaceRequest::Count, 2);
        gather.add(TOKEN, Err(StoreError::Unreadable), 2);
        assert_eq!(gather.add(TOKEN, Ok(KeyspaceReply::Count(3)), 2), Some(Err(StoreError::Unreadable)));
    }

    #[test]
    fn a_scan_walks_the_cores() {
        let mut gather = Gather::default();
        let scan = |cursor| KeyspaceRequest::Scan { cursor, count: 10 };
        let scanned = |next| Ok(KeyspaceReply::Scanned { next, keys: Vec::new() });
        assert_eq!(gather.begin(TOKEN, scan(0), 2).0, Asked::One(0));
        let Some(Ok(KeyspaceReply::Scanned { next, .. })) = gather.add(TOKEN, scanned(0), 2) else { panic!() };
        assert_eq!(gather.begin(TOKEN, scan(next), 2), (Asked::One(1), scan(0)));
        let Some(Ok(KeyspaceReply::Scanned { next, .. })) = gather.add(TOKEN, scanned(77), 2) else { panic!() };
        assert_eq!(gather.begin(TOKEN, scan(next), 2), (Asked::One(1), scan(77)));
        assert_eq!(gather.add(TOKEN, scanned(0), 2), Some(scanned(0)));
    }
}
