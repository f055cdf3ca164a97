//! The clocks of processes. Each begins anywhere and runs a little too fast or too slowly, so what a machine is told
//! has nothing to do with the world's time nor with what others are told; its deadlines come back through its own
//! clock.
//!
//! ```text
//! world's time --now_us--> what the process sees --machine--> its deadline --world_us--> world's time
//! ```
//! How far two clocks run apart is the lease's concern (rule R2). Wall clocks agree: lifetimes are judged to the
//! millisecond.
//!
//! Must not know: whose a clock is.

use shorttail_units::{Now, UnixMs};

use super::World;
use crate::command_of_model::UNIX_MS;
use crate::rng::{PPM, Rng};

/// Where clocks begin that do not begin with their process: as those of machines that have run for up to a year.
const SHOWN_US_MAX: u64 = 1 << 45;
/// How many begin with their process, as the server's do, and how many run as wrongly as any may.
const FROM_ZERO_PPM: u32 = 500_000;
const WORST_PPM: u32 = 500_000;

/// One process's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// It showed `shown_us` at the world's time `since_us`.
    since_us: u64,
    shown_us: u64,
    /// Microseconds that it gains in a second; loses, if negative.
    gain_ppm: i32,
}

impl Clock {
    /// The clock of a process that begins now, and gains or loses no more than this.
    fn draw(rng: &mut Rng, now_us: u64, gain_ppm_max: u32) -> Self {
        let shown_us = if rng.chance_ppm(FROM_ZERO_PPM) { 0 } else { rng.below(SHOWN_US_MAX) };
        let worst = i64::from(gain_ppm_max);
        let any = rng.below(2 * u64::from(gain_ppm_max) + 1) as i64 - worst;
        let gain = if rng.chance_ppm(WORST_PPM) { worst * if any < 0 { -1 } else { 1 } } else { any };
        Clock { since_us: now_us, shown_us, gain_ppm: gain as i32 }
    }

    /// What it counts while a million microseconds of the world pass.
    fn rate(self) -> u128 {
        u128::from(PPM.saturating_add_signed(self.gain_ppm))
    }

    /// What it shows at a time of the world that is not before it began.
    pub fn now_us(self, world_us: u64) -> u64 {
        let passed_us = u128::from(world_us - self.since_us) * self.rate() / u128::from(PPM);
        self.shown_us + passed_us as u64
    }

    /// The world's time from which on it shows this or more.
    pub fn world_us(self, shown_us: u64) -> u64 {
        let to_pass_us = u128::from(shown_us.saturating_sub(self.shown_us));
        let passed_us = (to_pass_us * u128::from(PPM)).div_ceil(self.rate());
        self.since_us.saturating_add(u64::try_from(passed_us).unwrap_or(u64::MAX))
    }

    /// The same clock, which gains this much from now on.
    fn with_gain(self, world_us: u64, gain_ppm: i32) -> Self {
        Clock { since_us: world_us, shown_us: self.now_us(world_us), gain_ppm }
    }
}

impl World {
    /// Of a process that begins.
    pub(super) fn new_clock(&mut self) -> Clock {
        Clock::draw(&mut self.clock_rng, self.schedule.now_us(), self.config.clock_gain_ppm_max)
    }

    /// What a process is told.
    pub(super) fn now_by(&self, clock: Clock) -> Now {
        let us = self.schedule.now_us();
        Now { mono_us: clock.now_us(us), unix_ms: UnixMs(UNIX_MS + us / 1_000) }
    }

    pub(super) fn now_of_gateway(&self, gateway: usize) -> Now {
        self.now_by(self.gateways[gateway].clock)
    }

    /// The clock of a gateway's process gains so many microseconds a second from now on; loses, if negative.
    pub fn gain_of_gateway(&mut self, gateway: usize, gain_ppm: i32) {
        let (now_us, clock) = (self.schedule.now_us(), &mut self.gateways[gateway].clock);
        *clock = clock.with_gain(now_us, gain_ppm);
    }

    /// The same of a node's process.
    pub fn gain_of_node(&mut self, node: usize, gain_ppm: i32) {
        let (now_us, clock) = (self.schedule.now_us(), &mut self.nodes[node].clock);
        *clock = clock.with_gain(now_us, gain_ppm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_comes_back_at_the_first_moment_at_which_it_is_due() {
        let rng = &mut Rng::new(1);
        for gain_ppm_max in [0, 5_000, 50_000, 300_000] {
            for _ in 0..1_000 {
                let began_us = rng.below(1 << 40);
                let clock = Clock::draw(rng, began_us, gain_ppm_max);
                let world_us = began_us + rng.below(1 << 40);
                let due_us = clock.now_us(world_us) + rng.below(1 << 30);
                let at_us = clock.world_us(due_us);
                assert!(at_us >= world_us && clock.now_us(at_us) >= due_us, "{clock:?}");
                assert!(at_us == world_us || clock.now_us(at_us - 1) < due_us, "{clock:?}");
            }
        }
    }

    #[test]
    fn what_passed_stays_and_what_comes_is_gained() {
        let clock = Clock { since_us: 1_000_000, shown_us: 70, gain_ppm: 0 };
        assert_eq!(clock.now_us(3_000_000), 2_000_070);
        let slower = clock.with_gain(3_000_000, -100_000);
        assert_eq!((slower.now_us(3_000_000), slower.now_us(4_000_000)), (2_000_070, 2_900_070));
        assert_eq!((slower.world_us(2_900_070), slower.world_us(u64::MAX)), (4_000_000, u64::MAX));
    }
}
