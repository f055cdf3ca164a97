//! What a gateway is told at its start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use shorttail_gateway::session::Credential;
use shorttail_units::{ClusterId, Epoch, NodeId};

use super::address::Address;
use super::code::CodeSpec;

/// Configuration of one gateway, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayConfig {
    /// Where memcached clients connect; port 0: any free port.
    pub memcached: Option<SocketAddr>,
    /// Where Redis clients connect; port 0: any free port.
    pub redis: Option<SocketAddr>,
    /// Where memcached clients connect on this machine.
    pub unix_socket: Option<UnixSocketConfig>,
    pub membership: GatewayMembership,
    pub when_full: WhenFull,
    pub value_bytes_max: usize,
    pub key_bytes_max: usize,
    pub connection_count_max: usize,
    /// Seconds; 0: none.
    pub idle_timeout_s: u64,
    pub threads: usize,
    /// Milliseconds after which a request to a node has failed.
    pub request_deadline_ms: u64,
    /// Who may use the store; empty: anyone.
    pub credentials: Vec<Credential>,
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
    Coordinator(Address),
    Static(StaticCluster),
}

/// A cluster without a coordinator: the operator says what a coordinator would.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticCluster {
    pub cluster_id: ClusterId,
    /// Must be higher at each start of a gateway on the same nodes.
    pub epoch: Epoch,
    pub code: CodeSpec,
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

impl<'de> Deserialize<'de> for StaticNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What happens when node memory is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The coldest objects make room, as in a cache.
    #[default]
    Evict,
    /// Writes are refused with an out-of-memory error; nothing stored is dropped.
    Error,
}

impl FromStr for WhenFull {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "evict" => Ok(WhenFull::Evict),
            "error" => Ok(WhenFull::Error),
            _ => Err(format!("{text:?} is neither evict nor error")),
        }
    }
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhenFull::Evict => "evict",
            WhenFull::Error => "error",
        })
    }
}

impl<'de> Deserialize<'de> for WhenFull {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
