//! What a local cluster is told at its start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use shorttail_gateway::engine::WhenFull;
use shorttail_gateway::redis::RedisCluster;
use shorttail_placement::Placement;
use shorttail_policy::{Hedge, PolicyName, SmallWrite, Update};

use shorttail_units::CodeShape;

use super::address::OptionalAddress;
use super::coordinator::{
    ADMIN_PORT, NODE_COUNT_DEFAULT, RETIRE_AFTER_S_DEFAULT, RETIRE_AFTER_S_MAX, check_node_count, partition_count,
};
use super::credentials::read_credentials_of;
use super::error::{ConfigError, within};
use super::gateway::{CONNECTION_COUNT_DEFAULT, MEMCACHED_PORT, REDIS_PORT};
use super::gateway::{block_bytes, check_client_ports, value_bytes};
use super::limits::*;
use super::metadata::{MetadataOptions, MetadataSpec};
use super::node::{NODE_MEMORY_DEFAULT, SCRUB_BANDWIDTH_DEFAULT, check_memory, check_repair_bandwidth};
use super::quantity::parse_seconds;
use super::sidestep::{DetectorName, Micros, Share, SidestepOptions, Switch, Text};
use super::size::Size;
use super::{by_text, merge, pick, take_live};

/// Configuration of a local cluster, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpConfig {
    pub node_count: usize,
    pub gateway_count: usize,
    pub code: CodeShape,
    pub node_memory: Size,
    /// Whether the memory of a node outlives its process.
    pub memory_file: bool,
    pub memcached: Option<SocketAddr>,
    pub redis: Option<SocketAddr>,
    pub admin: Option<SocketAddr>,
    pub dir: Option<PathBuf>,
    /// What is said of metadata; without a word it is kept in the directory.
    pub metadata: MetadataOptions,
    pub partition_count: Option<u16>,
    pub redis_cluster: RedisCluster,
    pub when_full: WhenFull,
    pub value_bytes_max: Size,
    pub block_bytes: Size,
    pub connection_count_max: usize,
    pub idle_timeout_s: u64,
    pub auth_file: Option<PathBuf>,
    pub node_threads: usize,
    pub gateway_threads: usize,
    pub transport: Transport,
    pub restart_nodes: bool,
    /// Seconds after its death until a node's memory is given up for good.
    pub retire_after_s: u64,
    /// What a node may fetch in a second to rebuild lost chunks.
    pub repair_bandwidth: Size,
    /// What a node looks at in a second to find damaged chunks.
    pub scrub_bandwidth: Size,
    pub placement: Placement,
    /// Failure domains over which the nodes are dealt in turn; 0: each fails alone.
    pub domain_count: usize,
    /// What is said of slow nodes, for the gateway.
    pub sidestep: SidestepOptions,
    pub allow_chaos: bool,
}

impl UpConfig {
    /// Takes over what may change while the cluster runs; names what else differs and has to wait for the next start.
    pub fn take_live(&mut self, mut wanted: Self) -> Vec<&'static str> {
        // Any free port is the one that it got.
        if wanted.admin.is_some_and(|admin| admin.port() == 0) && self.admin.is_some() {
            wanted.admin = self.admin;
        }
        take_live!(
            self,
            wanted,
            live { when_full, connection_count_max, idle_timeout_s, repair_bandwidth, scrub_bandwidth, sidestep },
            fixed {
                node_count = "--nodes",
                gateway_count = "--gateways",
                code = "--code",
                node_memory = "--node-memory",
                memory_file = "--memory-file",
                memcached = "--memcached",
                redis = "--redis",
                admin = "--admin",
                dir = "--dir",
                metadata = "--metadata",
                partition_count = "--partitions",
                redis_cluster = "--redis-cluster",
                value_bytes_max = "--value-bytes-max",
                block_bytes = "--block-bytes",
                auth_file = "--auth-file",
                node_threads = "--node-threads",
                gateway_threads = "--gateway-threads",
                transport = "--transport",
                restart_nodes = "--restart-nodes",
                retire_after_s = "--retire-after",
                placement = "--placement",
                domain_count = "--domains",
                allow_chaos = "--allow-chaos",
            }
        )
    }
}

/// How gateway and nodes of a local cluster talk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// Cheaper.
    #[default]
    Unix,
    /// As between machines.
    Tcp,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unix" => Ok(Transport::Unix),
            "tcp" => Ok(Transport::Tcp),
            _ => Err(format!("{text:?} is neither unix nor tcp")),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
        })
    }
}

by_text!(Transport);

/// Settings of a local cluster as flags, environment and file give them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct UpOptions {
    /// Node processes [default: 8, or as many as a stripe of --code needs]
    #[arg(long, env = "SHORTTAIL_UP_NODES", value_name = "N")]
    pub nodes: Option<usize>,
    /// Gateway processes, which share the partitions; further ones take the next ports [default: 1]
    #[arg(long, env = "SHORTTAIL_UP_GATEWAYS", value_name = "N")]
    pub gateways: Option<usize>,
    /// Erasure code: any M (or G+1) nodes may die, rs:K+M or lrc:K+L+G [default: rs:4+2]
    #[arg(long, env = "SHORTTAIL_UP_CODE", value_name = "CODE")]
    pub code: Option<Text<CodeShape>>,
    /// Memory of each node [default: 256MiB]
    #[arg(long, env = "SHORTTAIL_UP_NODE_MEMORY", value_name = "SIZE")]
    pub node_memory: Option<Size>,
    /// Keep the memory of each node in a file, in --dir or else in /dev/shm: a restarted node has its
    /// chunks [default: false]
    #[arg(
        long,
        env = "SHORTTAIL_UP_MEMORY_FILE",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
    )]
    pub memory_file: Option<bool>,
    /// Where memcached clients connect, or off; port 0: any free port [default: 127.0.0.1:11211]
    #[arg(long, env = "SHORTTAIL_UP_MEMCACHED", value_name = "ADDR")]
    pub memcached: Option<OptionalAddress>,
    /// Where Redis clients connect, or off; port 0: any free port [default: 127.0.0.1:6379]
    #[arg(long, env = "SHORTTAIL_UP_REDIS", value_name = "ADDR")]
    pub redis: Option<OptionalAddress>,
    /// Where status, metrics and the page are served, or off; port 0: any free port [default: 127.0.0.1:8080]
    #[arg(long, env = "SHORTTAIL_UP_ADMIN", value_name = "ADDR")]
    pub admin: Option<OptionalAddress>,
    /// Directory for sockets and the coordinator's state [default: a temporary one, removed at the end]
    #[arg(long, env = "SHORTTAIL_UP_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where identity and epochs are kept: file:DIR or etcd:URL,URL... [default: the directory]
    #[arg(long, env = "SHORTTAIL_UP_METADATA", value_name = "WHERE")]
    pub metadata: Option<MetadataSpec>,
    /// What the keys of this cluster begin with in etcd [default: /shorttail/]
    #[arg(long, env = "SHORTTAIL_UP_METADATA_PREFIX", value_name = "PREFIX")]
    pub metadata_prefix: Option<String>,
    /// File with the user:password line for etcd
    #[arg(long, env = "SHORTTAIL_UP_METADATA_AUTH_FILE", value_name = "FILE")]
    pub metadata_auth_file: Option<PathBuf>,
    /// Files for etcd over TLS: its authority, and the certificate to show with its key
    #[arg(long, env = "SHORTTAIL_UP_METADATA_TLS", value_name = "CA[,CERT,KEY]")]
    pub metadata_tls: Option<String>,
    /// Seconds between a standby's checks of etcd, if no notification comes [default: 2]
    #[arg(long, env = "SHORTTAIL_UP_METADATA_POLL", value_name = "SECONDS", value_parser = parse_seconds)]
    pub metadata_poll: Option<u64>,
    /// Units of ownership and parallelism; the same for the whole life of a cluster [default: as it was made; at first
    /// 4 for each thread of each gateway]
    #[arg(long, env = "SHORTTAIL_UP_PARTITIONS", value_name = "N", value_parser = partition_count())]
    pub partitions: Option<u16>,
    /// on: send Redis clients to the gateway that owns a key, as Redis Cluster does; off: tell who owns it, and serve
    /// any key; none: serve any key, and refuse CLUSTER, as a Redis without cluster does [default: off]
    #[arg(long, env = "SHORTTAIL_UP_REDIS_CLUSTER", value_name = "on|off|none")]
    pub redis_cluster: Option<Text<RedisCluster>>,
    /// When memory is full: evict the coldest objects, or refuse writes with an error [default: evict]
    #[arg(long, env = "SHORTTAIL_UP_WHEN_FULL", value_name = "evict|error")]
    pub when_full: Option<Text<WhenFull>>,
    /// Largest value [default: 1MiB]
    #[arg(long, env = "SHORTTAIL_UP_VALUE_BYTES_MAX", value_name = "SIZE")]
    pub value_bytes_max: Option<Size>,
    /// Unit in which objects are small or large, and to which they are padded [default: 4KiB]
    #[arg(long, env = "SHORTTAIL_UP_BLOCK_BYTES", value_name = "SIZE")]
    pub block_bytes: Option<Size>,
    /// Client connections at once [default: 16384]
    #[arg(long, env = "SHORTTAIL_UP_CONNECTIONS_MAX", value_name = "N")]
    pub connections_max: Option<usize>,
    /// Seconds after which an idle client is disconnected; 0: never [default: 0]
    #[arg(long, env = "SHORTTAIL_UP_IDLE_TIMEOUT", value_name = "SECONDS", value_parser = parse_seconds)]
    pub idle_timeout: Option<u64>,
    /// File of user:password lines; clients must authenticate
    #[arg(long, env = "SHORTTAIL_UP_AUTH_FILE", value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Threads of each node [default: 1]
    #[arg(long, env = "SHORTTAIL_UP_NODE_THREADS", value_name = "N")]
    pub node_threads: Option<usize>,
    /// Threads of each gateway [default: 1]
    #[arg(long, env = "SHORTTAIL_UP_GATEWAY_THREADS", value_name = "N")]
    pub gateway_threads: Option<usize>,
    /// How gateway and nodes talk [default: unix]
    #[arg(long, env = "SHORTTAIL_UP_TRANSPORT", value_name = "unix|tcp")]
    pub transport: Option<Transport>,
    /// Start a node again when it dies, with empty memory unless it is kept in a file [default: as --memory-file]
    #[arg(
        long,
        env = "SHORTTAIL_UP_RESTART_NODES",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
    )]
    pub restart_nodes: Option<bool>,
    /// Seconds after its death until the memory of a node is given up for good, and repair begins [default: 30]
    #[arg(long, alias = "repair-grace", env = "SHORTTAIL_UP_RETIRE_AFTER", value_name = "SECONDS", value_parser = parse_seconds)]
    pub retire_after: Option<u64>,
    /// What each node may fetch in a second to rebuild lost chunks [default: 64MiB]
    #[arg(long, env = "SHORTTAIL_UP_REPAIR_BANDWIDTH", value_name = "SIZE")]
    pub repair_bandwidth: Option<Size>,
    /// What each node looks at in a second, in the background, to find damaged chunks; 0: nothing [default: 4MiB]
    #[arg(long, env = "SHORTTAIL_UP_SCRUB_BANDWIDTH", value_name = "SIZE")]
    pub scrub_bandwidth: Option<Size>,
    /// Which nodes hold a new stripe: least-loaded, coding-sets:L (of groups of K+M+L nodes), random or two-choices
    /// [default: least-loaded]
    #[arg(long, env = "SHORTTAIL_UP_PLACEMENT", value_name = "PLACEMENT")]
    pub placement: Option<Text<Placement>>,
    /// Failure domains, to which the nodes belong in turn; 0: each node fails alone [default: 0]
    #[arg(long, env = "SHORTTAIL_UP_DOMAINS", value_name = "N")]
    pub domains: Option<usize>,
    /// What is done about slow nodes: ecwide, llf, ec-cache, shorttail or adaptive [default: adaptive]
    #[arg(long, env = "SHORTTAIL_UP_POLICY", value_name = "POLICY")]
    pub policy: Option<PolicyName>,
    /// Whether reads go round fail-slow nodes [default: the policy's]
    #[arg(long, env = "SHORTTAIL_UP_READ_SIDESTEP", value_name = "on|off")]
    pub read_sidestep: Option<Switch>,
    /// Whether writes leave fail-slow nodes [default: the policy's]
    #[arg(long, env = "SHORTTAIL_UP_WRITE_SIDESTEP", value_name = "on|off")]
    pub write_sidestep: Option<Switch>,
    /// What becomes of small objects: packed (they share chunks), replicate (whole copies) or pad (a stripe each)
    /// [default: the policy's]
    #[arg(long, env = "SHORTTAIL_UP_SMALL_WRITE", value_name = "STRATEGY")]
    pub small_write: Option<SmallWrite>,
    /// Where new values of striped objects go: log (any nodes) or in-place (those of the old one)
    /// [default: the policy's]
    #[arg(long, env = "SHORTTAIL_UP_UPDATE", value_name = "STRATEGY")]
    pub update: Option<Update>,
    /// Extra requests: off, adaptive (when one is late) or late-binding:N (always N more; N:4% for a share of reads)
    /// [default: the policy's]
    #[arg(long, env = "SHORTTAIL_UP_HEDGE", value_name = "HEDGE")]
    pub hedge: Option<Hedge>,
    /// Adaptive hedges for each request, at most [default: 5%]
    #[arg(long, env = "SHORTTAIL_UP_HEDGE_BUDGET", value_name = "SHARE")]
    pub hedge_budget: Option<Share>,
    /// How fail-slow nodes are found: adaptive, fixed or off [default: the policy's]
    #[arg(long, env = "SHORTTAIL_UP_DETECTOR", value_name = "DETECTOR")]
    pub detector: Option<DetectorName>,
    /// Timeslice of the detector, as 20ms [default: follows the requests]
    #[arg(long, env = "SHORTTAIL_UP_SLICE", value_name = "TIME")]
    pub slice: Option<Micros>,
    /// Mean latency of a slice above which a node is fail-slow, as 60ms [default: follows the other nodes]
    #[arg(long, env = "SHORTTAIL_UP_FAIL_SLOW_ABOVE", value_name = "TIME")]
    pub fail_slow_above: Option<Micros>,
    /// Obey `shorttail chaos`: nodes are slow, lossy or dead on order [default: false]
    #[arg(
        long,
        env = "SHORTTAIL_UP_ALLOW_CHAOS",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
    )]
    pub allow_chaos: Option<bool>,
}

impl UpOptions {
    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, those: Self) -> Self {
        merge! { self, those, UpOptions {
            nodes, gateways, code, node_memory, memory_file, memcached, redis, admin, dir, metadata, metadata_prefix,
            metadata_auth_file, metadata_tls, metadata_poll, partitions, redis_cluster, when_full, value_bytes_max,
            block_bytes, connections_max, idle_timeout, auth_file, node_threads, gateway_threads, transport,
            restart_nodes, retire_after, repair_bandwidth, scrub_bandwidth, placement, domains, policy, read_sidestep,
            write_sidestep, small_write, update, hedge, hedge_budget, detector, slice, fail_slow_above, allow_chaos
        }}
    }

    /// # Errors
    /// Names the setting that makes no sense.
    pub fn resolve(self) -> Result<UpConfig, ConfigError> {
        let sidestep = self.sidestep();
        sidestep.resolve("up")?;
        let code = self.code.unwrap_or_default().0;
        let node_count = self.nodes.unwrap_or(NODE_COUNT_DEFAULT.max(code.chunk_count()));
        check_node_count("up", code, node_count)?;
        within("up", "nodes", node_count, 1, UP_NODE_COUNT_MAX)?;
        let node_threads = within("up", "node_threads", self.node_threads.unwrap_or(1), 1, NODE_THREAD_COUNT_MAX)?;
        let node_memory = self.node_memory.unwrap_or(NODE_MEMORY_DEFAULT);
        check_memory("up", "node_memory", node_memory, node_threads)?;
        let memcached = self.memcached.unwrap_or_else(|| OptionalAddress::loopback(MEMCACHED_PORT)).0;
        let redis = self.redis.unwrap_or_else(|| OptionalAddress::loopback(REDIS_PORT)).0;
        let admin = self.admin.unwrap_or_else(|| OptionalAddress::loopback(ADMIN_PORT)).0;
        let gateway_count = within("up", "gateways", self.gateways.unwrap_or(1), 1, UP_GATEWAY_COUNT_MAX)?;
        check_up_ports(memcached, redis, admin, gateway_count)?;
        if let Some(file) = &self.auth_file {
            read_credentials_of("up", file)?;
        }
        let within_bounds = |partitions| within("up", "partitions", partitions, 1, PARTITION_COUNT_MAX);
        let connections = self.connections_max.unwrap_or(CONNECTION_COUNT_DEFAULT);
        let metadata = pick! { self, MetadataOptions {
            metadata, metadata_prefix, metadata_auth_file, metadata_tls, metadata_poll
        }};
        metadata.clone().resolve("up", None)?;
        Ok(UpConfig {
            node_count,
            gateway_count,
            code,
            node_memory,
            memory_file: self.memory_file.unwrap_or(false),
            memcached,
            redis,
            admin,
            dir: self.dir,
            metadata,
            partition_count: self.partitions.map(within_bounds).transpose()?,
            redis_cluster: self.redis_cluster.map(|told| told.0).unwrap_or_default(),
            when_full: self.when_full.map(|told| told.0).unwrap_or_default(),
            value_bytes_max: value_bytes("up", self.value_bytes_max)?,
            block_bytes: block_bytes("up", self.block_bytes)?,
            connection_count_max: within("up", "connections_max", connections, 1, CONNECTION_COUNT_MAX)?,
            idle_timeout_s: within("up", "idle_timeout", self.idle_timeout.unwrap_or(0), 0, IDLE_TIMEOUT_S_MAX)?,
            auth_file: self.auth_file,
            node_threads,
            gateway_threads: within(
                "up",
                "gateway_threads",
                self.gateway_threads.unwrap_or(1),
                1,
                GATEWAY_THREAD_COUNT_MAX,
            )?,
            transport: self.transport.unwrap_or_default(),
            restart_nodes: self.restart_nodes.or(self.memory_file).unwrap_or(false),
            retire_after_s: within(
                "up",
                "retire_after",
                self.retire_after.unwrap_or(RETIRE_AFTER_S_DEFAULT),
                1,
                RETIRE_AFTER_S_MAX,
            )?,
            repair_bandwidth: check_repair_bandwidth("up", self.repair_bandwidth)?,
            scrub_bandwidth: self.scrub_bandwidth.unwrap_or(SCRUB_BANDWIDTH_DEFAULT),
            placement: self.placement.unwrap_or_default().0,
            domain_count: within("up", "domains", self.domains.unwrap_or(0), 0, UP_NODE_COUNT_MAX)?,
            sidestep,
            allow_chaos: self.allow_chaos.unwrap_or(false),
        })
    }

    fn sidestep(&self) -> SidestepOptions {
        pick! { self, SidestepOptions {
            policy, read_sidestep, write_sidestep, small_write, update, hedge, hedge_budget, detector, slice,
            fail_slow_above
        }}
    }
}

impl UpConfig {
    /// Where clients of the gateway of this place connect: with memcached, and with Redis.
    pub fn client_addresses(&self, place: usize) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (self.memcached.and_then(|address| nth(address, place)), self.redis.and_then(|address| nth(address, place)))
    }
}

/// The address `place` ports further on; port 0 is any free port for everybody. `None`: there are no more ports.
fn nth(address: SocketAddr, place: usize) -> Option<SocketAddr> {
    let step = if address.port() == 0 { 0 } else { u16::try_from(place).ok()? };
    Some(SocketAddr::new(address.ip(), address.port().checked_add(step)?))
}

fn check_up_ports(
    memcached: Option<SocketAddr>,
    redis: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    gateway_count: usize,
) -> Result<(), ConfigError> {
    if memcached.is_none() && redis.is_none() {
        return Err(ConfigError::setting("up", "memcached", "with --redis off too, no client could connect"));
    }
    check_client_ports("up", memcached, redis)?;
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    for place in 0..gateway_count {
        for (key, flag, first) in [("memcached", "--memcached", memcached), ("redis", "--redis", redis)] {
            let Some(first) = first else { continue };
            let Some(address) = nth(first, place) else {
                let problem = format!("{first}: there are no {gateway_count} ports from it on, one for each gateway");
                return Err(ConfigError::setting("up", key, problem));
            };
            let twice = taken.iter().find(|(_, other)| *other == address && address.port() != 0);
            if let Some((other, _)) = twice {
                let problem = format!("{address} of gateway {place} is also an address of {other}");
                return Err(ConfigError::setting("up", key, problem));
            }
            taken.push((flag, address));
        }
    }
    let of_clients = taken.iter().find(|(_, address)| Some(*address) == admin && address.port() != 0);
    if let Some((flag, address)) = of_clients {
        return Err(ConfigError::setting("up", "admin", format!("{address} is also an address of {flag}")));
    }
    Ok(())
}
