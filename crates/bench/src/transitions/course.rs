//! One failure and return, as the owners' log tells it.
//!
//! ```text
//! 2026-11-22T07:48:49.123456Z  INFO shorttail_gateway::engine::sessions::absence: node is away node=3 epoch=1
//! '---- moment                                                          '-- step     '---- who, told by which owner
//! ```
//! A step is reached when every owner has told it of every node that failed.
//!
//! Must not know: processes, the load, the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Microseconds of a day; moments are taken within one.
const DAY_US: u64 = 86_400_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Away,
    GoneRound,
    InUseAgain,
    Whole,
}

/// The log's words for each.
const WORDS: [(Step, &str); 4] = [
    (Step::Away, "node is away "),
    (Step::GoneRound, "node is gone round "),
    (Step::InUseAgain, "node is in use again "),
    (Step::Whole, "nothing is missing since the node is back "),
];

/// Microseconds since midnight, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment((since.as_micros() % u128::from(DAY_US)) as u64)
    }

    /// From `2026-11-22T07:48:49.123456Z`.
    fn parse(text: &str) -> Option<Self> {
        let time = text.split_once('T')?.1.strip_suffix('Z')?;
        let (clock, micros) = time.split_once('.')?;
        let mut parts = clock.split(':').map(|part| part.parse::<u64>().ok());
        let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
        let micros: u64 = (micros.len() == 6).then(|| micros.parse().ok())??;
        Some(Moment(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros))
    }

    /// Milliseconds since an earlier moment, less than a day ago.
    fn ms_since(self, earlier: Moment) -> f64 {
        ((self.0 + DAY_US - earlier.0) % DAY_US) as f64 / 1e3
    }
}

/// A line of the log that tells a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    at: Moment,
    step: Step,
    node: u64,
    /// Of the owner.
    epoch: u64,
}

impl Event {
    /// `None`: the line tells of something else.
    pub fn parse(line: &str) -> Option<Self> {
        let (step, after) = WORDS.iter().find_map(|(step, words)| Some((*step, line.split_once(words)?.1)))?;
        let field = |name: &str| {
            after.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        let at = Moment::parse(line.split_ascii_whitespace().next()?)?;
        Some(Event { at, step, node: field("node")?, epoch: field("epoch")? })
    }
}

/// How long each transition took, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// From the kill until all owners go round: reads are decoded, nothing new goes there.
    pub normal_to_intermediate: f64,
    /// Until what was under way there is finished elsewhere, and what was unsealed there is emptied.
    pub intermediate_to_degraded: f64,
    /// From the start of the new process until all owners use it again.
    pub degraded_to_coordinated: f64,
    /// Until no chunk is missing.
    pub coordinated_to_normal: f64,
}

/// What was told since the nodes were killed.
#[derive(Debug)]
pub struct Course {
    victims: BTreeSet<u64>,
    owner_count: usize,
    told: BTreeMap<(Step, u64, u64), Moment>,
}

impl Course {
    pub fn new(victims: &[u64], owner_count: usize) -> Self {
        Course { victims: victims.iter().copied().collect(), owner_count, told: BTreeMap::new() }
    }

    pub fn take(&mut self, event: Event) {
        if self.victims.contains(&event.node) {
            self.told.entry((event.step, event.node, event.epoch)).or_insert(event.at);
        }
    }

    /// When the last owner told it of the last node; `None`: not all have.
    pub fn reached(&self, step: Step) -> Option<Moment> {
        let told = || self.told.iter().filter(|((known, ..), _)| *known == step).map(|(_, at)| *at);
        let is_complete = told().count() == self.victims.len() * self.owner_count;
        told().max().filter(|_| is_complete)
    }

    /// `None`: some step is not reached.
    pub fn times(&self, killed: Moment, started: Moment) -> Option<Times> {
        let [away, gone_round] = [self.reached(Step::Away)?, self.reached(Step::GoneRound)?];
        let [in_use, whole] = [self.reached(Step::InUseAgain)?, self.reached(Step::Whole)?];
        Some(Times {
            normal_to_intermediate: away.ms_since(killed),
            intermediate_to_degraded: gone_round.ms_since(away),
            degraded_to_coordinated: in_use.ms_since(started),
            coordinated_to_normal: whole.ms_since(in_use),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &str, words: &str, node: u64, epoch: u64) -> String {
        format!(
            "2026-11-22T{at}Z  INFO core: shorttail_gateway::engine::sessions::absence: {words} node={node} epoch={epoch}"
        )
    }

    fn event(at: &str, words: &str, node: u64, epoch: u64) -> Event {
        Event::parse(&line(at, words, node, epoch)).expect("a step")
    }

    fn moment(at: &str) -> Moment {
        Moment::parse(&format!("2026-11-22T{at}Z")).expect("a time")
    }

    #[test]
    fn lines_that_tell_a_step_are_understood_and_others_left() {
        let told = event("07:48:49.123456", "node is gone round", 3, 2);
        let at = Moment(((7 * 60 + 48) * 60 + 49) * 1_000_000 + 123_456);
        assert_eq!(told, Event { at, step: Step::GoneRound, node: 3, epoch: 2 });
        assert_eq!(Event::parse("2026-11-22T07:48:49.123456Z  INFO x: took over objects=3"), None);
        assert_eq!(Event::parse(&line("07:48:49.12", "node is away", 3, 2)), None, "a time of another shape");
        assert_eq!(Event::parse("ready"), None);
    }

    #[test]
    fn a_step_is_reached_when_every_owner_told_it_of_every_victim() {
        let mut course = Course::new(&[3, 5], 2);
        for (node, epoch, at) in [(3, 1, "10:00:00.000100"), (3, 2, "10:00:00.000300"), (5, 1, "10:00:00.000200")] {
            course.take(event(at, "node is away", node, epoch));
            course.take(event(at, "node is away", 7, epoch));
            assert_eq!(course.reached(Step::Away), None);
        }
        course.take(event("10:00:00.000250", "node is away", 5, 2));
        assert_eq!(course.reached(Step::Away), Some(moment("10:00:00.000300")));
        assert_eq!(course.reached(Step::GoneRound), None);
    }

    #[test]
    fn transitions_are_the_times_between_steps_also_over_midnight() {
        let mut course = Course::new(&[4], 1);
        let steps = [
            ("23:59:59.999500", "node is away"),
            ("00:00:00.002000", "node is gone round"),
            ("00:00:01.050000", "node is in use again"),
            ("00:00:01.051000", "nothing is missing since the node is back"),
        ];
        for (at, words) in steps {
            assert_eq!(course.times(moment(at), moment(at)), None);
            course.take(event(at, words, 4, 1));
        }
        let times = course.times(moment("23:59:59.999000"), moment("00:00:01.000000")).expect("all steps");
        let expected = Times {
            normal_to_intermediate: 0.5,
            intermediate_to_degraded: 2.5,
            degraded_to_coordinated: 50.0,
            coordinated_to_normal: 1.0,
        };
        assert_eq!(times, expected);
    }
}
