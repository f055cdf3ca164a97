//! What members report, and the picture of the whole cluster made of it.
//!
//! [`ClusterStatus`] serialises to the JSON that `shorttail status --json` prints: its field names are a contract.

use serde::{Deserialize, Serialize};
use shorttail_chaos::Fault;
use shorttail_policy::Policy;
use shorttail_units::sum_of;

use super::{HEARTBEAT_MS, LatencyHistogram, NodeStage, NodeState, Standing, TenureState};

/// Milliseconds between two statuses while people look on until all is whole or served; at first, while somebody waits
/// for the next one.
const WATCHED_MS: u64 = 25;
pub const HURRIED_MS: u64 = 5;

/// A node's heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatus {
    pub memory_used_bytes: u64,
    /// What is left for chunks: not in pieces that none fits in.
    pub memory_room_bytes: u64,
    /// There are no pages for what it may have: the file system of its memory file is full, or the machine's memory.
    pub lacks_pages: bool,
    pub chunks_open: u64,
    pub chunks_sealed: u64,
    /// Sealed chunks that it knows to be damaged.
    pub chunks_damaged: u64,
    /// What its scrubber looked at.
    pub scrubbed_bytes_total: u64,
    /// Damaged chunks that it found, and that were rebuilt in place.
    pub corruptions_found_total: u64,
    pub corruptions_repaired_total: u64,
    /// Messages to it that were hurt on their way, and ended their session.
    pub messages_damaged_total: u64,
    pub chaos: ChaosStatus,
}

/// What is wrong with a node on purpose, and what that did so far, over its cores.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ChaosStatus {
    /// At most one of each kind.
    pub faults: Vec<Fault>,
    pub delayed_total: u64,
    pub dropped_total: u64,
    pub corrupted_total: u64,
    pub bits_flipped_total: u64,
}

/// A gateway's heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// Whether clients are served: what it owns it serves, and what others own it passes on.
    pub serving: bool,
    /// How far it is with its tenures.
    pub standings: Vec<Standing>,
    pub totals: StoreTotals,
    /// Its own view of the nodes.
    pub nodes: Vec<NodeSeen>,
    /// Its partitions' policies, in order.
    pub policies: Vec<PolicySpan>,
    /// Nodes that a coding set is to have (`k+m+l`), if it places chunks by coding sets.
    pub coding_set_nodes: Option<u16>,
    /// Its process is told to end: what it owns is to go to others.
    pub leaves: bool,
}

impl GatewayStatus {
    /// Does the coordinator wait for the next one? A tenure that is on its way keeps clients waiting.
    pub fn hurries(&self) -> bool {
        let waits = |state| !matches!(state, TenureState::Serving | TenureState::Preparing | TenureState::Prepared);
        self.standings.iter().any(|standing| waits(standing.state))
    }

    /// Microseconds until the next status is sent, if this one came so long after the last.
    ///
    /// Clients wait for a tenure that is on its way; one that is for long waits for nodes, of which there is less to
    /// tell.
    pub fn next_within_us(&self, last_us: u64) -> u64 {
        let is_watched = self.totals.chunks_missing > 0 || self.standings.iter().any(Standing::is_unproven);
        let (grown_us, longest_ms) = if self.hurries() {
            (last_us + last_us / 8, WATCHED_MS)
        } else if is_watched {
            (2 * last_us, WATCHED_MS)
        } else {
            (2 * last_us, HEARTBEAT_MS)
        };
        grown_us.min(longest_ms * 1000)
    }
}

/// Neighbouring partitions with one policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicySpan {
    pub first: u16,
    pub last: u16,
    pub policy: Policy,
}

impl PolicySpan {
    /// Policies by partition, neighbours with the same one together.
    pub fn all(policies: &[Policy]) -> Vec<PolicySpan> {
        let mut spans: Vec<PolicySpan> = Vec::new();
        for (partition, &policy) in (0..).zip(policies) {
            match spans.last_mut().filter(|span| span.policy == policy) {
                Some(span) => span.last = partition,
                None => spans.push(PolicySpan { first: partition, last: partition, policy }),
            }
        }
        spans
    }
}

/// Counters and gauges of the engines of a core, a gateway, or all gateways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreTotals {
    /// Objects that the index names (expired ones count until they are reclaimed).
    pub objects: u64,
    /// Bytes of those objects: key, value and the eleven or more bytes of a record's header.
    pub bytes_stored: u64,
    /// Objects ever stored.
    pub stored_total: u64,
    /// Stores, and deletes, that found no memory.
    pub stores_refused_total: u64,
    pub evicted_total: u64,
    pub expired_total: u64,
    /// Small objects that were read from a node's memory without asking it.
    pub near_reads_total: u64,
    /// Appends that nodes hold without a message.
    pub appends_put_total: u64,
    pub degraded_reads_total: u64,
    /// Requests sent beside one that was late, each for a token of the budget.
    pub hedges_sent_total: u64,
    /// Reads, and records of writes (a request may hold many), that a second way completed first, with a token or,
    /// because of a verdict, without.
    pub hedges_won_total: u64,
    /// Times that a hedge was wanted and the budget had none left.
    pub hedge_budget_exhausted_total: u64,
    /// Reads that asked for more than they needed and used the first answers.
    pub late_bound_total: u64,
    /// Requests that lost a race: withdrawn, or their answer was ignored.
    pub cancelled_total: u64,
    /// Writes placed elsewhere because the node meant for them was slow or down.
    pub redirected_writes_total: u64,
    /// Timeslices that the request monitor judged.
    pub slices_judged_total: u64,
    /// Renewals of promises that a node refused, or whose session ended before it answered.
    pub renewals_failed_total: u64,
    /// Messages of nodes and other gateways that were hurt on their way, and ended their session.
    pub messages_damaged_total: u64,
    /// Chunks of sealed stripes that are lost, or on a node that is away; stripes with a lost one that no node can
    /// take.
    pub chunks_missing: u64,
    pub stripes_stranded: u64,
    /// Chunks that nodes rebuilt, and their payload bytes.
    pub chunks_rebuilt_total: u64,
    pub bytes_rebuilt_total: u64,
    /// Lost chunks that are being rebuilt or wait for their turn, and how fast that goes at present. Not those that no
    /// node can take, or of whose stripe too little is there.
    pub chunks_to_rebuild: u64,
    pub repair_bytes_per_s: u64,
    /// Most chunks that one stripe lost and that are not rebuilt yet; and of those that can be read,
    /// or some data that they lost: no more than the code survives in any case.
    pub lost_of_stripe_max: u64,
    pub lost_of_readable_max: u64,
    /// Chunks that moved from node to node although nothing was lost, their payload bytes, and how fast
    /// it goes at present.
    pub chunks_moved_total: u64,
    pub bytes_moved_total: u64,
    pub move_bytes_per_s: u64,
    /// Chunks that should move and find no node that has room and holds nothing of their stripe.
    pub moves_stranded: u64,
}

/// A node as one gateway sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeSeen {
    pub id: u16,
    pub connected: bool,
    /// None: nobody here serves who could tell.
    pub stage: Option<NodeStage>,
    /// The gateway goes round it because it is abnormally slow.
    pub fail_slow: bool,
    pub requests_in_flight: u32,
    /// How long it was fail-slow so far, in microseconds.
    pub flagged_us: u64,
    /// Writes that were placed on it because the node meant for them was slow or down.
    pub redirect_count: u64,
    /// Chunks of the gateway's stripes on it, if it drains or is away and all owners counted them.
    pub chunks_left: Option<u64>,
    pub read_latency: LatencyHistogram,
    pub write_latency: LatencyHistogram,
}

/// Faults that a node may report: one of each kind.
const FAULT_COUNT_MAX: usize = 4;

impl ChaosStatus {
    pub fn is_well_formed(&self) -> bool {
        self.faults.len() <= FAULT_COUNT_MAX
    }
}

impl NodeSeen {
    /// What two that watch the same node saw together: two cores of a gateway, or two gateways.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        NodeSeen {
            id: self.id,
            connected: self.connected || other.connected,
            stage: self.stage.max(other.stage),
            fail_slow: self.fail_slow || other.fail_slow,
            requests_in_flight: self.requests_in_flight.saturating_add(other.requests_in_flight),
            flagged_us: self.flagged_us.max(other.flagged_us),
            redirect_count: self.redirect_count.saturating_add(other.redirect_count),
            chunks_left: self.chunks_left.zip(other.chunks_left).map(|(one, other)| one.saturating_add(other)),
            read_latency: self.read_latency.plus(&other.read_latency),
            write_latency: self.write_latency.plus(&other.write_latency),
        }
    }

    /// What happened between an earlier report of the same gateway and this one: latencies only.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut recent = self.clone();
        recent.read_latency = self.read_latency.since(&earlier.read_latency);
        recent.write_latency = self.write_latency.since(&earlier.write_latency);
        recent
    }

    pub fn is_well_formed(&self) -> bool {
        self.read_latency.is_well_formed() && self.write_latency.is_well_formed()
    }
}

impl StoreTotals {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        sum_of!(self, other: StoreTotals {
            u64::saturating_add: [
                objects, bytes_stored, stored_total, stores_refused_total, evicted_total, expired_total,
                near_reads_total, appends_put_total, degraded_reads_total, hedges_sent_total, hedges_won_total,
                hedge_budget_exhausted_total, late_bound_total, cancelled_total, redirected_writes_total,
                slices_judged_total, renewals_failed_total, messages_damaged_total, chunks_missing,
                stripes_stranded, chunks_rebuilt_total, bytes_rebuilt_total, chunks_to_rebuild,
                repair_bytes_per_s, chunks_moved_total, bytes_moved_total, move_bytes_per_s, moves_stranded,
            ],
            lost_of_stripe_max: self.lost_of_stripe_max.max(other.lost_of_stripe_max),
            lost_of_readable_max: self.lost_of_readable_max.max(other.lost_of_readable_max),
        })
    }

    /// What was counted, without what is so at present only.
    #[must_use]
    pub fn counters(self) -> Self {
        StoreTotals {
            objects: 0,
            bytes_stored: 0,
            chunks_missing: 0,
            stripes_stranded: 0,
            chunks_to_rebuild: 0,
            repair_bytes_per_s: 0,
            lost_of_stripe_max: 0,
            lost_of_readable_max: 0,
            move_bytes_per_s: 0,
            moves_stranded: 0,
            ..self
        }
    }
}

/// The coordinator that tells the status. One that does not lead knows no members.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CoordinatorStatus {
    /// Where members register, the machine's name and the process' number.
    pub name: String,
    /// Where it serves HTTP.
    pub admin: Option<String>,
    /// Whether it may change the metadata now.
    pub leading: bool,
    /// The name of the one that leads, as far as is known.
    pub leader: Option<String>,
    /// Where the metadata is kept.
    pub metadata: String,
    /// Why the metadata store cannot be used at present.
    pub metadata_problem: Option<String>,
}

/// The whole cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClusterStatus {
    pub cluster_id: String,
    pub code: String,
    pub partitions: u16,
    /// Partitions whose owner serves them.
    pub partitions_served: u16,
    /// Partitions of which acknowledged writes may be gone without a trace, as nobody acknowledged yet.
    pub partitions_lossy: u16,
    /// The last epoch that was handed out.
    pub epoch: u32,
    /// Tenures that ended since the coordinator leads: handed over in good order, and others.
    pub tenures_handed_over_total: u64,
    pub tenures_lost_total: u64,
    pub objects: u64,
    pub bytes_stored: u64,
    pub bytes_used: u64,
    pub bytes_limit: u64,
    /// Stores, and deletes, that found no memory.
    pub stores_refused_total: u64,
    pub evicted_total: u64,
    pub expired_total: u64,
    pub degraded_reads_total: u64,
    pub nodes_expected: u16,
    pub repair: RepairStatus,
    pub moves: MoveStatus,
    /// What keeps the cluster from storing or from being safe, in words.
    pub problems: Vec<String>,
    /// Whether the coordinator passes on orders to be faulty.
    pub chaos_allowed: bool,
    pub coordinator: CoordinatorStatus,
    pub nodes: Vec<NodeStatusEntry>,
    pub gateways: Vec<GatewayStatusEntry>,
}

impl ClusterStatus {
    /// Is it told by a coordinator that stands by, or has not heard of the metadata store yet? Its members are those of
    /// the one that leads, and the numbers say nothing.
    pub fn is_standby(&self) -> bool {
        !self.coordinator.leading && self.cluster_id.is_empty()
    }
}

/// What is lost, and how far repair is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RepairStatus {
    /// Chunks that are lost, or on a node that is away and may come back.
    pub chunks_missing: u64,
    /// Stripes with a chunk for which there is no node with room that does not hold another chunk of the stripe.
    #[serde(alias = "chunks_stranded")]
    pub stripes_stranded: u64,
    pub chunks_rebuilt_total: u64,
    pub bytes_rebuilt_total: u64,
    pub bytes_per_s: u64,
    /// Until what can be rebuilt is, at the present rate; none: nothing is being rebuilt, or not for a second yet.
    pub seconds_left: Option<u64>,
    /// Most chunks that one stripe may lack: lost, or on a node that is away. Beyond the code's tolerance
    /// it cannot be read.
    pub lacking_of_stripe_max: u16,
    /// Nodes whose heartbeats arrive, and nodes that a new stripe needs.
    pub nodes_alive: u16,
    pub nodes_needed: u16,
}

/// Chunks that move between nodes although nothing is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MoveStatus {
    pub chunks_moved_total: u64,
    pub bytes_moved_total: u64,
    pub bytes_per_s: u64,
    /// Chunks that should move and find no node that has room and holds nothing of their stripe.
    pub chunks_stranded: u64,
}

/// How far a node is that is to be emptied.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DrainStatus {
    /// It holds nothing and gets nothing: it may be stopped.
    pub drained: bool,
    pub chunks_left: u64,
    pub bytes_left: u64,
    /// At the present rate; none: nothing moves.
    pub seconds_left: Option<u64>,
    /// Why it does not go on.
    pub problem: Option<String>,
}

/// A node in the status.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatusEntry {
    pub id: u16,
    pub pid: u32,
    pub address: String,
    /// What it fails together with; empty: it fails alone.
    pub domain: String,
    pub state: NodeState,
    /// The greatest that gateways tell; none: no living gateway tells of it.
    pub stage: Option<NodeStage>,
    /// It is dead or given up, and all that it held is on other nodes.
    pub rebuilt: bool,
    /// None: it is not to be emptied.
    pub drain: Option<DrainStatus>,
    pub memory_used_bytes: u64,
    pub memory_limit_bytes: u64,
    pub cores: u16,
    pub chunks_open: u64,
    pub chunks_sealed: u64,
    /// Sealed chunks that it knows to be damaged.
    pub chunks_damaged: u64,
    /// What its scrubber looked at.
    pub scrubbed_bytes_total: u64,
    /// Damaged chunks that it found, and that were rebuilt in place.
    pub corruptions_found_total: u64,
    pub corruptions_repaired_total: u64,
    /// Messages to it that were hurt on their way, and ended their session.
    pub messages_damaged_total: u64,
    /// Some gateway goes round it because it is abnormally slow.
    pub fail_slow: bool,
    /// Of requests of all gateways in the last ten to twenty seconds; none: there were no requests.
    pub latency_us_p50: Option<u64>,
    pub latency_us_p99: Option<u64>,
    pub read_latency_us_p50: Option<u64>,
    pub read_latency_us_p99: Option<u64>,
    pub write_latency_us_p50: Option<u64>,
    pub write_latency_us_p99: Option<u64>,
    /// Writes placed on it because the node meant for them was slow or down.
    pub redirect_count: u64,
    /// How long it was fail-slow so far, in microseconds, in the eyes of the gateway that saw it so longest.
    pub flagged_us: u64,
    /// Whether it obeys orders to be faulty, and which faults it has by such orders.
    pub chaos_allowed: bool,
    pub chaos: ChaosStatus,
}

/// A gateway in the status.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GatewayStatusEntry {
    pub id: u16,
    pub pid: u32,
    /// The highest of its tenures; 0: it has none.
    pub epoch: u32,
    pub state: NodeState,
    pub serving: bool,
    pub memcached: Option<String>,
    pub redis: Option<String>,
    pub unix_socket: Option<String>,
    pub admin: Option<String>,
    /// Where other gateways connect.
    pub forward: Option<String>,
    /// What it should own, by epoch; and whether the operator wants all of it elsewhere.
    pub tenures: Vec<TenureStatusEntry>,
    pub draining: bool,
    /// Nodes that it goes round because they are abnormally slow, and nodes that it does not reach.
    pub nodes_fail_slow: Vec<u16>,
    pub nodes_unreached: Vec<u16>,
    /// What it does about slow nodes, and how it stores objects, by partition.
    pub policies: Vec<PolicySpan>,
}

/// A tenure in the status.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TenureStatusEntry {
    pub epoch: u32,
    pub partitions: Vec<u16>,
    pub state: TenureState,
    /// Enough nodes confirmed lately that it holds.
    pub proven: bool,
}
