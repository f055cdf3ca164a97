//! What becomes of each reply of a node, or of one core of it.
//!
//! Replies are judged one by one and may overtake each other: delaying one delays no other, but for the bandwidth of a
//! link, which they share, and a stall, which holds all.

use crate::fault::{Class, Fault, FaultKind, Slow};
use crate::rng::Rng;

/// A reply and the request it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    pub class: Class,
    pub request_bytes: u64,
    pub reply_bytes: u64,
}

/// What becomes of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It leaves at this time, [`FaultModel::NEVER`] if nothing but clearing the faults releases it; with one bit
    /// flipped if `flip` names one, counted around the bytes that may be hurt.
    Leave { at_us: u64, flip: Option<u64> },
    /// It never leaves.
    Vanish,
    /// The connection breaks.
    Reset,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    fault: Fault,
    since_us: u64,
}

/// The faults of a node and their state.
#[derive(Clone, Debug)]
pub struct FaultModel {
    rng: Rng,
    /// At most one of each kind.
    running: Vec<Running>,
    /// When the link of a bandwidth fault has passed on all that it took.
    link_free_us: u64,
}

impl FaultModel {
    /// A time that does not come.
    pub const NEVER: u64 = u64::MAX;

    pub fn new(seed: u64) -> Self {
        FaultModel { rng: Rng::new(seed), running: Vec::new(), link_free_us: 0 }
    }

    /// Has this fault from now on, in place of another of its kind.
    pub fn apply(&mut self, now_us: u64, fault: Fault) {
        let kind = std::mem::discriminant(&fault.kind);
        self.running.retain(|running| std::mem::discriminant(&running.fault.kind) != kind);
        if matches!(fault.kind, FaultKind::Slow(_)) {
            self.link_free_us = now_us;
        }
        self.running.push(Running { fault, since_us: now_us });
    }

    pub fn clear(&mut self) {
        self.running.clear();
    }

    /// Has it any fault now?
    pub fn is_active(&mut self, now_us: u64) -> bool {
        self.running.retain(|running| running.end_us() > now_us);
        !self.running.is_empty()
    }

    /// The faults that it has now.
    pub fn faults(&mut self, now_us: u64) -> Vec<Fault> {
        self.is_active(now_us);
        self.running.iter().map(|running| running.fault).collect()
    }

    /// Decides about a reply that would leave now.
    pub fn judge(&mut self, now_us: u64, traffic: Traffic) -> Fate {
        let (mut delay_us, mut flip, mut stall) = (0, None, None);
        for place in 0..self.running.len() {
            let running = self.running[place];
            if running.end_us() <= now_us {
                continue;
            }
            match running.fault.kind {
                FaultKind::Drop(loss) if self.rng.chance_ppm(loss.share_ppm) => {
                    return if loss.reset { Fate::Reset } else { Fate::Vanish };
                }
                FaultKind::Slow(slow) => delay_us = self.delay_us(now_us, running.since_us, &slow, traffic),
                FaultKind::Corrupt(corrupt)
                    if traffic.class == Class::Read && self.rng.chance_ppm(corrupt.share_ppm) =>
                {
                    flip = Some(self.rng.draw());
                }
                FaultKind::Stall(_) => stall = Some(running),
                FaultKind::Drop(_) | FaultKind::Corrupt(_) => {}
            }
        }
        let at_us = now_us.saturating_add(delay_us);
        Fate::Leave { at_us: stall.map_or(at_us, |stall| stall.released_us(at_us)), flip }
    }

    fn delay_us(&mut self, now_us: u64, started_us: u64, slow: &Slow, traffic: Traffic) -> u64 {
        let since_us = now_us.saturating_sub(started_us);
        let is_meant = slow.only.is_none_or(|only| only == traffic.class)
            && (slow.above_bytes == 0 || traffic.request_bytes.max(traffic.reply_bytes) > slow.above_bytes)
            && slow.square.is_none_or(|square| square.is_bad(since_us));
        if !is_meant {
            return 0;
        }
        let mut delay_us = slow.delay_us;
        if let Some(ramp) = slow.ramp {
            delay_us += ramp.at(since_us);
        }
        if let Some(tail) = slow.tail
            && self.rng.chance_ppm(tail.share_ppm)
        {
            delay_us += tail.extra_us;
        }
        let jitter_us = delay_us * u64::from(slow.jitter_ppm) / 1_000_000;
        if jitter_us > 0 {
            delay_us = delay_us - jitter_us + self.rng.below(2 * jitter_us + 1);
        }
        delay_us + self.link_us(now_us, slow.bandwidth, traffic)
    }

    /// How long request and reply wait for the link and are on it.
    fn link_us(&mut self, now_us: u64, bandwidth: u64, traffic: Traffic) -> u64 {
        if bandwidth == 0 {
            return 0;
        }
        let bytes = u128::from(traffic.request_bytes) + u128::from(traffic.reply_bytes);
        let transfer_us = u64::try_from(bytes * 1_000_000 / u128::from(bandwidth)).unwrap_or(u64::MAX);
        self.link_free_us = self.link_free_us.max(now_us).saturating_add(transfer_us);
        self.link_free_us - now_us
    }
}

impl Running {
    fn end_us(&self) -> u64 {
        self.fault.for_us.map_or(FaultModel::NEVER, |for_us| self.since_us.saturating_add(for_us))
    }

    /// When a stall lets a reply go that is due at `due_us`.
    fn released_us(&self, due_us: u64) -> u64 {
        let FaultKind::Stall(stall) = self.fault.kind else { return due_us };
        let good_from_us = match stall.cycle {
            Some(cycle) => self.since_us.saturating_add(cycle.good_from(due_us.saturating_sub(self.since_us))),
            None => FaultModel::NEVER,
        };
        good_from_us.min(self.end_us()).max(due_us)
    }
}

#[cfg(test)]
mod tests;
