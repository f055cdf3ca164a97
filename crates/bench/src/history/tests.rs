//! Legal and illegal answers, told as short stories about one key.

use super::*;

const KEY: u32 = 0;

/// A key, its history and its names.
struct Story {
    history: History,
    names: Names,
}

fn story_of(value_bytes: usize) -> Story {
    let value_sizes = crate::sizes::SizeDistribution::Fixed(value_bytes);
    let key_sizes = crate::sizes::SizeDistribution::Fixed(24);
    let names = Names { prefix: String::new(), key_sizes, value_sizes, trace: None, lifetimes: None, run: 3 };
    Story { history: History::new(1, Absence::Lost), names }
}

fn story() -> Story {
    story_of(100)
}

impl Story {
    fn set(&mut self) -> u32 {
        let write = self.history.begin_set(KEY);
        self.history.acknowledged(KEY, write);
        write.version
    }

    fn delete(&mut self) -> u32 {
        let write = self.history.begin_delete(KEY);
        self.history.acknowledged(KEY, write);
        write.version
    }

    fn read(&mut self, version: u32) -> Verdict {
        let floor = self.history.floor(KEY);
        self.read_sent_at(floor, version)
    }

    fn read_sent_at(&mut self, floor: u32, version: u32) -> Verdict {
        let mut value = Vec::new();
        self.names.write_value(KEY, version, &mut value);
        self.history.judge_value(&self.names, KEY, KEY, floor, &value)
    }

    fn absent(&self) -> Verdict {
        self.history.judge_absent(KEY, self.history.floor(KEY))
    }
}

#[test]
fn what_an_earlier_run_stored_must_be_there_until_it_is_deleted() {
    let mut story = story();
    story.history = story.history.stored_before();
    assert_eq!(story.absent(), Verdict::Lost { floor: 0 });
    let added = story.history.add_key();
    assert_eq!(story.history.judge_absent(added, 0), Verdict::Absent, "it stored none of those that come later");
    let first = story.set();
    assert_eq!(story.history.judge_absent(KEY, 0), Verdict::Lost { floor: 0 }, "asked before the write was answered");
    assert_eq!(story.absent(), Verdict::Lost { floor: first });
    story.delete();
    assert_eq!((story.absent(), story.history.judge_absent(KEY, 0)), (Verdict::Absent, Verdict::Absent));
}

#[test]
fn the_acknowledged_version_is_right_and_older_or_absent_is_not() {
    let mut story = story();
    assert_eq!(story.absent(), Verdict::Absent);
    let (first, second) = (story.set(), story.set());
    assert_eq!(story.read(second), Verdict::Hit);
    assert_eq!(story.read(first), Verdict::Stale { floor: second, found: first });
    assert_eq!(story.absent(), Verdict::Lost { floor: second });
}

#[test]
fn a_store_that_may_evict_misses_but_never_loses() {
    let mut story = story();
    story.history.absence = Absence::Evicted;
    let version = story.set();
    assert_eq!(story.absent(), Verdict::Missed { floor: version });
    assert!(!story.absent().is_fault());
}

#[test]
fn an_object_with_a_time_to_live_may_be_absent_but_never_stale() {
    let mut story = story();
    story.history.absence = Absence::Expired;
    let first = story.set();
    let second = story.set();
    assert_eq!(story.absent(), Verdict::Absent);
    assert_eq!(story.read(first), Verdict::Stale { floor: second, found: first });
}

#[test]
fn a_version_that_was_never_sent_is_wrong() {
    let mut story = story();
    let newest = story.set();
    assert_eq!(story.read(9), Verdict::Mismatch(Mismatch::NeverWritten { found: 9, newest }));
}

#[test]
fn a_write_in_flight_may_be_seen_or_not_until_it_is_acknowledged() {
    let mut story = story();
    let first = story.set();
    let write = story.history.begin_set(KEY);
    assert_eq!(story.read(first), Verdict::Hit);
    assert_eq!(story.read(write.version), Verdict::Hit);
    // Seen once, it has taken effect: the older one must not come back.
    assert_eq!(story.read(first), Verdict::Stale { floor: write.version, found: first });
}

#[test]
fn a_read_sent_before_the_acknowledgement_may_see_the_older_version() {
    let mut story = story();
    let first = story.set();
    let floor_when_sent = story.history.floor(KEY);
    story.set();
    assert_eq!(story.read_sent_at(floor_when_sent, first), Verdict::Hit);
}

#[test]
fn of_two_concurrent_writes_either_may_win() {
    let mut story = story();
    let before = story.set();
    let (one, two) = (story.history.begin_set(KEY), story.history.begin_set(KEY));
    story.history.acknowledged(KEY, two);
    story.history.acknowledged(KEY, one);
    assert_eq!(story.read(one.version), Verdict::Hit);
    assert_eq!(story.read(two.version), Verdict::Hit);
    assert_eq!(story.read(before), Verdict::Stale { floor: one.version, found: before });
    let last = story.set();
    assert_eq!(story.read(two.version), Verdict::Stale { floor: last, found: two.version });
}

#[test]
fn a_deleted_key_stays_deleted_until_it_is_written_again() {
    let mut story = story();
    let version = story.set();
    let deleted = story.delete();
    assert_eq!(story.absent(), Verdict::Absent);
    assert_eq!(story.read(version), Verdict::Resurrected { deleted, found: version });
    let again = story.set();
    assert_eq!(story.read(again), Verdict::Hit);
    assert_eq!(story.absent(), Verdict::Lost { floor: again });
    assert_eq!(story.read(version), Verdict::Resurrected { deleted, found: version });
}

#[test]
fn a_write_of_unknown_outcome_stays_legal_for_ever() {
    let mut story = story();
    story.set();
    let lost = story.history.begin_set(KEY);
    story.history.unknown(KEY, lost);
    let last = story.set();
    assert_eq!(story.read(lost.version), Verdict::Hit);
    assert_eq!(story.read(last), Verdict::Hit);
    assert_eq!(story.absent(), Verdict::Lost { floor: last });
    let lost_delete = story.history.begin_delete(KEY);
    story.history.unknown(KEY, lost_delete);
    story.set();
    assert_eq!(story.absent(), Verdict::Absent);
}

#[test]
fn more_unknown_writes_than_are_remembered_silence_the_key() {
    let mut story = story();
    let first = story.set();
    for _ in 0..=UNKNOWN_PER_KEY_MAX {
        let write = story.history.begin_set(KEY);
        story.history.unknown(KEY, write);
    }
    story.set();
    assert_eq!(story.read(first), Verdict::Hit);
    assert_eq!(story.absent(), Verdict::Absent);
}

#[test]
fn a_value_of_an_earlier_run_is_right_only_before_the_first_write() {
    let mut story = story();
    let mut value = Vec::new();
    Names { run: 2, ..story.names.clone() }.write_value(KEY, 40, &mut value);
    assert_eq!(story.history.judge_value(&story.names, KEY, KEY, 0, &value), Verdict::Hit);
    let floor = story.set();
    let verdict = story.history.judge_value(&story.names, KEY, KEY, floor, &value);
    assert_eq!(verdict, Verdict::Stale { floor, found: 0 });
}

#[test]
fn short_values_are_compared_with_the_legal_versions() {
    let mut story = story_of(3);
    let (first, second) = (story.set(), story.set());
    assert_eq!(story.read(second), Verdict::Hit);
    assert_eq!(story.read(first), Verdict::Stale { floor: second, found: first });
    let verdict = story.history.judge_value(&story.names, KEY, KEY, second, b"xyz");
    assert_eq!(verdict, Verdict::Mismatch(Mismatch::Short { bytes: 3 }));
}
