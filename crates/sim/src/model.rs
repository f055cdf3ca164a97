//! What one key does, told sequentially: the specification that histories are checked against.
//!
//! Must not know: clients, nodes. A key is a register that may be absent. That a value is over, that a key is evicted,
//! is an action of nobody: the history holds one at the very moment at which a lifetime ends, and any number of
//! evictions that may have happened or not. So both are checked exactly, and an old value can never be explained.
//!
//! Values are compared by content, also in `CompareAndSet`; so that this means the same as the store's version tokens,
//! a workload that compares and sets writes every value of a key only once.

use std::fmt;
use std::sync::Arc;

/// A small value; numbers are decimal text, as they are for clients.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(Arc<[u8]>);

/// The state of one key: a value, or none.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Model {
    pub value: Option<Value>,
    /// When the value is over.
    pub expires_us: Option<u64>,
    /// The last moment at which a lifetime ended: what is stored later and ends before is over at once.
    pub ended_us: u64,
}

/// What a client asks of a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Action {
    Get,
    Set(Value),
    /// Stores until this moment, in virtual microseconds.
    SetUntil(Value, u64),
    /// Stores only if the key is absent.
    Add(Value),
    /// Stores only if the key is present.
    Replace(Value),
    CompareAndSet {
        expected: Value,
        new: Value,
    },
    Delete,
    /// Removes whatever there is and does not say what was: a flush.
    Clear,
    /// As `Clear`, of what was stored before it was invoked: nothing that is stored later comes before it. A flush for
    /// later.
    ClearDue,
    /// Changes nothing that is modelled, but is a write to the store.
    Touch,
    /// The value stays, until this moment.
    TouchUntil(u64),
    /// It is this moment: a value until then is over.
    Expire(u64),
    /// The store may drop the key whenever it wants.
    Evict,
    /// Adds to a number, modulo 2^64; an absent key stays absent.
    Incr(u64),
    /// As `Incr`, an absent key counting as zero.
    IncrOrCreate(u64),
    /// An absent key stays absent.
    Append(Value),
    /// As `Append`, an absent key counting as empty; answers the new length.
    AppendOrCreate(Value),
}

/// What a client is told.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Of `Get`.
    Found(Option<Value>),
    /// Of `Set`, `SetUntil`, `Clear`, `ClearDue`, `Expire` and `Evict`.
    Done,
    /// Of `Add`, `Replace`, `Append`, `Touch` and `TouchUntil`: whether it took effect.
    Applied(bool),
    /// Of `CompareAndSet`.
    Swapped,
    /// Of `CompareAndSet`: the value is another.
    Differs,
    /// Of `CompareAndSet`: there is no value.
    Absent,
    /// Of `Delete`: whether there was a value.
    Existed(bool),
    /// Of `Incr` and `IncrOrCreate`: the new number; `None` if the key is absent.
    Number(Option<u64>),
    /// Of `Incr` and `IncrOrCreate`: the value is no number and stays as it is.
    NotANumber,
    /// Of `AppendOrCreate`: bytes of the new value.
    Length(u64),
}

impl Value {
    pub fn number(number: u64) -> Self {
        Value(number.to_string().into_bytes().into())
    }

    pub fn bytes(bytes: &[u8]) -> Self {
        Value(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number that the value is the decimal text of.
    pub fn as_number(&self) -> Option<u64> {
        let text = std::str::from_utf8(&self.0).ok()?;
        // `parse` would take a leading plus.
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    }

    /// Is the other one somewhere in it?
    pub fn contains(&self, other: &Value) -> bool {
        let (bytes, other) = (self.as_bytes(), other.as_bytes());
        other.is_empty() || bytes.windows(other.len()).any(|window| window == other)
    }

    fn and_then(&self, tail: &Value) -> Value {
        Value([self.as_bytes(), tail.as_bytes()].concat().into())
    }
}

impl Model {
    pub fn holding(value: Value) -> Self {
        Model { value: Some(value), ..Model::default() }
    }

    /// Does the key hold something else than it did, and not nothing?
    pub fn is_stored_since(&self, before: &Model) -> bool {
        self.value.is_some() && (&self.value, self.expires_us) != (&before.value, before.expires_us)
    }

    /// What the action makes of the key, and its answer.
    pub fn step(&self, action: &Action) -> (Model, Answer) {
        let (next, answer) = self.act(action);
        let ended_us = match action {
            Action::Expire(at_us) => self.ended_us.max(*at_us),
            _ => self.ended_us,
        };
        let is_over = next.expires_us.is_some_and(|at_us| at_us <= ended_us);
        let next = if is_over { Model::default() } else { next };
        (Model { ended_us, ..next }, answer)
    }

    fn act(&self, action: &Action) -> (Model, Answer) {
        let present = self.value.is_some();
        match action {
            Action::Get => (self.clone(), Answer::Found(self.value.clone())),
            Action::Set(value) => (Model::holding(value.clone()), Answer::Done),
            Action::SetUntil(value, at_us) => {
                (Model { expires_us: Some(*at_us), ..Model::holding(value.clone()) }, Answer::Done)
            }
            Action::TouchUntil(_) if !present => (self.clone(), Answer::Applied(false)),
            Action::TouchUntil(at_us) => (Model { expires_us: Some(*at_us), ..self.clone() }, Answer::Applied(true)),
            Action::Expire(_) => (self.clone(), Answer::Done),
            Action::Evict => (Model::default(), Answer::Done),
            Action::Add(value) => self.apply_if(!present, || value.clone()),
            Action::Replace(value) => self.apply_if(present, || value.clone()),
            Action::CompareAndSet { expected, new } => match &self.value {
                None => (self.clone(), Answer::Absent),
                Some(value) if value != expected => (self.clone(), Answer::Differs),
                Some(_) => (Model::holding(new.clone()), Answer::Swapped),
            },
            Action::Delete => (Model::default(), Answer::Existed(present)),
            Action::Clear | Action::ClearDue => (Model::default(), Answer::Done),
            Action::Touch => (self.clone(), Answer::Applied(present)),
            Action::Incr(delta) => match &self.value {
                None => (self.clone(), Answer::Number(None)),
                Some(value) => self.incremented(value.as_number(), *delta),
            },
            Action::IncrOrCreate(delta) => {
                self.incremented(self.value.as_ref().map_or(Some(0), Value::as_number), *delta)
            }
            Action::Append(tail) => match &self.value {
                None => (self.clone(), Answer::Applied(false)),
                Some(value) => (Model::holding(value.and_then(tail)), Answer::Applied(true)),
            },
            Action::AppendOrCreate(tail) => {
                let value = self.value.as_ref().map_or_else(|| tail.clone(), |value| value.and_then(tail));
                let length = value.as_bytes().len() as u64;
                (Model::holding(value), Answer::Length(length))
            }
        }
    }

    fn apply_if(&self, condition: bool, value: impl FnOnce() -> Value) -> (Model, Answer) {
        (if condition { Model::holding(value()) } else { self.clone() }, Answer::Applied(condition))
    }

    fn incremented(&self, number: Option<u64>, delta: u64) -> (Model, Answer) {
        let Some(number) = number else {
            return (self.clone(), Answer::NotANumber);
        };
        let number = number.wrapping_add(delta);
        (Model::holding(Value::number(number)), Answer::Number(Some(number)))
    }
}

impl Action {
    /// The bytes that it brings into the value, if it brings any.
    pub fn written(&self) -> Option<&Value> {
        match self {
            Action::Set(value) | Action::SetUntil(value, _) | Action::Add(value) | Action::Replace(value) => {
                Some(value)
            }
            Action::Append(value) | Action::AppendOrCreate(value) => Some(value),
            Action::CompareAndSet { new, .. } => Some(new),
            _ => None,
        }
    }

    /// Whether the answer is of a kind that this action can have.
    pub fn accepts(&self, answer: &Answer) -> bool {
        match self {
            Action::Get => matches!(answer, Answer::Found(_)),
            Action::Set(_) | Action::SetUntil(..) => matches!(answer, Answer::Done),
            Action::Clear | Action::ClearDue | Action::Expire(_) | Action::Evict => matches!(answer, Answer::Done),
            Action::Add(_) | Action::Replace(_) | Action::Append(_) | Action::Touch | Action::TouchUntil(_) => {
                matches!(answer, Answer::Applied(_))
            }
            Action::CompareAndSet { .. } => matches!(answer, Answer::Swapped | Answer::Differs | Answer::Absent),
            Action::Delete => matches!(answer, Answer::Existed(_)),
            Action::Incr(_) | Action::IncrOrCreate(_) => matches!(answer, Answer::Number(_) | Answer::NotANumber),
            Action::AppendOrCreate(_) => matches!(answer, Answer::Length(_)),
        }
    }

    /// Whether the action leaves every key as it is.
    pub fn only_reads(&self) -> bool {
        matches!(self, Action::Get | Action::Touch)
    }

    /// Bytes of the values that the action carries.
    pub fn value_bytes(&self) -> usize {
        match self {
            Action::Get | Action::Delete | Action::Clear | Action::ClearDue | Action::Touch => 0,
            Action::Incr(_) | Action::IncrOrCreate(_) => 0,
            Action::TouchUntil(_) | Action::Expire(_) | Action::Evict => 0,
            Action::Set(value) | Action::SetUntil(value, _) | Action::Add(value) | Action::Replace(value) => {
                value.as_bytes().len()
            }
            Action::Append(tail) | Action::AppendOrCreate(tail) => tail.as_bytes().len(),
            Action::CompareAndSet { expected, new } => expected.as_bytes().len().max(new.as_bytes().len()),
        }
    }
}

impl Answer {
    /// The value that it shows.
    pub fn shown(&self) -> Option<&Value> {
        match self {
            Answer::Found(value) => value.as_ref(),
            _ => None,
        }
    }

    /// Whether the answer says that the action left the key as it was, whatever it held.
    pub fn says_unchanged(&self) -> bool {
        match self {
            Answer::Found(_) | Answer::Differs | Answer::Absent | Answer::NotANumber => true,
            Answer::Done | Answer::Swapped | Answer::Length(_) => false,
            Answer::Applied(effect) | Answer::Existed(effect) => !effect,
            Answer::Number(number) => number.is_none(),
        }
    }
}

/// Long values are shown by their beginning.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_BYTES_MAX: usize = 40;
        let bytes = self.as_bytes();
        write!(f, "\"{}\"", bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii())?;
        if bytes.len() > SHOWN_BYTES_MAX { write!(f, "... ({} B)", bytes.len()) } else { Ok(()) }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => value.fmt(f),
            None => f.write_str("absent"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Get => f.write_str("get"),
            Action::Set(value) => write!(f, "set {value}"),
            Action::Add(value) => write!(f, "add {value}"),
            Action::Replace(value) => write!(f, "replace {value}"),
            Action::CompareAndSet { expected, new } => write!(f, "if {expected} set {new}"),
            Action::Delete => f.write_str("delete"),
            Action::Clear => f.write_str("flush"),
            Action::ClearDue => f.write_str("flush that is due"),
            Action::SetUntil(value, at_us) => write!(f, "set {value} until {at_us} us"),
            Action::Touch => f.write_str("touch"),
            Action::TouchUntil(at_us) => write!(f, "touch until {at_us} us"),
            Action::Expire(at_us) => write!(f, "over at {at_us} us"),
            Action::Evict => f.write_str("evict"),
            Action::Incr(delta) => write!(f, "incr {delta}"),
            Action::IncrOrCreate(delta) => write!(f, "incr or create {delta}"),
            Action::Append(tail) => write!(f, "append {tail}"),
            Action::AppendOrCreate(tail) => write!(f, "append or create {tail}"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Found(Some(value)) => value.fmt(f),
            Answer::Found(None) | Answer::Number(None) | Answer::Absent => f.write_str("absent"),
            Answer::Done => f.write_str("done"),
            Answer::Applied(applied) => f.write_str(if *applied { "stored" } else { "not stored" }),
            Answer::Swapped => f.write_str("swapped"),
            Answer::Differs => f.write_str("differs"),
            Answer::Existed(existed) => f.write_str(if *existed { "deleted" } else { "absent" }),
            Answer::Number(Some(number)) => number.fmt(f),
            Answer::NotANumber => f.write_str("not a number"),
            Answer::Length(length) => write!(f, "{length} B"),
        }
    }
}

macro_rules! debug_as_display {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
debug_as_display!(Value Model Action Answer);

#[cfg(test)]
mod tests {
    use super::*;

    fn run(actions: &[Action]) -> (Model, Vec<String>) {
        let mut model = Model::default();
        let mut answers = Vec::new();
        for action in actions {
            let (next, answer) = model.step(action);
            assert!(action.accepts(&answer), "{action} cannot answer {answer}");
            answers.push(answer.to_string());
            model = next;
        }
        (model, answers)
    }

    #[test]
    fn conditional_writes_follow_presence() {
        let (a, b) = (Value::bytes(b"a"), Value::bytes(b"b"));
        let swap = Action::CompareAndSet { expected: a.clone(), new: b.clone() };
        let (model, answers) = run(&[
            Action::Replace(a.clone()),
            swap.clone(),
            Action::Append(b.clone()),
            Action::Add(a.clone()),
            Action::Add(b.clone()),
            swap.clone(),
            swap,
            Action::Append(a.clone()),
            Action::Get,
            Action::Delete,
            Action::Delete,
            Action::AppendOrCreate(a),
        ]);
        let expected =
            "not stored|absent|not stored|stored|not stored|swapped|differs|stored|\"ba\"|deleted|absent|1 B";
        assert_eq!(answers.join("|"), expected);
        assert_eq!(model.to_string(), "\"a\"");
    }

    #[test]
    fn a_value_is_over_when_its_time_comes_and_not_before() {
        let a = Value::bytes(b"a");
        let until = |at_us| Action::SetUntil(a.clone(), at_us);
        let (model, answers) = run(&[
            until(20),
            Action::Expire(10),
            Action::Add(a.clone()),
            Action::TouchUntil(30),
            Action::Expire(20),
            Action::Get,
            Action::Append(a.clone()),
            Action::Expire(30),
            Action::Delete,
            until(30),
            Action::Touch,
            until(40),
            Action::Evict,
            Action::Touch,
        ]);
        let expected =
            "done|done|not stored|stored|done|\"a\"|stored|done|deleted|done|not stored|done|done|not stored";
        assert_eq!(answers.join("|"), expected);
        assert_eq!((model.value, model.ended_us), (None, 30));
    }

    #[test]
    fn numbers_are_decimal_text() {
        let (model, answers) = run(&[
            Action::Incr(1),
            Action::IncrOrCreate(7),
            Action::Incr(u64::MAX),
            Action::Append(Value::bytes(b"x")),
            Action::Incr(1),
            Action::IncrOrCreate(1),
        ]);
        assert_eq!(answers.join("|"), "absent|7|6|stored|not a number|not a number");
        assert_eq!(model.to_string(), "\"6x\"");
        assert_eq!(Value::bytes(b"+5").as_number(), None);
        assert_eq!(Value::bytes(b"").as_number(), None);
        assert_eq!(Value::bytes(b"18446744073709551616").as_number(), None);
    }
}
