//! Histories as text, a line an operation: what clients of a real cluster wrote down, and what simulated ones saw.
//!
//! ```text
//! key   client  action  value  called  returned  outcome  answer        words divided by tabs
//! a     3       set     v17    120     180       ok       -             times of one clock, in nanoseconds
//! a     1       get     -      150     190       ok       v17           `-`: none, or of a value: the key is absent
//! a     2       delete  -      200     -         unknown  -
//! ```
//!
//! | action | value | answers |
//! |---|---|---|
//! | `get` | | the value |
//! | `set` | what is stored | |
//! | `add` | what is stored | `stored`, `exists` |
//! | `replace`, `append` | what is stored, or added at the end | `stored`, `absent` |
//! | `extend` | what is added at the end, also of nothing | bytes of the new value |
//! | `cas` | `expected>new` | `stored`, `differs`, `absent` |
//! | `incr`, `count` | a number to add; `count`: also to nothing, as to 0 | the new number, `absent`, `text` |
//! | `touch` | | `touched`, `absent` |
//! | `delete` | | `deleted`, `absent` |
//! | `clear` | | |
//!
//! Outcomes: `ok`; `unknown`, may have happened or may yet; `refused`, never happens. What is called and what is
//! returned at the same nanosecond counts as overlapping. Values are names, equal if what they stand for is; names of
//! values that are added to are the values themselves. Bytes other than `:`, `.`, `/`, letters and digits are written
//! as `%` and two hexadecimal digits (a value that nobody adds to may have `-` as it is, but at its beginning).
//!
//! Must not know: where a history comes from, or whether it is one of a correct store.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, anyhow, bail};

use crate::history::{Operation, Outcome};
use crate::model::{Action, Answer, Value};

/// What has no value, no answer, no end; the value of an absent key.
const NONE: &str = "-";

/// An operation as a line tells it; times in nanoseconds.
pub struct Line {
    pub client: u32,
    pub action: Action,
    pub called: u64,
    /// None: its outcome is unknown.
    pub answer: Option<(u64, Answer)>,
    pub is_refused: bool,
}

/// The key, and what was done to it.
///
/// # Errors
/// When the line is not of this form.
pub fn parse(line: &str) -> anyhow::Result<(String, Line)> {
    let words: Vec<&str> = line.split('\t').collect();
    let &[key, client, action, value, called, returned, outcome, answer] = &words[..] else {
        bail!("{} words instead of 8", words.len());
    };
    let action = action_of(action, value)?;
    let answer = match outcome {
        "ok" => Some((returned.parse()?, answer_of(&action, answer)?)),
        "unknown" | "refused" => None,
        other => bail!("no such outcome: {other}"),
    };
    let line =
        Line { client: client.parse()?, action, called: called.parse()?, answer, is_refused: outcome == "refused" };
    Ok((key.to_owned(), line))
}

fn action_of(action: &str, value: &str) -> anyhow::Result<Action> {
    Ok(match action {
        "get" => Action::Get,
        "set" => Action::Set(value_of(value)?),
        "add" => Action::Add(value_of(value)?),
        "replace" => Action::Replace(value_of(value)?),
        "append" => Action::Append(value_of(value)?),
        "extend" => Action::AppendOrCreate(value_of(value)?),
        "cas" => {
            let (expected, new) = value.split_once('>').with_context(|| format!("no new value: {value}"))?;
            Action::CompareAndSet { expected: value_of(expected)?, new: value_of(new)? }
        }
        "incr" => Action::Incr(value.parse()?),
        "count" => Action::IncrOrCreate(value.parse()?),
        "touch" => Action::Touch,
        "delete" => Action::Delete,
        "clear" => Action::Clear,
        other => bail!("no such action: {other}"),
    })
}

fn answer_of(action: &Action, answer: &str) -> anyhow::Result<Answer> {
    Ok(match (action, answer) {
        (Action::Get, NONE) => Answer::Found(None),
        (Action::Get, value) => Answer::Found(Some(value_of(value)?)),
        (Action::Set(_) | Action::Clear, _) => Answer::Done,
        (Action::CompareAndSet { .. }, "stored") => Answer::Swapped,
        (Action::CompareAndSet { .. }, "differs") => Answer::Differs,
        (Action::CompareAndSet { .. }, "absent") => Answer::Absent,
        (Action::Add(_) | Action::Replace(_) | Action::Append(_), "stored") => Answer::Applied(true),
        (Action::Add(_), "exists") | (Action::Replace(_) | Action::Append(_), "absent") => Answer::Applied(false),
        (Action::Touch, "touched") => Answer::Applied(true),
        (Action::Touch, "absent") => Answer::Applied(false),
        (Action::AppendOrCreate(_), length) => Answer::Length(length.parse()?),
        (Action::Incr(_) | Action::IncrOrCreate(_), "text") => Answer::NotANumber,
        (Action::Incr(_) | Action::IncrOrCreate(_), "absent") => Answer::Number(None),
        (Action::Incr(_) | Action::IncrOrCreate(_), number) => Answer::Number(Some(number.parse()?)),
        (Action::Delete, "deleted") => Answer::Existed(true),
        (Action::Delete, "absent") => Answer::Existed(false),
        _ => return Err(anyhow!("no such answer: {answer}")),
    })
}

fn value_of(word: &str) -> anyhow::Result<Value> {
    let mut parts = word.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).with_context(|| format!("half a byte: {word}"))?;
        bytes.push(u8::from_str_radix(code, 16).with_context(|| format!("no byte: {word}"))?);
        bytes.extend(rest.as_bytes());
    }
    Ok(Value::bytes(&bytes))
}

/// The lines of a key's operations, each with its newline; `name` is what the key is called.
///
/// # Errors
/// When one of them cannot be told: what ends by itself.
pub fn write(name: &str, operations: &[Operation]) -> anyhow::Result<String> {
    let times = times(operations);
    let mut text = String::new();
    for operation in operations {
        let (action, value) = action_words(&operation.action)?;
        let called = times[&operation.invoked.order];
        let (returned, outcome, answer) = match &operation.outcome {
            Outcome::Answered(answer, moment) => {
                (times[&moment.order].to_string(), "ok", answer_word(&operation.action, answer))
            }
            Outcome::Pending | Outcome::Lost => (NONE.to_owned(), "unknown", NONE.to_owned()),
            Outcome::Refused => (NONE.to_owned(), "refused", NONE.to_owned()),
        };
        let client = operation.client;
        writeln!(text, "{name}\t{client}\t{action}\t{value}\t{called}\t{returned}\t{outcome}\t{answer}")?;
    }
    Ok(text)
}

/// Nanoseconds for each moment, by its order: as near to its microsecond as keeps them apart.
fn times(operations: &[Operation]) -> BTreeMap<u64, u64> {
    let returned = operations.iter().filter_map(|operation| match &operation.outcome {
        Outcome::Answered(_, moment) => Some(*moment),
        _ => None,
    });
    let mut times: BTreeMap<u64, u64> = operations
        .iter()
        .map(|operation| operation.invoked)
        .chain(returned)
        .map(|moment| (moment.order, moment.us * 1000))
        .collect();
    let mut next = 0;
    for time in times.values_mut() {
        *time = next.max(*time);
        next = *time + 1;
    }
    times
}

fn action_words(action: &Action) -> anyhow::Result<(&'static str, String)> {
    Ok(match action {
        Action::Get => ("get", NONE.to_owned()),
        Action::Set(value) => ("set", word(value)),
        Action::Add(value) => ("add", word(value)),
        Action::Replace(value) => ("replace", word(value)),
        Action::Append(value) => ("append", word(value)),
        Action::AppendOrCreate(value) => ("extend", word(value)),
        Action::CompareAndSet { expected, new } => ("cas", format!("{}>{}", word(expected), word(new))),
        Action::Incr(delta) => ("incr", delta.to_string()),
        Action::IncrOrCreate(delta) => ("count", delta.to_string()),
        Action::Touch => ("touch", NONE.to_owned()),
        Action::Delete => ("delete", NONE.to_owned()),
        Action::Clear => ("clear", NONE.to_owned()),
        Action::SetUntil(..) | Action::TouchUntil(_) | Action::Expire(_) | Action::Evict | Action::ClearDue => {
            bail!("no line says: {action}")
        }
    })
}

fn answer_word(action: &Action, answer: &Answer) -> String {
    let text = match answer {
        Answer::Found(None) | Answer::Done => NONE,
        Answer::Found(Some(value)) => return word(value),
        Answer::Applied(is) => match (action, is) {
            (Action::Touch, true) => "touched",
            (_, true) => "stored",
            (Action::Add(_), false) => "exists",
            (_, false) => "absent",
        },
        Answer::Swapped => "stored",
        Answer::Differs => "differs",
        Answer::Absent | Answer::Existed(false) | Answer::Number(None) => "absent",
        Answer::Existed(true) => "deleted",
        Answer::NotANumber => "text",
        Answer::Number(Some(number)) | Answer::Length(number) => return number.to_string(),
    };
    text.to_owned()
}

fn word(value: &Value) -> String {
    let mut text = String::new();
    for &byte in value.as_bytes() {
        match byte {
            b':' | b'.' | b'/' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;

    fn value(text: &str) -> Value {
        Value::bytes(text.as_bytes())
    }

    /// One operation of each kind, with each answer.
    fn all() -> Vec<(Action, Answer)> {
        let cas = Action::CompareAndSet { expected: value("a>b"), new: value("") };
        vec![
            (Action::Get, Answer::Found(None)),
            (Action::Get, Answer::Found(Some(value("-\t%\n")))),
            (Action::Set(value("-")), Answer::Done),
            (Action::Add(value("")), Answer::Applied(true)),
            (Action::Add(value("a")), Answer::Applied(false)),
            (Action::Replace(value("a")), Answer::Applied(true)),
            (Action::Replace(value("a")), Answer::Applied(false)),
            (Action::Append(value("a b")), Answer::Applied(true)),
            (Action::Append(value("a b")), Answer::Applied(false)),
            (Action::AppendOrCreate(Value::bytes(&[0, 255])), Answer::Length(2)),
            (cas.clone(), Answer::Swapped),
            (cas.clone(), Answer::Differs),
            (cas, Answer::Absent),
            (Action::Incr(u64::MAX), Answer::Number(None)),
            (Action::Incr(7), Answer::Number(Some(u64::MAX))),
            (Action::IncrOrCreate(7), Answer::NotANumber),
            (Action::Touch, Answer::Applied(true)),
            (Action::Touch, Answer::Applied(false)),
            (Action::Delete, Answer::Existed(true)),
            (Action::Delete, Answer::Existed(false)),
            (Action::Clear, Answer::Done),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let mut history = History::default();
        for (number, (action, answer)) in (0..).zip(all()) {
            // Two of them at each microsecond.
            let id = history.invoke(number / 2, 3, b"key", action).expect("room");
            history.answer(number / 2, &id, answer);
        }
        let lost = history.invoke(100, 4, b"key", Action::Get).expect("room");
        history.lose(&lost);
        let refused = history.invoke(100, 5, b"key", Action::Delete).expect("room");
        history.refuse(&refused);
        let text = write("name", history.operations(b"key")).expect("nothing ends");
        let lines: Vec<Line> = text.lines().map(|line| parse(line).expect("a line").1).collect();
        let read: Vec<_> =
            lines.iter().filter_map(|line| Some((line.action.clone(), line.answer.clone()?.1))).collect();
        assert!(read == all(), "{text}");
        assert!(text.lines().all(|line| line.starts_with("name\t")));
        let ends: Vec<u64> =
            lines.iter().flat_map(|line| [Some(line.called), line.answer.as_ref().map(|it| it.0)]).flatten().collect();
        assert!(ends.is_sorted_by(|before, after| before < after), "{ends:?}");
        assert_eq!(lines.iter().filter(|line| line.is_refused).count(), 1);
        assert_eq!(lines.iter().filter(|line| line.answer.is_none()).count(), 2);
    }

    #[test]
    fn what_is_no_line_is_not_read() {
        let tabs = |text: &str| text.replace(' ', "\t");
        assert!(parse(&tabs("a 1 set v 1 2 ok -")).is_ok());
        for text in
            ["a 1 set v", "a 1 incr v 1 2 ok -", "a 1 cas v 1 2 ok stored", "a 1 set %4 1 2 ok -", "a 1 get - 1 2 no -"]
        {
            assert!(parse(&tabs(text)).is_err(), "{text}");
        }
        assert!(parse(&tabs("a 1 delete - 1 2 ok stored")).is_err());
        assert!(write("a", &[]).is_ok_and(|text| text.is_empty()));
        let mut history = History::default();
        history.invoke(1, 1, b"a", Action::SetUntil(value("a"), 7)).expect("room");
        assert!(write("a", history.operations(b"a")).is_err());
    }
}
