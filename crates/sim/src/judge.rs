//! `shorttail sim judge FILE...`: histories that clients of a real cluster wrote down, judged key by key.
//!
//! Must not know: where a history comes from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::checker::{Verdict, check};
use crate::history::{Moment, Operation, Outcome};
use crate::lines::{Line, parse};

/// Flags of `shorttail sim judge`.
#[derive(Clone, Debug, clap::Args)]
pub struct JudgeOptions {
    /// Histories of one cluster: one line an operation, as the head of sim/src/lines.rs shows it.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// Judges all of the files together.
///
/// # Errors
/// When a history cannot be read, is not linearizable, or is too hard to judge.
pub fn run(options: &JudgeOptions) -> anyhow::Result<()> {
    let mut keys: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for path in &options.files {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let (key, line) = parse(line).with_context(|| format!("{}:{}", path.display(), number + 1))?;
            keys.entry(key).or_default().push(line);
        }
    }
    let (key_count, operation_count) = (keys.len(), keys.values().map(Vec::len).sum::<usize>());
    let mut problems = Vec::new();
    for (key, lines) in keys {
        match check(key.as_bytes(), &operations(lines)) {
            Verdict::Linearizable { .. } => {}
            Verdict::Violation(violation) => problems.push(violation.text),
            Verdict::TooHard { configurations } => {
                problems.push(format!("key {key}: too hard to judge, gave up after {configurations} configurations"));
            }
        }
    }
    if !problems.is_empty() {
        bail!("{} of {key_count} keys are not known to be linearizable\n{}", problems.len(), problems.join("\n"));
    }
    println!("linearizable: {operation_count} operations on {key_count} keys");
    Ok(())
}

/// The operations of one key in the order of their calls, each end with its place in the order of all ends.
fn operations(mut lines: Vec<Line>) -> Vec<Operation> {
    lines.sort_by_key(|line| line.called);
    let calls = lines.iter().enumerate().map(|(index, line)| (line.called, false, index));
    let returns = lines.iter().enumerate().filter_map(|(index, line)| Some((line.answer.as_ref()?.0, true, index)));
    let mut ends: Vec<(u64, bool, usize)> = calls.chain(returns).collect();
    ends.sort_unstable();
    let (mut called, mut returned) = (vec![Moment { order: 0, us: 0 }; lines.len()], BTreeMap::new());
    for (order, (at_ns, is_return, index)) in (0..).zip(ends) {
        let moment = Moment { order, us: at_ns / 1000 };
        if is_return {
            returned.insert(index, moment);
        } else {
            called[index] = moment;
        }
    }
    let operation = |(index, line): (usize, Line)| {
        let outcome = match (line.answer, returned.remove(&index)) {
            (Some((_, answer)), Some(moment)) => Outcome::Answered(answer, moment),
            _ if line.is_refused => Outcome::Refused,
            _ => Outcome::Lost,
        };
        Operation { client: line.client, action: line.action, invoked: called[index], outcome, left: None }
    };
    lines.into_iter().enumerate().map(operation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> bool {
        let lines: Vec<Line> = text.lines().map(|line| parse(&line.replace(' ', "\t")).expect("a line").1).collect();
        matches!(check(b"a", &operations(lines)), Verdict::Linearizable { .. })
    }

    #[test]
    fn a_stale_read_is_found_and_one_that_overlaps_is_none() {
        let writes = "a 1 set v1 10 20 ok -\na 1 set v2 30 40 ok -\n";
        assert!(verdict(&format!("{writes}a 2 get - 35 60 ok v1")));
        assert!(verdict(&format!("{writes}a 2 get - 40 60 ok v1")), "at the same time counts as overlapping");
        assert!(!verdict(&format!("{writes}a 2 get - 41 60 ok v1")));
        assert!(!verdict(&format!("{writes}a 2 get - 41 60 ok -")), "lost");
    }

    #[test]
    fn what_is_unknown_may_happen_later_and_what_is_refused_never() {
        let reads = "a 2 get - 40 50 ok -\na 2 get - 60 70 ok v1";
        assert!(verdict(&format!("a 1 set v1 10 - unknown -\n{reads}")));
        assert!(!verdict(&format!("a 1 set v1 10 - refused -\n{reads}")));
        assert!(!verdict(&format!("a 1 set v1 10 - unknown -\n{reads}\na 3 get - 80 90 ok -")), "not twice");
    }

    #[test]
    fn adds_and_deletes_say_what_was_there() {
        let history = "a 1 add v1 1 2 ok stored\na 1 add v2 3 4 ok exists\na 1 delete - 5 6 ok deleted\n";
        assert!(verdict(&format!("{history}a 1 delete - 7 8 ok absent")));
        assert!(!verdict(&format!("{history}a 1 delete - 7 8 ok deleted")));
    }
}
