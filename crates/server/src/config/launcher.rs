//! What the drop-in for the memcached program serves: a whole cluster inside one process.

use std::net::SocketAddr;
use std::path::PathBuf;

use shorttail_gateway::engine::WhenFull;
use shorttail_gateway::session::Credential;

use shorttail_units::CodeShape;

use super::gateway::UnixSocketConfig;

/// Options of `shorttail memcached`, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LauncherOptions {
    /// Every TCP address to serve; port 0: any free port. Empty with a Unix socket or `-p 0`.
    pub listen: Vec<SocketAddr>,
    /// `-s` and `-a`. A socket file that is left over is replaced.
    pub unix_socket: Option<UnixSocketConfig>,
    /// `-m`: bytes of objects that should fit, before the code's overhead; 0: no limit was asked for.
    pub memory_bytes: u64,
    /// `-M`: refuse instead of evict.
    pub when_full: WhenFull,
    /// `-I`.
    pub value_bytes_max: usize,
    /// `-c`.
    pub connection_count_max: usize,
    /// `-t`, as `stats` tells it.
    pub threads: usize,
    /// Threads that serve clients: as many as were asked for and there are partitions; one, if nobody asked.
    pub core_count: usize,
    /// `-b`: length of the accept queue.
    pub backlog: u32,
    /// `-R`: requests of one connection that are in flight before others get their turn; the server's
    /// own maximum holds.
    pub pipeline_count_max: Option<usize>,
    /// `-o idle_timeout`, seconds; 0: none.
    pub idle_timeout_s: u64,
    /// `-Y`.
    pub credentials: Vec<Credential>,
    /// `-F`: flush_all is disabled.
    pub flush_disabled: bool,
    /// How often `-v` was given.
    pub verbosity: u8,
    /// `-D`; given, it also turns on per-prefix statistics.
    pub prefix_delimiter: Option<u8>,
    /// `-C`: gets answers no CAS.
    pub cas_disabled: bool,
    /// `-A`: a client may send `shutdown`.
    pub shutdown_enabled: bool,
    pub code: CodeShape,
    pub node_count: usize,
    pub partition_count: u16,
    /// `MEMCACHED_PORT_FILENAME`: file to write one `TCP INET: <port>` (or `TCP INET6: <port>`) line per listening
    /// address to, once all of them listen (write `<file>.lck` and rename it).
    pub port_file: Option<PathBuf>,
    /// Settings without a meaning here, by their names in `stats settings`: what was asked for is what is reported.
    pub reported: Vec<(&'static str, String)>,
}
