//! Clients that ask for very much at once.

use std::collections::VecDeque;

use shorttail_gateway::redis::RedisSession;
use shorttail_wire::resp::encode;

use super::*;

/// A client of Redis, number by number.
struct Asker {
    number: u64,
    session: RedisSession,
    input: Vec<u8>,
    output: Vec<u8>,
}

fn shared() -> Shared {
    Shared::new(Settings::default())
}

fn words(words: &[&[u8]]) -> Vec<u8> {
    let mut said = Vec::new();
    encode::array(&mut said, words.len());
    words.iter().for_each(|word| encode::bulk(&mut said, word));
    said
}

impl Asker {
    fn new(world: &World, number: u64, input: Vec<u8>) -> Self {
        let session = RedisSession::new("1.2.3.4:5".into(), "1.2.3.4:6".into(), world.now, &shared());
        Asker { number, session, input, output: Vec::new() }
    }

    /// Its session is shown what it said, as far as it takes that.
    fn read(&mut self, world: &mut World, shared: &mut Shared) {
        let (now, connection) = (world.now, self.number);
        let mut sink = |id, request: Request<_>| {
            world.exchange.ask(now, Token { connection, id }, request.map(AnyCommand::Redis));
        };
        let consumed = self.session.handle_input(now, shared, &self.input, &mut sink);
        self.input.drain(..consumed);
        self.output.append(self.session.output());
    }

    fn take(&mut self, world: &mut World, shared: &mut Shared, id: RequestId, reply: Reply) {
        let (now, connection) = (world.now, self.number);
        let mut sink = |id, request: Request<_>| {
            world.exchange.ask(now, Token { connection, id }, request.map(AnyCommand::Redis));
        };
        self.session.handle_reply(now, shared, id, reply, &mut sink);
        self.output.append(self.session.output());
    }
}

/// Who takes replies, and asks for more at once; how many were handed out in the pass.
fn pass(world: &mut World, askers: &mut [Asker], shared: &mut Shared) -> usize {
    let now = world.now;
    world.exchange.begin_pass(now);
    let mut count = 0;
    while let Some((Token { connection, id }, answer)) = world.exchange.poll_answer(now) {
        let asker = askers.iter_mut().find(|asker| asker.number == connection).expect("who asked");
        asker.take(world, shared, id, answer.expect("a client's request is never given back"));
        count += 1;
    }
    count
}

#[test]
fn a_request_of_very_many_keys_does_not_hold_up_a_turn() {
    const KEYS: usize = 100_000;
    let mut world = World::new();
    world.run_until("serves", |world| world.standing() == Some(Standing::Serving));
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| format!("absent {number}").into_bytes()).collect();
    let said: Vec<&[u8]> = [b"EXISTS".as_slice()].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
    let mut shared = shared();
    let mut askers = vec![Asker::new(&world, 1, words(&said)), Asker::new(&world, 2, words(&[b"GET", b"absent"]))];
    askers[0].read(&mut world, &mut shared);
    askers[1].read(&mut world, &mut shared);
    let (mut passes, mut answered) = (0, 0);
    loop {
        let count = pass(&mut world, &mut askers, &mut shared);
        assert!(count <= ANSWERS_PER_PASS, "{count} in one pass");
        (passes, answered) = (passes + 1, answered + count);
        assert_eq!(askers[1].output, b"$-1\r\n", "others have theirs at once");
        if !world.exchange.has_answers() {
            break;
        }
    }
    assert_eq!((answered, askers[0].output.as_slice()), (KEYS + 1, b":0\r\n".as_slice()));
    assert!(passes >= KEYS / ANSWERS_PER_PASS);
}

/// What clients store together while their nodes say nothing is bounded, what others ask goes on, and in the end all
/// have their answers.
#[test]
fn what_clients_store_at_once_is_bounded() {
    const SESSIONS: u64 = 200;
    const VALUE_BYTES: usize = 64 << 10;
    const VALUES: usize = 4;
    const ROOM_BYTES: usize = 4 << 20;
    let mut world = World::new();
    world.exchange.writes = Writes::new(ROOM_BYTES);
    world.run_until("serves", |world| world.standing() == Some(Standing::Serving));
    let mut shared = shared();
    let value = vec![b'x'; VALUE_BYTES];
    let small = words(&[b"SET", b"small", b"1"]);
    let mut askers: Vec<Asker> = (0..SESSIONS)
        .map(|number| {
            let set = words(&[b"SET", format!("key {number}").as_bytes(), &value]);
            Asker::new(&world, 1 + number, [small.clone(), set.repeat(VALUES)].concat())
        })
        .collect();
    let mut unread: VecDeque<usize> = (0..askers.len()).collect();
    let mut bytes_max = 0;
    for step in 0..10_000 {
        for _ in 0..unread.len() {
            let place = unread.pop_front().expect("one of them");
            shared.has_room = world.exchange.has_room();
            askers[place].read(&mut world, &mut shared);
            assert!(!askers[place].input.starts_with(&small));
            if askers[place].session.waits_for_room() {
                assert!(!shared.has_room);
                unread.push_back(place);
            }
            bytes_max = bytes_max.max(world.exchange.writes.bytes());
        }
        if step < 10 {
            // The nodes say nothing.
            world.exchange.end_turn(world.now);
            assert!(unread.len() > SESSIONS as usize / 2, "most wait");
        } else {
            world.turn();
        }
        pass(&mut world, &mut askers, &mut shared);
        world.now.mono_us += STEP_US / 10;
        if askers.iter().all(|asker| asker.session.is_at_rest() && asker.input.is_empty()) {
            break;
        }
    }
    let one_more = (VALUE_BYTES + 500) * VALUES;
    assert!((ROOM_BYTES..ROOM_BYTES + one_more).contains(&bytes_max), "{bytes_max} bytes at once");
    assert_eq!(world.exchange.writes.bytes(), 0);
    for asker in &askers {
        let lines = asker.output.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(lines, 1 + VALUES, "{}", String::from_utf8_lossy(&asker.output));
    }
}
