//! What the clients of a run saw, key by key: who asked what when, and what the answer was.
//!
//! Must not know: how the store works. The order in which `invoke` and the outcomes are called is the real-time order
//! of the run; times are for people.
//!
//! ```text
//!            invoke
//!              |
//!           pending ----answer----> answered     happened once, between invocation and answer
//!              |-------lose-------> lost         happens once at any time after the invocation, or never
//!              `------refuse------> refused      never happens
//! ```
//!
//! Nothing leaves the last three. A pending operation counts as lost when the run ends.

use std::collections::BTreeMap;

use crate::checker::{self, Verdict, Violation};
use crate::limits::{OPERATIONS_PER_KEY_MAX, VALUE_BYTES_MAX};
use crate::model::{Action, Answer};

/// A point of the run. `order` is unique within a history and decides; `us` is virtual time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment {
    pub order: u64,
    pub us: u64,
}

/// One operation of one client on one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    pub client: u32,
    pub action: Action,
    pub invoked: Moment,
    pub outcome: Outcome,
    /// When its answer left the store, counted over the history: a hint where to look first for an order.
    pub left: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Pending,
    Answered(Answer, Moment),
    Lost,
    Refused,
}

/// Names an operation from its invocation to its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperationId {
    key: Vec<u8>,
    index: usize,
}

/// Why an operation was not recorded, and so must not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("the key has its {OPERATIONS_PER_KEY_MAX} operations")]
    KeyFull,
    #[error("a value of {0} B; a history takes {VALUE_BYTES_MAX} B")]
    ValueTooLong(usize),
}

/// Why a history is not one of a correct store, or could not be judged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// A final read cannot see what it saw: what was acknowledged is gone, or what was deleted is back.
    #[error("acknowledged writes were lost, as a read after healing shows\n{}", .0.text)]
    Lost(Violation),
    #[error("not linearizable\n{}", .0.text)]
    NotLinearizable(Violation),
    #[error("no answered read after healing of key \"{}\"", .key.escape_ascii())]
    NotReadBack { key: Vec<u8> },
    #[error("key \"{}\" is too hard to judge: gave up after {configurations} configurations", .key.escape_ascii())]
    TooHard { key: Vec<u8>, configurations: usize },
}

/// Every operation of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    keys: BTreeMap<Vec<u8>, Vec<Operation>>,
    left_count: u64,
    last: Option<Moment>,
    healed: Option<Moment>,
    /// The store may drop keys.
    evicts: bool,
}

impl History {
    /// Of a store that may drop keys, or may not.
    pub fn of_store(evicts: bool) -> Self {
        History { evicts, ..History::default() }
    }

    /// How many more operations the key takes. A workload leaves one for the final read.
    pub fn room(&self, key: &[u8]) -> usize {
        OPERATIONS_PER_KEY_MAX - self.operations(key).len()
    }

    /// The key's operations in the order of their invocations.
    pub fn operations(&self, key: &[u8]) -> &[Operation] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.keys().map(Vec::as_slice)
    }

    /// A client sends an operation.
    ///
    /// # Errors
    /// If the key's history is full or a value too long; then nothing is recorded.
    pub fn invoke(
        &mut self,
        now_us: u64,
        client: u32,
        key: &[u8],
        action: Action,
    ) -> Result<OperationId, HistoryError> {
        if self.room(key) == 0 {
            return Err(HistoryError::KeyFull);
        }
        if action.value_bytes() > VALUE_BYTES_MAX {
            return Err(HistoryError::ValueTooLong(action.value_bytes()));
        }
        let invoked = self.moment(now_us);
        let operations = self.keys.entry(key.to_vec()).or_default();
        operations.push(Operation { client, action, invoked, outcome: Outcome::Pending, left: None });
        Ok(OperationId { key: key.to_vec(), index: operations.len() - 1 })
    }

    /// The answer is on its way to the client.
    pub fn leave(&mut self, id: &OperationId) {
        self.left_count += 1;
        self.pending(id).left = Some(self.left_count);
    }

    /// The client was answered.
    ///
    /// # Panics
    /// If the operation has an outcome already or cannot have this answer: the harness is wrong.
    pub fn answer(&mut self, now_us: u64, id: &OperationId, answer: Answer) {
        let moment = self.moment(now_us);
        let operation = self.pending(id);
        assert!(operation.action.accepts(&answer), "{} cannot be answered by {answer}", operation.action);
        operation.outcome = Outcome::Answered(answer, moment);
    }

    /// The client will never know: a lost connection, a timeout, an error that says "outcome unknown".
    ///
    /// # Panics
    /// If the operation has an outcome already.
    pub fn lose(&mut self, id: &OperationId) {
        self.pending(id).outcome = Outcome::Lost;
    }

    /// The client was told that the operation did not and will not happen.
    ///
    /// # Panics
    /// If the operation has an outcome already.
    pub fn refuse(&mut self, id: &OperationId) {
        self.pending(id).outcome = Outcome::Refused;
    }

    /// All faults are over: reads invoked from now on are final reads.
    pub fn heal(&mut self, now_us: u64) {
        self.healed = Some(self.moment(now_us));
    }

    /// Judges every key: linearizable, and read back after [`History::heal`] if that was called.
    ///
    /// # Errors
    /// The first failing key, in key order; a key that cannot be judged fails too.
    pub fn check(&self) -> Result<(), Failure> {
        self.keys.iter().try_for_each(|(key, operations)| self.check_key(key, operations))
    }

    fn check_key(&self, key: &[u8], operations: &[Operation]) -> Result<(), Failure> {
        let verdict = match self.evicts {
            false => checker::check(key, operations),
            true => checker::check(key, &with_evictions(operations)),
        };
        match verdict {
            Verdict::Linearizable { .. } => {}
            Verdict::Violation(violation) if self.is_final_read(&operations[violation.operation]) => {
                return Err(Failure::Lost(violation));
            }
            Verdict::Violation(violation) => return Err(Failure::NotLinearizable(violation)),
            Verdict::TooHard { configurations } => {
                return Err(Failure::TooHard { key: key.to_vec(), configurations });
            }
        }
        if self.healed.is_some() && !operations.iter().any(|operation| self.is_final_read(operation)) {
            return Err(Failure::NotReadBack { key: key.to_vec() });
        }
        Ok(())
    }

    fn is_final_read(&self, operation: &Operation) -> bool {
        let read = operation.action == Action::Get && matches!(operation.outcome, Outcome::Answered(..));
        read && self.healed.is_some_and(|healed| operation.invoked > healed)
    }

    pub fn operation(&self, id: &OperationId) -> &Operation {
        &self.operations(&id.key)[id.index]
    }

    /// The operation, and whether any other that may change its key is or was under way since its invocation.
    pub fn overlap(&self, id: &OperationId) -> (&Operation, bool) {
        let operations = self.operations(&id.key);
        let own = &operations[id.index];
        let overlaps = |other: &Operation| match &other.outcome {
            Outcome::Answered(_, returned) => *returned > own.invoked,
            Outcome::Pending | Outcome::Lost => true,
            Outcome::Refused => false,
        };
        let mut others = operations.iter().enumerate().filter(|(index, _)| *index != id.index);
        (own, others.any(|(_, other)| other.action != Action::Get && overlaps(other)))
    }

    fn moment(&mut self, us: u64) -> Moment {
        let order = self.last.map_or(0, |last| last.order + 1);
        let last_us = self.last.map_or(0, |last| last.us);
        assert!(us >= last_us, "virtual time went back from {last_us} us to {us} us");
        let moment = Moment { order, us };
        self.last = Some(moment);
        moment
    }

    fn pending(&mut self, id: &OperationId) -> &mut Operation {
        let operation = self.keys.get_mut(&id.key).and_then(|operations| operations.get_mut(id.index));
        let operation = operation.expect("an operation of this history");
        assert_eq!(operation.outcome, Outcome::Pending, "{} has two outcomes", operation.action);
        operation
    }
}

/// The operations, and as many evictions as could matter: each happened at some time, or never.
pub fn with_evictions(operations: &[Operation]) -> Vec<Operation> {
    let invoked = Moment { order: 0, us: 0 };
    let eviction = Operation { client: u32::MAX, action: Action::Evict, invoked, outcome: Outcome::Lost, left: None };
    operations.iter().cloned().chain(std::iter::repeat_n(eviction, operations.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;

    const KEY: &[u8] = b"key";

    fn value(text: &str) -> Value {
        Value::bytes(text.as_bytes())
    }

    fn answered(history: &mut History, us: u64, action: Action, answer: Answer) {
        let id = history.invoke(us, 1, KEY, action).unwrap();
        history.answer(us + 1, &id, answer);
    }

    #[test]
    fn a_lost_acknowledged_write_shows_in_the_final_read() {
        let mut history = History::default();
        answered(&mut history, 10, Action::Set(value("a")), Answer::Done);
        history.heal(20);
        let mut good = history.clone();
        answered(&mut good, 30, Action::Get, Answer::Found(Some(value("a"))));
        good.check().unwrap();

        answered(&mut history, 30, Action::Get, Answer::Found(None));
        let failure = history.check().unwrap_err();
        assert!(matches!(failure, Failure::Lost(_)), "{failure}");
        assert!(failure.to_string().contains("lost"), "{failure}");
    }

    #[test]
    fn every_key_must_be_read_back_after_healing() {
        let mut history = History::default();
        answered(&mut history, 10, Action::Set(value("a")), Answer::Done);
        answered(&mut history, 12, Action::Get, Answer::Found(Some(value("a"))));
        assert!(history.check().is_ok());
        history.heal(20);
        assert_eq!(history.check(), Err(Failure::NotReadBack { key: KEY.to_vec() }));
        let read = history.invoke(21, 1, KEY, Action::Get).unwrap();
        history.lose(&read);
        assert_eq!(history.check(), Err(Failure::NotReadBack { key: KEY.to_vec() }));
    }

    #[test]
    fn keys_are_judged_apart_and_a_bad_one_is_found() {
        let mut history = History::default();
        answered(&mut history, 10, Action::Set(value("a")), Answer::Done);
        let other = history.invoke(20, 2, b"other", Action::Get).unwrap();
        history.answer(30, &other, Answer::Found(Some(value("a"))));
        let failure = history.check().unwrap_err();
        let Failure::NotLinearizable(violation) = &failure else { panic!("{failure}") };
        assert_eq!((violation.key.as_slice(), violation.operation), (b"other".as_slice(), 0));
    }

    #[test]
    fn a_refused_write_never_shows() {
        let mut history = History::default();
        let refused = history.invoke(10, 1, KEY, Action::Set(value("a"))).unwrap();
        history.refuse(&refused);
        answered(&mut history, 20, Action::Get, Answer::Found(None));
        assert!(history.check().is_ok());
        answered(&mut history, 30, Action::Get, Answer::Found(Some(value("a"))));
        assert!(matches!(history.check(), Err(Failure::NotLinearizable(_))));
    }

    #[test]
    fn a_full_key_and_a_long_value_are_refused() {
        let mut history = History::default();
        for at in 0..OPERATIONS_PER_KEY_MAX as u64 {
            answered(&mut history, 2 * at, Action::Get, Answer::Found(None));
        }
        assert_eq!(history.room(KEY), 0);
        assert_eq!(history.invoke(1 << 20, 1, KEY, Action::Get), Err(HistoryError::KeyFull));
        let long = Action::Set(Value::bytes(&[0; VALUE_BYTES_MAX + 1]));
        let refusal = Err(HistoryError::ValueTooLong(VALUE_BYTES_MAX + 1));
        assert_eq!(history.invoke(1 << 20, 1, b"other", long), refusal);
        let longest = Action::Set(Value::bytes(&[0; VALUE_BYTES_MAX]));
        assert!(history.invoke(1 << 20, 1, b"other", longest).is_ok());
    }

    #[test]
    #[should_panic(expected = "two outcomes")]
    fn an_operation_has_one_outcome() {
        let mut history = History::default();
        let id = history.invoke(1, 1, KEY, Action::Get).unwrap();
        history.lose(&id);
        history.answer(2, &id, Answer::Found(None));
    }

    #[test]
    #[should_panic(expected = "cannot be answered by")]
    fn an_answer_fits_its_action() {
        let mut history = History::default();
        let id = history.invoke(1, 1, KEY, Action::Get).unwrap();
        history.answer(2, &id, Answer::Done);
    }
}
