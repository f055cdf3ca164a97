//! What clients hear, or never will, and what the history keeps of it.

use shorttail_gateway::request::{KeyspaceReply, Reply};

use super::{Kind, Op, Outcome, Pending, Received};
use crate::command_of_model::Heard;
use crate::model::{Action, Answer, Value};
use crate::world::{CLIENT_DELAY_US, Event, Sample, Violation, World};

impl World {
    /// The gateway answers.
    ///
    /// # Panics
    /// If it answers what nobody asked, or twice: the engine mixed something up.
    pub(in crate::world) fn reply_leaves(&mut self, op: u64, reply: Reply) {
        let Some(pending) = self.clients.pending.get_mut(&op) else {
            assert!(self.gateways.len() > 1, "a reply to operation {op}, which is over");
            // The gateway through which it was asked died.
            return;
        };
        assert!(!pending.is_answered, "operation {op} is answered twice");
        pending.is_answered = true;
        pending.records.iter().for_each(|record| self.history.leave(record));
        let received = match reply {
            Reply::Bytes(bytes) => {
                let heard = Heard::parse(&bytes);
                if heard == Heard::Refused {
                    let reason = bytes[1..].escape_ascii();
                    self.trace.record(self.schedule.now_us(), format_args!("operation {op} is refused: {reason}"));
                }
                Received::Key(heard)
            }
            Reply::Group(Ok(stored)) => Received::Group(Heard::Answer { answer: Answer::Applied(stored), token: None }),
            Reply::Group(Err(error)) => Received::Group(Heard::of_error(error)),
            Reply::Large { .. } => unreachable!("the commands of these clients take any value"),
            Reply::Keyspace(Ok(reply)) => {
                self.check_keyspace(&reply);
                Received::Keyspace(Heard::Answer { answer: Answer::Done, token: None })
            }
            Reply::Keyspace(Err(error)) => Received::Keyspace(Heard::of_error(error)),
        };
        self.audit_acknowledgement(op, &received);
        let delay_us = self.rng.exponential_us(CLIENT_DELAY_US, 50 * CLIENT_DELAY_US);
        self.schedule.after(delay_us, Event::Reply { op, reply: received });
    }

    fn check_keyspace(&self, reply: &KeyspaceReply) {
        if let KeyspaceReply::Scanned { keys, .. } = reply {
            let known = self.clients.keys();
            assert!(keys.iter().all(|found| known.contains(&found.key)), "a scan found a key that nobody wrote");
        }
    }

    pub(in crate::world) fn reply_arrives(&mut self, op: u64, received: Received) {
        if self.clients.pending.contains_key(&op) {
            self.op_ends(op, received);
        }
    }

    /// For which epoch an operation was passed on last.
    pub(in crate::world) fn op_epoch(&self, op: u64) -> u32 {
        self.clients.pending.get(&op).map_or(0, |pending| pending.epoch)
    }

    /// An operation goes on to another gateway.
    pub(in crate::world) fn op_moves(&mut self, op: u64, epoch: u32, gateway: usize) {
        if let Some(pending) = self.clients.pending.get_mut(&op) {
            (pending.at, pending.epoch) = (gateway, epoch);
        }
    }

    /// A gateway refuses an operation that no engine took.
    pub(in crate::world) fn refuse_op(&mut self, op: u64) {
        if let Some(pending) = self.clients.pending.get_mut(&op) {
            pending.is_answered = true;
            let delay_us = self.rng.exponential_us(CLIENT_DELAY_US, 50 * CLIENT_DELAY_US);
            self.schedule.after(delay_us, Event::Reply { op, reply: Received::Key(Heard::Refused) });
        }
    }

    pub(in crate::world) fn clients_lose_connections(&mut self, gateway: usize) {
        let pending = self.clients.pending.iter();
        let ops = pending.filter(|(_, pending)| [pending.asked, pending.at].contains(&gateway)).map(|(&op, _)| op);
        for op in ops.collect::<Vec<_>>() {
            let delay_us = self.rng.below(20 * CLIENT_DELAY_US);
            self.schedule.after(delay_us, Event::ConnectionLost { op });
        }
    }

    pub(in crate::world) fn connection_lost(&mut self, op: u64) {
        let Some(pending) = self.clients.pending.get(&op) else { return };
        let was_sent = pending.request.is_none();
        self.op_ends(op, Received::Key(if was_sent { Heard::Unknown } else { Heard::Refused }));
    }

    pub(super) fn op_ends(&mut self, op: u64, received: Received) {
        let pending = self.clients.pending.remove(&op).expect("an operation that is pending");
        let heard = match &received {
            Received::Key(heard) | Received::Group(heard) | Received::Keyspace(heard) => heard.clone(),
        };
        self.trace.record(self.schedule.now_us(), format_args!("operation {op}: {heard:?}"));
        if !matches!(heard, Heard::Answer { .. }) && self.gateways.len() > 1 {
            // Somebody else may know better.
            let next = (self.home_of(pending.client) + 1) % self.gateways.len();
            self.clients.homes.insert(pending.client, next);
        }
        self.check_promptness(op, &pending, &heard);
        let outcome = match &heard {
            Heard::Answer { answer, token } => self.conclude_answered(&pending, answer, *token),
            Heard::Refused => {
                pending.records.iter().for_each(|record| self.history.refuse(record));
                self.counts.refused += 1;
                Outcome::Refused
            }
            Heard::Unknown => {
                pending.records.iter().for_each(|record| self.history.lose(record));
                self.counts.unknown += 1;
                if matches!(pending.kind, Kind::Flush | Kind::FlushLater) && self.gateways.len() > 1 {
                    self.clients.flushes.is_lost();
                }
                Outcome::Unknown
            }
        };
        if matches!(pending.kind, Kind::FlushLater) {
            self.flush_was_ordered(op, &heard);
        }
        if pending.is_watched {
            self.clients.outcomes.insert(Op(op), outcome);
        }
    }

    fn check_promptness(&mut self, op: u64, pending: &Pending, heard: &Heard) {
        let latency_us = self.schedule.now_us() - pending.asked_us;
        self.counts.latency_us_max = self.counts.latency_us_max.max(latency_us);
        if let Kind::Key { key, .. } = &pending.kind {
            self.time_request(self.partition_of(key), pending.asked_us);
        }
        let Some(max_us) = self.config.latency_us_max else { return };
        self.counts.prompt.note(latency_us);
        if latency_us > max_us || !matches!(heard, Heard::Answer { .. }) {
            let text = format!("operation {op} took {latency_us} us of at most {max_us}, and heard {heard:?}");
            self.fail(Violation::NotPrompt(text));
        }
    }

    fn conclude_answered(&mut self, pending: &Pending, answer: &Answer, token: Option<u64>) -> Outcome {
        self.counts.answered += 1;
        let now_us = self.schedule.now_us();
        // Groups are about few keys, and whoever asks for these waits for them.
        if let Kind::Key { key, is_read } = &pending.kind
            && !key.starts_with(b"{group}")
        {
            let stored_bytes = match &self.history.operation(&pending.records[0]).action {
                Action::Set(value) => Some(value.as_bytes().len()),
                _ => None,
            };
            let latency_us = now_us - pending.asked_us;
            self.samples.push(Sample { asked_us: pending.asked_us, latency_us, is_read: *is_read, stored_bytes });
        }
        match &pending.kind {
            Kind::Key { key, .. } => {
                if let (Answer::Found(Some(value)), Some(token)) = (answer, token) {
                    self.clients.read.insert(key.clone(), (value.clone(), token));
                }
                self.history.answer(now_us, &pending.records[0], answer.clone());
            }
            // One of the keys existed: nothing is said of the others, and nothing happened.
            Kind::Group { only_if_absent: true } if *answer == Answer::Applied(false) => {
                pending.records.iter().for_each(|record| self.history.refuse(record));
            }
            Kind::Group { only_if_absent } => {
                assert_eq!(*answer, Answer::Applied(true), "a group without a condition is stored");
                let answer = if *only_if_absent { Answer::Applied(true) } else { Answer::Done };
                for record in &pending.records {
                    self.history.answer(now_us, record, answer.clone());
                }
            }
            Kind::Flush => {
                for record in &pending.records {
                    self.history.answer(now_us, record, Answer::Done);
                }
            }
            Kind::FlushLater | Kind::Other => {}
        }
        Outcome::Answered(answer.clone())
    }

    /// The value that a plain store was asked to write, if nothing else was at work on its key: then nodes hold it.
    pub(in crate::world) fn sole_value_of(&self, op: u64) -> Option<(Vec<u8>, Value)> {
        let pending = self.clients.pending.get(&op)?;
        let (Kind::Key { key, .. }, [record]) = (&pending.kind, pending.records.as_slice()) else { return None };
        let (own, others_overlap) = self.history.overlap(record);
        match &own.action {
            Action::Set(value) if !others_overlap => Some((key.clone(), value.clone())),
            _ => None,
        }
    }
}
