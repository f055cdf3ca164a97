//! What would be said again and again is said now and then.

#[derive(Debug, Default)]
pub struct Saying {
    /// When it was said last.
    pub said_us: Option<u64>,
}

impl Saying {
    /// Is it to be said now? Then it is not for so many microseconds.
    pub fn is_due(&mut self, now_us: u64, every_us: u64) -> bool {
        let is_due = self.said_us.is_none_or(|said_us| now_us >= said_us + every_us);
        if is_due {
            self.said_us = Some(now_us);
        }
        is_due
    }
}
