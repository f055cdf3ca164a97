//! What can be wrong with a node, a gateway, or everyone.
//!
//! Must not know: nodes, monitors.

use shorttail_monitor::Class;

use crate::rng::{PPM, Rng};

/// How something is slow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    Nothing,
    /// Every reply is late, those of one class or of both.
    Delay {
        us: u64,
        class: Option<Class>,
    },
    /// A share of the replies is late.
    Tail {
        ppm: u32,
        us: u64,
    },
    /// The delay grows from nothing to this within ten seconds.
    Ramp {
        us: u64,
    },
    /// The delay comes and goes: half a period each.
    Square {
        us: u64,
        period_us: u64,
    },
    /// Stopped and running in turn, as by SIGSTOP and SIGCONT or by a CPU quota.
    Duty {
        stop_us: u64,
        run_us: u64,
    },
    /// Stopped now and then, at random: reclaiming memory.
    Pauses {
        every_us: u64,
        us: u64,
    },
    /// Stopped once.
    Stop {
        us: u64,
    },
    /// Its link carries no more.
    Bandwidth {
        bytes_per_s: u64,
    },
}

/// Whom it befalls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    OneNode,
    EveryNode,
    Gateway,
}

/// When it begins and ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub from_us: u64,
    pub to_us: u64,
}

const RAMP_US: u64 = 10_000_000;
/// A reply's heavy tail, or a delay, differs by a tenth.
const SPREAD: u64 = 10;

impl Fault {
    /// How much later a reply of this class leaves.
    pub fn delay_us(&self, span: Span, now_us: u64, class: Class, rng: &mut Rng) -> u64 {
        if now_us < span.from_us || now_us >= span.to_us {
            return 0;
        }
        let since_us = now_us - span.from_us;
        let us = match *self {
            Fault::Delay { us, class: only } if only.is_none_or(|only| only == class) => us,
            Fault::Tail { ppm, us } if rng.below(u64::from(PPM)) < u64::from(ppm) => us,
            Fault::Ramp { us } => us * since_us.min(RAMP_US) / RAMP_US,
            Fault::Square { us, period_us } if since_us % period_us < period_us / 2 => us,
            _ => 0,
        };
        us + rng.below(us / SPREAD + 1)
    }

    /// The stop, by plan, that lasts at `now_us` or comes next: its beginning and end.
    pub fn stop_after(&self, span: Span, now_us: u64) -> Option<(u64, u64)> {
        let (stop_us, period_us) = match *self {
            Fault::Duty { stop_us, run_us } => (stop_us, stop_us + run_us),
            Fault::Stop { us } => (us, u64::MAX / 4),
            _ => return None,
        };
        let turn = now_us.saturating_sub(span.from_us) / period_us;
        let starts = [turn, turn + 1].map(|turn| span.from_us.saturating_add(turn.saturating_mul(period_us)));
        let stops = starts.map(|start_us| (start_us, (start_us.saturating_add(stop_us)).min(span.to_us)));
        stops.into_iter().find(|&(start_us, end_us)| end_us > now_us && start_us < span.to_us)
    }
}

/// Random stops: the usual hiccups of a machine, or those of a fault.
#[derive(Clone, Debug)]
pub struct Pauses {
    every_us: u64,
    us: std::ops::Range<u64>,
    next: (u64, u64),
    rng: Rng,
}

impl Pauses {
    /// From `from_us` on, `every_us` apart on average.
    pub fn new(from_us: u64, every_us: u64, us: std::ops::Range<u64>, rng: Rng) -> Self {
        let mut pauses = Pauses { every_us, us, next: (0, from_us), rng };
        pauses.draw();
        pauses
    }

    fn draw(&mut self) {
        let start_us = self.next.1 + self.rng.exponential_us(self.every_us, 20 * self.every_us);
        self.next = (start_us, start_us + self.rng.range(self.us.clone()));
    }

    /// The pause that lasts at `now_us` or comes next. `now_us` never goes back.
    pub fn after(&mut self, now_us: u64) -> (u64, u64) {
        while self.next.1 <= now_us {
            self.draw();
        }
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { from_us: 1000, to_us: 2000 };

    #[test]
    fn stops_come_in_turn_within_their_span() {
        let duty = Fault::Duty { stop_us: 50, run_us: 10 };
        assert_eq!(duty.stop_after(SPAN, 0), Some((1000, 1050)));
        assert_eq!(duty.stop_after(SPAN, 1049), Some((1000, 1050)));
        assert_eq!(duty.stop_after(SPAN, 1050), Some((1060, 1110)));
        assert_eq!(duty.stop_after(SPAN, 1980), Some((1960, 2000)), "cut off at the end");
        assert_eq!(duty.stop_after(SPAN, 2000), None);
        assert_eq!(Fault::Stop { us: 5000 }.stop_after(SPAN, 1500), Some((1000, 2000)));
    }

    #[test]
    fn delays_are_those_of_their_class_and_time() {
        let mut rng = Rng::new(1);
        let reads = Fault::Delay { us: 100, class: Some(Class::Read) };
        assert!((100..=110).contains(&reads.delay_us(SPAN, 1500, Class::Read, &mut rng)));
        assert_eq!(reads.delay_us(SPAN, 1500, Class::Write, &mut rng), 0);
        assert_eq!(reads.delay_us(SPAN, 2000, Class::Read, &mut rng), 0);
        let square = Fault::Square { us: 100, period_us: 400 };
        let late = [1100, 1300, 1500].map(|now_us| square.delay_us(SPAN, now_us, Class::Read, &mut rng) > 0);
        assert_eq!(late, [true, false, true]);
    }
}
