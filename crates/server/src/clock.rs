//! The clocks that the role machines are told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use shorttail_units::{Now, UnixMs};

/// Microseconds count from when the clock was made, and go on while the machine sleeps: what nodes promised an owner
/// runs out meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Duration,
}

/// What a clock of the system says.
pub fn read(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

impl Clock {
    pub fn start() -> Self {
        Clock { origin: read(ClockId::Boottime) }
    }

    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            mono_us: u64::try_from(read(ClockId::Boottime).saturating_sub(self.origin).as_micros()).unwrap_or(u64::MAX),
            unix_ms: UnixMs(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// CPU time of this thread so far, in microseconds.
pub fn thread_time_us() -> u64 {
    u64::try_from(read(ClockId::ThreadCPUTime).as_micros()).unwrap_or(u64::MAX)
}

/// CPU time of this process so far, user and system, in microseconds.
pub fn cpu_times_us() -> Option<(u64, u64)> {
    /// Clock ticks per second of `/proc`: fixed at 100 by the kernel's user interface.
    const TICK_US: u64 = 10_000;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the program's name, may contain blanks; fields are counted from behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user * TICK_US, system * TICK_US))
}
