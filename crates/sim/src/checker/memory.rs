//! What a search remembers: the list of entries not placed yet, the states met, the configurations visited.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use smallvec::SmallVec;

use super::problem::Problem;
use crate::model::{Answer, Model};
use crate::rng::split_mix;

/// The entries of the operations not placed yet, by order: a doubly linked list that undoes removals exactly
/// (Knuth's dancing links). The number after the last entry is the list's head.
pub(super) struct EntryList {
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Invocation and return of each answered operation.
    ends: Vec<[usize; 2]>,
}

impl EntryList {
    pub fn new(problem: &Problem<'_>) -> Self {
        let head = problem.entries.len();
        let mut ends = vec![[head; 2]; problem.known.len()];
        for (index, entry) in problem.entries.iter().enumerate() {
            ends[entry.known][usize::from(entry.is_return)] = index;
        }
        let next = (1..=head).chain([0]).collect();
        let previous = [head].into_iter().chain(0..head).collect();
        EntryList { next, previous, ends }
    }

    pub fn is_empty(&self) -> bool {
        self.first() == self.next.len() - 1
    }

    pub fn first(&self) -> usize {
        self.next[self.next.len() - 1]
    }

    pub fn after(&self, entry: usize) -> usize {
        self.next[entry]
    }

    /// Where an operation returns.
    pub fn return_of(&self, known: usize) -> usize {
        self.ends[known][1]
    }

    /// Is an operation not in the list any more?
    pub fn is_placed(&self, known: usize) -> bool {
        let returns = self.return_of(known);
        self.next[self.previous[returns]] != returns
    }

    pub fn remove(&mut self, known: usize) {
        for entry in self.ends[known] {
            let (before, after) = (self.previous[entry], self.next[entry]);
            self.next[before] = after;
            self.previous[after] = before;
        }
    }

    /// Undoes the last removal that is not undone yet.
    pub fn restore(&mut self, known: usize) {
        for &entry in self.ends[known].iter().rev() {
            let (before, after) = (self.previous[entry], self.next[entry]);
            self.next[before] = entry;
            self.previous[after] = entry;
        }
    }
}

/// The states met so far, numbered; 0 is the absent key. Each transition is computed once.
pub(super) struct States<'a> {
    problem: &'a Problem<'a>,
    models: Vec<Model>,
    numbers: HashMap<Model, usize>,
    transitions: HashMap<(usize, usize), (usize, Answer)>,
}

impl<'a> States<'a> {
    pub fn new(problem: &'a Problem<'a>) -> Self {
        let absent = Model::default();
        let numbers = HashMap::from([(absent.clone(), 0)]);
        States { problem, models: vec![absent], numbers, transitions: HashMap::new() }
    }

    pub fn model(&self, state: usize) -> &Model {
        &self.models[state]
    }

    /// The state after an action, by index into [`Problem::actions`].
    pub fn step(&mut self, state: usize, action: usize) -> usize {
        self.transition(state, action).0
    }

    /// The state after an answered operation, and whether its answer fits.
    pub fn step_known(&mut self, state: usize, known: usize) -> (usize, bool) {
        let known = &self.problem.known[known];
        let (next, answer) = self.transition(state, known.action);
        (*next, answer == known.answer)
    }

    fn transition(&mut self, state: usize, action: usize) -> &(usize, Answer) {
        let States { problem, models, numbers, transitions } = self;
        transitions.entry((state, action)).or_insert_with(|| {
            let (next, answer) = models[state].step(problem.actions[action]);
            let number = *numbers.entry(next).or_insert_with_key(|next| {
                models.push(next.clone());
                models.len() - 1
            });
            (number, answer)
        })
    }
}

/// Unknown operations that were placed, by class, in each of some configurations.
type Spent = SmallVec<[Box<[u32]>; 1]>;

/// What was visited: for each set of answered operations and state, the fewest unknown operations that were placed, by
/// class. None of the entries of a place is at most as large as another one everywhere.
#[derive(Default)]
pub(super) struct Visited {
    places: HashMap<Fingerprint, Spent, BuildHasherDefault<FirstWordHasher>>,
    count: usize,
    comparisons: usize,
}

/// Comparisons that take about as long as a visit.
const COMPARISONS_PER_VISIT: usize = 64;

impl Visited {
    /// Configurations that were new.
    pub fn len(&self) -> usize {
        self.count
    }

    /// What was done, in visits: where many unknown operations make configurations that do not compare, finding that
    /// one is new takes longer than the visit.
    pub fn effort(&self) -> usize {
        self.count + self.comparisons / COMPARISONS_PER_VISIT
    }

    /// Is nothing visited there that has placed no more unknown operations of any class? Then this is visited.
    pub fn insert(&mut self, place: Fingerprint, spent: &[u32]) -> bool {
        // Without the zeros at the end, so that most take no memory of their own.
        let spent = &spent[..spent.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1)];
        let fewest = self.places.entry(place).or_default();
        self.comparisons += fewest.len();
        if fewest.iter().any(|other| is_within(other, spent)) {
            return false;
        }
        fewest.retain(|other| !is_within(spent, other));
        fewest.push(spent.into());
        self.count += 1;
        true
    }
}

/// Is each of the first counts at most as large as that of the second?
fn is_within(fewer: &[u32], more: &[u32]) -> bool {
    fewer.len() <= more.len() && fewer.iter().zip(more).all(|(few, many)| few <= many)
}

/// What makes a place what it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// An answered operation that is placed.
    Known(usize),
    State(usize),
}

/// The exclusive or of one random 128-bit number per item (Zobrist 1970).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Fingerprint([u64; 2]);

impl Fingerprint {
    /// Puts the item in, or takes it out again.
    pub fn toggle(&mut self, item: Item) {
        // Indices are far below 2^20 and states below 2^32, so that every item has a seed of its own.
        let mut seed = match item {
            Item::Known(known) => known as u64,
            Item::State(state) => 2 << 62 | state as u64,
        };
        for word in &mut self.0 {
            *word ^= split_mix(&mut seed);
        }
    }
}

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0[0]);
    }
}

/// Fingerprints are random already: their first word is their hash.
#[derive(Default)]
pub(super) struct FirstWordHasher(u64);

impl Hasher for FirstWordHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only fingerprints are hashed, as one word");
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
