//! A whole erasure-coded cluster inside one process: what the drop-in for the memcached program serves.
//!
//! Node cores and gateway cores are threads that speak the node protocol over Unix sockets in a directory of their own,
//! exactly as separate processes would. There is no coordinator: nothing could outlive the process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use mio::Poll;
use shorttail_gateway::engine::{EngineConfig, WhenFull};
use shorttail_gateway::roster::ClientProtocol;
use shorttail_gateway::session::Settings;
use shorttail_node::{NodeConfig, Pace};
use shorttail_store::limits::MEMORY_BYTES_MAX;
use shorttail_units::{ClusterId, CodeShape, Epoch, Incarnation, MIB, NodeId};
use shorttail_wire::control::{Terms, View};
use tempfile::TempDir;

use crate::config::{Address, LauncherOptions};
use crate::control::fixed_view;
use crate::gateway::{Identity, Listeners, PolicyDesk, ToCore, start_cores};
use crate::near::{self, LettingGo};
use crate::net::{Inbox, Listener, Outlet};
use crate::node::{Core, CoreGauges, CoreSetup, INBOX, ToNodeCore};

/// Number of node cores to stop right after the start: lets a client suite run against a cluster that lost nodes.
const KILL_VARIABLE: &str = "SHORTTAIL_KILL_NODES";

/// Smallest memory of a node: stripes of every partition, and cleaning's reserve, fit.
const NODE_BYTES_MIN: usize = 6 * MIB;

/// Node memory in all when no limit was asked for; untouched pages cost nothing.
const UNLIMITED_BYTES: usize = 64 << 30;

/// Runs until the process is told to end.
///
/// # Errors
/// When an address is taken or the memory is not to be had.
pub fn run(options: LauncherOptions) -> anyhow::Result<()> {
    crate::panics::end_the_process();
    let listeners = listen(&options)?;
    let directory = socket_directory()?;
    let nodes = start_nodes(&options, directory.path())?;
    let settings = settings(&options, &listeners);
    let ports: Vec<_> = listeners.sockets.iter().filter_map(|(listener, _)| listener.socket_address()).collect();
    let engine = engine_config(&options)?;
    let cores = start_cores(engine, IDENTITY, settings, listeners, options.core_count, PolicyDesk::default())?;
    let (view, terms) = nodes.cluster(&options);
    cores.outlets.iter().for_each(|outlet| outlet.send(ToCore::View(Arc::clone(&view))));
    cores.tell_terms(&terms);
    while !cores.is_serving() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Ok(count) = std::env::var(KILL_VARIABLE) {
        let count: usize = count.parse().with_context(|| format!("{KILL_VARIABLE} is a number of nodes"))?;
        nodes.outlets.iter().take(count).for_each(|outlet| outlet.send(ToNodeCore::Stop));
    }
    // The sockets' files are not needed once everybody is connected; nothing is left behind however the process ends.
    drop(directory);
    if let Some(file) = &options.port_file {
        write_port_file(file, &ports)?;
    }
    let mut letting_go = LettingGo::begin();
    loop {
        std::thread::park_timeout(LettingGo::EVERY);
        letting_go.check(cores.views());
    }
}

fn listen(options: &LauncherOptions) -> anyhow::Result<Listeners> {
    let mut listeners = Listeners::default();
    for address in &options.listen {
        let listener = Listener::bind(&Address::Tcp(*address))
            .with_context(|| format!("failed to listen on TCP port {address}"))?;
        set_backlog(&listener, options.backlog)?;
        listeners.sockets.push((listener, ClientProtocol::Memcached));
    }
    if let Some(unix) = &options.unix_socket {
        let listener = Listener::bind(&Address::Unix(unix.path.clone()))
            .with_context(|| format!("failed to listen on UNIX socket: {}", unix.path.display()))?;
        listener.set_mode(unix.mode)?;
        set_backlog(&listener, options.backlog)?;
        listeners.sockets.push((listener, ClientProtocol::Memcached));
    }
    Ok(listeners)
}

/// Sets the length of the accept queue; the system cuts it to its own maximum.
fn set_backlog(listener: &Listener, backlog: u32) -> anyhow::Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    let result = match listener {
        Listener::Tcp(listener) => rustix::net::listen(listener, backlog),
        Listener::Unix(listener, _) => rustix::net::listen(listener, backlog),
    };
    result.context("failed to set the length of the accept queue")
}

/// A directory for the nodes' sockets, removed with the value. It is new and its user's alone: others could put sockets
/// of their own there.
fn socket_directory() -> anyhow::Result<TempDir> {
    let parent = std::env::temp_dir();
    let made = tempfile::Builder::new().prefix("shorttail-").tempdir_in(&parent);
    made.with_context(|| format!("cannot make a directory for sockets in {}", parent.display()))
}

struct NodeThreads {
    addresses: BTreeMap<NodeId, Address>,
    outlets: Vec<Outlet<ToNodeCore>>,
}

const CLUSTER: ClusterId = ClusterId(1);
const IDENTITY: Identity = Identity { cluster: CLUSTER, gateway: 0 };

fn start_nodes(options: &LauncherOptions, directory: &Path) -> anyhow::Result<NodeThreads> {
    let mut threads = NodeThreads { addresses: BTreeMap::new(), outlets: Vec::new() };
    for number in 0..u16::try_from(options.node_count)? {
        let id = NodeId(number);
        let address = Address::Unix(directory.join(format!("{number}")));
        let listener = Listener::bind(&address).with_context(|| format!("cannot listen on {address}"))?;
        let poll = Poll::new()?;
        let (inbox, outlet) = Inbox::new(&poll, INBOX)?;
        let mut node = near::node(NodeConfig {
            node: id,
            cluster: CLUSTER,
            incarnation: Incarnation(1),
            core: 0,
            core_count: 1,
            memory_bytes: node_bytes(options),
            // Nodes of one process do not die one by one: nobody rebuilds, and orders are refused.
            pace: Pace { repair_bytes_per_s: 0, scrub_bytes_per_s: 0 },
        })
        .context("failed to allocate memory")?;
        near::offer(&mut node);
        let (cores, gauges) = (vec![outlet.clone()], Arc::new(CoreGauges::default()));
        let core = Core::new(CoreSetup { poll, node, inbox, cores, listener: Some(listener), gauges })?;
        std::thread::Builder::new().name(format!("node {number}")).spawn(move || {
            if let Err(error) = core.run() {
                tracing::error!(%error, number, "a node core ended");
            }
        })?;
        threads.addresses.insert(id, address);
        threads.outlets.push(outlet);
    }
    Ok(threads)
}

/// `-m` limits the objects: their share of one node, with the code's cost, a tenth of slack, and room to clean.
fn node_bytes(options: &LauncherOptions) -> usize {
    let asked = usize::try_from(options.memory_bytes).unwrap_or(UNLIMITED_BYTES);
    let objects = if asked == 0 { UNLIMITED_BYTES } else { asked.max(options.value_bytes_max) };
    let coded = objects / options.code.data_count() * options.code.chunk_count() / options.node_count;
    coded + coded / 10 + NODE_BYTES_MIN
}

/// The largest `-m`, with which a node's memory is as much as a core takes.
pub fn memory_bytes_max(code: CodeShape, node_count: usize) -> u64 {
    let coded = (MEMORY_BYTES_MAX - NODE_BYTES_MIN) as u64 / 11 * 10;
    coded * node_count as u64 / code.chunk_count() as u64 * code.data_count() as u64
}

impl NodeThreads {
    /// The nodes, and the one tenure of the one gateway.
    fn cluster(&self, options: &LauncherOptions) -> (Arc<View>, Arc<[Terms]>) {
        let nodes = self.addresses.iter().map(|(&id, address)| (id, Incarnation(1), address));
        let (view, terms) = fixed_view(nodes, Epoch(1), options.partition_count);
        (Arc::new(view), Arc::from([terms]))
    }
}

fn engine_config(options: &LauncherOptions) -> anyhow::Result<EngineConfig> {
    let mut engine = EngineConfig::new(options.code, Epoch(0), CLUSTER, u16::try_from(options.node_count)?);
    engine.partition_count = options.partition_count;
    engine.partitions = Vec::new();
    engine.value_bytes_max = options.value_bytes_max;
    engine.when_full = options.when_full;
    // Everything is in one process: a late answer means a busy machine, not a slow node.
    engine.request_deadline_us = 2_000_000;
    Ok(engine)
}

fn settings(options: &LauncherOptions, listeners: &Listeners) -> Settings {
    let addresses: Vec<_> = listeners.sockets.iter().filter_map(|(listener, _)| listener.socket_address()).collect();
    let named = addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(",");
    let defaults = Settings::default();
    Settings {
        value_bytes_max: options.value_bytes_max,
        credentials: options.credentials.clone(),
        thread_count: options.threads,
        connection_count_max: options.connection_count_max,
        idle_timeout_s: options.idle_timeout_s,
        memory_limit_bytes: options.memory_bytes,
        evict_when_full: options.when_full == WhenFull::Evict,
        flush_disabled: options.flush_disabled,
        verbosity: options.verbosity,
        process_id: std::process::id(),
        memcached_port: addresses.first().map_or(0, std::net::SocketAddr::port),
        redis_port: 0,
        listen: named,
        unix_socket: options.unix_socket.as_ref().map(|unix| unix.path.display().to_string()),
        shutdown_enabled: options.shutdown_enabled,
        cas_disabled: options.cas_disabled,
        backlog: options.backlog,
        reported: options.reported.clone(),
        pipeline_count_max: options.pipeline_count_max.unwrap_or(defaults.pipeline_count_max),
        debug_commands: std::env::var_os("SHORTTAIL_DEBUG_COMMANDS").is_some(),
        prefix_delimiter: options.prefix_delimiter.unwrap_or(defaults.prefix_delimiter),
        counts_prefixes: options.prefix_delimiter.is_some(),
        code: options.code,
        ..defaults
    }
}

/// Writes the ports as memcached does, under another name first: who waits for the file never sees half of it.
fn write_port_file(file: &Path, ports: &[std::net::SocketAddr]) -> anyhow::Result<()> {
    let family = |address: &std::net::SocketAddr| if address.is_ipv4() { "INET" } else { "INET6" };
    let lines: String = ports.iter().map(|port| format!("TCP {}: {}\n", family(port), port.port())).collect();
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".lck");
    std::fs::write(&unfinished, lines).with_context(|| format!("cannot write {}", file.display()))?;
    std::fs::rename(&unfinished, file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command};
    use std::time::Instant;

    use super::*;
    use crate::config::UnixSocketConfig;

    const NODE_COUNT: usize = 6 + KILLED;
    const KILLED: usize = 2;
    /// A test that hangs should end; nothing is said about how long things take.
    const PATIENCE: Duration = Duration::from_secs(240);
    /// Where the process of the test is to listen.
    const SOCKET: &str = "SINGLE_PROCESS_SOCKET";

    /// A cluster that listens there, and goes on without some of its nodes.
    pub(crate) fn options(path: &Path) -> LauncherOptions {
        LauncherOptions {
            listen: Vec::new(),
            unix_socket: Some(UnixSocketConfig { path: path.into(), mode: 0o700 }),
            memory_bytes: 64 << 20,
            when_full: WhenFull::Evict,
            value_bytes_max: 1 << 20,
            connection_count_max: 16,
            threads: 1,
            core_count: 1,
            backlog: 16,
            pipeline_count_max: None,
            idle_timeout_s: 0,
            credentials: Vec::new(),
            flush_disabled: false,
            verbosity: 0,
            prefix_delimiter: None,
            cas_disabled: false,
            shutdown_enabled: false,
            code: CodeShape::reed_solomon(4, 2).expect("a code"),
            node_count: NODE_COUNT,
            partition_count: 4,
            port_file: None,
            reported: Vec::new(),
        }
    }

    /// Killed when dropped.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// The threads of a process that are nodes.
    fn nodes(process: &Process) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", process.0.id())).expect("it runs").flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        let mut nodes: Vec<String> =
            names.filter(|name| name.starts_with("node ")).map(|name| name.trim_end().to_owned()).collect();
        nodes.sort();
        nodes
    }

    /// Client suites are run so, and would not notice that all nodes live.
    #[test]
    fn as_many_nodes_end_as_the_variable_says() {
        if let Some(path) = std::env::var_os(SOCKET) {
            let path = Path::new(&path);
            let port_file = Some(path.with_extension("ports"));
            run(LauncherOptions { port_file, ..options(path) }).expect("it runs until it is killed");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.args(["--exact", "single::tests::as_many_nodes_end_as_the_variable_says"]);
        command.env(SOCKET, &path).env(KILL_VARIABLE, KILLED.to_string());
        let mut process = Process(command.spawn().expect("started"));
        let began = Instant::now();
        // Its last act before it serves.
        while !path.with_extension("ports").exists() {
            assert!(
                process.0.try_wait().expect("a child").is_none() && began.elapsed() < PATIENCE,
                "it does not begin"
            );
            std::thread::yield_now();
        }
        while nodes(&process).len() > NODE_COUNT - KILLED {
            assert!(began.elapsed() < PATIENCE, "{:?} live", nodes(&process));
            std::thread::yield_now();
        }
        let mut client = UnixStream::connect(&path).expect("it listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a socket");
        client.write_all(b"set key 0 0 5\r\nvalue\r\n").expect("sent");
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).expect("an answer");
        assert_eq!(answer, "STORED\r\n");
        assert_eq!(nodes(&process), (KILLED..NODE_COUNT).map(|number| format!("node {number}")).collect::<Vec<_>>());
    }
}
