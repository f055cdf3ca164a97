//! A connection from another gateway: its greeting, what it asks, and what it is answered.
//!
//! ```text
//! read --> asks --> exchange --> answers --> outbox --> socket
//!   '-- while the socket does not take all: reads of any length are held if what they take may not fit into the
//!       outbox, and whatever is asked after them
//! ```
//! While much waits for the socket nothing is read: the other gateway has to take its answers first. One that takes
//! them is held up by nothing, however long some of what it asks waits for its answer. What waited here for longer than
//! whoever asked waits is not done.
//!
//! Must not know: whose partitions are asked for.

use std::collections::{HashSet, VecDeque};
use std::io;

use mio::Registry;
use shorttail_gateway::command::StoreError;
use shorttail_gateway::forward::{Ask, put_reply};
use shorttail_gateway::request::Reply;
use shorttail_units::ClusterId;
use shorttail_wire::gateway::{Hello, Kind, Welcome, begin_frame, next_frame, next_header, put_frame};

use super::backlog::Pieces;
use super::exchange::Answer;
use super::limits::{
    ASKED_BYTES_MAX, ASKED_MAX, GREETING_US_MAX, GUEST_ANSWERS_BYTES_MAX, GUEST_OUTBOX_BYTES_MAX, GUEST_READ_BYTES,
    GUEST_TURN_BYTES_MAX, SOCKET_BYTES_MAX,
};
use super::neighbours::Identity;
use super::peer_error::PeerError;
use super::waiting::WAIT_US_MAX;
use crate::net::{Link, ReadEnd};

pub struct Guest {
    pub link: Link,
    outbox: Vec<u8>,
    /// What the socket did not take, before what is in the outbox.
    unsent: Pieces,
    is_greeted: bool,
    since_us: u64,
    /// Tags of reads of any length that are asked and not answered.
    reads: HashSet<u64>,
    /// What waits for room, in its order: reads of one key may follow each other.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// What it sends was left in the socket.
    has_unread: bool,
    /// It is among those that are read next.
    pub is_queued: bool,
    /// Since when some of it may have been there all the time, for want of room; and so many of the bytes to come.
    unread_since_us: Option<u64>,
    late_bytes: usize,
    /// To be closed at the end of the turn, once what its socket takes was sent.
    pub is_over: bool,
    /// It is over as a message was hurt on its way.
    was_hurt: bool,
}

struct Held {
    tag: u64,
    ask: Ask,
    bytes: usize,
    since_us: u64,
}

impl Guest {
    pub fn new(link: Link, now_us: u64) -> Self {
        Guest {
            link,
            outbox: Vec::new(),
            unsent: Pieces::default(),
            is_greeted: false,
            since_us: now_us,
            reads: HashSet::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            has_unread: false,
            is_queued: false,
            unread_since_us: None,
            late_bytes: 0,
            is_over: false,
            was_hurt: false,
        }
    }

    /// Was a message hurt on its way? That is told once.
    pub fn take_hurt(&mut self) -> bool {
        std::mem::take(&mut self.was_hurt)
    }

    /// Reads what it asks, as far as there is room for the answers, and no more than is fair in a turn. Requests go to
    /// `sink` with their tags.
    pub fn read(&mut self, now_us: u64, identity: Identity, scratch: &mut [u8], mut sink: impl FnMut(u64, Ask)) {
        self.refuse_late(now_us);
        while self.is_next_free()
            && let Some(held) = self.take_held()
        {
            self.pass(held.tag, held.ask, &mut sink);
        }
        let mut turn_bytes = 0;
        loop {
            let has_room = self.has_room();
            if !has_room {
                self.unread_since_us.get_or_insert(now_us);
                self.late_bytes = SOCKET_BYTES_MAX;
            }
            self.has_unread = !has_room || turn_bytes >= GUEST_TURN_BYTES_MAX;
            if self.has_unread {
                return;
            }
            let (mut asks, mut problem) = (Vec::new(), None);
            let (is_greeted, outbox) = (&mut self.is_greeted, &mut self.outbox);
            let (left_bytes, mut read_bytes) = (self.link.input.len(), 0);
            let end = self.link.read(scratch, |input| {
                read_bytes = input.len() - left_bytes;
                let take = |tag, ask| asks.push((tag, ask));
                Self::take_frames(is_greeted, identity, input, outbox, take).unwrap_or_else(|found| {
                    problem = Some(found);
                    input.len()
                })
            });
            asks.into_iter().for_each(|(tag, ask)| self.admit(now_us, tag, ask, &mut sink));
            turn_bytes += read_bytes;
            self.note_read(read_bytes);
            match end {
                ReadEnd::Paused if problem.is_none() => {}
                ReadEnd::Drained if problem.is_none() => {
                    self.unread_since_us = None;
                    return;
                }
                ReadEnd::Closed | ReadEnd::Paused | ReadEnd::Drained => self.is_over = true,
            }
            if let Some(problem) = problem {
                self.was_hurt |= problem.is_damage();
                // A stranger comes again and again, and says itself why it is refused.
                match problem {
                    PeerError::Stranger => tracing::debug!(%problem, "another gateway is refused"),
                    _ => tracing::warn!(%problem, "another gateway is not understood"),
                }
            }
            if self.is_over {
                return;
            }
        }
    }

    /// One that always says more never comes to its end, and is not late for ever all the same.
    fn note_read(&mut self, bytes: usize) {
        self.late_bytes = self.late_bytes.saturating_sub(bytes);
        if self.late_bytes == 0 {
            self.unread_since_us = None;
        }
    }

    /// Bytes that wait for its socket.
    pub fn outbox_bytes(&self) -> usize {
        self.unsent.bytes() + self.outbox.len()
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, registry: &Registry) -> io::Result<()> {
        let link = &mut self.link;
        self.unsent.send(|piece| link.send(piece, registry))?;
        let is_next = self.unsent.bytes() == 0 && !self.outbox.is_empty();
        let sent = if is_next { link.send(&self.outbox, registry)? } else { 0 };
        self.unsent.take(&mut self.outbox, sent);
        Ok(())
    }

    /// Has room come for what was left or held?
    pub fn may_go_on(&self) -> bool {
        self.has_unread && self.has_room() || self.is_next_free()
    }

    /// Would this be more than may wait, beside so much that it is held when it is asked again?
    fn is_too_much(&self, bytes: usize) -> bool {
        let waiting_bytes = self.outbox_bytes();
        waiting_bytes >= GUEST_ANSWERS_BYTES_MAX && waiting_bytes + bytes > GUEST_OUTBOX_BYTES_MAX
    }

    fn has_room(&self) -> bool {
        self.outbox_bytes() < GUEST_ANSWERS_BYTES_MAX
            && self.held.len() < ASKED_MAX
            && self.held_bytes < ASKED_BYTES_MAX
    }

    /// Is there room for the answer, of whatever length?
    fn has_room_for(&self, ask: &Ask) -> bool {
        let bytes = self.outbox_bytes() + self.reads.len() * GUEST_READ_BYTES;
        !ask.reads_any_length() || self.unsent.bytes() == 0 || bytes < GUEST_ANSWERS_BYTES_MAX
    }

    /// Is there something held for which there is room?
    fn is_next_free(&self) -> bool {
        self.held.front().is_some_and(|held| self.has_room_for(&held.ask))
    }

    fn take_held(&mut self) -> Option<Held> {
        let held = self.held.pop_front()?;
        self.held_bytes -= held.bytes;
        Some(held)
    }

    /// What was held for so long that nobody waits for it any more is not done: whoever asked for a write said already
    /// that its outcome is unknown, and it is not to happen minutes later.
    pub fn refuse_late(&mut self, now_us: u64) {
        while self.held.front().is_some_and(|held| now_us >= held.since_us + WAIT_US_MAX)
            && let Some(held) = self.take_held()
        {
            self.answer(held.tag, &None);
        }
    }

    fn admit(&mut self, now_us: u64, tag: u64, ask: Ask, sink: &mut impl FnMut(u64, Ask)) {
        let since_us = self.unread_since_us.unwrap_or(now_us);
        // It may have lain in the socket for as long: the other gateway asks again if it came just now.
        if ask.is_write() && now_us >= since_us + WAIT_US_MAX {
            return self.answer(tag, &None);
        }
        if !self.held.is_empty() || !self.has_room_for(&ask) {
            let bytes = ask.bytes();
            self.held_bytes += bytes;
            return self.held.push_back(Held { tag, ask, bytes, since_us });
        }
        self.pass(tag, ask, sink);
    }

    fn pass(&mut self, tag: u64, ask: Ask, sink: &mut impl FnMut(u64, Ask)) {
        if ask.reads_any_length() {
            self.reads.insert(tag);
        }
        sink(tag, ask);
    }

    /// Has it been here for long without saying who it is?
    pub fn is_silent(&self, now_us: u64) -> bool {
        !self.is_greeted && now_us >= self.since_us + GREETING_US_MAX
    }

    /// Takes all whole frames of `input`, and says how many bytes they were. Requests go to `sink` with their tags.
    ///
    /// # Errors
    /// What is wrong with them.
    fn take_frames(
        is_greeted: &mut bool,
        identity: Identity,
        input: &[u8],
        outbox: &mut Vec<u8>,
        mut sink: impl FnMut(u64, Ask),
    ) -> Result<usize, PeerError> {
        let mut taken = 0;
        // Who has not said who it is makes this gateway keep no more than a greeting.
        if !*is_greeted && next_header(input)?.is_some_and(|(kind, _)| kind != Kind::Hello) {
            return Err(PeerError::BeforeGreeting);
        }
        while let Some((frame, frame_bytes)) = next_frame(&input[taken..])? {
            taken += frame_bytes;
            match (frame.kind, *is_greeted) {
                (Kind::Hello, false) => {
                    let hello = Hello::parse(frame.body).map_err(|_| PeerError::Body("a greeting"))?;
                    greet(&hello, identity, outbox)?;
                    *is_greeted = true;
                }
                (Kind::Ask, true) => {
                    sink(frame.tag, Ask::parse(frame.body).map_err(|_| PeerError::Body("a request"))?);
                }
                _ => return Err(PeerError::OutOfOrder),
            }
        }
        Ok(taken)
    }

    pub fn answer(&mut self, tag: u64, answer: &Answer) {
        let is_read = self.reads.remove(&tag);
        match answer {
            // A read did nothing: asked again, it is held until there is room.
            Some(Reply::Bytes(bytes)) if is_read && self.is_too_much(bytes.len()) => {
                begin_frame(&mut self.outbox, Kind::NotOwner, tag, |_| {});
            }
            None | Some(Reply::Keyspace(Err(StoreError::NotOwner)) | Reply::Group(Err(StoreError::NotOwner))) => {
                begin_frame(&mut self.outbox, Kind::NotOwner, tag, |_| {});
            }
            Some(reply) => put_reply(&mut self.outbox, tag, reply),
        }
    }
}

fn greet(hello: &Hello, identity: Identity, outbox: &mut Vec<u8>) -> Result<(), PeerError> {
    let ClusterId(cluster_id) = identity.cluster;
    match hello.check(cluster_id) {
        Ok(()) => put_frame(outbox, Kind::Welcome, 0, &Welcome { gateway: identity.gateway }),
        Err(refusal) => {
            put_frame(outbox, Kind::Refused, 0, &refusal);
            return Err(PeerError::Stranger);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use mio::net::UnixStream;
    use mio::{Poll, Token};
    use shorttail_gateway::any::AnyCommand;
    use shorttail_gateway::memcached::MemcachedSession;
    use shorttail_gateway::request::Request;
    use shorttail_gateway::session::{Session, Settings, Shared};
    use shorttail_units::Now;
    use shorttail_wire::gateway::{GATEWAY_PROTOCOL_VERSION, HEADER_BYTES, HELLO_BYTES_MAX};

    use super::*;
    use crate::net::Stream;

    const IDENTITY: Identity = Identity { cluster: ClusterId(7), gateway: 1 };

    fn take(input: &[u8]) -> Result<usize, PeerError> {
        Guest::take_frames(&mut false, IDENTITY, input, &mut Vec::new(), |_, _| panic!("nothing was asked"))
    }

    /// The header of a frame with so long a body.
    fn begun(kind: Kind, body_bytes: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        begin_frame(&mut frame, kind, 0, |out| out.resize(HEADER_BYTES + body_bytes, 0));
        frame.truncate(HEADER_BYTES);
        frame
    }

    #[test]
    fn nothing_but_a_greeting_is_waited_for_before_the_greeting() {
        for (kind, body_bytes) in [(Kind::Ask, 1 << 20), (Kind::Answer, 1), (Kind::Welcome, 1), (Kind::Refused, 1)] {
            take(&begun(kind, body_bytes)).expect_err("it would be buffered");
        }
        assert_eq!(take(&begun(Kind::Ask, 1)[..HEADER_BYTES - 1]), Ok(0), "nobody knows yet");
        let mut greeting = begun(Kind::Hello, HELLO_BYTES_MAX);
        assert_eq!(take(&greeting), Ok(0), "the rest of a greeting is to come");
        greeting[..4].copy_from_slice(&(HELLO_BYTES_MAX as u32 + 1).to_le_bytes());
        take(&greeting).expect_err("too long for a greeting");
    }

    fn greeting() -> Vec<u8> {
        let hello = Hello { version: GATEWAY_PROTOCOL_VERSION, cluster_id: 7, gateway: 2 };
        let mut input = Vec::new();
        put_frame(&mut input, Kind::Hello, 0, &hello);
        input
    }

    /// What a client asks that asks nothing else: a read takes a value of any length then.
    fn ask(line: &[u8]) -> Ask {
        let mut asked = Vec::new();
        let mut sink = |_, request: Request<_>| asked.push(request.map(AnyCommand::Memcached));
        let mut session = MemcachedSession::default();
        session.handle_input(Now::default(), &mut Shared::new(Settings::default()), line, &mut sink);
        Ask { partition: 0, epoch: 0, request: asked.pop().expect("one request") }
    }

    #[test]
    fn a_message_that_was_hurt_on_its_way_ends_the_connection_and_is_counted_once() {
        let mut scene = Scene::new();
        let mut said = Vec::new();
        ask(b"get key\r\n").put(&mut said, 1);
        *said.last_mut().expect("a byte") ^= 4;
        assert!(scene.read(&said).is_empty() && scene.guest.is_over);
        assert_eq!([(); 2].map(|()| scene.guest.take_hurt()), [true, false]);
    }

    /// It asks for many large values and reads nothing for long: what waits for it is bounded, and all is answered when
    /// it reads.
    #[test]
    fn what_waits_for_another_gateway_that_does_not_read_is_bounded_and_it_stays() {
        const VALUE_BYTES: usize = 1 << 20;
        const READS: u64 = 300;
        let (mut scene, mut said) = (Scene::new(), Vec::new());
        (0..READS).for_each(|tag| ask(b"get key\r\n").put(&mut said, tag));
        ask(b"set key 0 0 1\r\n1\r\n").put(&mut said, READS);
        let first = READS + 1;
        let mut one = Vec::new();
        ask(b"get key\r\n").put(&mut one, first);
        assert_eq!(scene.read(&one), [first]);

        let [stored, value] = [b"STORED\r\n".to_vec(), vec![b'v'; VALUE_BYTES]].map(|reply| Some(Reply::Bytes(reply)));
        scene.guest.answer(first, &value);
        scene.guest.send(scene.poll.registry()).expect("it is there");
        // Its socket has not taken all of that.
        let mut waiting = scene.read(&said);
        assert!((16..READS as usize / 2).contains(&waiting.len()), "{waiting:?}");
        let (mut heard, mut answered, mut bytes_max) = (Vec::new(), Vec::new(), 0);
        for does_read in [false, true] {
            loop {
                waiting.iter().for_each(|&tag| scene.guest.answer(tag, if tag == READS { &stored } else { &value }));
                answered.append(&mut waiting);
                scene.guest.send(scene.poll.registry()).expect("it is there");
                bytes_max = bytes_max.max(scene.guest.outbox_bytes());
                waiting = if scene.guest.may_go_on() { scene.read(&[]) } else { Vec::new() };
                let mut piece = [0; 1 << 16];
                while does_read && let Ok(count @ 1..) = scene.far.read(&mut piece) {
                    heard.extend_from_slice(&piece[..count]);
                }
                if waiting.is_empty() && (!does_read || scene.guest.outbox_bytes() == 0) {
                    break;
                }
            }
            if !does_read {
                assert!(answered.len() < READS as usize / 2, "most is held");
                // Nothing more is read until it reads.
                assert!(scene.read(&one).is_empty() && !scene.guest.is_over);
            }
        }
        let all: Vec<u64> = (0..=READS).chain([first]).collect();
        assert_eq!(answered, all, "in their order");
        assert!(bytes_max < GUEST_ANSWERS_BYTES_MAX + 2 * VALUE_BYTES, "{bytes_max} bytes waited");
        let mut frames = 0;
        let mut left = &heard[..];
        while let Some((_, bytes)) = next_frame(left).expect("frames") {
            (left, frames) = (&left[bytes..], frames + 1);
        }
        assert_eq!(frames, 1 + 1 + all.len(), "the welcome, and every answer");
    }

    /// Its socket takes nothing: what it asked is bounded in bytes, and none of it happens once nobody waits for it.
    #[test]
    fn what_was_held_for_long_is_not_done() {
        const VALUE_BYTES: usize = 1_000_000;
        let mut scene = Scene::new();
        let said_of = |lines: &[Vec<u8>]| {
            let mut said = Vec::new();
            (1..).zip(lines).for_each(|(tag, line)| ask(line).put(&mut said, tag));
            said
        };
        let get = b"get key\r\n".to_vec();
        let reads = scene.read(&said_of(&vec![get.clone(); 100]));
        let value = Some(Reply::Bytes(vec![b'v'; VALUE_BYTES]));
        reads.iter().take(60).for_each(|&tag| scene.guest.answer(tag, &value));
        scene.guest.send(scene.poll.registry()).expect("it is there");

        let set = [format!("set key 0 0 {VALUE_BYTES}\r\n").as_bytes(), &vec![b'v'; VALUE_BYTES], b"\r\n"].concat();
        let small = b"set key 0 0 1\r\n1\r\n".to_vec();
        let lines = [vec![get], vec![set; ASKED_BYTES_MAX / VALUE_BYTES + 1], vec![small; 20_000]].concat();
        let said = said_of(&lines);
        let (mut left, mut passed) = (&said[..], Vec::new());
        while let Ok(count @ 1..) = scene.far.write(left) {
            left = &left[count..];
            passed.append(&mut scene.read(&[]));
        }
        assert!(passed.is_empty() && !left.is_empty(), "{passed:?}");
        assert!((ASKED_BYTES_MAX..ASKED_BYTES_MAX + 2 * VALUE_BYTES).contains(&scene.guest.held_bytes));
        let held_count = scene.guest.held.len();

        // It reads again: all that it said before is late, wherever it was.
        scene.now_us = WAIT_US_MAX;
        let (mut heard, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        while scene.guest.outbox_bytes() > 0 {
            assert!(scene.read(&[]).is_empty());
            scene.guest.send(scene.poll.registry()).expect("it is there");
            while let Ok(count @ 1..) = scene.far.read(&mut piece) {
                heard.extend_from_slice(&piece[..count]);
            }
        }
        assert_eq!((scene.guest.held.len(), scene.guest.held_bytes, scene.guest.is_over), (0, 0, false));
        let (mut refused, mut rest) = (Vec::new(), &heard[..]);
        while let Some((frame, bytes)) = next_frame(rest).expect("frames") {
            rest = &rest[bytes..];
            refused.extend((frame.kind == Kind::NotOwner).then_some(frame.tag));
        }
        // What it says now is done.
        while !left.is_empty() {
            left = &left[scene.far.write(left).expect("it is read")..];
            passed.append(&mut scene.read(&[]));
        }
        passed.append(&mut scene.read_on());
        assert!(refused.len() > held_count + 1_000 && !passed.is_empty(), "{} of {held_count}", refused.len());
        assert_eq!([refused, passed].concat(), (1..=lines.len() as u64).collect::<Vec<u64>>());
    }

    /// Many reads wait for an owner that is taking over, and others are of what is served.
    #[test]
    fn reads_that_wait_for_their_answers_hold_up_no_others() {
        let (mut scene, mut said) = (Scene::new(), Vec::new());
        (0..1_000).for_each(|tag| ask(b"get key\r\n").put(&mut said, tag));
        assert_eq!(scene.read(&said).len(), 1_000);
    }

    #[test]
    fn one_that_says_much_is_not_heard_to_the_end_at_once() {
        const COUNT: usize = 100_000;
        let (mut scene, mut said) = (Scene::new(), Vec::new());
        (0..COUNT as u64).for_each(|tag| ask(b"get key\r\n").put(&mut said, tag));
        let ask_bytes = said.len() / COUNT;
        let sent_bytes = scene.far.write(&said).expect("it is there");
        assert!(sent_bytes > GUEST_TURN_BYTES_MAX + 8192, "{sent_bytes} bytes fit into a socket");
        let first = scene.read(&[]);
        assert!((1..=GUEST_TURN_BYTES_MAX / ask_bytes + 4096).contains(&first.len()) && scene.guest.may_go_on());
        let all = [first, scene.read_on()].concat();
        assert_eq!(all, (0..(sent_bytes / ask_bytes) as u64).collect::<Vec<u64>>());
    }

    /// Its socket is never empty.
    #[test]
    fn who_never_pauses_is_not_late_for_ever() {
        const LATE_BYTES: usize = GUEST_ANSWERS_BYTES_MAX / 60 + 1;
        const VALUE_BYTES: usize = 50_000;
        const SETS: usize = 2 * SOCKET_BYTES_MAX / VALUE_BYTES;
        let (mut scene, mut reads) = (Scene::new(), Vec::new());
        (0..60).for_each(|tag| ask(b"get key\r\n").put(&mut reads, tag));
        for tag in scene.read(&reads) {
            scene.guest.answer(tag, &Some(Reply::Bytes(vec![b'v'; LATE_BYTES])));
        }
        assert!(scene.read(&[]).is_empty() && !scene.guest.has_room());
        scene.now_us = WAIT_US_MAX;
        let mut piece = vec![0; 1 << 16];
        while scene.guest.outbox_bytes() > 0 {
            scene.guest.send(scene.poll.registry()).expect("it is there");
            while let Ok(1..) = scene.far.read(&mut piece) {}
        }
        let set = [format!("set key 0 0 {VALUE_BYTES}\r\n").as_bytes(), &[b'v'; VALUE_BYTES], b"\r\n"].concat();
        let (set, mut said) = (ask(&set), Vec::new());
        (0..SETS as u64).for_each(|tag| set.put(&mut said, tag));
        let (mut left, mut passed) = (&said[..], Vec::new());
        while !left.is_empty() {
            while let Ok(count @ 1..) = scene.far.write(left) {
                left = &left[count..];
            }
            passed.append(&mut scene.read(&[]));
        }
        let first = *passed.first().expect("in the end they are done") as usize;
        let late_bytes = SOCKET_BYTES_MAX..SOCKET_BYTES_MAX + 4 * VALUE_BYTES;
        assert!(late_bytes.contains(&((first + 1) * (VALUE_BYTES + 100))), "{first} were refused");
        assert!(passed.iter().copied().eq((first as u64..).take(passed.len())));
    }

    #[test]
    fn a_second_very_long_answer_is_given_back() {
        const VALUE_BYTES: usize = GUEST_OUTBOX_BYTES_MAX / 10 * 9;
        let (mut scene, mut said) = (Scene::new(), Vec::new());
        (1..4).for_each(|tag| ask(b"get key\r\n").put(&mut said, tag));
        assert_eq!(scene.read(&said), [1, 2, 3]);
        let value = |bytes| Some(Reply::Bytes(vec![b'v'; bytes]));
        for (tag, bytes) in [(1, VALUE_BYTES), (2, VALUE_BYTES), (3, 1)] {
            scene.guest.answer(tag, &value(bytes));
            scene.guest.send(scene.poll.registry()).expect("it is there");
            assert!(scene.guest.outbox_bytes() <= GUEST_OUTBOX_BYTES_MAX);
        }
        let mut again = Vec::new();
        ask(b"get key\r\n").put(&mut again, 2);
        assert!(scene.read(&again).is_empty() && !scene.guest.may_go_on(), "there is no room yet");
        let (mut heard, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        while scene.guest.outbox_bytes() > 0 {
            scene.guest.send(scene.poll.registry()).expect("it is there");
            while let Ok(count @ 1..) = scene.far.read(&mut piece) {
                heard.extend_from_slice(&piece[..count]);
            }
        }
        let (mut kinds, mut rest) = (Vec::new(), &heard[..]);
        while let Some((frame, bytes)) = next_frame(rest).expect("frames") {
            (rest, kinds) = (&rest[bytes..], [kinds, vec![(frame.kind, frame.tag)]].concat());
        }
        assert_eq!(kinds[1..], [(Kind::Answer, 1), (Kind::NotOwner, 2), (Kind::Answer, 3)]);
        assert!(scene.guest.may_go_on());
        assert_eq!(scene.read(&[]), [2]);
    }

    struct Scene {
        poll: Poll,
        guest: Guest,
        far: UnixStream,
        now_us: u64,
    }

    impl Scene {
        /// It said who it is.
        fn new() -> Self {
            let poll = Poll::new().expect("an epoll instance");
            let (near, far) = UnixStream::pair().expect("a pair of sockets");
            let link = Link::new(Stream::Unix(near), Token(0), poll.registry()).expect("registered");
            let mut scene = Scene { poll, guest: Guest::new(link, 0), far, now_us: 0 };
            assert!(scene.read(&greeting()).is_empty());
            scene
        }

        /// It says this; tags of what is asked then.
        fn read(&mut self, said: &[u8]) -> Vec<u64> {
            let mut tags = Vec::new();
            self.far.write_all(said).expect("it fits");
            self.guest.read(self.now_us, IDENTITY, &mut [0; 4096], |tag, _| tags.push(tag));
            tags
        }

        /// What it said and was left in the socket.
        fn read_on(&mut self) -> Vec<u64> {
            let mut tags = Vec::new();
            while self.guest.has_unread && self.guest.has_room() {
                tags.append(&mut self.read(&[]));
            }
            tags
        }
    }

    #[test]
    fn after_the_greeting_a_long_request_is_waited_for() {
        let mut input = greeting();
        let greeting_bytes = input.len();
        input.extend_from_slice(&begun(Kind::Ask, 1 << 20));
        let (mut is_greeted, mut outbox) = (false, Vec::new());
        let taken = Guest::take_frames(&mut is_greeted, IDENTITY, &input, &mut outbox, |_, _| panic!("not whole"));
        assert_eq!((taken, is_greeted), (Ok(greeting_bytes), true));
    }
}
