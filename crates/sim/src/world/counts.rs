//! What happened in a run, counted.

use std::fmt;

/// How often something was timed whose length is bounded, and the longest of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timed {
    pub count: u64,
    pub longest_us: u64,
}

impl Timed {
    pub fn note(&mut self, length_us: u64) {
        self.add(Timed { count: 1, longest_us: length_us });
    }

    fn add(&mut self, other: Timed) {
        self.count += other.count;
        self.longest_us = self.longest_us.max(other.longest_us);
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
        self.operations += other.operations;
        self.answered += other.answered;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.latency_us_max = self.latency_us_max.max(other.latency_us_max);
        self.crashes += other.crashes;
        self.restarts += other.restarts;
        self.stalls += other.stalls;
        self.gateway_stalls += other.gateway_stalls;
        self.coordinator_stalls += other.coordinator_stalls;
        self.core_stalls += other.core_stalls;
        self.breaks += other.breaks;
        self.slowdowns += other.slowdowns;
        self.cuts += other.cuts;
        self.coordinator_cuts += other.coordinator_cuts;
        self.rotten_bits += other.rotten_bits;
        self.misreads += other.misreads;
        self.losses += other.losses;
        self.partings += other.partings;
        self.takeovers += other.takeovers;
        self.handovers += other.handovers;
        self.coordinator_crashes += other.coordinator_crashes;
        self.store_absences += other.store_absences;
        self.reigns += other.reigns;
        self.saves_refused += other.saves_refused;
        self.store_slow_us += other.store_slow_us;
        self.resignations += other.resignations;
        self.changes_over += other.changes_over;
        self.tenures_handed_over += other.tenures_handed_over;
        self.tenures_united += other.tenures_united;
        self.tenures_taken_over += other.tenures_taken_over;
        self.victim_changes += other.victim_changes;
        self.joins += other.joins;
        self.drains += other.drains;
        self.removals += other.removals;
        self.flips += other.flips;
        self.flips_noticed += other.flips_noticed;
        self.steps.iter_mut().zip(other.steps).for_each(|(own, other)| *own += other);
        self.parts_forwarded += other.parts_forwarded;
        self.parts_returned += other.parts_returned;
        self.flushes_due += other.flushes_due;
        self.outages.add(other.outages);
        self.hand_overs_timed.add(other.hand_overs_timed);
        self.requests_timed.add(other.requests_timed);
        self.prompt.add(other.prompt);
        self.degraded_reads += other.degraded_reads;
        self.near_reads += other.near_reads;
        self.appends_put += other.appends_put;
        self.rooms_left += other.rooms_left;
        self.places_told += other.places_told;
        self.copies_made += other.copies_made;
        self.memories_opened += other.memories_opened;
        self.frees += other.frees;
        self.seals += other.seals;
        self.folds += other.folds;
        self.installs += other.installs;
        self.rebuilds += other.rebuilds;
        self.rebuild_failures += other.rebuild_failures;
        self.corruptions_found += other.corruptions_found;
        self.corruptions_repaired += other.corruptions_repaired;
        self.stripes_audited += other.stripes_audited;
        self.acknowledgements_audited += other.acknowledgements_audited;
    }
}
