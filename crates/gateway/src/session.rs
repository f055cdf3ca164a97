//! What client sessions of both protocols share: settings, counters, and the shape of a session.
//!
//! A session is sans-IO: the server feeds it bytes and replies, and takes bytes from it.
//! It never blocks and never reorders: see [`crate::reply_queue::ReplyQueue`].

use std::net::SocketAddr;
use std::ops::Add;
use std::sync::Arc;

use shorttail_units::{ClusterId, CodeShape, Now, sum_of};

use crate::latency::CommandLatencies;
use crate::redis::{ListRoom, RedisCluster};
use crate::request::{Reply, Request, RequestId};
use crate::roster::Roster;
use crate::topology::{ClientAddress, Topology};

/// Takes what a session asks of the engine.
pub trait RequestSink<C> {
    fn request(&mut self, id: RequestId, request: Request<C>);
}

impl<C, F: FnMut(RequestId, Request<C>)> RequestSink<C> for F {
    fn request(&mut self, id: RequestId, request: Request<C>) {
        self(id, request);
    }
}

/// Facts and limits that hold for all sessions of a gateway, and counters that they share.
#[derive(Debug, Clone)]
pub struct Shared {
    pub settings: Settings,
    /// What the sessions of this core counted.
    pub counters: Counters,
    /// Counters of the gateway's other cores, as of their last report.
    pub elsewhere: Counters,
    /// Whether large stores are accepted. `false` while the stores in flight exceed their limit; requests longer than
    /// [`SMALL_REQUEST_BYTES`] then wait.
    ///
    /// [`SMALL_REQUEST_BYTES`]: crate::limits::SMALL_REQUEST_BYTES
    pub has_room: bool,
    /// Who serves which slots, as cluster-aware clients are told; replaced as a whole when it changes.
    pub topology: Arc<Topology>,
    /// The connections of all cores.
    pub roster: Arc<Roster>,
    /// For keys that this core's clients are to be told.
    pub list_room: ListRoom,
}

impl Shared {
    pub fn new(settings: Settings) -> Self {
        // Until somebody knows better: one gateway that serves everything where it listens.
        let redis =
            (settings.redis_port != 0).then(|| ClientAddress { host: String::new(), port: settings.redis_port });
        let topology = Arc::new(Topology::single(ClusterId(0), 0, 0, redis));
        let mut counters = Counters::default();
        counters.prefixes.enabled = settings.counts_prefixes;
        Shared {
            settings,
            counters,
            elsewhere: Counters::default(),
            has_room: true,
            topology,
            roster: Arc::default(),
            list_room: ListRoom::default(),
        }
    }

    /// What the whole gateway counted: what clients are told.
    pub fn counted(&self) -> Counters {
        self.counters.plus(&self.elsewhere)
    }
}

/// What the operator chose, and what is told of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Largest value in bytes (memcached `-I`).
    pub value_bytes_max: usize,
    /// Largest key that a Redis client may use, in bytes; memcached's limit is its own 250.
    pub key_bytes_max: usize,
    /// `user:password` lines, from the file of `-Y`; empty: no authentication.
    pub credentials: Vec<Credential>,
    pub thread_count: usize,
    pub connection_count_max: usize,
    /// Seconds; 0: none.
    pub idle_timeout_s: u64,
    /// Of the nodes together, where nobody chose it; 0: it is not known yet.
    pub memory_limit_bytes: u64,
    pub evict_when_full: bool,
    /// `-F`: flush_all is disabled.
    pub flush_disabled: bool,
    /// Verbosity as `-v` sets it.
    pub verbosity: u8,
    pub process_id: u32,
    pub memcached_port: u16,
    pub redis_port: u16,
    /// Where cluster-aware Redis clients are told to connect; `None`: where they did.
    pub redis_advertise: Option<SocketAddr>,
    /// What `stats settings` reports for the listening addresses and the Unix socket.
    pub listen: String,
    pub unix_socket: Option<String>,
    /// What Redis clients are told of other gateways.
    pub redis_cluster: RedisCluster,
    /// Monotonic time at which the gateway started.
    pub started_us: u64,
    /// `-D`: prefix delimiter for per-prefix statistics, and whether they are kept from the start.
    pub prefix_delimiter: u8,
    pub counts_prefixes: bool,
    /// `-R`: requests of one memcached connection that are in flight before others get their turn.
    pub pipeline_count_max: usize,
    /// `-C`: memcached clients see no CAS tokens.
    pub cas_disabled: bool,
    /// `-b`: length of the accept queue.
    pub backlog: u32,
    /// What `stats settings` is to report instead, by name: what was asked for and has no meaning here.
    pub reported: Vec<(&'static str, String)>,
    /// `-A`: memcached clients may stop the server.
    pub shutdown_enabled: bool,
    /// Commands of memcached's debug build (`debugtime`), which its own tests use.
    pub debug_commands: bool,
    /// What memory costs and how many nodes hold a write, as Redis clients are told.
    pub code: CodeShape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub user: Vec<u8>,
    pub password: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            value_bytes_max: 1 << 20,
            key_bytes_max: 8 << 10,
            credentials: Vec::new(),
            thread_count: 1,
            connection_count_max: 1024,
            idle_timeout_s: 0,
            memory_limit_bytes: 64 << 20,
            evict_when_full: true,
            flush_disabled: false,
            verbosity: 0,
            process_id: 0,
            memcached_port: 11211,
            redis_port: 6379,
            redis_advertise: None,
            listen: String::new(),
            unix_socket: None,
            redis_cluster: RedisCluster::default(),
            started_us: 0,
            prefix_delimiter: b':',
            counts_prefixes: false,
            pipeline_count_max: crate::memcached::limits::REPLY_WAITING_MAX,
            cas_disabled: false,
            backlog: 1024,
            reported: Vec::new(),
            shutdown_enabled: false,
            debug_commands: false,
            code: CodeShape::default(),
        }
    }
}

/// Counted by sessions and the server; reported by `stats` and `INFO`, cleared by `stats reset`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    pub connections_current: u64,
    pub connections_total: u64,
    pub connections_rejected: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub get_commands: u64,
    pub get_hits: u64,
    pub get_misses: u64,
    pub get_expired: u64,
    pub get_flushed: u64,
    pub set_commands: u64,
    pub touch_commands: u64,
    pub touch_hits: u64,
    pub touch_misses: u64,
    pub delete_hits: u64,
    pub delete_misses: u64,
    pub incr_hits: u64,
    pub incr_misses: u64,
    pub decr_hits: u64,
    pub decr_misses: u64,
    pub cas_hits: u64,
    pub cas_misses: u64,
    pub cas_badval: u64,
    pub flush_commands: u64,
    pub meta_commands: u64,
    pub auth_commands: u64,
    pub auth_errors: u64,
    pub store_too_large: u64,
    pub store_no_memory: u64,
    pub idle_kicks: u64,
    /// Connections that were closed as they hardly went on while others waited for the room that they held.
    pub late_kicks: u64,
    pub commands_total: u64,
    /// Times that a connection's input was left because its requests in flight reached their maximum.
    pub connection_yields: u64,
    /// A client with the right to do so asked for the end of the server.
    pub shutdown_asked: bool,
    /// Seconds by which `debugtime` moved the wall clock; the server adds them to each `Now` it hands out.
    pub debug_time_s: i64,
    /// CPU time of the process, set by the server now and then.
    pub cpu_user_us: u64,
    pub cpu_system_us: u64,
    /// `stats detail` of memcached clients.
    pub prefixes: crate::memcached::PrefixStats,
    /// How long commands took. Clients do not clear that: metrics alone tell of it.
    pub latencies: CommandLatencies,
    /// Times that a client cleared the counters.
    pub resets: u64,
}

impl Counters {
    /// Clears what is counted; what is current stays, and so does what clients switched.
    pub fn reset(&mut self) {
        self.prefixes.clear();
        *self = Counters {
            connections_current: self.connections_current,
            shutdown_asked: self.shutdown_asked,
            debug_time_s: self.debug_time_s,
            cpu_user_us: self.cpu_user_us,
            cpu_system_us: self.cpu_system_us,
            prefixes: std::mem::take(&mut self.prefixes),
            latencies: self.latencies,
            resets: self.resets + 1,
            ..Counters::default()
        };
    }

    /// What two cores counted together. Connections and CPU time are the process' own on every core already.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        sum_of!(self, other: Counters {
            Add::add: [
                bytes_read, bytes_written, get_commands, get_hits, get_misses, get_expired, get_flushed,
                set_commands, touch_commands, touch_hits, touch_misses, delete_hits, delete_misses, incr_hits,
                incr_misses, decr_hits, decr_misses, cas_hits, cas_misses, cas_badval, flush_commands,
                meta_commands, auth_commands, auth_errors, store_too_large, store_no_memory, idle_kicks,
                late_kicks, commands_total, connection_yields,
            ],
            connections_current: self.connections_current,
            connections_total: self.connections_total,
            connections_rejected: self.connections_rejected,
            shutdown_asked: self.shutdown_asked || other.shutdown_asked,
            debug_time_s: self.debug_time_s,
            cpu_user_us: self.cpu_user_us,
            cpu_system_us: self.cpu_system_us,
            prefixes: self.prefixes.plus(&other.prefixes),
            latencies: self.latencies.plus(&other.latencies),
            resets: self.resets,
        })
    }
}

/// One client connection of one protocol.
pub trait Session {
    type Command;

    /// Consumes complete requests from the front of `input`, hands what they ask to `sink`, and returns how many
    /// bytes it consumed (the caller drops them and calls again when more arrived). Stops early, without consuming
    /// the rest, when too many requests are in flight; the caller calls again after replies left.
    fn handle_input(
        &mut self,
        now: Now,
        shared: &mut Shared,
        input: &[u8],
        sink: &mut impl RequestSink<Self::Command>,
    ) -> usize;

    /// Takes the reply to a part that `handle_input` asked for.
    /// A session may ask for more in turn (a scan that goes on), hence the sink.
    fn handle_reply(
        &mut self,
        now: Now,
        shared: &mut Shared,
        id: RequestId,
        reply: Reply,
        sink: &mut impl RequestSink<Self::Command>,
    );

    /// Goes on with what waits for the client to take its output, once it took some. `true` if anything was asked, or
    /// is there to be taken.
    fn resume(&mut self, sink: &mut impl RequestSink<Self::Command>) -> bool;

    /// Bytes ready for the client, in order. The caller drains them.
    fn output(&mut self) -> &mut Vec<u8>;

    /// After the output is drained the connection is to be closed.
    fn closing(&self) -> bool;

    /// Whether requests already read are waiting that [`Session::resume`] could advance.
    fn has_more(&self) -> bool;

    /// Did `handle_input` leave a whole request for want of room ([`Shared::has_room`])?
    fn waits_for_room(&self) -> bool;

    /// Whether the session stopped at an incomplete request and needs more bytes; it bounds how long that request may
    /// get. If `false`, leftover input waits for replies, or for the client to read.
    fn wants_input(&self) -> bool;

    /// Bytes of requests that it took from its input and did not ask for yet.
    fn kept_bytes(&self) -> usize;
}
