//! What happened in a run, counted.

use std::fmt;
use std::ops::Add;

use shorttail_units::sum_of;

/// How often something was timed whose length is bounded, and the longest of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timed {
    pub count: u64,
    pub longest_us: u64,
}

impl Timed {
    pub fn note(&mut self, length_us: u64) {
        *self = *self + Timed { count: 1, longest_us: length_us };
    }
}

impl Add for Timed {
    type Output = Timed;

    fn add(self, other: Timed) -> Timed {
        Timed { count: self.count + other.count, longest_us: self.longest_us.max(other.longest_us) }
    }
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, the longest {:.1} ms", self.count, self.longest_us as f64 / 1e3)
    }
}

/// What happened in a run, as counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub operations: u64,
    pub answered: u64,
    pub refused: u64,
    pub unknown: u64,
    /// The longest that a client waited for an answer or a refusal, in microseconds.
    pub latency_us_max: u64,
    pub crashes: u64,
    /// Processes of nodes that ended while their memory stayed.
    pub restarts: u64,
    pub stalls: u64,
    /// Those of them that were of gateways, of the real coordinator, and of single cores of nodes.
    pub gateway_stalls: u64,
    pub coordinator_stalls: u64,
    pub core_stalls: u64,
    pub breaks: u64,
    pub slowdowns: u64,
    pub cuts: u64,
    /// Times that the coordinator and a gateway lost sight of each other.
    pub coordinator_cuts: u64,
    /// Bits of nodes' memory that turned over.
    pub rotten_bits: u64,
    /// Times that a node began to read its memory wrong.
    pub misreads: u64,
    /// Times that a node began to lose answers.
    pub losses: u64,
    /// Times that a node and another one lost sight of each other.
    pub partings: u64,
    pub takeovers: u64,
    /// Tenures that an owner was asked to let go of.
    pub handovers: u64,
    /// Of real coordinators: lives that ended early, times that their store was away.
    pub coordinator_crashes: u64,
    pub store_absences: u64,
    /// Times that one began to lead, saves of others that the store refused, members that found another coordinator
    /// beside one that was silent.
    pub reigns: u64,
    pub saves_refused: u64,
    /// What coordinators' questions to the store, and its answers, took that took much longer than usual, together.
    pub store_slow_us: u64,
    /// Coordinators that led and could save nothing.
    pub resignations: u64,
    pub changes_over: u64,
    /// Tenures that it dealt again, after their owners let go and without that.
    pub tenures_handed_over: u64,
    /// How often several became one.
    pub tenures_united: u64,
    pub tenures_taken_over: u64,
    /// Times that everything was whole and other nodes became those that may lose their memory.
    pub victim_changes: u64,
    /// Nodes that joined, were to be emptied, were taken out.
    pub joins: u64,
    pub drains: u64,
    pub removals: u64,
    /// Messages of which a bit turned over on the way, and sessions that an end closed as what came was no message.
    pub flips: u64,
    pub flips_noticed: u64,
    /// Steps of absences, as owners told: away, gone round, in use again, nothing missing.
    pub steps: [u64; 4],
    /// Parts of flushes that gateways asked each other, parts that came back as nobody did them, flushes for later that
    /// were sure to happen when they were due.
    pub parts_forwarded: u64,
    pub parts_returned: u64,
    pub flushes_due: u64,
    /// How long partitions were not served when their gateway failed; for how long nobody answered at planned
    /// hand-overs, and requests beside these took; operations where every one is bounded.
    pub outages: Timed,
    pub hand_overs_timed: Timed,
    pub requests_timed: Timed,
    pub prompt: Timed,
    pub degraded_reads: u64,
    /// Reads past nodes, in their memory, and appends that were put into their rings.
    pub near_reads: u64,
    pub appends_put: u64,
    /// Beside cores: orders that room was left for, chunks that cores were asked for (where they lie, copies), nodes
    /// whose memory others opened.
    pub rooms_left: u64,
    pub places_told: u64,
    pub copies_made: u64,
    pub memories_opened: u64,
    pub frees: u64,
    pub seals: u64,
    pub folds: u64,
    pub installs: u64,
    pub rebuilds: u64,
    pub rebuild_failures: u64,
    pub corruptions_found: u64,
    pub corruptions_repaired: u64,
    pub stripes_audited: u64,
    pub acknowledgements_audited: u64,
}

impl Counts {
    pub fn faults(&self) -> u64 {
        self.crashes + self.restarts + self.stalls + self.breaks + self.slowdowns + self.cuts + self.takeovers
    }

    pub fn add(&mut self, other: &Counts) {
        *self = sum_of!(self, other: Counts {
            Add::add: [
                operations, answered, refused, unknown, crashes, restarts, stalls, gateway_stalls,
                coordinator_stalls, core_stalls, breaks, slowdowns, cuts, coordinator_cuts, rotten_bits,
                misreads, losses, partings, takeovers, handovers, coordinator_crashes, store_absences, reigns,
                saves_refused, store_slow_us, resignations, changes_over, tenures_handed_over, tenures_united,
                tenures_taken_over, victim_changes, joins, drains, removals, flips, flips_noticed,
                parts_forwarded, parts_returned, flushes_due, outages, hand_overs_timed, requests_timed, prompt,
                degraded_reads, near_reads, appends_put, rooms_left, places_told, copies_made, memories_opened,
                frees, seals, folds, installs, rebuilds, rebuild_failures, corruptions_found,
                corruptions_repaired, stripes_audited, acknowledgements_audited,
            ],
            latency_us_max: self.latency_us_max.max(other.latency_us_max),
            steps: std::array::from_fn(|step| self.steps[step] + other.steps[step]),
        });
    }
}
