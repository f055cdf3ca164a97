//! Faults in words.

use std::fmt;

use crate::cycle::Cycle;
use crate::fault::{Class, Fault, FaultKind, Slow};

/// Microseconds in the largest unit that leaves no fraction.
struct ShownUs(u64);

/// Bytes in the largest unit that leaves no fraction.
struct ShownBytes(u64);

/// A share of a million in per cent.
struct ShownPpm(u32);

impl fmt::Display for ShownUs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us % 1_000_000 == 0 => write!(f, "{}s", us / 1_000_000),
            us if us % 1_000 == 0 => write!(f, "{}ms", us / 1_000),
            us => write!(f, "{us}us"),
        }
    }
}

impl fmt::Display for ShownBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes % (1 << 30) == 0 => write!(f, "{}GiB", bytes >> 30),
            bytes if bytes % (1 << 20) == 0 => write!(f, "{}MiB", bytes >> 20),
            bytes if bytes % (1 << 10) == 0 => write!(f, "{}KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

impl fmt::Display for ShownPpm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 1e4)
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", ShownUs(self.bad_us), ShownUs(self.good_us))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FaultKind::Slow(slow) => slow.fmt(f)?,
            FaultKind::Stall(stall) => match stall.cycle {
                None => write!(f, "stall")?,
                Some(cycle) => write!(f, "stall {cycle}")?,
            },
            FaultKind::Drop(loss) => {
                write!(f, "drop {}{}", ShownPpm(loss.share_ppm), if loss.reset { " with the connection" } else { "" })?;
            }
            FaultKind::Corrupt(corrupt) => write!(f, "corrupt {} of what is read", ShownPpm(corrupt.share_ppm))?,
        }
        self.for_us.map_or(Ok(()), |for_us| write!(f, ", for {}", ShownUs(for_us)))
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slow")?;
        if self.delay_us > 0 {
            write!(f, " {}", ShownUs(self.delay_us))?;
        }
        if let Some(ramp) = self.ramp {
            write!(f, " {}..{} in {}", ShownUs(ramp.from_us), ShownUs(ramp.to_us), ShownUs(ramp.over_us))?;
        }
        if let Some(tail) = self.tail {
            write!(f, " {} +{}", ShownPpm(tail.share_ppm), ShownUs(tail.extra_us))?;
        }
        if self.bandwidth > 0 {
            write!(f, " {}/s", ShownBytes(self.bandwidth))?;
        }
        if self.jitter_ppm > 0 {
            write!(f, " +-{}", ShownPpm(self.jitter_ppm))?;
        }
        if let Some(square) = self.square {
            write!(f, ", {square} slow/quick")?;
        }
        match self.only {
            Some(Class::Read) => write!(f, ", reads only")?,
            Some(Class::Write) => write!(f, ", writes only")?,
            Some(Class::Other) => write!(f, ", neither reads nor writes")?,
            None => {}
        }
        if self.above_bytes > 0 {
            write!(f, ", above {}", ShownBytes(self.above_bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Corrupt, Loss, Ramp, Stall, Tail};

    #[test]
    fn faults_read_well() {
        let slow = Slow {
            delay_us: 50_000,
            jitter_ppm: 500_000,
            tail: Some(Tail { share_ppm: 10_000, extra_us: 200_000 }),
            ramp: Some(Ramp { from_us: 0, to_us: 50_000, over_us: 10_000_000 }),
            square: Some(Cycle { bad_us: 10_000_000, good_us: 1_500 }),
            only: Some(Class::Read),
            above_bytes: 16_384,
            bandwidth: 1 << 20,
        };
        for (kind, for_us, text) in [
            (
                FaultKind::Slow(slow),
                None,
                "slow 50ms 0s..50ms in 10s 1% +200ms 1MiB/s +-50%, 10s/1500us slow/quick, reads only, above 16KiB",
            ),
            (FaultKind::Slow(Slow { bandwidth: 1500, ..Slow::default() }), None, "slow 1500 bytes/s"),
            (FaultKind::Slow(Slow { delay_us: 1, ..Slow::default() }), Some(2_000_000), "slow 1us, for 2s"),
            (FaultKind::Stall(Stall { cycle: None }), Some(1_000_000), "stall, for 1s"),
            (FaultKind::Stall(Stall { cycle: Some(Cycle { bad_us: 50_000, good_us: 2_000 }) }), None, "stall 50ms/2ms"),
            (FaultKind::Drop(Loss { share_ppm: 1_000, reset: true }), None, "drop 0.1% with the connection"),
            (FaultKind::Corrupt(Corrupt { share_ppm: 1_000_000 }), None, "corrupt 100% of what is read"),
        ] {
            assert_eq!(Fault { kind, for_us }.to_string(), text);
        }
    }
}
