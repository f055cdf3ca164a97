//! How much of one lane, the reads of a partition or its writes, another gateway is asked at once: no more than it
//! answered of it lately.
//!
//! What is asked beyond what it can do waits on the way, where nobody can take it back. With more of it there than is
//! done in the time that a request waits, all of them are done too late, and nobody gets an answer. So what is beyond
//! waits at the asker, which can say for sure that nothing was done. Of each lane for itself: a partition that is still
//! taken over answers nothing and must not hold up others, nor writes that cannot be done yet the reads beside them.
//!
//! Must not know: whose answer it is, where else a request waits.

/// What another gateway may be asked of a lane although it answered nothing lately, in weights.
const OWED_MIN: usize = 64;
/// Bytes that count as one request.
const WEIGHT_BYTES: usize = 16 << 10;
/// Microseconds of a look. What was answered in this one and the one before may be asked: the work of half a second to
/// a second, which leaves most of the time that a request waits.
const LOOK_US: u64 = 500_000;

/// What a request of so many bytes counts for. How long its answer is nobody knows; by how many are answered it counts,
/// too.
pub fn weight_of(bytes: usize) -> usize {
    1 + bytes / WEIGHT_BYTES
}

#[derive(Debug, Default)]
pub struct Pace {
    /// Asked and not answered.
    owed: usize,
    /// Answered in this look, and in the one before.
    answered: [usize; 2],
    look: u64,
}

impl Pace {
    /// To be called before anything is asked of it.
    pub fn look(&mut self, now_us: u64) {
        let look = now_us / LOOK_US;
        self.answered = match look - self.look {
            0 => return,
            1 => [0, self.answered[0]],
            _ => [0; 2],
        };
        self.look = look;
    }

    pub fn has_room(&self) -> bool {
        self.owed < OWED_MIN.max(self.lately())
    }

    /// Does it answer at all?
    pub fn answers(&self) -> bool {
        self.lately() > 0
    }

    fn lately(&self) -> usize {
        self.answered[0] + self.answered[1]
    }

    pub fn ask(&mut self, weight: usize) {
        self.owed += weight;
    }

    /// A request came back, done or not.
    pub fn take(&mut self, weight: usize, is_done: bool) {
        self.owed -= weight;
        self.answered[0] += if is_done { weight } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks as much as it may.
    fn fill(pace: &mut Pace) -> usize {
        let mut count = 0;
        while pace.has_room() {
            pace.ask(1);
            count += 1;
        }
        count
    }

    #[test]
    fn as_much_may_be_asked_as_was_answered_in_the_last_second() {
        let mut pace = Pace::default();
        assert_eq!((fill(&mut pace), pace.answers()), (OWED_MIN, false));
        // It answers more and more, and is asked more and more.
        for _ in 0..10 {
            let owed = pace.owed;
            (0..owed).for_each(|_| pace.take(1, true));
            fill(&mut pace);
        }
        let most = pace.owed;
        assert!(most > 100 * OWED_MIN, "{most}");
        // What it did half a second ago counts, what it did a second ago does not.
        pace.look(LOOK_US);
        assert_eq!(fill(&mut pace), 0);
        (0..most).for_each(|_| pace.take(1, true));
        assert!(fill(&mut pace) > most);
        pace.look(3 * LOOK_US);
        (0..pace.owed).for_each(|_| pace.take(1, false));
        assert_eq!((fill(&mut pace), pace.answers()), (OWED_MIN, false), "what is not done is no answer");
    }

    #[test]
    fn a_long_request_counts_as_many() {
        assert_eq!((weight_of(100), weight_of(1 << 20)), (1, 65));
        let mut pace = Pace::default();
        pace.ask(weight_of(1 << 20));
        assert!(!pace.has_room());
        pace.take(weight_of(1 << 20), true);
        assert_eq!(fill(&mut pace), weight_of(1 << 20));
    }
}
