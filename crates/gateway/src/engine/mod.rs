//! The owner engine: one core's partitions, from a command to bytes on `m+1` nodes and back.
//!
//! ```text
//! handle_request ----> lock / lookup ----> index --> owner's memory or a fetch from nodes
//!                          |                              |
//!                          v                              v
//!                        round --> log --> open stripe   apply --> reply
//!                                           | end_turn: one append per chunk and turn to m+1 nodes
//! handle_session_input --> Acked --> record confirmed --> index flips --> replies leave (rule R10)
//! ```
//!
//! The grammar: `handle_*` takes an input, [`Engine::end_turn`] follows the inputs that arrived together,
//! `poll_*` yields what is to be done. Time is an argument.
//!
//! Its modules are in groups. A group's `mod.rs` says what each of them is for, and where to begin reading. What is
//! `pub(super)` in a module is for its group, what is `pub(in crate::engine)` for the others, too.
//!
//! | group | what it is for |
//! |---|---|
//! | `read` | how a record or a piece is found and read, also from other chunks; hedges; requests about all keys |
//! | `write` | rounds of commands, the log and its open stripes, striped objects, flushes |
//! | `reclaim` | what is emptied, evicted and freed, and what must outlive it |
//! | `takeover` | who may answer, what a new owner learns before it serves, how an old one ends |
//! | `repair` | chunks that are lost, damaged or to move |
//! | `sessions` | nodes as this owner sees them: greeted, late, slow, away |
//! | `state` | what all of these use |
//!
//! Source: the rules (`docs/RULES.md`). One deviation: a stripe that lost a member before it was sealed is emptied into
//! new stripes from the owner's memory instead of being reconfigured (see `docs/decisions`).
//!
//! Must not know: sockets, clocks, client protocols.

mod read;
mod reclaim;
mod repair;
mod sessions;
mod state;
mod takeover;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use shorttail_codes::CodeCache;
use shorttail_monitor::{Monitor, MonitorConfig, Ticket, Verdict};
use shorttail_policy::Policy;
use shorttail_units::{Configuration, Incarnation, NodeId, Now, PartitionId, Slot, StripeId, Version};
use shorttail_wire::control::StoreTotals;

pub use read::keyspace::{cursor_of, cursor_slot};
pub use read::near::NearOffer;
pub use sessions::absence::Step;
pub use sessions::nodes::{NodePhase, SessionId};
pub use sessions::watch::Watched;
pub use state::config::{EngineConfig, WhenFull};
pub use state::limits;
pub use takeover::lease::{LeaseConfig, Terms, Voter, VoterSet};
pub use takeover::ownership::Standing;

use crate::command::{Access, BoxCommand, Command, StoreError};
use crate::request::{Reply, Request, RequestId, StoreStats};
use read::sources::RecordGuess;
use reclaim::recent::Recent;
use repair::rebuilding::OrderNumber;
use sessions::nodes::{Node, Nodes};
use state::index::{HashedKey, Index, StripeSlot};
use state::pool::{Pool, PoolKey};
use state::stripes::Stripes;
use takeover::census::Census;
use takeover::recovery::Gathering;
use write::lock::Locks;
use write::log::{Log, Purpose};
use write::unsettled::Unsettled;

/// Names a part of a client request across the gateway: replies carry it back to the connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Token {
    pub connection: u64,
    pub id: RequestId,
}

/// A key with its hash and slot computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef<'a> {
    pub bytes: &'a [u8],
    pub hashed: HashedKey,
}

impl Deref for KeyRef<'_> {
    type Target = HashedKey;

    fn deref(&self) -> &HashedKey {
        &self.hashed
    }
}

/// Things that an input caused and that are done before the input's handling ends, one after the other.
#[derive(Debug)]
enum Work {
    /// A lock is free for its next round.
    Start(PoolKey),
    /// A record is held by all its participants.
    Confirmed { slot: StripeSlot, item: write::open_stripe::Item<Purpose> },
    /// A stripe lost a member before it was sealed.
    Abandon(StripeSlot),
    /// A round that may wait for memory is tried out of its turn.
    Retry(PoolKey),
    /// A job may go on.
    Job(PoolKey),
    /// There may be room for values that wait to be read.
    Read,
    /// Stripes of earlier owners are read.
    Loaded,
    /// A stripe may be closed on all its members.
    Rescinded(StripeId),
    /// A node is late or gone: what it was asked goes elsewhere.
    Failover(Vec<PoolKey>),
    /// More objects are looked at for this request about all keys.
    List(Token, read::keyspace::Listing),
}

/// What the engine waits for from a session.
#[derive(Debug)]
struct Awaited {
    session: SessionId,
    what: What,
    /// A promise counts from then, whatever happened since.
    asked_us: u64,
    /// Where in the session's stream the request begins.
    at: u64,
    /// Bytes that it moves.
    bytes: u32,
    ticket: Option<Ticket>,
    /// Nobody waits for the answer, and it was not sent at once.
    is_unhurried: bool,
    /// It was late, and what can be done about it was done.
    is_hedged: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Somebody else was faster: only the monitor wants to know when it is answered.
    Nothing,
    Hello,
    Fence {
        partition: PartitionId,
    },
    /// A promise by that memory of the node.
    Renew {
        incarnation: Incarnation,
    },
    Release,
    Scan {
        number: u32,
    },
    Ping,
    Open {
        stripe: StripeId,
    },
    Seal {
        stripe: StripeId,
    },
    Free {
        first: StripeId,
        /// What is to be freed may be more by the time of the answer.
        asking: u64,
    },
    /// `part`: index of the member that was asked.
    Fetch {
        fetch: PoolKey,
        part: u8,
    },
    /// `part`: as with a fetch.
    Piece {
        pieces: PoolKey,
        part: u8,
    },
    Install {
        write: PoolKey,
        number: u32,
    },
    Inspect {
        stripe: StripeId,
    },
    /// Where is this chunk in near memory?
    Locate {
        stripe: StripeId,
        chunk: u8,
    },
    /// Is this chunk damaged?
    Verify {
        stripe: StripeId,
    },
    GatherRead {
        stripe: StripeId,
        member: u8,
    },
    Close,
    /// A member is to close a stripe that was never sealed and is emptied.
    Rescind {
        stripe: StripeId,
    },
    /// A member is told who is to hold a rebuilt chunk.
    Reconfigure {
        stripe: StripeId,
        order: OrderNumber,
    },
    Rebuild {
        stripe: StripeId,
    },
    /// As with a repair: a member is told of a move, the target is ordered to copy.
    Announce {
        stripe: StripeId,
        configuration: Configuration,
    },
    Move {
        stripe: StripeId,
    },
}

impl What {
    /// Does somebody wait for bytes, whichever way they come?
    fn is_read(self) -> bool {
        matches!(self, What::Fetch { .. } | What::Piece { .. })
    }
}

/// Where the core begins in the counter of a stripe id.
const CORE_SHIFT: u32 = StripeId::COUNTER_BITS - limits::CORE_COUNT_MAX.ilog2();

/// Is the engine serving, or still learning what the nodes hold?
#[derive(Debug)]
enum Phase {
    Gathering(Box<Gathering>),
    /// What is not certain is written anew first.
    Completing,
    Serving,
}

pub struct Engine {
    config: EngineConfig,
    now: Now,
    phase: Phase,
    /// While this is to become the owner later.
    preparing: Option<takeover::preparing::Preparing>,
    /// Packed stripes that were read in the last round of gathering.
    inherited_read: usize,
    /// Counts how often all nodes were asked what they hold.
    scan_round: u32,
    /// Scans that were begun.
    scan_count: u32,
    lease: takeover::lease::Lease,
    ownership: takeover::ownership::Ownership,
    index: Index,
    recent: Recent,
    stripes: Stripes<Purpose>,
    spare: write::spare::Spare,
    logs: BTreeMap<PartitionId, Log>,
    turn: u64,
    /// Members that open stripes share, and how many were opened with them.
    shared_members: Option<(Arc<[NodeId]>, usize)>,
    nodes: Nodes,
    domains: sessions::domains::Domains,
    retired: BTreeMap<NodeId, Incarnation>,
    lives: sessions::lives::Lives,
    codes: CodeCache,
    awaited: Pool<Awaited>,
    races: Pool<write::race::Race>,
    fetches: Pool<read::fetch::Fetch>,
    piece_fetches: Pool<read::pieces::PieceFetch>,
    lookups: Pool<read::lookup::Lookup>,
    deferred: read::deferred::Deferred,
    locks: Locks,
    striped_writes: Pool<write::striped::StripedWrite>,
    striped_reads: Pool<write::striped_read::StripedRead>,
    read_room: read::read_room::ReadRoom<(write::striped_read::Reader, write::object::Object)>,
    /// Striped objects by their first stripe: in the order in which they were written.
    striped: write::striped_objects::StripedObjects,
    evictions: reclaim::evict::Evictions,
    groups: Pool<write::group::Group>,
    jobs: Pool<reclaim::cleaner::Job>,
    is_starting_jobs: bool,
    scans: Pool<read::keyspace::ScanStep>,
    flushes: write::flush::Flushes,
    flushed: write::flushed::Flushed,
    voids: reclaim::freeing::Voids,
    /// What a take-over does not need any more, until all of its memory is given back.
    used_up: takeover::newest::NewestRecords,
    /// What is left to do of a take-over.
    completing: Option<Box<takeover::recovery::Completing>>,
    losses: takeover::loss::Losses,
    repair: repair::queue::Repair,
    absences: sessions::absence::Absences,
    moves: repair::moving::Moves,
    /// Chunks that nodes were asked to look at.
    suspected: BTreeSet<(NodeId, StripeId)>,
    stalled: write::stalled::Stalled,
    doubtful: write::doubtful::Doubtful,
    outlived: takeover::outlived::Outlived,
    unsettled: Unsettled,
    work: VecDeque<Work>,
    replies: state::replies::Replies,
    next_version: u64,
    next_stripe: u64,
    shortage: reclaim::reserve::Shortage,
    emptiest: reclaim::emptiest::Emptiest,
    expired: reclaim::expired::Expired,
    passed_over: reclaim::unreadable::PassedOver,
    /// The partition whose tombstones are looked at next.
    tombstone_hand: PartitionId,
    tombstones_due_us: u64,
    tick_us: u64,
    usage_us: u64,
    /// Of the time until the next turn, as far as it is told.
    worked_us: u64,
    monitor: Monitor,
    monitor_due_us: u64,
    pacing: sessions::pacing::Pacing,
    verdicts: VecDeque<Verdict>,
    /// By partition.
    policies: Vec<Policy>,
    hedging: read::hedge::Hedging,
    record_guess: RecordGuess,
    near: read::near::NearMemories,
    /// What was put into a ring last; kept for its memory.
    append_frame: Vec<u8>,
    /// There are operations that no node was told of.
    has_unsent: bool,
    walks: reclaim::cleaner::Walks,
    stats: StoreStats,
}

impl Engine {
    pub fn new(config: EngineConfig, now: Now) -> Self {
        let domains = sessions::domains::Domains::new(config.placement, config.shape);
        let picture = takeover::picture::Picture::new(config.data_count());
        let logs = config.partitions.iter().map(|&partition| (partition, Log::default())).collect();
        Engine {
            lease: takeover::lease::Lease::new(config.lease, config.tolerance()),
            stripes: Stripes::new(config.data_count()),
            monitor: Monitor::new(MonitorConfig { avoid_max: config.tolerance(), ..config.monitor }, now.mono_us),
            read_room: read::read_room::ReadRoom::new(config.read_bytes_max),
            monitor_due_us: 0,
            pacing: sessions::pacing::Pacing::default(),
            verdicts: VecDeque::new(),
            policies: vec![config.policy; usize::from(config.partition_count)],
            hedging: read::hedge::Hedging::new(config.hedge_budget),
            record_guess: RecordGuess::default(),
            near: read::near::NearMemories::default(),
            append_frame: Vec::new(),
            has_unsent: false,
            walks: reclaim::cleaner::Walks::default(),
            config,
            now,
            phase: Phase::Gathering(Box::new(Gathering::new(now.mono_us, picture, Census::default()))),
            preparing: None,
            inherited_read: 0,
            scan_round: 0,
            scan_count: 0,
            ownership: takeover::ownership::Ownership::default(),
            index: Index::default(),
            recent: Recent::new(),
            spare: write::spare::Spare::default(),
            logs,
            turn: 0,
            shared_members: None,
            nodes: Nodes::default(),
            domains,
            retired: BTreeMap::new(),
            lives: sessions::lives::Lives::default(),
            codes: CodeCache::default(),
            awaited: Pool::default(),
            races: Pool::default(),
            fetches: Pool::default(),
            piece_fetches: Pool::default(),
            lookups: Pool::default(),
            deferred: read::deferred::Deferred::default(),
            locks: Locks::default(),
            striped_writes: Pool::default(),
            striped_reads: Pool::default(),
            striped: write::striped_objects::StripedObjects::default(),
            evictions: reclaim::evict::Evictions::default(),
            groups: Pool::default(),
            jobs: Pool::default(),
            is_starting_jobs: false,
            scans: Pool::default(),
            flushes: write::flush::Flushes::default(),
            flushed: write::flushed::Flushed::default(),
            voids: reclaim::freeing::Voids::default(),
            used_up: Default::default(),
            completing: None,
            losses: takeover::loss::Losses::default(),
            repair: repair::queue::Repair::default(),
            absences: sessions::absence::Absences::default(),
            moves: repair::moving::Moves::default(),
            suspected: BTreeSet::new(),
            stalled: write::stalled::Stalled::default(),
            doubtful: write::doubtful::Doubtful::default(),
            outlived: takeover::outlived::Outlived::default(),
            unsettled: Unsettled::default(),
            work: VecDeque::new(),
            replies: state::replies::Replies::default(),
            next_version: 1,
            next_stripe: 1,
            shortage: reclaim::reserve::Shortage::default(),
            emptiest: reclaim::emptiest::Emptiest::default(),
            expired: reclaim::expired::Expired::default(),
            passed_over: reclaim::unreadable::PassedOver::default(),
            tombstone_hand: PartitionId(0),
            tombstones_due_us: 0,
            tick_us: now.mono_us,
            usage_us: now.mono_us,
            worked_us: 0,
            stats: StoreStats::default(),
        }
    }

    pub fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Which partition a key belongs to.
    pub fn partition_of_key(config: &EngineConfig, key: &[u8]) -> PartitionId {
        config.partition_of(Slot::of_key(key))
    }

    /// Takes a client's request. Its replies come out of [`Engine::poll_reply`], now or later.
    pub fn handle_request<C: Command + Send + 'static>(&mut self, now: Now, token: Token, request: Request<C>) {
        self.take_request(now, token, request.map(|command| Box::new(command) as BoxCommand));
    }

    fn take_request(&mut self, now: Now, token: Token, request: Request<BoxCommand>) {
        self.set_now(now);
        self.ownership.outstanding_count += 1;
        self.pacing.note_client();
        if !self.takes_requests() {
            return self.refuse_any(token, request);
        }
        match request {
            Request::Key(command) if command.access() == Access::Read => self.read(token, command),
            Request::Key(command) => self.write(token, command),
            Request::Group(group) => self.group(token, group),
            Request::Keyspace(keyspace) => self.keyspace(token, keyspace),
        }
        self.run_work();
    }

    /// Ends a turn: what the inputs of the turn caused is put on its way, together.
    pub fn end_turn(&mut self, now: Now) {
        self.set_now(now);
        let gives_way = self.gives_way();
        self.begin_walks();
        self.tick();
        if !gives_way {
            self.give_orders();
            self.free_flushed();
            self.ask_for_frees();
        }
        self.advance_ownership();
        self.watch();
        self.hedge_late();
        self.run_work();
        self.flush_logs();
        // What nodes hold at once is confirmed already.
        self.run_work();
        self.start_deferred();
        self.watch_absences();
        if !gives_way {
            self.let_unhurried_go();
        }
    }

    /// Is a turn to follow at once, whether anything arrives or not?
    pub fn wants_turn(&self) -> bool {
        self.is_hurried() || self.pacing.is_put_off() || self.repair.wants_turn()
    }

    /// Is the turn that is to follow at once one that clients wait for?
    pub fn is_hurried(&self) -> bool {
        self.has_unsent || self.walks.is_cut
    }

    /// The next reply that may be sent. `now` must have been read after all input of the turn: an answer is valid if
    /// ownership was proven when the request arrived, however late it leaves.
    pub fn poll_reply(&mut self, now: Now) -> Option<(Token, Reply)> {
        if let Some(error) = self.replies.next_error() {
            return Some(error);
        }
        if now.mono_us < self.lease.proven_until_us() {
            return self.replies.next();
        }
        self.replies.next_overdue(now.mono_us, self.is_deposed())
    }

    /// When [`Engine::end_turn`] is to be called even if nothing arrived, in monotonic microseconds.
    pub fn poll_deadline(&self) -> Option<u64> {
        if self.wants_turn() {
            return Some(self.now.mono_us);
        }
        let usual_us = self.tick_us.min(self.repair.due_us).min(self.pacing.due_us());
        Some(usual_us.min(self.hedging.due_us).min(self.monitor_due_us).min(self.ownership.fence_due_us))
    }

    /// Counters and gauges of this core.
    pub fn stats(&self) -> StoreStats {
        let totals = StoreTotals {
            objects: self.object_count(),
            slices_judged_total: self.monitor.slices_judged(),
            chunks_missing: self.repair.missing_count(),
            stripes_stranded: self.repair.stranded.len() as u64,
            chunks_rebuilt_total: self.repair.rebuilt_count,
            bytes_rebuilt_total: self.repair.rebuilt_bytes,
            chunks_to_rebuild: self.repair.to_rebuild_count(),
            repair_bytes_per_s: self.repair.rate.bytes_per_s(),
            lost_of_stripe_max: self.lost_of_stripe_max(),
            lost_of_readable_max: self.lost_of_readable_max(),
            chunks_moved_total: self.moves.moved_count,
            bytes_moved_total: self.moves.moved_bytes,
            move_bytes_per_s: self.moves.rate.bytes_per_s(),
            moves_stranded: self.moves.stranded_count,
            ..self.stats.totals
        };
        StoreStats {
            totals,
            bytes_used: self.nodes.iter().map(Node::used_bytes).sum(),
            bytes_limit: self.nodes.iter().map(Node::memory_bytes).sum(),
            nodes_alive: self.nodes.ready_count() as u16,
            nodes_total: self.nodes.count() as u16,
            ..self.stats
        }
    }

    /// Does what the inputs caused, and tries those again that wait for a place if there may be one.
    fn run_work(&mut self) {
        self.run_queued();
        while self.stalled.take_due() {
            self.resume_stalled();
            self.run_queued();
        }
    }

    fn run_queued(&mut self) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Start(lock) => self.start(lock),
                Work::Confirmed { slot, item } => self.record_confirmed(slot, item),
                Work::Abandon(slot) => self.abandon(slot),
                Work::Retry(lock) => self.send_round(lock),
                Work::Job(job) => self.advance_job(job),
                Work::Read => self.resume_striped_reads(),
                Work::Loaded => self.take_loaded(),
                Work::Rescinded(stripe) => self.end_rescinding(stripe),
                Work::Failover(tags) => self.failover(tags),
                Work::List(token, listing) => self.list(token, listing, 1),
            }
        }
    }

    fn tick(&mut self) {
        if self.now.mono_us < self.tick_us {
            return;
        }
        self.tick_us = self.now.mono_us + limits::TICK_US;
        self.check_deadlines();
        self.refresh_delays();
        self.forgive_writers();
        self.probe();
        self.tell_stable_when_idle();
        self.advance_flushes();
        self.forget_settled();
        self.look_at_room();
        self.close_spare_stripes();
        self.spare.tidy(self.now.mono_us);
        self.look_for_expired();
        self.start_jobs();
        self.stalled.press();
        self.resend_frees();
        self.advance_recovery();
        if !self.is_ending() {
            self.advance_moves();
        }
        self.refresh_usage();
        self.verify_some_doubtful();
        self.used_up.shrink();
    }

    fn key_ref<'a>(&self, key: &'a [u8]) -> KeyRef<'a> {
        let hashed = HashedKey { slot: Slot::of_key(key), hash: self.config.hash_of(key) };
        KeyRef { bytes: key, hashed }
    }

    fn take_version(&mut self) -> Version {
        let version = Version::new(self.config.epoch, self.next_version);
        self.next_version += 1;
        version
    }

    /// The id that the next stripe will have.
    fn next_stripe_id(&self) -> StripeId {
        StripeId::new(self.config.epoch, u64::from(self.config.core) << CORE_SHIFT | self.next_stripe)
    }

    /// `count` consecutive stripe ids; the cores of a gateway take them from ranges of their own.
    fn take_stripe_ids(&mut self, count: u64) -> StripeId {
        let first = self.next_stripe_id();
        self.next_stripe += count;
        assert!(self.next_stripe < 1 << CORE_SHIFT, "stripe ids of this epoch are used up");
        first
    }

    fn answer_key(&mut self, token: Token, command: BoxCommand, reply: Vec<u8>) {
        self.ownership.outstanding_count -= 1;
        self.replies.push(token, Reply::Bytes(reply), Some(command), self.now.mono_us);
    }

    fn reply(&mut self, token: Token, reply: Reply) {
        if let Reply::Group(Err(error)) | Reply::Keyspace(Err(error)) = reply {
            self.count_refused(error);
            return self.reply_error(token, reply);
        }
        self.ownership.outstanding_count -= 1;
        self.replies.push(token, reply, None, self.now.mono_us);
    }

    fn count_refused(&mut self, error: StoreError) {
        self.stats.totals.stores_refused_total += u64::from(error == StoreError::OutOfMemory);
    }

    fn reply_error(&mut self, token: Token, reply: Reply) {
        self.ownership.outstanding_count -= 1;
        self.replies.push_error(token, reply);
    }
}
