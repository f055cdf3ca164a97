//! What the drop-in for the memcached program serves: a whole cluster inside one process.

use std::net::SocketAddr;
use std::path::PathBuf;

use shorttail_gateway::session::Credential;

use super::code::CodeSpec;
use super::gateway::{UnixSocketConfig, WhenFull};

/// Options of `shorttail memcached`, checked. Either `listen` or `unix_socket` is non-empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LauncherOptions {
    /// Every TCP address to serve; port 0: any free port. Empty with a Unix socket or `-p -1`.
    pub listen: Vec<SocketAddr>,
    /// `-s` and `-a`.
    pub unix_socket: Option<UnixSocketConfig>,
    /// `-m`: bytes of objects that fit, before the code's overhead.
    pub memory_bytes: u64,
    /// `-M`: refuse instead of evict.
    pub when_full: WhenFull,
    /// `-I`.
    pub value_bytes_max: usize,
    /// `-c`.
    pub connection_count_max: usize,
    /// `-t`: reported by `stats`; the number of session threads.
    pub threads: usize,
    /// `-b`: length of the accept queue.
    pub backlog: u32,
    /// `-o idle_timeout`, seconds; 0: none.
    pub idle_timeout_s: u64,
    /// `-Y`.
    pub credentials: Vec<Credential>,
    /// `-F`: flush_all is disabled.
    pub flush_disabled: bool,
    /// How often `-v` was given.
    pub verbosity: u8,
    /// `-D`.
    pub prefix_delimiter: u8,
    pub code: CodeSpec,
    pub node_count: usize,
    pub partition_count: u16,
    /// `MEMCACHED_PORT_FILENAME`: file to write one `TCP INET: <port>` (or `TCP INET6: <port>`) line per listening
    /// address to, once all of them listen (write beside it and rename).
    pub port_file: Option<PathBuf>,
    /// `-P`: written by the command line before this is run; removed when it returns.
    pub pid_file: Option<PathBuf>,
    /// `-A`: a client may send `shutdown`.
    pub shutdown_enabled: bool,
}
