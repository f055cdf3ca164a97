//! The engine against servers in virtual time: no sockets, no clocks, no waiting.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::*;
use crate::choice::KeyChoice;
use crate::codec::{Codec, Protocol};
use crate::names::Names;
use crate::pacer::Arrivals;
use crate::sizes::SizeDistribution;
use crate::workload::{Mix, Workload};

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;

fn plan(mix: Mix, limit: Limit) -> Plan {
    Plan {
        codec: Codec { protocol: Protocol::Redis, wait_replicas: None },
        names: Names {
            prefix: String::new(),
            key_sizes: SizeDistribution::Fixed(24),
            value_sizes: SizeDistribution::Fixed(100),
            trace: None,
            lifetimes: None,
            run: 5,
        },
        keys: 50,
        choice: KeyChoice::Uniform,
        mix,
        multi_get_max: 10,
        expect_all: true,
        stored_before: false,
        rate: None,
        arrivals: Arrivals::Even,
        warm_up_ns: 0,
        limit,
        keep_samples: false,
        seed: 3,
        pipeline: 1,
        connections: 1,
        threads: 1,
        timeout_ns: SECOND,
    }
}

/// What a server does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    Honest,
    /// Forgets every write.
    Loses,
    /// Keeps the first value of a key for ever.
    KeepsOld,
    /// Answers the value of another key.
    Confuses,
    /// Deletes nothing.
    Undead,
}

/// A Redis server of a few commands: a map, and the moment from which it answers.
struct Server {
    map: HashMap<Vec<u8>, Vec<u8>>,
    habit: Habit,
    /// Answers nothing in this span.
    stall: std::ops::Range<u64>,
    service_ns: u64,
}

impl Server {
    fn new(habit: Habit) -> Self {
        Server { map: HashMap::new(), habit, stall: 0..0, service_ns: MILLI }
    }

    /// When a request of this moment is answered.
    fn answers_at(&self, now_ns: u64) -> u64 {
        let done = now_ns + self.service_ns;
        if self.stall.contains(&done) || self.stall.contains(&now_ns) { self.stall.end + self.service_ns } else { done }
    }

    fn handle(&mut self, request: &[u8]) -> Vec<u8> {
        let words = words(request);
        match (words[0].as_slice(), &words[1..]) {
            (b"GET", [key]) => self.bulk(key),
            (b"MGET", keys) => {
                let values: Vec<u8> = keys.iter().flat_map(|key| self.bulk(key)).collect();
                [format!("*{}\r\n", keys.len()).into_bytes(), values].concat()
            }
            (b"SET", [key, value]) => {
                let ignored =
                    self.habit == Habit::Loses || (self.habit == Habit::KeepsOld && self.map.contains_key(key));
                if !ignored {
                    self.map.insert(key.clone(), value.clone());
                }
                b"+OK\r\n".to_vec()
            }
            (b"DEL", [key]) => {
                let known = self.habit == Habit::Undead || self.map.remove(key).is_some();
                format!(":{}\r\n", u8::from(known)).into_bytes()
            }
            (command, _) => panic!("the engine sent {}", shown(command)),
        }
    }

    fn bulk(&self, key: &[u8]) -> Vec<u8> {
        let value = match self.habit {
            Habit::Confuses => self.map.iter().find(|entry| entry.0 != key).map(|entry| entry.1),
            _ => self.map.get(key),
        };
        match value {
            None => b"$-1\r\n".to_vec(),
            Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
        }
    }
}

/// The bulk strings of one request.
fn words(request: &[u8]) -> Vec<Vec<u8>> {
    let line_end = |from: usize| from + request[from..].iter().position(|&byte| byte == b'\r').expect("a line");
    let length = |from: usize, to: usize| {
        std::str::from_utf8(&request[from..to]).expect("digits").parse::<usize>().expect("a number")
    };
    let mut at = line_end(0);
    let count = length(1, at);
    at += 2;
    (0..count)
        .map(|_| {
            let end = line_end(at);
            let from = end + 2;
            let to = from + length(at + 1, end);
            at = to + 2;
            request[from..to].to_vec()
        })
        .collect()
}

/// Runs one phase with `slots` requests in flight; answers come in the order sent. Returns when it ended.
fn run(engine: &mut Engine, phase: Phase, server: &mut Server, slots: usize, start_ns: u64) -> u64 {
    engine.start(phase, start_ns);
    let mut now_ns = start_ns;
    let mut waiting: VecDeque<(u64, Vec<u8>, Pending)> = VecDeque::new();
    loop {
        let mut wake_ns = None;
        while waiting.len() < slots {
            let mut request = Vec::new();
            match engine.poll_request(now_ns, &mut request) {
                Next::Sent(pending) => waiting.push_back((server.answers_at(now_ns), server.handle(&request), pending)),
                Next::WaitUntil(at_ns) => {
                    wake_ns = Some(at_ns);
                    break;
                }
                Next::Finished => break,
            }
        }
        let answer_ns = waiting.front().map(|front| front.0);
        let Some(next_ns) = answer_ns.into_iter().chain(wake_ns).min() else { return now_ns };
        now_ns = now_ns.max(next_ns);
        if answer_ns.is_some_and(|answer_ns| answer_ns <= now_ns) {
            answer(engine, server, &mut waiting, now_ns);
        }
    }
}

fn answer(engine: &mut Engine, server: &mut Server, waiting: &mut VecDeque<(u64, Vec<u8>, Pending)>, now_ns: u64) {
    let (_, bytes, pending) = waiting.pop_front().expect("looked at");
    let (codec, mut found, mut follow_up) = (engine.plan.codec, Found::default(), Vec::new());
    let (reply, _) = codec.parse(pending.expect, &bytes, &mut found).expect("well formed").expect("whole");
    if let Some(next) = engine.handle_reply(now_ns, pending, reply, &found, &bytes, &mut follow_up) {
        waiting.push_back((server.answers_at(now_ns), server.handle(&follow_up), next));
    }
}

/// Preload, mix, verify against one server; the verdicts of all.
fn story(habit: Habit, mix: Mix) -> Recorder {
    let mut engine = Engine::new(Arc::new(plan(mix, Limit::Operations(2_000))), Part { index: 0, count: 1 });
    let mut server = Server::new(habit);
    let mut all = Recorder::default();
    let mut now_ns = 0;
    for phase in [Phase::Preload, Phase::Measure, Phase::Verify] {
        now_ns = run(&mut engine, phase, &mut server, 4, now_ns);
        all.merge(&engine.take_recorder());
    }
    all
}

#[test]
fn an_honest_server_passes_every_mix() {
    for workload in [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F] {
        let seen = story(Habit::Honest, workload.mix().with_deletes(0.05));
        assert_eq!((seen.tally.faults(), seen.error_count), (0, 0), "{workload:?}: {:?}", seen.tally.examples);
        assert!(seen.tally.hits > 50);
        assert!(seen.operations >= 2_100);
    }
}

#[test]
fn each_bad_habit_is_named() {
    let mix = Workload::A.mix().with_deletes(0.05);
    assert!(story(Habit::Loses, mix).tally.lost > 0);
    assert!(story(Habit::KeepsOld, mix).tally.stale > 0);
    assert!(story(Habit::Confuses, mix).tally.mismatches > 0);
    assert!(story(Habit::Undead, mix).tally.resurrected > 0);
}

#[test]
fn a_read_modify_write_is_one_operation_of_two_round_trips() {
    let seen = story(Habit::Honest, Workload::F.mix());
    let latencies = &seen.latencies[OperationClass::ReadModifyWrite.index()].corrected;
    assert!(latencies.len() > 800);
    assert!(latencies.min() >= 2 * MILLI - MILLI / 100, "{}", latencies.min());
}

#[test]
fn inserts_make_new_keys_that_are_read_back() {
    let mut engine =
        Engine::new(Arc::new(plan(Workload::D.mix(), Limit::Operations(1_000))), Part { index: 0, count: 1 });
    let mut server = Server::new(Habit::Honest);
    run(&mut engine, Phase::Measure, &mut server, 4, 0);
    let inserted = engine.take_recorder().latencies[OperationClass::Insert.index()].corrected.len();
    run(&mut engine, Phase::Verify, &mut server, 4, 10 * SECOND);
    let verified = engine.take_recorder();
    assert!(inserted > 20);
    assert_eq!((verified.operations, verified.tally.hits), (50 + inserted, inserted));
}

#[test]
fn a_stall_shows_in_the_corrected_latencies_and_hides_in_the_uncorrected() {
    let mut open = plan(Workload::C.mix(), Limit::Duration(10 * SECOND));
    open.rate = Some(100.0);
    let mut engine = Engine::new(Arc::new(open), Part { index: 0, count: 1 });
    let mut server = Server::new(Habit::Honest);
    server.stall = 5 * SECOND..6 * SECOND;
    run(&mut engine, Phase::Measure, &mut server, 1, 0);
    let seen = engine.take_recorder();
    let latencies = &seen.latencies[OperationClass::Get.index()];
    assert_eq!(latencies.corrected.len(), 1_000, "a stall cancels no operation");
    // A tenth of the schedule fell into the stall: half of it waited at least half a second.
    let slow = |latencies: &hdrhistogram::Histogram<u64>| {
        latencies
            .iter_recorded()
            .filter(|step| step.value_iterated_to() > SECOND / 2)
            .map(|step| step.count_at_value())
            .sum::<u64>()
    };
    assert!((45..=65).contains(&slow(&latencies.corrected)), "{}", slow(&latencies.corrected));
    assert_eq!(slow(&latencies.service), 1);
    let worst = seen.worst.expect("some");
    assert!((worst.at_ns as i64 - (5 * SECOND) as i64).abs() < 20 * MILLI as i64, "{worst:?}");
}

#[test]
fn failures_are_counted_by_text_and_their_writes_may_still_appear() {
    let mut engine =
        Engine::new(Arc::new(plan(Workload::Set.mix(), Limit::Operations(1))), Part { index: 0, count: 1 });
    engine.start(Phase::Preload, 0);
    let mut out = Vec::new();
    let Next::Sent(pending) = engine.poll_request(0, &mut out) else { panic!("due at once") };
    engine.handle_failure(MILLI, pending, "connection lost");
    let seen = engine.take_recorder();
    let counts: BTreeMap<_, _> = seen.errors.iter().map(|(text, error)| (text.as_str(), error.count)).collect();
    assert_eq!((counts, seen.operations), (BTreeMap::from([("connection lost", 1)]), 0));
    let mut server = Server::new(Habit::Honest);
    server.handle(&out);
    run(&mut engine, Phase::Verify, &mut server, 1, SECOND);
    let verified = engine.take_recorder().tally;
    assert_eq!((verified.hits, verified.absent, verified.faults()), (1, 49, 0));
}

#[test]
fn every_operation_of_the_measured_phase_is_kept_if_wanted() {
    let mut kept = plan(Workload::A.mix(), Limit::Operations(300));
    kept.keep_samples = true;
    let mut engine = Engine::new(Arc::new(kept), Part { index: 0, count: 1 });
    let mut server = Server::new(Habit::Honest);
    let end_ns = run(&mut engine, Phase::Preload, &mut server, 4, 0);
    assert!(engine.take_recorder().samples.is_none());
    run(&mut engine, Phase::Measure, &mut server, 4, end_ns);
    let recorder = engine.take_recorder();
    let samples = recorder.samples.expect("wanted");
    let worst = samples.iter().map(|sample| sample.latency_ns).max();
    assert_eq!((samples.len(), worst), (300, recorder.worst.map(|worst| worst.latency_ns)));
}

#[test]
fn threads_share_the_keys_without_overlap() {
    let plan = Arc::new(plan(Workload::C.mix(), Limit::Operations(10)));
    let mut seen = std::collections::HashSet::new();
    let mut operations = 0;
    for index in 0..3 {
        let mut engine = Engine::new(plan.clone(), Part { index, count: 3 });
        engine.start(Phase::Preload, 0);
        let mut out = Vec::new();
        while let Next::Sent(_) = engine.poll_request(0, &mut out) {}
        let mut names: Vec<_> = (0..engine.history.count()).map(|key| engine.key_name(key)).collect();
        seen.extend(names.drain(..));
        engine.start(Phase::Measure, 0);
        while let Next::Sent(_) = engine.poll_request(0, &mut out) {
            operations += 1;
        }
    }
    assert_eq!((seen.len(), operations), (50, 10));
}
