//! What may be wrong with a node.

use serde::{Deserialize, Serialize};

use crate::cycle::Cycle;
use crate::limits::{BANDWIDTH_MAX, DELAY_US_MAX, DURATION_US_MAX, SHARE_PPM_MAX};

/// One thing that is wrong, for a while or until it is cleared. A node has at most one fault of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// Microseconds until it ends by itself; none: it does not.
    pub for_us: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    Slow(Slow),
    Stall(Stall),
    Drop(Loss),
    Corrupt(Corrupt),
}

/// What a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Read,
    Write,
    /// Greetings, fences, scans, pings.
    Other,
}

/// Replies leave late. All that is said adds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slow {
    /// Of every reply.
    pub delay_us: u64,
    /// Each delay differs from what it would be by up to this share of a million, either way.
    pub jitter_ppm: u32,
    pub tail: Option<Tail>,
    pub ramp: Option<Ramp>,
    /// Slow in its bad phases only.
    pub square: Option<Cycle>,
    /// Requests of this class only.
    pub only: Option<Class>,
    /// Requests or replies of more bytes than this only.
    pub above_bytes: u64,
    /// Requests and replies pass one after the other through a link of so many bytes a second; 0: there is none.
    pub bandwidth: u64,
}

/// Some replies leave much later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    pub share_ppm: u32,
    pub extra_us: u64,
}

/// A delay that grows, or shrinks, evenly and then stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    pub from_us: u64,
    pub to_us: u64,
    pub over_us: u64,
}

/// Requests are taken, and nothing is answered until it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stall {
    /// Stopped in its bad phases only.
    pub cycle: Option<Cycle>,
}

/// Replies never leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    pub share_ppm: u32,
    /// The connection breaks instead, as one does that lost a segment for good.
    pub reset: bool,
}

/// A bit of what a read returns is wrong. Other replies are spared: the node protocol leaves them to the transport's
/// own checksums, while what is read carries checksums from end to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corrupt {
    pub share_ppm: u32,
}

/// Why a fault makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FaultError {
    #[error("{what} is {value}, which is not within {min} to {max}")]
    OutOfRange { what: &'static str, value: u64, min: u64, max: u64 },
    #[error("it slows nothing: say by how much")]
    Nothing,
}

impl Fault {
    /// # Errors
    /// Names the number that is beyond its limits.
    pub fn check(&self) -> Result<(), FaultError> {
        if let Some(for_us) = self.for_us {
            within("the duration in microseconds", for_us, 1, DURATION_US_MAX)?;
        }
        match &self.kind {
            FaultKind::Slow(slow) => slow.check(),
            FaultKind::Stall(stall) => stall.cycle.as_ref().map_or(Ok(()), check_cycle),
            FaultKind::Drop(loss) => check_share(loss.share_ppm),
            FaultKind::Corrupt(corrupt) => check_share(corrupt.share_ppm),
        }
    }

    /// The same for each of `count` parts of a node that work side by side.
    #[must_use]
    pub fn for_each_of(mut self, count: u64) -> Self {
        if let FaultKind::Slow(slow) = &mut self.kind
            && slow.bandwidth > 0
        {
            slow.bandwidth = (slow.bandwidth / count.max(1)).max(1);
        }
        self
    }
}

impl Ramp {
    /// The delay `since_us` after the start.
    pub fn at(&self, since_us: u64) -> u64 {
        let part = u128::from(self.from_us.abs_diff(self.to_us)) * u128::from(since_us.min(self.over_us));
        let part = u64::try_from(part / u128::from(self.over_us.max(1))).expect("no more than the difference");
        if self.to_us >= self.from_us { self.from_us + part } else { self.from_us - part }
    }
}

impl Slow {
    fn check(&self) -> Result<(), FaultError> {
        let ramp = self.ramp.unwrap_or(Ramp { from_us: 0, to_us: 0, over_us: 1 });
        let tail = self.tail.unwrap_or(Tail { share_ppm: 1, extra_us: 0 });
        for delay_us in [self.delay_us, ramp.from_us, ramp.to_us, tail.extra_us] {
            within("a delay in microseconds", delay_us, 0, DELAY_US_MAX)?;
        }
        within("a ramp's length in microseconds", ramp.over_us, 1, DURATION_US_MAX)?;
        within("the jitter in millionths", u64::from(self.jitter_ppm), 0, u64::from(SHARE_PPM_MAX))?;
        check_share(tail.share_ppm)?;
        self.square.as_ref().map_or(Ok(()), check_cycle)?;
        within("the bandwidth in bytes a second", self.bandwidth, 0, BANDWIDTH_MAX)?;
        let delays = self.delay_us + ramp.from_us + ramp.to_us + tail.extra_us;
        if delays + self.bandwidth == 0 { Err(FaultError::Nothing) } else { Ok(()) }
    }
}

fn check_cycle(cycle: &Cycle) -> Result<(), FaultError> {
    within("a phase in microseconds", cycle.bad_us, 1, DURATION_US_MAX)?;
    within("a phase in microseconds", cycle.good_us, 1, DURATION_US_MAX)
}

fn check_share(share_ppm: u32) -> Result<(), FaultError> {
    within("the share in millionths", u64::from(share_ppm), 1, u64::from(SHARE_PPM_MAX))
}

fn within(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), FaultError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(FaultError::OutOfRange { what, value, min, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(slow: Slow) -> Result<(), FaultError> {
        Fault { kind: FaultKind::Slow(slow), for_us: None }.check()
    }

    #[test]
    fn the_limits_themselves_are_taken() {
        assert_eq!(slow(Slow { delay_us: DELAY_US_MAX, jitter_ppm: SHARE_PPM_MAX, ..Slow::default() }), Ok(()));
        assert_eq!(slow(Slow { bandwidth: BANDWIDTH_MAX, ..Slow::default() }), Ok(()));
        let all = FaultKind::Drop(Loss { share_ppm: SHARE_PPM_MAX, reset: false });
        assert_eq!(Fault { kind: all, for_us: Some(DURATION_US_MAX) }.check(), Ok(()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(slow(Slow::default()), Err(FaultError::Nothing));
        let ramp = Ramp { from_us: 0, to_us: 1, over_us: 0 };
        let cycle = Cycle { bad_us: 1, good_us: 0 };
        for (case, fault) in [
            ("delay", FaultKind::Slow(Slow { delay_us: DELAY_US_MAX + 1, ..Slow::default() })),
            ("jitter", FaultKind::Slow(Slow { delay_us: 1, jitter_ppm: SHARE_PPM_MAX + 1, ..Slow::default() })),
            ("ramp", FaultKind::Slow(Slow { ramp: Some(ramp), ..Slow::default() })),
            ("square", FaultKind::Slow(Slow { delay_us: 1, square: Some(cycle), ..Slow::default() })),
            ("cycle", FaultKind::Stall(Stall { cycle: Some(cycle) })),
            ("no share", FaultKind::Drop(Loss { share_ppm: 0, reset: true })),
            ("more than all", FaultKind::Corrupt(Corrupt { share_ppm: SHARE_PPM_MAX + 1 })),
        ] {
            assert!(Fault { kind: fault, for_us: None }.check().is_err(), "{case}");
        }
        assert!(Fault { kind: FaultKind::Stall(Stall::default()), for_us: Some(0) }.check().is_err());
    }
}
