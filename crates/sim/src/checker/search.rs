//! The search for an order that explains every answer: depth first, memoised, with its own stack.
//!
//! A configuration is (answered operations placed, unknown ones placed, state). Each answered operation must be placed
//! between its invocation and its return; one of unknown outcome anywhere after its invocation, or never.
//!
//! Deviations from Wing, Gong and Lowe; each keeps the verdict exact:
//! - **Commit.** A fitting answer that says that nothing changed is placed at once and without alternatives: any order
//!   that places it later stays right when it moves to the front. (Not so a write that happens to write what is there:
//!   later it may be needed.)
//! - **Idle unknown.** An unknown operation is not placed where it changes nothing, nor directly before an operation
//!   that fits and leads to the same state without it: leaving it out keeps more choices.
//! - **Twins.** Unknown operations that do the same are placed in the order of their invocations.
//! - **Spent unknown.** A configuration is not visited that differs from a visited one only by more unknown operations
//!   that are placed: whatever explains the rest after it does so after the other one, which has all of its choices.
//! - **Traceless unknown** (`mod.rs`). Unknown writes whose value no answer shows are left out at first; only if
//!   nothing explains the rest is all searched.
//! - **Fingerprints.** The memo holds 128-bit Zobrist fingerprints instead of bit sets. A collision could turn a good
//!   history bad, with a probability below 2^-80 at the largest memo.
//!
//! A flush that was due goes before everything that stores and was asked for later, whether or not it had returned
//! ([`Search::forestalls_flush`]).
//!
//! Without the second to fourth, n writes of unknown outcome cost 2^n configurations.

use super::memory::{EntryList, Fingerprint, Item, States, Visited};
use super::problem::Problem;
use crate::limits::POSSIBLE_VALUES_MAX;
use crate::model::Model;

/// What a search ends with.
#[derive(Debug)]
pub(super) enum Found {
    /// Indices into the history, in an order that explains it.
    Order {
        order: Vec<usize>,
        configurations: usize,
    },
    Nothing(Stuck),
    TooHard {
        configurations: usize,
    },
}

/// The furthest return that no configuration got past.
#[derive(Debug)]
pub(super) struct Stuck {
    /// Index into the history of the operation that returned there.
    pub operation: usize,
    pub at_order: u64,
    /// States of the configurations that stood before it.
    pub possible: Vec<Model>,
}

/// What a step places next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placed {
    /// By index into [`Problem::known`].
    Known(usize),
    /// The next member of a class, by index into [`Problem::classes`].
    Unknown(usize),
}

/// One configuration on the stack, and which of its steps are still to be tried.
#[derive(Debug)]
struct Frame {
    state: usize,
    /// What led here; `None` at the root.
    placed: Option<Placed>,
    /// The state before an unknown operation led here: what leaving it out would give.
    without_unknown: Option<usize>,
    next: Next,
    /// By index into [`Problem::known`].
    candidates: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// The configuration is new: look for an answer to commit.
    Commit,
    /// Try the answered operations that begin before the first return: this one of them.
    Known(usize),
    /// Try classes from this one on, whose next member was invoked before the first return.
    Unknown {
        class: usize,
        first_return: u64,
    },
    Exhausted,
}

/// Searches, with at most the effort of visiting `configurations_max` configurations.
pub(super) fn search(problem: &Problem<'_>, configurations_max: usize) -> Found {
    Search::new(problem).run(configurations_max)
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    list: EntryList,
    /// Members already placed, per class.
    class_used: Vec<usize>,
    /// The same, but none of evictions.
    spent: Vec<u32>,
    states: States<'a>,
    frames: Vec<Frame>,
    /// Of the answered operations.
    placed_fingerprint: Fingerprint,
    visited: Visited,
    /// The furthest return met, an index into the entries, and the states before it.
    stuck: Option<(usize, Vec<usize>)>,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem<'a>) -> Self {
        Search {
            problem,
            list: EntryList::new(problem),
            class_used: vec![0; problem.classes.len()],
            spent: vec![0; problem.classes.len()],
            states: States::new(problem),
            frames: vec![Frame {
                state: 0,
                placed: None,
                without_unknown: None,
                next: Next::Commit,
                candidates: Vec::new(),
            }],
            placed_fingerprint: Fingerprint::default(),
            visited: Visited::default(),
            stuck: None,
        }
    }

    fn run(mut self, configurations_max: usize) -> Found {
        while !self.list.is_empty() {
            if self.visited.effort() >= configurations_max {
                return Found::TooHard { configurations: self.visited.len() };
            }
            match self.next_step() {
                Some((placed, state)) => self.advance(placed, state),
                None if self.frames.len() == 1 => return Found::Nothing(self.stuck()),
                None => self.retreat(),
            }
        }
        Found::Order { order: self.order(), configurations: self.visited.len() }
    }

    /// The next step of the top frame that leads to a configuration not visited yet.
    fn next_step(&mut self) -> Option<(Placed, usize)> {
        loop {
            let frame = self.frames.last().expect("the root stays");
            match frame.next {
                Next::Commit => {
                    let commit = self.commit();
                    self.set_next(if commit.is_some() { Next::Exhausted } else { Next::Known(0) });
                    if commit.is_none() {
                        self.note_candidates();
                    }
                    if commit.is_some_and(|step| self.is_new(step)) {
                        return commit;
                    }
                }
                Next::Known(place) if place == frame.candidates.len() => {
                    let entry = self.first_return();
                    self.note_stuck(entry);
                    self.set_next(Next::Unknown { class: 0, first_return: self.problem.entries[entry].order });
                }
                Next::Known(place) => {
                    let known = frame.candidates[place];
                    self.set_next(Next::Known(place + 1));
                    if let Some(step) = self.try_known(known).filter(|&s| self.is_new(s)) {
                        return Some(step);
                    }
                }
                Next::Unknown { class, first_return } if class < self.problem.classes.len() => {
                    self.set_next(Next::Unknown { class: class + 1, first_return });
                    if let Some(step) = self.try_unknown(class, first_return).filter(|&s| self.is_new(s)) {
                        return Some(step);
                    }
                }
                Next::Unknown { .. } | Next::Exhausted => return None,
            }
        }
    }

    /// The first return of an operation that is not placed.
    fn first_return(&self) -> usize {
        let mut entry = self.list.first();
        while !self.problem.entries[entry].is_return {
            entry = self.list.after(entry);
        }
        entry
    }

    /// What may be placed next, in the order in which the answers left the store: nearly always the right one, however
    /// many blind writes overlap.
    fn note_candidates(&mut self) {
        let mut candidates = Vec::new();
        let mut entry = self.list.first();
        while !self.problem.entries[entry].is_return {
            candidates.push(self.problem.entries[entry].known);
            entry = self.list.after(entry);
        }
        candidates.sort_unstable_by_key(|&known| (self.problem.known[known].left, self.list.return_of(known)));
        self.frames.last_mut().expect("the root stays").candidates = candidates;
    }

    /// An answered operation that fits here and changed nothing.
    fn commit(&mut self) -> Option<(Placed, usize)> {
        let state = self.top().state;
        let mut entry = self.list.first();
        while !self.problem.entries[entry].is_return {
            let known = self.problem.entries[entry].known;
            if self.problem.known[known].answer.says_unchanged() && self.states.step_known(state, known).1 {
                return Some((Placed::Known(known), state));
            }
            entry = self.list.after(entry);
        }
        None
    }

    fn try_known(&mut self, known: usize) -> Option<(Placed, usize)> {
        let &Frame { state, without_unknown, .. } = self.top();
        let (next, fits) = self.states.step_known(state, known);
        let invoked = self.problem.known[known].invoked;
        if !fits || self.forestalls_flush(state, next, invoked) {
            return None;
        }
        let idle = without_unknown.is_some_and(|without| {
            self.states.step_known(without, known) == (next, true) && !self.forestalls_flush(without, next, invoked)
        });
        (!idle).then_some((Placed::Known(known), next))
    }

    fn try_unknown(&mut self, class: usize, first_return: u64) -> Option<(Placed, usize)> {
        let &Frame { state, without_unknown, .. } = self.top();
        let &(_, invoked) = self.problem.classes[class].members.get(self.class_used[class])?;
        if invoked > first_return {
            return None;
        }
        let action = self.problem.classes[class].action;
        let next = self.states.step(state, action);
        if next == state || self.forestalls_flush(state, next, invoked) {
            return None;
        }
        let idle = without_unknown.is_some_and(|without| {
            self.states.step(without, action) == next && !self.forestalls_flush(without, next, invoked)
        });
        (!idle).then_some((Placed::Unknown(class), next))
    }

    /// Is something stored that was asked for after a flush was due, and the flush is to come still?
    fn forestalls_flush(&self, state: usize, next: usize, invoked: u64) -> bool {
        let mut due = self.problem.due.iter();
        due.any(|&(known, due)| due < invoked && !self.list.is_placed(known))
            && self.states.model(next).is_stored_since(self.states.model(state))
    }

    fn top(&self) -> &Frame {
        self.frames.last().expect("the root stays")
    }

    fn set_next(&mut self, next: Next) {
        self.frames.last_mut().expect("the root stays").next = next;
    }

    fn is_new(&mut self, (placed, state): (Placed, usize)) -> bool {
        let mut fingerprint = self.placed_fingerprint;
        fingerprint.toggle(Item::State(state));
        match placed {
            Placed::Known(known) => {
                fingerprint.toggle(Item::Known(known));
                self.visited.insert(fingerprint, &self.spent)
            }
            Placed::Unknown(class) => {
                self.spend(class, 1);
                let is_new = self.visited.insert(fingerprint, &self.spent);
                self.spend(class, -1);
                is_new
            }
        }
    }

    /// Evictions leave no trace but the state: there are always enough of them.
    fn spend(&mut self, class: usize, count: i32) {
        if !self.problem.is_eviction(class) {
            self.spent[class] = self.spent[class].strict_add_signed(count);
        }
    }

    fn advance(&mut self, placed: Placed, state: usize) {
        let without_unknown = match placed {
            Placed::Known(known) => {
                self.list.remove(known);
                self.placed_fingerprint.toggle(Item::Known(known));
                None
            }
            Placed::Unknown(class) => {
                self.class_used[class] += 1;
                self.spend(class, 1);
                Some(self.top().state)
            }
        };
        self.frames.push(Frame {
            state,
            placed: Some(placed),
            without_unknown,
            next: Next::Commit,
            candidates: Vec::new(),
        });
    }

    fn retreat(&mut self) {
        let frame = self.frames.pop().expect("more than the root");
        let placed = frame.placed.expect("only the root has none");
        match placed {
            Placed::Known(known) => {
                self.list.restore(known);
                self.placed_fingerprint.toggle(Item::Known(known));
            }
            Placed::Unknown(class) => {
                self.class_used[class] -= 1;
                self.spend(class, -1);
            }
        }
    }

    fn note_stuck(&mut self, entry: usize) {
        let state = self.top().state;
        match &mut self.stuck {
            Some((furthest, _)) if *furthest > entry => {}
            Some((furthest, states)) if *furthest == entry => {
                if states.len() < POSSIBLE_VALUES_MAX && !states.contains(&state) {
                    states.push(state);
                }
            }
            _ => self.stuck = Some((entry, vec![state])),
        }
    }

    fn stuck(self) -> Stuck {
        let (entry, states) = self.stuck.expect("a search that fails met a return");
        let entry = self.problem.entries[entry];
        let mut possible: Vec<Model> = states.into_iter().map(|state| self.states.model(state).clone()).collect();
        possible.sort();
        Stuck { operation: self.problem.known[entry.known].operation, at_order: entry.order, possible }
    }

    fn order(&self) -> Vec<usize> {
        let mut used = vec![0; self.problem.classes.len()];
        let placed = self.frames.iter().filter_map(|frame| frame.placed);
        placed
            .map(|placed| match placed {
                Placed::Known(known) => self.problem.known[known].operation,
                Placed::Unknown(class) => {
                    used[class] += 1;
                    self.problem.classes[class].members[used[class] - 1].0
                }
            })
            .collect()
    }
}
