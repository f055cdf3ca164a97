//! What endpoints hear, fault by fault.

use super::*;
use crate::rng::PPM;
use crate::trace::Trace;

const A: Endpoint = Endpoint(1);
const B: Endpoint = Endpoint(2);
const C: Endpoint = Endpoint(3);

/// A network with the endpoints A, B and C up, its schedule, and a vocabulary.
struct World {
    network: Network,
    schedule: Schedule<NetworkEvent>,
    heard: Vec<(u64, Notice)>,
}

impl World {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut network = Network::new(settings, Rng::new(seed));
        [A, B, C].into_iter().for_each(|endpoint| network.start(endpoint));
        World { network, schedule: Schedule::default(), heard: Vec::new() }
    }

    /// Breaks lose all that is in flight, and nothing is split.
    fn strict() -> Self {
        World::new(1, Settings { spare_ppm: 0, split_ppm: 0, ..Settings::default() })
    }

    fn open(&mut self, from: Endpoint, to: Endpoint) -> SessionId {
        self.network.open(&mut self.schedule, from, to).unwrap()
    }

    /// A session that both ends know.
    fn standing(&mut self) -> SessionId {
        let session = self.open(A, B);
        self.run();
        self.heard.clear();
        session
    }

    fn send(&mut self, from: Endpoint, session: SessionId, bytes: &[u8]) {
        self.network.send(&mut self.schedule, from, session, bytes.to_vec()).unwrap();
    }

    fn listen(&mut self) {
        while let Some(notice) = self.network.poll_notice() {
            self.heard.push((self.schedule.now_us(), notice));
        }
    }

    fn run_until(&mut self, until_us: u64) {
        self.listen();
        while let Some(event) = self.schedule.pop_until(until_us) {
            self.network.handle(&mut self.schedule, event);
            self.listen();
        }
    }

    /// Runs until nothing is scheduled.
    fn run(&mut self) {
        self.listen();
        while let Some(event) = self.schedule.pop() {
            self.network.handle(&mut self.schedule, event);
            self.listen();
        }
    }

    fn what(&self, at: Endpoint) -> Vec<&What> {
        self.heard.iter().filter(|(_, notice)| notice.at == at).map(|(_, notice)| &notice.what).collect()
    }

    fn received(&self, at: Endpoint) -> Vec<u8> {
        let bytes = self.what(at).into_iter().filter_map(|what| match what {
            What::Received(bytes) => Some(bytes.as_slice()),
            _ => None,
        });
        bytes.collect::<Vec<_>>().concat()
    }
}

fn received(bytes: &[u8]) -> What {
    What::Received(bytes.to_vec())
}

#[test]
fn a_session_is_accepted_then_connected_and_bytes_keep_their_order() {
    let mut world = World::strict();
    let session = world.open(A, B);
    (0..50).for_each(|byte| world.send(A, session, &[byte]));
    world.run();
    assert_eq!(world.what(A), [&What::Connected]);
    assert_eq!(world.what(B)[0], &What::Accepted { peer: A });
    assert_eq!(world.received(B), (0..50).collect::<Vec<u8>>());
    world.send(B, session, b"back");
    world.run();
    assert_eq!(world.received(A), b"back");
    let times: Vec<u64> = world.heard.iter().map(|(at_us, _)| *at_us).collect();
    assert!(times.is_sorted() && times[0] >= Settings::default().delay_us_min);
}

#[test]
fn messages_of_different_sessions_overtake_each_other() {
    let overtaken = (0..20).filter(|&seed| {
        let mut world = World::new(seed, Settings::default());
        let (first, second) = (world.open(A, C), world.open(B, C));
        world.run();
        world.send(A, first, b"1");
        world.send(B, second, b"2");
        world.run();
        world.received(C) == b"21"
    });
    assert!((3..18).contains(&overtaken.count()));
}

#[test]
fn messages_may_arrive_in_pieces_but_whole() {
    let mut world = World::new(2, Settings { split_ppm: PPM, ..Settings::default() });
    let session = world.standing();
    world.send(A, session, b"two pieces");
    world.run();
    assert_eq!((world.what(B).len(), world.received(B)), (2, b"two pieces".to_vec()));
    world.send(A, session, b"");
    world.run();
    assert_eq!(world.what(B).len(), 2, "empty bytes are no message");
}

#[test]
fn a_break_loses_what_is_in_flight_and_both_ends_hear_of_it_later() {
    let mut world = World::strict();
    let session = world.standing();
    world.send(A, session, b"lost");
    world.send(B, session, b"lost");
    let broken_us = world.schedule.now_us();
    world.network.break_session(&mut world.schedule, session);
    // The ends do not know yet: what they send is lost without a word.
    world.send(A, session, b"lost too");
    assert!(world.heard.is_empty());
    world.run();
    let reset = What::Broken(Reason::Reset);
    assert_eq!((world.what(A), world.what(B)), (vec![&reset], vec![&reset]));
    assert!(world.heard.iter().all(|(at_us, _)| *at_us > broken_us));
    let refused = world.network.send(&mut world.schedule, A, session, vec![1]);
    assert_eq!(refused, Err(SendError::NotOpen));
    assert!(world.network.sessions.is_empty());
}

#[test]
fn a_break_may_spare_a_first_part_of_what_is_in_flight() {
    let mut lengths: Vec<usize> = (0..60)
        .map(|seed| {
            let mut world = World::new(seed, Settings { spare_ppm: PPM, ..Settings::default() });
            let session = world.standing();
            (0..5).for_each(|byte| world.send(A, session, &[byte]));
            world.network.break_session(&mut world.schedule, session);
            world.run();
            let bytes = world.received(B);
            assert!((0..5).collect::<Vec<u8>>().starts_with(&bytes), "{bytes:?}");
            assert_eq!(world.what(B).last(), Some(&&What::Broken(Reason::Reset)));
            bytes.len()
        })
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_close_delivers_what_was_sent_before_it() {
    let mut world = World::strict();
    let session = world.standing();
    world.send(A, session, b"last words");
    world.send(B, session, b"unheard");
    world.network.close(&mut world.schedule, A, session);
    assert_eq!(world.network.send(&mut world.schedule, A, session, vec![1]), Err(SendError::NotOpen));
    world.run();
    assert_eq!(world.what(B), [&received(b"last words"), &What::Broken(Reason::Closed)]);
    assert!(world.what(A).is_empty());
    assert!(world.network.sessions.is_empty());
}

#[test]
fn a_close_silences_what_was_not_heard_yet() {
    let mut world = World::strict();
    let session = world.standing();
    world.send(A, session, b"arrived");
    while world.network.notices.is_empty() {
        let event = world.schedule.pop().unwrap();
        world.network.handle(&mut world.schedule, event);
    }
    world.network.close(&mut world.schedule, B, session);
    world.run();
    assert!(world.what(B).is_empty());
    assert_eq!(world.what(A), [&What::Broken(Reason::Closed)]);
}

#[test]
fn a_session_closed_before_it_is_accepted_is_still_heard_of() {
    let mut world = World::strict();
    let session = world.open(A, B);
    world.send(A, session, b"x");
    world.network.close(&mut world.schedule, A, session);
    world.run();
    assert_eq!(world.what(B), [&What::Accepted { peer: A }, &received(b"x"), &What::Broken(Reason::Closed)]);
    assert!(world.what(A).is_empty() && world.network.sessions.is_empty());
}

#[test]
fn a_crash_breaks_all_sessions_and_forgets_what_waited() {
    let mut world = World::strict();
    let session = world.standing();
    let other = world.open(B, C);
    world.run();
    world.heard.clear();
    world.send(B, session, b"in flight");
    world.network.crash(&mut world.schedule, B);
    assert!(!world.network.is_up(B));
    assert_eq!(world.network.send(&mut world.schedule, B, other, vec![1]), Err(SendError::NotOpen));
    world.run();
    let reset = What::Broken(Reason::Reset);
    assert_eq!((world.what(A), world.what(C), world.what(B)), (vec![&reset], vec![&reset], vec![]));

    world.heard.clear();
    world.open(A, B);
    world.run();
    assert_eq!(world.what(A), [&What::Broken(Reason::Refused)]);
    world.network.start(B);
    world.heard.clear();
    world.open(A, B);
    world.run();
    assert_eq!((world.what(A), world.what(B)), (vec![&What::Connected], vec![&What::Accepted { peer: A }]));
    assert_eq!(world.network.open(&mut world.schedule, A, A), Err(OpenError::Itself));
    assert_eq!(world.network.open(&mut world.schedule, Endpoint(9), A), Err(OpenError::NotUp(Endpoint(9))));
}

#[test]
fn a_stalled_endpoint_hears_all_of_it_when_it_resumes() {
    let mut world = World::strict();
    let session = world.standing();
    world.network.stall(B);
    world.send(A, session, b"1");
    world.send(A, session, b"2");
    world.open(C, B);
    world.run();
    world.network.break_session(&mut world.schedule, session);
    world.run();
    assert!(world.network.is_stalled(B) && world.what(B).is_empty());
    // The kernel accepts for a stalled process.
    assert_eq!(world.what(C), [&What::Connected]);
    world.network.resume(B);
    world.listen();
    let heard = world.what(B);
    assert_eq!(heard.len(), 4);
    assert_eq!(world.received(B), b"12");
    assert_eq!(heard[3], &What::Broken(Reason::Reset));
}

#[test]
fn a_stalled_endpoint_that_crashes_forgets() {
    let mut world = World::strict();
    let session = world.standing();
    world.network.stall(B);
    world.send(A, session, b"1");
    world.run();
    world.network.crash(&mut world.schedule, B);
    world.network.start(B);
    world.network.resume(B);
    world.run();
    assert!(world.what(B).is_empty());
}

#[test]
fn a_stall_holds_back_what_was_not_heard_yet() {
    let mut world = World::strict();
    let session = world.standing();
    world.send(A, session, b"1");
    while world.network.notices.is_empty() {
        let event = world.schedule.pop().unwrap();
        world.network.handle(&mut world.schedule, event);
    }
    world.network.stall(B);
    world.run();
    assert!(world.what(B).is_empty());
    world.network.resume(B);
    world.run();
    assert_eq!(world.received(B), b"1");
}

#[test]
fn a_cut_that_heals_in_time_only_delays() {
    let mut world = World::strict();
    let session = world.standing();
    world.send(A, session, b"1");
    world.network.partition(&[A], &[B, C]);
    world.send(A, session, b"2");
    world.send(B, session, b"3");
    let half_us = world.schedule.now_us() + Settings::default().cut_timeout_us / 2;
    world.run_until(half_us);
    assert!(world.heard.is_empty());
    world.network.heal(&mut world.schedule);
    world.send(A, session, b"4");
    world.run();
    assert_eq!((world.received(B), world.received(A)), (b"124".to_vec(), b"3".to_vec()));
    assert!(world.heard.iter().all(|(at_us, _)| *at_us > half_us));
    // The timeout of the healed cut does not count against a later one.
    assert_eq!(world.network.sessions.len(), 1);
}

#[test]
fn a_cut_that_lasts_breaks_the_session_for_the_sender_first() {
    let mut world = World::strict();
    let session = world.standing();
    world.network.partition(&[A], &[B]);
    let cut_us = world.schedule.now_us();
    world.send(A, session, b"lost");
    world.run();
    let timed_out = What::Broken(Reason::TimedOut);
    assert_eq!((world.what(A), world.what(B)), (vec![&timed_out], vec![&timed_out]));
    assert_eq!(world.heard[0].1.at, A);
    assert!(world.heard[0].0 >= cut_us + Settings::default().cut_timeout_us);
    assert!(world.network.sessions.is_empty());
    // A new session is not accepted through the cut either.
    world.heard.clear();
    world.open(A, B);
    world.run();
    assert_eq!((world.what(A), world.what(B)), (vec![&timed_out], vec![]));
    assert!(world.network.sessions.is_empty());
}

#[test]
fn a_cut_of_one_direction_lets_the_other_pass() {
    let mut world = World::strict();
    let session = world.standing();
    world.network.cut(A, B);
    world.send(A, session, b"1");
    world.send(B, session, b"2");
    world.run_until(world.schedule.now_us() + 100_000);
    assert_eq!((world.received(A), world.received(B)), (b"2".to_vec(), vec![]));
    world.network.mend(&mut world.schedule, A, B);
    world.run();
    assert_eq!(world.received(B), b"1");
}

#[test]
fn an_idle_session_survives_a_cut_of_any_length() {
    let mut world = World::strict();
    let session = world.standing();
    world.network.partition(&[A], &[B]);
    world.run_until(1 << 40);
    world.network.heal(&mut world.schedule);
    world.send(A, session, b"1");
    world.run();
    assert_eq!(world.received(B), b"1");
}

#[test]
fn a_crash_behind_a_cut_is_heard_of_all_the_same() {
    let mut world = World::strict();
    world.standing();
    world.network.partition(&[A], &[B]);
    world.network.crash(&mut world.schedule, B);
    world.run();
    assert_eq!(world.what(A), [&What::Broken(Reason::Reset)]);
    assert!(world.network.sessions.is_empty());
}

#[test]
fn a_slow_endpoint_delays_its_messages() {
    let delay_us = |times| {
        let mut world = World::strict();
        let session = world.standing();
        world.network.slow_down(B, times);
        let sent_us = world.schedule.now_us();
        world.send(A, session, b"1");
        world.run();
        world.heard[0].0 - sent_us
    };
    assert_eq!(delay_us(10), 10 * delay_us(1));
}

#[test]
fn a_direction_holds_so_much_and_no_more() {
    let mut world = World::strict();
    let session = world.standing();
    world.send(A, session, &vec![0; DIRECTION_BYTES_MAX - 1]);
    assert_eq!(world.network.send(&mut world.schedule, A, session, vec![0; 2]), Err(SendError::Full));
    world.send(A, session, &[0]);
    world.run();
    world.send(A, session, &[0]);
}

#[test]
fn a_bit_turns_over_where_that_was_ordered_or_drawn() {
    let mut world = World::strict();
    let session = world.standing();
    world.network.flip_next(A, B, 17);
    for bytes in [b"ab".as_slice(), b"cde", b"fgh"] {
        world.send(A, session, bytes);
    }
    world.send(B, session, b"ijk");
    world.run();
    assert_eq!((world.received(B), world.received(A)), (b"abcdgfgh".to_vec(), b"ijk".to_vec()));
    assert_eq!(world.network.flip_count(), 1);
    let mut world = World::new(1, Settings { flip_ppm: PPM, split_ppm: 0, ..Settings::default() });
    let session = world.standing();
    world.send(A, session, &[0; 9]);
    world.run();
    assert_eq!(world.received(B).iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    world.network.stop_flips();
    world.send(A, session, &[0; 9]);
    world.run();
    assert_eq!(world.network.flip_count(), 1);
}

/// Random traffic and faults; every byte sent names its place, so that receivers can tell a prefix.
fn storm(seed: u64) -> Trace {
    let mut trace = Trace::default();
    let mut rng = Rng::new(seed);
    let settings = Settings { cut_timeout_us: 2_000, split_ppm: 300_000, ..Settings::default() };
    let mut world = World::new(rng.next_u64(), settings);
    let mut sent: BTreeMap<(SessionId, Endpoint), u8> = BTreeMap::new();
    let mut heard: BTreeMap<(SessionId, Endpoint), u8> = BTreeMap::new();
    let mut over: BTreeSet<(SessionId, Endpoint)> = BTreeSet::new();
    for _ in 0..600 {
        let at = *rng.choose(&[A, B, C]).unwrap();
        let other = Endpoint(at.0 % 3 + 1);
        let own = world.network.sessions_of(at);
        match rng.below(20) {
            0..3 if world.network.is_up(at) => drop(world.open(at, other)),
            3 => world.network.stall(at),
            4..6 => world.network.resume(at),
            6 if rng.chance_ppm(PPM / 4) => world.network.crash(&mut world.schedule, at),
            7..9 if !world.network.is_up(at) => world.network.start(at),
            9 => world.network.cut(at, other),
            10..12 => world.network.heal(&mut world.schedule),
            12 => own.iter().take(1).for_each(|id| world.network.break_session(&mut world.schedule, *id)),
            13 => own.iter().take(1).for_each(|id| {
                world.network.close(&mut world.schedule, at, *id);
                over.insert((*id, at));
            }),
            _ => own.iter().for_each(|id| {
                let count = sent.entry((*id, at)).or_default();
                world.send(at, *id, &[*count, count.wrapping_add(1)]);
                *count = count.wrapping_add(2);
            }),
        }
        world.run_until(world.schedule.now_us() + rng.below(300));
        for (at_us, notice) in world.heard.drain(..) {
            trace.record(at_us, format_args!("{notice}"));
            let end = (notice.session, notice.at);
            assert!(!over.contains(&end), "{notice} after its end");
            match notice.what {
                What::Received(bytes) => bytes.iter().for_each(|byte| {
                    let expected = heard.entry(end).or_default();
                    assert_eq!(byte, expected, "{end:?} received out of order");
                    *expected = expected.wrapping_add(1);
                }),
                What::Broken(_) => drop(over.insert(end)),
                What::Accepted { .. } | What::Connected => {}
            }
        }
    }
    // When all is well again and every session closed, nothing is left.
    world.network.heal(&mut world.schedule);
    for endpoint in [A, B, C] {
        world.network.crash(&mut world.schedule, endpoint);
    }
    world.run();
    assert!(world.network.sessions.is_empty(), "{:?}", world.network.sessions);
    trace
}

#[test]
fn one_seed_is_one_trace_and_streams_stay_in_order_in_any_storm() {
    let hashes: Vec<u64> = (0..40).map(|seed| storm(seed).hash()).collect();
    assert!((0..40).all(|seed| storm(seed).hash() == hashes[seed as usize]));
    let mut different = hashes.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), hashes.len());
    let counts: Vec<u64> = (0..40).map(|seed| storm(seed).event_count()).collect();
    assert!(counts.iter().all(|&count| count > 200), "{counts:?}");
}
