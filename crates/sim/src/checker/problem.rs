//! A key's history up to some point, prepared for the search.
//!
//! Answered operations become two entries, invocation and return, of one list in real-time order. Operations of unknown
//! outcome have no return; those that do the same thing form a class, as nothing tells them apart but their invocation.

use std::collections::HashMap;

use crate::history::{Operation, Outcome};
use crate::model::{Action, Answer, Value};

/// An answered operation.
#[derive(Debug)]
pub(super) struct Known<'a> {
    /// Index into the history.
    pub operation: usize,
    /// Index into [`Problem::actions`].
    pub action: usize,
    pub answer: &'a Answer,
    /// Order of invocation.
    pub invoked: u64,
    /// When its answer left the store, if that is known.
    pub left: Option<u64>,
}

/// Operations of unknown outcome with the same action: index into the history and order of invocation, ascending.
#[derive(Debug)]
pub(super) struct Class {
    pub action: usize,
    pub members: Vec<(usize, u64)>,
}

/// One end of an answered operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub order: u64,
    /// Index into [`Problem::known`].
    pub known: usize,
    pub is_return: bool,
}

#[derive(Debug)]
pub(super) struct Problem<'a> {
    /// Distinct actions.
    pub actions: Vec<&'a Action>,
    pub known: Vec<Known<'a>>,
    pub classes: Vec<Class>,
    /// Flushes that were due and happened, by index into `known`, with the order of invocation.
    pub due: Vec<(usize, u64)>,
    /// By order.
    pub entries: Vec<Entry>,
}

impl<'a> Problem<'a> {
    /// The history as it was known at `end`: what was invoked later is absent, what was answered later is unknown.
    pub fn new(operations: &'a [Operation], end: u64) -> Self {
        let mut problem = Problem {
            actions: Vec::new(),
            known: Vec::new(),
            classes: Vec::new(),
            due: Vec::new(),
            entries: Vec::new(),
        };
        let mut action_of: HashMap<&Action, usize> = HashMap::new();
        let mut class_of: HashMap<usize, usize> = HashMap::new();
        for (index, operation) in operations.iter().enumerate() {
            if operation.invoked.order > end || operation.outcome == Outcome::Refused {
                continue;
            }
            let action = *action_of.entry(&operation.action).or_insert_with(|| {
                problem.actions.push(&operation.action);
                problem.actions.len() - 1
            });
            match &operation.outcome {
                Outcome::Answered(answer, returned) if returned.order <= end => {
                    let known = problem.known.len();
                    problem.known.push(Known {
                        operation: index,
                        action,
                        answer,
                        invoked: operation.invoked.order,
                        left: operation.left,
                    });
                    let (invoked, returned) = (operation.invoked.order, returned.order);
                    if operation.action == Action::ClearDue {
                        problem.due.push((known, invoked));
                    }
                    problem.entries.push(Entry { order: invoked, known, is_return: false });
                    problem.entries.push(Entry { order: returned, known, is_return: true });
                }
                // A read of unknown outcome tells nothing and changes nothing.
                _ if operation.action.only_reads() => {}
                _ => {
                    let class = *class_of.entry(action).or_insert_with(|| {
                        problem.classes.push(Class { action, members: Vec::new() });
                        problem.classes.len() - 1
                    });
                    problem.classes[class].members.push((index, operation.invoked.order));
                }
            }
        }
        problem.entries.sort_by_key(|entry| entry.order);
        problem.classes.iter_mut().for_each(|class| class.members.sort_by_key(|&(_, order)| order));
        problem
    }

    /// The same without writes of unknown outcome whose value no answer shows; `None`: there are none. An order that
    /// explains this one explains the whole: these did not happen. If there is none, one of them may have been seen
    /// otherwise.
    pub fn without_traceless(mut self) -> Option<Self> {
        let answers = self.known.iter().map(|known| known.answer);
        let shown: Vec<&Value> = answers.filter_map(Answer::shown).collect();
        let before = self.classes.len();
        let actions = &self.actions;
        self.classes.retain(|class| match actions[class.action].written() {
            Some(value) => shown.iter().any(|shown| shown.contains(value)),
            None => true,
        });
        (self.classes.len() < before).then_some(self)
    }

    /// Is the class that of evictions?
    pub fn is_eviction(&self, class: usize) -> bool {
        *self.actions[self.classes[class].action] == Action::Evict
    }

    /// The returns from `first` on, ascending: their order and the operation's index into the history.
    pub fn returns_from(&self, first: u64) -> Vec<(u64, usize)> {
        let returns = self.entries.iter().filter(|entry| entry.is_return && entry.order >= first);
        returns.map(|entry| (entry.order, self.known[entry.known].operation)).collect()
    }
}
