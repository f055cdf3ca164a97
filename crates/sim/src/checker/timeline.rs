//! Explains a violation: what does not fit, what the key may have held, and the operations around it as a timeline.

use std::fmt::Write;

use super::search::Stuck;
use crate::history::{Operation, Outcome};
use crate::limits::{TIMELINE_COLUMNS, TIMELINE_OPERATIONS_MAX};
use crate::model::Action;

/// The explanation, ending with a line break.
pub(super) fn explain(key: &[u8], operations: &[Operation], stuck: &Stuck) -> String {
    let culprit = &operations[stuck.operation];
    let possible: Vec<String> = stuck.possible.iter().map(ToString::to_string).collect();
    let before = operations.iter().filter(|operation| returned_order(operation) < stuck.at_order).count();
    let mut text = String::new();
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a String takes every write");
        text.push('\n');
    };
    line(format_args!("key \"{}\": client {}: {}", key.escape_ascii(), culprit.client, told(culprit)));
    line(format_args!("  fits no order that explains the {before} answers before it"));
    if possible.is_empty() {
        line(format_args!("  it makes answers impossible that were given while it was under way"));
    } else {
        line(format_args!("  in those orders the key then held one of: {}", possible.join(", ")));
    }
    let shown = shown(operations, stuck);
    let scale = Scale::new(&shown, stuck.at_order);
    line(format_args!("  {:>10} {:>10} {:>6}  timeline (= known, ? unknown outcome)", "from us", "to us", "client"));
    for (mark, operation) in shown {
        let to = match &operation.outcome {
            Outcome::Answered(_, at) if at.order <= stuck.at_order => at.us.to_string(),
            Outcome::Answered(..) => "later".to_string(),
            _ => "-".to_string(),
        };
        let (from, client, bar) = (operation.invoked.us, operation.client, scale.bar(operation));
        line(format_args!("{mark} {from:>10} {to:>10} {client:>6}  {bar}  {}", told(operation)));
    }
    text
}

/// The culprit marked, what overlaps it, and what came last before it, by invocation.
///
/// Of everything invoked before the end, those matter most that were still open when the culprit began; the room left
/// goes to the ones that returned last.
fn shown<'a>(operations: &'a [Operation], stuck: &Stuck) -> Vec<(char, &'a Operation)> {
    let mut candidates: Vec<usize> = (0..operations.len())
        .filter(|&index| operations[index].invoked.order <= stuck.at_order)
        .filter(|&index| operations[index].outcome != Outcome::Refused)
        .filter(|&index| returned_order(&operations[index]) != u64::MAX || !operations[index].action.only_reads())
        .filter(|&index| operations[index].action != Action::Evict)
        .collect();
    candidates.sort_by_key(|&index| {
        let operation = &operations[index];
        // The culprit first, then by the time of return, the latest first; of those without one, the youngest first.
        (index != stuck.operation, std::cmp::Reverse((returned_order(operation), operation.invoked.order)))
    });
    // Many writes of unknown outcome must not crowd out the answers just before the culprit.
    let (answered, unknown): (Vec<usize>, Vec<usize>) =
        candidates.into_iter().partition(|&index| returned_order(&operations[index]) != u64::MAX);
    let unknown_count = unknown.len().min(TIMELINE_OPERATIONS_MAX / 2);
    let answered = answered.into_iter().take(TIMELINE_OPERATIONS_MAX - unknown_count);
    let mut chosen: Vec<usize> = answered.chain(unknown.into_iter().take(unknown_count)).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|index| (if index == stuck.operation { '>' } else { ' ' }, &operations[index])).collect()
}

/// The order of the return; the end of time if there is none.
fn returned_order(operation: &Operation) -> u64 {
    match &operation.outcome {
        Outcome::Answered(_, at) => at.order,
        Outcome::Pending | Outcome::Lost | Outcome::Refused => u64::MAX,
    }
}

fn told(operation: &Operation) -> String {
    match &operation.outcome {
        Outcome::Answered(answer, _) => format!("{} -> {answer}", operation.action),
        Outcome::Pending => format!("{} -> no answer", operation.action),
        Outcome::Lost => format!("{} -> outcome unknown", operation.action),
        Outcome::Refused => format!("{} -> refused", operation.action),
    }
}

/// Maps the orders in which shown operations begin and end to columns, evenly: only who was before whom matters.
struct Scale {
    orders: Vec<u64>,
}

impl Scale {
    fn new(shown: &[(char, &Operation)], end: u64) -> Self {
        let ends = shown.iter().flat_map(|(_, operation)| [operation.invoked.order, returned_order(operation)]);
        let mut orders: Vec<u64> = ends.filter(|&order| order <= end).collect();
        orders.sort_unstable();
        Scale { orders }
    }

    fn column(&self, order: u64) -> usize {
        let rank = self.orders.partition_point(|&other| other < order);
        (rank * TIMELINE_COLUMNS / self.orders.len().max(1)).min(TIMELINE_COLUMNS - 1)
    }

    fn bar(&self, operation: &Operation) -> String {
        let (from, to) = (self.column(operation.invoked.order), self.column(returned_order(operation)));
        let known = matches!(operation.outcome, Outcome::Answered(..));
        let body = if known { "=" } else { "?" }.repeat((to - from).saturating_sub(1));
        let end = if known { "|" } else { ">" };
        format!("{:<width$}", format!("{}|{body}{end}", " ".repeat(from)), width = TIMELINE_COLUMNS + 1)
    }
}
