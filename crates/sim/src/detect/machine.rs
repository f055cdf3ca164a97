//! A node as far as its latency goes: a queue served one after the other by a process that is stopped now and then,
//! behind a link.
//!
//! ```text
//!   sent --network--> [queue] --service--> --delay--> [link] --network, jitter--> answered
//!                        ^ hiccups, stops
//! ```
//!
//! Must not know: who asks, what comes of it.

use shorttail_monitor::Class;

use super::fault::{Fault, Pauses, Span};
use crate::rng::Rng;

/// One way through the network, and what varies of it.
const NETWORK_US: u64 = 40;
const JITTER_US: u64 = 60;
const JITTER_US_MAX: u64 = 3_000;
/// A request costs this, and each KiB one more.
const SERVICE_US: u64 = 15;
/// Hiccups of a healthy machine: a process waits for a processor.
const HICCUP_US: std::ops::Range<u64> = 5_000..30_000;

pub struct Machine {
    fault: Fault,
    span: Span,
    hiccups: Option<Pauses>,
    pauses: Option<Pauses>,
    free_us: u64,
    link_free_us: u64,
    rng: Rng,
}

impl Machine {
    /// Hiccups come `hiccup_every_us` apart on average; 0: never.
    pub fn new(fault: Fault, span: Span, hiccup_every_us: u64, mut rng: Rng) -> Self {
        let hiccups = (hiccup_every_us > 0).then(|| Pauses::new(0, hiccup_every_us, HICCUP_US, rng.fork()));
        let pauses = match fault {
            Fault::Pauses { every_us, us } => Some(Pauses::new(span.from_us, every_us, us / 2..us * 3 / 2, rng.fork())),
            _ => None,
        };
        Machine { fault, span, hiccups, pauses, free_us: 0, link_free_us: 0, rng }
    }

    /// When the answer to a request arrives. Requests come in the order of `sent_us`.
    pub fn answer_us(&mut self, sent_us: u64, class: Class, bytes: u32) -> u64 {
        let begin_us = self.free_us.max(sent_us + NETWORK_US);
        self.free_us = self.run(begin_us, SERVICE_US + u64::from(bytes) / 1024);
        let delay_us = self.fault.delay_us(self.span, self.free_us, class, &mut self.rng);
        let sent_back_us = self.link(self.free_us + delay_us, bytes);
        sent_back_us + NETWORK_US + self.rng.exponential_us(JITTER_US, JITTER_US_MAX)
    }

    /// When `work_us` of processor time are done.
    fn run(&mut self, from_us: u64, work_us: u64) -> u64 {
        let (mut now_us, mut left_us) = (from_us, work_us);
        loop {
            let planned = self.fault.stop_after(self.span, now_us);
            let hiccup = self.hiccups.as_mut().map(|pauses| pauses.after(now_us));
            let span = self.span;
            let pause = self.pauses.as_mut().map(|pauses| pauses.after(now_us)).filter(|stop| stop.0 < span.to_us);
            let Some((start_us, end_us)) = [planned, hiccup, pause].into_iter().flatten().min() else {
                return now_us + left_us;
            };
            if now_us + left_us <= start_us {
                return now_us + left_us;
            }
            left_us -= start_us.saturating_sub(now_us);
            now_us = end_us;
        }
    }

    fn link(&mut self, at_us: u64, bytes: u32) -> u64 {
        let Fault::Bandwidth { bytes_per_s } = self.fault else { return at_us };
        if at_us < self.span.from_us || at_us >= self.span.to_us {
            self.link_free_us = at_us;
            return at_us;
        }
        self.link_free_us = self.link_free_us.max(at_us) + u64::from(bytes) * 1_000_000 / bytes_per_s;
        self.link_free_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { from_us: 1_000_000, to_us: 2_000_000 };

    fn latency_us(machine: &mut Machine, sent_us: u64, bytes: u32) -> u64 {
        machine.answer_us(sent_us, Class::Read, bytes) - sent_us
    }

    #[test]
    fn a_healthy_node_answers_soon_and_a_stopped_one_when_it_runs_again() {
        let mut machine = Machine::new(Fault::Stop { us: 300_000 }, SPAN, 0, Rng::new(1));
        assert!(latency_us(&mut machine, 500_000, 100) < 4_000);
        assert!((300_000..304_000).contains(&latency_us(&mut machine, 1_000_000, 100)));
        assert!((200_000..204_000).contains(&latency_us(&mut machine, 1_100_000, 100)));
        assert!(latency_us(&mut machine, 1_400_000, 100) < 4_000);
    }

    #[test]
    fn requests_queue_and_a_thin_link_holds_them_up() {
        let mut machine = Machine::new(Fault::Bandwidth { bytes_per_s: 100_000 }, SPAN, 0, Rng::new(1));
        let taken: Vec<_> = (0..3).map(|_| latency_us(&mut machine, 1_500_000, 1000) / 10_000).collect();
        assert_eq!(taken, [1, 2, 3]);
        assert!(latency_us(&mut machine, 2_500_000, 1000) < 4_000);
        let mut busy = Machine::new(Fault::Nothing, SPAN, 0, Rng::new(1));
        let last = (0..1000).map(|_| latency_us(&mut busy, 0, 100)).max();
        assert!(last.is_some_and(|us| us >= 1000 * SERVICE_US), "{last:?}");
    }

    #[test]
    fn hiccups_come_now_and_then() {
        let mut machine = Machine::new(Fault::Nothing, SPAN, 1_000_000, Rng::new(7));
        let late = (0..100_000u64).filter(|step| latency_us(&mut machine, step * 1000, 100) > 4_000).count();
        // A hundred of them, seventeen milliseconds each, hold up a request in a millisecond.
        assert!((700..2700).contains(&late), "{late}");
    }
}
