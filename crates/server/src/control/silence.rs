//! When it is to be said that no coordinator answers: after a while, and again when the reason is another one.

use std::time::{Duration, Instant};

use crate::config::Address;

/// A coordinator that is just starting, or another one that is about to lead, is waited for in silence.
const TOLD_AFTER: Duration = Duration::from_secs(2);
/// Of so many it is remembered what was said, as addresses of names change.
const TOLD_MAX: usize = 64;

/// Coordinators that are asked in turn and do not let this member in.
#[derive(Debug, Default)]
pub struct Silence {
    since: Option<Instant>,
    /// What was said last of each.
    told: Vec<(Address, String)>,
}

impl Silence {
    pub fn is_to_be_told(&mut self, now: Instant, address: &Address, why: &str) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < TOLD_AFTER {
            return false;
        }
        match self.told.iter_mut().find(|(of, _)| of == address) {
            Some((_, told)) if told == why => false,
            Some((_, told)) => {
                why.clone_into(told);
                true
            }
            None => {
                if self.told.len() == TOLD_MAX {
                    self.told.remove(0);
                }
                self.told.push((address.clone(), why.to_owned()));
                true
            }
        }
    }

    /// Who heard of it is to hear that it is over.
    pub fn was_told(&self) -> bool {
        !self.told.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_told_once_and_none_at_first() {
        let (one, other): (Address, Address) = ("/run/a".parse().expect("a path"), "/run/b".parse().expect("a path"));
        let began = Instant::now();
        let mut silence = Silence::default();
        let mut told = |after_ms: u64, address: &Address, why: &str| {
            silence.is_to_be_told(began + Duration::from_millis(after_ms), address, why)
        };
        assert!(!told(0, &one, "refused") && !told(1_999, &one, "refused"));
        assert!(told(2_000, &one, "refused") && !told(2_001, &one, "refused"));
        assert!(told(2_002, &other, "refused"), "the other one is silent too");
        assert!(!told(9_000, &other, "refused") && told(9_001, &one, "no route") && !told(9_002, &one, "no route"));
        assert!(silence.was_told() && !Silence::default().was_told());
    }
}
