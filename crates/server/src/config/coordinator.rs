//! What the coordinator is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use serde::Deserialize;

use shorttail_units::CodeShape;

use super::address::{Address, OptionalAddress};
use super::error::{ConfigError, within};
use super::limits::{GATEWAY_COUNT_MAX, GATEWAY_THREAD_COUNT_MAX, NODE_COUNT_MAX, PARTITION_COUNT_MAX};
use super::metadata::{MetadataOptions, MetadataPlace, MetadataSpec};
use super::quantity::parse_seconds;
use super::sidestep::Text;
use super::{merge, pick, take_live};

/// Configuration of the coordinator, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoordinatorConfig {
    /// Where nodes and gateways register.
    pub listen: Address,
    /// Where HTTP is served; port 0: any free port.
    pub admin: Option<SocketAddr>,
    /// Where identity and epochs are kept.
    pub metadata: MetadataPlace,
    pub code: CodeShape,
    /// If it is not that of a cluster that is there, this coordinator does not serve it.
    pub partition_count: Option<u16>,
    /// Nodes that gateways should wait for before they place stripes.
    pub node_count: usize,
    /// Gateways among which partitions are shared at the start.
    pub gateway_count: usize,
    /// Threads of each of them.
    pub gateway_threads: usize,
    /// Milliseconds after its death until an incarnation of a node is retired for good.
    pub retire_after_ms: u64,
    /// Whether orders to be faulty on purpose are passed on to nodes.
    pub allow_chaos: bool,
}

impl CoordinatorConfig {
    /// Names what differs and has to wait for the next start: everything.
    pub fn take_live(&mut self, wanted: Self) -> Vec<&'static str> {
        take_live!(
            self,
            wanted,
            live {},
            fixed {
                listen = "--listen",
                admin = "--admin",
                metadata = "--metadata or --dir",
                code = "--code",
                partition_count = "--partitions",
                node_count = "--nodes",
                gateway_count = "--gateways",
                gateway_threads = "--gateway-threads",
                retire_after_ms = "--retire-after",
                allow_chaos = "--allow-chaos",
            }
        )
    }
}

/// Partitions for each thread of each gateway when nothing is said.
pub const PARTITION_COUNT_DEFAULT: u16 = 4;
/// Nodes when nothing is said.
pub const NODE_COUNT_DEFAULT: usize = 8;
/// Where members register when nothing is said.
pub const COORDINATOR_PORT: u16 = 7000;
/// Where HTTP is served when nothing is said.
pub const ADMIN_PORT: u16 = 8080;
pub const RETIRE_AFTER_S_DEFAULT: u64 = 30;
/// A day: a node that is away longer should say so by being removed.
pub const RETIRE_AFTER_S_MAX: u64 = 86_400;

/// Settings of the coordinator as flags, environment and file give them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct CoordinatorOptions {
    /// Where nodes and gateways register: host:port or unix:/path [default: 127.0.0.1:7000]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_LISTEN", value_name = "ADDR")]
    pub listen: Option<Address>,
    /// Where status, metrics and the page are served over HTTP, or off [default: 127.0.0.1:8080]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_ADMIN", value_name = "ADDR")]
    pub admin: Option<OptionalAddress>,
    /// Directory for the identity and the epochs of the cluster; without it a restart begins a new cluster
    #[arg(long, env = "SHORTTAIL_COORDINATOR_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The same, or etcd, with which several coordinators may run: file:DIR or etcd:URL,URL...
    #[arg(long, env = "SHORTTAIL_COORDINATOR_METADATA", value_name = "WHERE")]
    pub metadata: Option<MetadataSpec>,
    /// What the keys of this cluster begin with in etcd [default: /shorttail/]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_METADATA_PREFIX", value_name = "PREFIX")]
    pub metadata_prefix: Option<String>,
    /// File with the user:password line for etcd
    #[arg(long, env = "SHORTTAIL_COORDINATOR_METADATA_AUTH_FILE", value_name = "FILE")]
    pub metadata_auth_file: Option<PathBuf>,
    /// Files for etcd over TLS: its authority, and the certificate to show with its key
    #[arg(long, env = "SHORTTAIL_COORDINATOR_METADATA_TLS", value_name = "CA[,CERT,KEY]")]
    pub metadata_tls: Option<String>,
    /// Seconds between a standby's checks of etcd, if no notification comes [default: 2]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_METADATA_POLL", value_name = "SECONDS", value_parser = parse_seconds)]
    pub metadata_poll: Option<u64>,
    /// Erasure code: rs:K+M or lrc:K+L+G [default: rs:4+2]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_CODE", value_name = "CODE")]
    pub code: Option<Text<CodeShape>>,
    /// Units of ownership and parallelism; the same for the whole life of a cluster [default: as it was made; at first
    /// 4 for each thread of each gateway]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_PARTITIONS", value_name = "N", value_parser = partition_count())]
    pub partitions: Option<u16>,
    /// Nodes the cluster is meant to have; gateways wait for them at their start [default: 8]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_NODES", value_name = "N")]
    pub nodes: Option<usize>,
    /// Gateways the cluster is meant to have: at its start partitions wait a moment for all of them [default: 1]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_GATEWAYS", value_name = "N")]
    pub gateways: Option<usize>,
    /// Threads each of them is meant to have, as a new cluster gets partitions for all [default: 1]
    #[arg(long, env = "SHORTTAIL_COORDINATOR_GATEWAY_THREADS", value_name = "N")]
    pub gateway_threads: Option<usize>,
    /// Seconds after its death until the memory of a node is given up for good, and repair begins [default: 30]
    #[arg(long, alias = "repair-grace", env = "SHORTTAIL_COORDINATOR_RETIRE_AFTER", value_name = "SECONDS", value_parser = parse_seconds)]
    pub retire_after: Option<u64>,
    /// Pass on the orders of `shorttail chaos` to nodes that allow it too [default: false]
    #[arg(
        long,
        env = "SHORTTAIL_COORDINATOR_ALLOW_CHAOS",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
    )]
    pub allow_chaos: Option<bool>,
}

impl CoordinatorOptions {
    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, those: Self) -> Self {
        merge! { self, those, CoordinatorOptions {
            listen, admin, dir, metadata, metadata_prefix, metadata_auth_file, metadata_tls, metadata_poll, code,
            partitions, nodes, gateways, gateway_threads, retire_after, allow_chaos
        }}
    }

    /// # Errors
    /// Names the setting that makes no sense.
    pub fn resolve(self) -> Result<CoordinatorConfig, ConfigError> {
        let code = self.code.unwrap_or_default().0;
        let node_count = self.nodes.unwrap_or(NODE_COUNT_DEFAULT.max(code.chunk_count()));
        check_node_count("coordinator", code, node_count)?;
        let within_bounds = |partitions| within("coordinator", "partitions", partitions, 1, PARTITION_COUNT_MAX);
        let retire_after_s = self.retire_after.unwrap_or(RETIRE_AFTER_S_DEFAULT);
        within("coordinator", "retire_after", retire_after_s, 1, RETIRE_AFTER_S_MAX)?;
        if self.dir.is_some() && self.metadata.is_some() {
            return Err(ConfigError::setting("coordinator", "dir", "says the same as --metadata file:DIR; give one"));
        }
        let metadata = pick! { self, MetadataOptions {
            metadata, metadata_prefix, metadata_auth_file, metadata_tls, metadata_poll
        }};
        let gateway_threads = self.gateway_threads.unwrap_or(1);
        Ok(CoordinatorConfig {
            listen: self.listen.unwrap_or_else(|| Address::Tcp(([127, 0, 0, 1], COORDINATOR_PORT).into())),
            admin: self.admin.unwrap_or_else(|| OptionalAddress::loopback(ADMIN_PORT)).0,
            metadata: metadata.resolve("coordinator", self.dir.as_deref())?,
            code,
            partition_count: self.partitions.map(within_bounds).transpose()?,
            node_count,
            gateway_count: within("coordinator", "gateways", self.gateways.unwrap_or(1), 1, GATEWAY_COUNT_MAX)?,
            gateway_threads: within("coordinator", "gateway_threads", gateway_threads, 1, GATEWAY_THREAD_COUNT_MAX)?,
            retire_after_ms: retire_after_s * 1000,
            allow_chaos: self.allow_chaos.unwrap_or(false),
        })
    }
}

impl CoordinatorConfig {
    /// Of a cluster that is made now.
    pub fn partition_count_default(&self) -> u16 {
        let threads = self.gateway_count * self.gateway_threads;
        usize::from(PARTITION_COUNT_DEFAULT).saturating_mul(threads).min(usize::from(PARTITION_COUNT_MAX)) as u16
    }
}

/// What a flag or variable takes as a number of partitions.
pub fn partition_count() -> RangedI64ValueParser<u16> {
    RangedI64ValueParser::new().range(1..=i64::from(PARTITION_COUNT_MAX))
}

/// Every chunk of a stripe is on its own node.
///
/// # Errors
/// When there are too few nodes for the code, or too many.
pub fn check_node_count(section: &'static str, code: CodeShape, node_count: usize) -> Result<(), ConfigError> {
    let least = code.chunk_count();
    if node_count < least {
        let problem = format!("{node_count} is too few: {code} places each stripe on {least} different nodes");
        return Err(ConfigError::setting(section, "nodes", problem));
    }
    within(section, "nodes", node_count, 1, NODE_COUNT_MAX).map(drop)
}
