//! The model's actions as the gateway's commands, and the bytes of their replies.
//!
//! Must not know: the simulated world. What a client hears is the model's own [`Answer`], so that histories need no
//! translation of a client protocol; the protocols are tested elsewhere.
//!
//! ```text
//! reply: u8 kind | u64 token or number (some kinds) | value bytes (some kinds)
//! ```

use shorttail_gateway::command::{
    Access, Amendment, ApplyContext, Command, Effect, NewObject, ObjectRef, StoreError, Wants,
};

use shorttail_units::UnixMs;

use crate::model::{Action, Answer, Model, Value};

/// The wall clock when a run begins.
pub const UNIX_MS: u64 = 1_700_000_000_000;

/// The expiry of a value until this moment, a whole millisecond.
pub fn expiry_at(at_us: u64) -> UnixMs {
    UnixMs(UNIX_MS + at_us / 1_000)
}

fn moment_of(expiry: UnixMs) -> u64 {
    (expiry.0 - UNIX_MS) * 1_000
}

/// What a client asks of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimCommand {
    pub key: Vec<u8>,
    pub verb: Verb,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Any action but `CompareAndSet` and `Clear`.
    Plain(Action),
    /// `Action::Get` that writes: metadata is stored anew, as by "get and touch".
    GetAndTouch,
    /// `Action::CompareAndSet`, by the token under which the expected value was read.
    Swap { token: u64, new: Value },
}

/// What the reply says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// `token`: of the value that was found.
    Answer { answer: Answer, token: Option<u64> },
    /// It did not and will not happen.
    Refused,
    /// It may have happened, or may happen yet.
    Unknown,
}

const FOUND: u8 = b'v';
const MISSING: u8 = b'n';
const DONE: u8 = b'd';
const APPLIED: u8 = b'a';
const NOT_APPLIED: u8 = b'b';
const SWAPPED: u8 = b's';
const DIFFERS: u8 = b'f';
const ABSENT: u8 = b'x';
const EXISTED: u8 = b'e';
const DID_NOT_EXIST: u8 = b'g';
const NUMBER: u8 = b'N';
const NO_NUMBER_THERE: u8 = b'u';
const NOT_A_NUMBER: u8 = b'!';
const LENGTH: u8 = b'l';
const REFUSED: u8 = b'R';
const UNKNOWN: u8 = b'?';

impl Heard {
    /// # Panics
    /// If the bytes are no reply of [`SimCommand`]: the engine mixed something up.
    pub fn parse(bytes: &[u8]) -> Self {
        let (kind, rest) = bytes.split_first().expect("a reply is never empty");
        let number = || u64::from_le_bytes(rest[..8].try_into().expect("eight bytes"));
        let answer = match *kind {
            FOUND => {
                let answer = Answer::Found(Some(Value::bytes(&rest[8..])));
                return Heard::Answer { answer, token: Some(number()) };
            }
            MISSING => Answer::Found(None),
            DONE => Answer::Done,
            APPLIED => Answer::Applied(true),
            NOT_APPLIED => Answer::Applied(false),
            SWAPPED => Answer::Swapped,
            DIFFERS => Answer::Differs,
            ABSENT => Answer::Absent,
            EXISTED => Answer::Existed(true),
            DID_NOT_EXIST => Answer::Existed(false),
            NUMBER => Answer::Number(Some(number())),
            NO_NUMBER_THERE => Answer::Number(None),
            NOT_A_NUMBER => Answer::NotANumber,
            LENGTH => Answer::Length(number()),
            REFUSED => return Heard::Refused,
            UNKNOWN => return Heard::Unknown,
            other => panic!("no reply begins with {other}"),
        };
        Heard::Answer { answer, token: None }
    }

    /// What an error means for a history.
    pub fn of_error(error: StoreError) -> Self {
        if error == StoreError::OutcomeUnknown { Heard::Unknown } else { Heard::Refused }
    }
}

fn put(answer: &Answer, token: u64, reply: &mut Vec<u8>) {
    let (kind, number): (u8, Option<u64>) = match answer {
        Answer::Found(Some(_)) => (FOUND, Some(token)),
        Answer::Found(None) => (MISSING, None),
        Answer::Done => (DONE, None),
        Answer::Applied(true) => (APPLIED, None),
        Answer::Applied(false) => (NOT_APPLIED, None),
        Answer::Swapped => (SWAPPED, None),
        Answer::Differs => (DIFFERS, None),
        Answer::Absent => (ABSENT, None),
        Answer::Existed(true) => (EXISTED, None),
        Answer::Existed(false) => (DID_NOT_EXIST, None),
        Answer::Number(Some(number)) => (NUMBER, Some(*number)),
        Answer::Number(None) => (NO_NUMBER_THERE, None),
        Answer::NotANumber => (NOT_A_NUMBER, None),
        Answer::Length(length) => (LENGTH, Some(*length)),
    };
    reply.push(kind);
    if let Some(number) = number {
        reply.extend_from_slice(&number.to_le_bytes());
    }
    if let Answer::Found(Some(value)) = answer {
        reply.extend_from_slice(value.as_bytes());
    }
}

impl SimCommand {
    fn store(value: &Value, expires_us: Option<u64>) -> Effect {
        let expiry = expires_us.map(expiry_at);
        Effect::Put(NewObject { value: value.as_bytes().to_vec(), flags: 7, expiry, ..NewObject::default() })
    }

    /// As the model says, for an object whose value was seen.
    fn apply_action(action: &Action, current: Option<ObjectRef<'_>>, reply: &mut Vec<u8>) -> Effect {
        let model = Model {
            value: current.map(|object| Value::bytes(object.value)),
            expires_us: current.and_then(|object| object.expiry).map(moment_of),
            ended_us: 0,
        };
        let (next, answer) = model.step(action);
        put(&answer, current.map_or(0, |object| object.cas), reply);
        match (action, next.value) {
            (Action::Get, _) => Effect::Keep,
            _ if answer.says_unchanged() => Effect::Keep,
            (_, Some(value)) => Self::store(&value, next.expires_us),
            (_, None) => Effect::Delete,
        }
    }
}

impl Command for SimCommand {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn access(&self) -> Access {
        if self.verb == Verb::Plain(Action::Get) { Access::Read } else { Access::Write }
    }

    fn wants(&self) -> Wants {
        match &self.verb {
            Verb::Plain(Action::Set(_) | Action::SetUntil(..)) => Wants::Nothing,
            Verb::Plain(Action::TouchUntil(_)) => Wants::Metadata,
            Verb::Plain(Action::Add(_) | Action::Replace(_) | Action::Delete | Action::Touch) => Wants::Metadata,
            Verb::Swap { .. } => Wants::Metadata,
            Verb::Plain(_) | Verb::GetAndTouch => Wants::Value,
        }
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, _context: &ApplyContext, reply: &mut Vec<u8>) -> Effect {
        match (&self.verb, current) {
            (Verb::Plain(Action::Touch), Some(object)) => {
                put(&Answer::Applied(true), 0, reply);
                Effect::Amend(object.amendment())
            }
            (Verb::Plain(Action::TouchUntil(at_us)), Some(object)) => {
                put(&Answer::Applied(true), 0, reply);
                Effect::Amend(Amendment { expiry: Some(expiry_at(*at_us)), ..object.amendment() })
            }
            (Verb::GetAndTouch, Some(object)) => {
                put(&Answer::Found(Some(Value::bytes(object.value))), object.cas, reply);
                Effect::Amend(object.amendment())
            }
            (Verb::GetAndTouch, None) => Self::apply_action(&Action::Get, None, reply),
            (Verb::Plain(action), current) => Self::apply_action(action, current, reply),
            (Verb::Swap { .. }, None) => {
                put(&Answer::Absent, 0, reply);
                Effect::Keep
            }
            (Verb::Swap { token, .. }, Some(object)) if object.cas != *token => {
                put(&Answer::Differs, 0, reply);
                Effect::Keep
            }
            (Verb::Swap { new, .. }, Some(_)) => {
                put(&Answer::Swapped, 0, reply);
                Self::store(new, None)
            }
        }
    }

    fn refuse(&self, error: StoreError, reply: &mut Vec<u8>) {
        let kind = if Heard::of_error(error) == Heard::Unknown { UNKNOWN } else { REFUSED };
        reply.push(kind);
        reply.extend_from_slice(error.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use shorttail_gateway::mapstore::MapStore;
    use shorttail_gateway::request::{Reply, Request};
    use shorttail_units::Now;

    use super::*;

    fn ask(store: &mut MapStore, verb: Verb) -> Heard {
        let command = SimCommand { key: b"key".to_vec(), verb };
        match store.handle(Now::default(), Request::Key(command)) {
            Reply::Bytes(bytes) => Heard::parse(&bytes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_store_that_is_a_map_answers_as_the_model_does() {
        let (a, b) = (Value::bytes(b"a"), Value::bytes(b"b"));
        let actions = [
            Action::Get,
            Action::Touch,
            Action::Replace(a.clone()),
            Action::Incr(3),
            Action::Append(a.clone()),
            Action::Add(a.clone()),
            Action::Add(b.clone()),
            Action::Touch,
            Action::Append(b.clone()),
            Action::Incr(1),
            Action::Get,
            Action::Delete,
            Action::Delete,
            Action::IncrOrCreate(7),
            Action::Incr(5),
            Action::Set(b.clone()),
            Action::AppendOrCreate(a),
            Action::Get,
        ];
        let (mut store, mut model) = (MapStore::default(), Model::default());
        for action in actions {
            let (next, expected) = model.step(&action);
            model = next;
            let Heard::Answer { answer, .. } = ask(&mut store, Verb::Plain(action.clone())) else { panic!("{action}") };
            assert_eq!(answer, expected, "{action}");
        }
    }

    #[test]
    fn a_swap_needs_the_token_of_the_value_at_hand() {
        let mut store = MapStore::default();
        let value = |text: &str| Value::bytes(text.as_bytes());
        assert_eq!(
            ask(&mut store, Verb::Swap { token: 1, new: value("x") }),
            Heard::Answer { answer: Answer::Absent, token: None }
        );
        ask(&mut store, Verb::Plain(Action::Set(value("a"))));
        let Heard::Answer { token: Some(token), .. } = ask(&mut store, Verb::GetAndTouch) else { panic!("a token") };
        let swap = Verb::Swap { token, new: value("b") };
        assert_eq!(ask(&mut store, swap.clone()), Heard::Answer { answer: Answer::Swapped, token: None });
        assert_eq!(ask(&mut store, swap), Heard::Answer { answer: Answer::Differs, token: None });
    }
}
