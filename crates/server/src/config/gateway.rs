//! What a gateway is told at its start.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use shorttail_gateway::engine::WhenFull;
use shorttail_gateway::redis::RedisCluster;
use shorttail_gateway::session::Credential;
use shorttail_placement::Placement;
use shorttail_policy::{Hedge, PolicyName, SmallWrite, Update};
use shorttail_units::{ClusterId, CodeShape, Epoch, NodeId};

use super::address::{Address, Addresses, OptionalAddress};
use super::coordinator::{PARTITION_COUNT_DEFAULT, check_node_count, partition_count};
use super::credentials::read_credentials_of;
use super::error::{ConfigError, within};
use super::limits::*;
use super::node::ClusterName;
use super::quantity::parse_seconds;
use super::sidestep::{DetectorName, Micros, Share, SidestepConfig, SidestepOptions, Switch, Text};
use super::size::Size;
use super::{by_text, merge, pick, take_live};

/// Configuration of one gateway, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayConfig {
    /// Where memcached clients connect; port 0: any free port.
    pub memcached: Option<SocketAddr>,
    /// Where Redis clients connect; port 0: any free port.
    pub redis: Option<SocketAddr>,
    /// Where memcached clients connect on this machine.
    pub unix_socket: Option<UnixSocketConfig>,
    /// Where metrics and health are served over HTTP; port 0: any free port.
    pub admin: Option<SocketAddr>,
    /// Where other gateways connect; none: they cannot.
    pub forward: Option<Address>,
    /// What they are told instead of where it really listens.
    pub forward_advertise: Option<Address>,
    /// What Redis clients are told instead of where it really listens for them.
    pub redis_advertise: Option<SocketAddr>,
    pub membership: GatewayMembership,
    pub redis_cluster: RedisCluster,
    pub when_full: WhenFull,
    pub value_bytes_max: usize,
    /// Unit of the small-write threshold and of padding.
    pub block_bytes: usize,
    pub key_bytes_max: usize,
    pub connection_count_max: usize,
    /// Seconds; 0: none.
    pub idle_timeout_s: u64,
    pub threads: usize,
    /// Milliseconds that a node may owe an answer until it is suspect; after twenty of them it is hung.
    pub request_deadline_ms: u64,
    /// Who may use the store; empty: anyone.
    pub credentials: Vec<Credential>,
    /// How the members of new stripes are chosen.
    pub placement: Placement,
    /// What is done about slow nodes.
    pub sidestep: SidestepConfig,
}

impl GatewayConfig {
    /// Takes over what may change while the gateway runs; names what else differs and has to wait for the next start.
    pub fn take_live(&mut self, wanted: Self) -> Vec<&'static str> {
        take_live!(
            self,
            wanted,
            live { when_full, connection_count_max, idle_timeout_s, sidestep },
            fixed {
                memcached = "--memcached",
                redis = "--redis",
                unix_socket = "--unix-socket",
                admin = "--admin",
                forward = "--forward",
                forward_advertise = "--forward-advertise",
                redis_advertise = "--redis-advertise",
                membership = "--coordinator",
                redis_cluster = "--redis-cluster",
                value_bytes_max = "--value-bytes-max",
                block_bytes = "--block-bytes",
                key_bytes_max = "--key-bytes-max",
                threads = "--threads",
                request_deadline_ms = "--request-deadline-ms",
                credentials = "--auth-file",
                placement = "--placement",
            }
        )
    }
}

/// A listening Unix socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnixSocketConfig {
    pub path: PathBuf,
    /// Permission bits of the socket file.
    pub mode: u32,
}

/// How a gateway learns of its cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GatewayMembership {
    Coordinator(Addresses),
    Static(StaticCluster),
}

/// A cluster without a coordinator: the operator says what a coordinator would.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticCluster {
    pub cluster_id: ClusterId,
    /// Must be higher at each start of a gateway on the same nodes.
    pub epoch: Epoch,
    pub code: CodeShape,
    pub partition_count: u16,
    pub nodes: Vec<StaticNode>,
}

/// `0=127.0.0.1:7001`: a node of a cluster without a coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticNode {
    pub id: NodeId,
    pub address: Address,
}

impl FromStr for StaticNode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, address) = text.split_once('=').ok_or_else(|| format!("{text:?} is not a node: write ID=ADDRESS"))?;
        let id = id.trim().parse().map_err(|_| format!("{id:?} is not a node id (0 to 65535)"))?;
        let address = address.trim().parse::<Address>().map_err(|error| error.to_string())?;
        Ok(StaticNode { id: NodeId(id), address })
    }
}

by_text!(StaticNode);

/// Where memcached clients look for a server.
pub const MEMCACHED_PORT: u16 = 11211;
/// Where Redis clients look for a server.
pub const REDIS_PORT: u16 = 6379;
/// The famous limit of memcached.
pub const VALUE_BYTES_DEFAULT: Size = Size::mib(1);
pub const BLOCK_BYTES_DEFAULT: Size = Size(4 << 10);
/// Client connections when nothing is said; they cost memory only when they come.
pub const CONNECTION_COUNT_DEFAULT: usize = 16_384;
const KEY_BYTES_DEFAULT: Size = Size(8 << 10);
/// Long enough for a busy machine's scheduler, short enough that clients of a hung node hardly notice.
const REQUEST_DEADLINE_MS_DEFAULT: u64 = 100;

/// Permission bits of a socket file, written in octal as everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode(pub u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bits = u32::from_str_radix(text, 8).ok().filter(|&bits| bits <= 0o777);
        bits.map(Mode).ok_or_else(|| format!("{text:?} is not an octal mode such as \"700\""))
    }
}

by_text!(Mode);

/// Settings of a gateway as flags, environment and file give them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayOptions {
    /// Where memcached clients connect, or off [default: 127.0.0.1:11211]
    #[arg(long, env = "SHORTTAIL_GATEWAY_MEMCACHED", value_name = "ADDR")]
    pub memcached: Option<OptionalAddress>,
    /// Where Redis clients connect, or off [default: 127.0.0.1:6379]
    #[arg(long, env = "SHORTTAIL_GATEWAY_REDIS", value_name = "ADDR")]
    pub redis: Option<OptionalAddress>,
    /// A Unix socket for memcached clients
    #[arg(long, env = "SHORTTAIL_GATEWAY_UNIX_SOCKET", value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,
    /// Where metrics and health of this gateway are served over HTTP, or off [default: off]
    #[arg(long, env = "SHORTTAIL_GATEWAY_ADMIN", value_name = "ADDR")]
    pub admin: Option<OptionalAddress>,
    /// Where other gateways connect, host:port or unix:/path [default: any free port of the address that clients use]
    #[arg(long, env = "SHORTTAIL_GATEWAY_FORWARD", value_name = "ADDR")]
    pub forward: Option<Address>,
    /// What other gateways are told instead of where it listens for them
    #[arg(long, env = "SHORTTAIL_GATEWAY_FORWARD_ADVERTISE", value_name = "ADDR")]
    pub forward_advertise: Option<Address>,
    /// What cluster-aware Redis clients are told instead of where it listens for them, or off [default: off]
    #[arg(long, env = "SHORTTAIL_GATEWAY_REDIS_ADVERTISE", value_name = "ADDR")]
    pub redis_advertise: Option<OptionalAddress>,
    /// Permissions of the Unix socket, in octal [default: 700]
    #[arg(long, env = "SHORTTAIL_GATEWAY_UNIX_SOCKET_MODE", value_name = "MODE")]
    pub unix_socket_mode: Option<Mode>,
    /// The coordinator to register with; of several, the one that leads is found
    #[arg(long, env = "SHORTTAIL_GATEWAY_COORDINATOR", value_name = "ADDR,...")]
    pub coordinator: Option<Addresses>,
    /// Without a coordinator: the cluster, in hexadecimal
    #[arg(long, env = "SHORTTAIL_GATEWAY_CLUSTER_ID", value_name = "HEX")]
    pub cluster_id: Option<ClusterName>,
    /// Without a coordinator: a number higher than at any earlier start
    #[arg(long, env = "SHORTTAIL_GATEWAY_EPOCH", value_name = "N")]
    pub epoch: Option<u32>,
    /// Without a coordinator: all nodes, as ID=ADDRESS
    #[arg(long, env = "SHORTTAIL_GATEWAY_NODES", value_name = "ID=ADDR", value_delimiter = ',')]
    pub nodes: Option<Vec<StaticNode>>,
    /// Without a coordinator: the erasure code, rs:K+M or lrc:K+L+G [default: rs:4+2]
    #[arg(long, env = "SHORTTAIL_GATEWAY_CODE", value_name = "CODE")]
    pub code: Option<Text<CodeShape>>,
    /// Without a coordinator: units of ownership and parallelism [default: 4]
    #[arg(long, env = "SHORTTAIL_GATEWAY_PARTITIONS", value_name = "N", value_parser = partition_count())]
    pub partitions: Option<u16>,
    /// on: send Redis clients to the gateway that owns a key, as Redis Cluster does; off: tell who owns it, and serve
    /// any key; none: serve any key, and refuse CLUSTER, as a Redis without cluster does [default: off]
    #[arg(long, env = "SHORTTAIL_GATEWAY_REDIS_CLUSTER", value_name = "on|off|none")]
    pub redis_cluster: Option<Text<RedisCluster>>,
    /// When memory is full: evict the coldest objects, or refuse writes with an error [default: evict]
    #[arg(long, env = "SHORTTAIL_GATEWAY_WHEN_FULL", value_name = "evict|error")]
    pub when_full: Option<Text<WhenFull>>,
    /// Largest value [default: 1MiB]
    #[arg(long, env = "SHORTTAIL_GATEWAY_VALUE_BYTES_MAX", value_name = "SIZE")]
    pub value_bytes_max: Option<Size>,
    /// Unit in which objects are small or large, and to which they are padded [default: 4KiB]
    #[arg(long, env = "SHORTTAIL_GATEWAY_BLOCK_BYTES", value_name = "SIZE")]
    pub block_bytes: Option<Size>,
    /// Largest key of a Redis client; memcached's limit is its own 250 bytes [default: 8KiB]
    #[arg(long, env = "SHORTTAIL_GATEWAY_KEY_BYTES_MAX", value_name = "SIZE")]
    pub key_bytes_max: Option<Size>,
    /// Client connections at once [default: 16384]
    #[arg(long, env = "SHORTTAIL_GATEWAY_CONNECTIONS_MAX", value_name = "N")]
    pub connections_max: Option<usize>,
    /// Seconds after which an idle client is disconnected; 0: never [default: 0]
    #[arg(long, env = "SHORTTAIL_GATEWAY_IDLE_TIMEOUT", value_name = "SECONDS", value_parser = parse_seconds)]
    pub idle_timeout: Option<u64>,
    /// Threads, at most 64; each owns some of the partitions [default: 1]
    #[arg(long, env = "SHORTTAIL_GATEWAY_THREADS", value_name = "N")]
    pub threads: Option<usize>,
    /// Milliseconds a node may owe an answer before gateways may go round it; after twenty times that nobody waits for
    /// it [default: 100]
    #[arg(long, env = "SHORTTAIL_GATEWAY_REQUEST_DEADLINE_MS", value_name = "MS")]
    pub request_deadline_ms: Option<u64>,
    /// File of user:password lines; clients must authenticate
    #[arg(long, env = "SHORTTAIL_GATEWAY_AUTH_FILE", value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Which nodes hold a new stripe: least-loaded, coding-sets:L (of groups of K+M+L nodes), random or two-choices
    /// [default: least-loaded]
    #[arg(long, env = "SHORTTAIL_GATEWAY_PLACEMENT", value_name = "PLACEMENT")]
    pub placement: Option<Text<Placement>>,
    /// What is done about slow nodes: ecwide, llf, ec-cache, shorttail or adaptive [default: adaptive]
    #[arg(long, env = "SHORTTAIL_GATEWAY_POLICY", value_name = "POLICY")]
    pub policy: Option<PolicyName>,
    /// Whether reads go round fail-slow nodes [default: the policy's]
    #[arg(long, env = "SHORTTAIL_GATEWAY_READ_SIDESTEP", value_name = "on|off")]
    pub read_sidestep: Option<Switch>,
    /// Whether writes leave fail-slow nodes [default: the policy's]
    #[arg(long, env = "SHORTTAIL_GATEWAY_WRITE_SIDESTEP", value_name = "on|off")]
    pub write_sidestep: Option<Switch>,
    /// What becomes of small objects: packed (they share chunks), replicate (whole copies) or pad (a stripe each)
    /// [default: the policy's]
    #[arg(long, env = "SHORTTAIL_GATEWAY_SMALL_WRITE", value_name = "STRATEGY")]
    pub small_write: Option<SmallWrite>,
    /// Where new values of striped objects go: log (any nodes) or in-place (those of the old one)
    /// [default: the policy's]
    #[arg(long, env = "SHORTTAIL_GATEWAY_UPDATE", value_name = "STRATEGY")]
    pub update: Option<Update>,
    /// Extra requests: off, adaptive (when one is late) or late-binding:N (always N more; N:4% for a share of reads)
    /// [default: the policy's]
    #[arg(long, env = "SHORTTAIL_GATEWAY_HEDGE", value_name = "HEDGE")]
    pub hedge: Option<Hedge>,
    /// Adaptive hedges for each request, at most [default: 5%]
    #[arg(long, env = "SHORTTAIL_GATEWAY_HEDGE_BUDGET", value_name = "SHARE")]
    pub hedge_budget: Option<Share>,
    /// How fail-slow nodes are found: adaptive, fixed or off [default: the policy's]
    #[arg(long, env = "SHORTTAIL_GATEWAY_DETECTOR", value_name = "DETECTOR")]
    pub detector: Option<DetectorName>,
    /// Timeslice of the detector, as 20ms [default: follows the requests]
    #[arg(long, env = "SHORTTAIL_GATEWAY_SLICE", value_name = "TIME")]
    pub slice: Option<Micros>,
    /// Mean latency of a slice above which a node is fail-slow, as 60ms [default: follows the other nodes]
    #[arg(long, env = "SHORTTAIL_GATEWAY_FAIL_SLOW_ABOVE", value_name = "TIME")]
    pub fail_slow_above: Option<Micros>,
}

impl GatewayOptions {
    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, those: Self) -> Self {
        merge! { self, those, GatewayOptions {
            memcached, redis, unix_socket, unix_socket_mode, admin, forward, forward_advertise, redis_advertise,
            coordinator, cluster_id, epoch, nodes, code, partitions, redis_cluster, when_full, value_bytes_max,
            block_bytes, key_bytes_max, connections_max, idle_timeout, threads, request_deadline_ms, auth_file,
            placement, policy, read_sidestep, write_sidestep, small_write, update, hedge, hedge_budget, detector, slice,
            fail_slow_above
        }}
    }

    /// # Errors
    /// Names the setting that makes no sense.
    pub fn resolve(self) -> Result<GatewayConfig, ConfigError> {
        let membership = self.membership()?;
        let sidestep = self.sidestep().resolve("gateway")?;
        let memcached = self.memcached.unwrap_or_else(|| OptionalAddress::loopback(MEMCACHED_PORT)).0;
        let redis = self.redis.unwrap_or_else(|| OptionalAddress::loopback(REDIS_PORT)).0;
        check_client_ports("gateway", memcached, redis)?;
        let mode = self.unix_socket_mode.unwrap_or(Mode(0o700)).0;
        let unix_socket = self.unix_socket.map(|path| UnixSocketConfig { path, mode });
        if memcached.is_none() && redis.is_none() && unix_socket.is_none() {
            return Err(ConfigError::setting("gateway", "memcached", "with --redis off too, no client could connect"));
        }
        let forward = match (&membership, self.forward) {
            (GatewayMembership::Static(_), _) => None,
            (GatewayMembership::Coordinator(_), Some(address)) => Some(address),
            (GatewayMembership::Coordinator(_), None) => Some(beside(memcached.or(redis))),
        };
        let redis_advertise = self.redis_advertise.and_then(|address| address.0);
        if let Some(Address::Tcp(address)) = self.forward_advertise {
            check_advertised("gateway", "forward_advertise", address)?;
        }
        if let Some(address) = redis_advertise {
            check_advertised("gateway", "redis_advertise", address)?;
        }
        let value_bytes_max = value_bytes("gateway", self.value_bytes_max)?;
        let key_bytes_max = self.key_bytes_max.unwrap_or(KEY_BYTES_DEFAULT);
        let connections = self.connections_max.unwrap_or(CONNECTION_COUNT_DEFAULT);
        let deadline_ms = self.request_deadline_ms.unwrap_or(REQUEST_DEADLINE_MS_DEFAULT);
        Ok(GatewayConfig {
            memcached,
            redis,
            unix_socket,
            admin: self.admin.and_then(|admin| admin.0),
            forward,
            forward_advertise: self.forward_advertise,
            redis_advertise,
            membership,
            redis_cluster: self.redis_cluster.map(|told| told.0).unwrap_or_default(),
            when_full: self.when_full.map(|told| told.0).unwrap_or_default(),
            value_bytes_max: value_bytes_max.as_usize(),
            block_bytes: block_bytes("gateway", self.block_bytes)?.as_usize(),
            key_bytes_max: within("gateway", "key_bytes_max", key_bytes_max, Size(1), KEY_BYTES_MAX)?.as_usize(),
            connection_count_max: within("gateway", "connections_max", connections, 1, CONNECTION_COUNT_MAX)?,
            idle_timeout_s: within("gateway", "idle_timeout", self.idle_timeout.unwrap_or(0), 0, IDLE_TIMEOUT_S_MAX)?,
            threads: within("gateway", "threads", self.threads.unwrap_or(1), 1, GATEWAY_THREAD_COUNT_MAX)?,
            request_deadline_ms: within("gateway", "request_deadline_ms", deadline_ms, 1, REQUEST_DEADLINE_MS_MAX)?,
            placement: self.placement.unwrap_or_default().0,
            sidestep,
            credentials: match &self.auth_file {
                Some(file) => read_credentials_of("gateway", file)?,
                None => Vec::new(),
            },
        })
    }

    fn sidestep(&self) -> SidestepOptions {
        pick! { self, SidestepOptions {
            policy, read_sidestep, write_sidestep, small_write, update, hedge, hedge_budget, detector, slice,
            fail_slow_above
        }}
    }

    fn membership(&self) -> Result<GatewayMembership, ConfigError> {
        let error = |key, problem: &str| Err(ConfigError::setting("gateway", key, problem));
        if let Some(addresses) = &self.coordinator {
            return match (&self.nodes, self.epoch, self.cluster_id) {
                (None, None, None) => Ok(GatewayMembership::Coordinator(addresses.clone())),
                (Some(_), _, _) => error("nodes", "is the coordinator's to say; give one of the two"),
                (_, Some(_), _) => error("epoch", "is the coordinator's to say; give one of the two"),
                (_, _, Some(_)) => error("cluster_id", "is the coordinator's to say; give one of the two"),
            };
        }
        let Some(nodes) = &self.nodes else {
            return error("coordinator", "is needed (or, without one, --cluster-id, --epoch and --nodes)");
        };
        let Some(ClusterName(cluster_id)) = self.cluster_id else {
            return error("cluster_id", "is needed beside --nodes");
        };
        let Some(epoch) = self.epoch else { return error("epoch", "is needed beside --nodes") };
        within("gateway", "epoch", epoch, 1, Epoch::MAX.0)?;
        let code = self.code.unwrap_or_default().0;
        check_node_count("gateway", code, nodes.len())?;
        let distinct: std::collections::BTreeSet<NodeId> = nodes.iter().map(|node| node.id).collect();
        if distinct.len() < nodes.len() {
            return error("nodes", "names a node id twice");
        }
        let partitions = self.partitions.unwrap_or(PARTITION_COUNT_DEFAULT);
        Ok(GatewayMembership::Static(StaticCluster {
            cluster_id,
            epoch: Epoch(epoch),
            code,
            partition_count: within("gateway", "partitions", partitions, 1, PARTITION_COUNT_MAX)?,
            nodes: nodes.clone(),
        }))
    }
}

/// Any free port of the address that clients use: whoever reaches the one reaches the other.
fn beside(clients: Option<SocketAddr>) -> Address {
    let ip = clients.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip());
    Address::Tcp(SocketAddr::new(ip, 0))
}

/// What others are told must be an address to which they can connect.
///
/// # Errors
/// When it is every address of a machine, or no port.
pub fn check_advertised(section: &'static str, key: &'static str, address: SocketAddr) -> Result<(), ConfigError> {
    let lacks = match (address.ip().is_unspecified(), address.port()) {
        (true, _) => "one host",
        (false, 0) => "a port",
        (false, _) => return Ok(()),
    };
    Err(ConfigError::setting(
        section,
        key,
        format!("{address} is what others are told to connect to: it must name {lacks}"),
    ))
}

/// Two services cannot share a port; port 0 is any free one.
///
/// # Errors
/// Names the port.
pub fn check_client_ports(
    section: &'static str,
    memcached: Option<SocketAddr>,
    redis: Option<SocketAddr>,
) -> Result<(), ConfigError> {
    match (memcached, redis) {
        (Some(one), Some(other)) if one == other && one.port() != 0 => {
            Err(ConfigError::setting(section, "redis", format!("{one} is also the address of --memcached")))
        }
        _ => Ok(()),
    }
}

/// # Errors
/// When no chunk could hold such a block, or it would be all header.
pub fn block_bytes(section: &'static str, size: Option<Size>) -> Result<Size, ConfigError> {
    within(section, "block_bytes", size.unwrap_or(BLOCK_BYTES_DEFAULT), BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)
}

/// # Errors
/// When the limit is outside of memcached's own.
pub fn value_bytes(section: &'static str, size: Option<Size>) -> Result<Size, ConfigError> {
    within(section, "value_bytes_max", size.unwrap_or(VALUE_BYTES_DEFAULT), VALUE_BYTES_MIN, VALUE_BYTES_MAX)
}
