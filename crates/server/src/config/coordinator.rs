//! What the coordinator is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::address::Address;
use super::code::CodeSpec;

/// Configuration of the coordinator, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoordinatorConfig {
    /// Where nodes and gateways register.
    pub listen: Address,
    /// Where HTTP is served; port 0: any free port.
    pub admin: Option<SocketAddr>,
    /// Where identity and epochs are kept. Without it, a restart begins a new cluster.
    pub dir: Option<PathBuf>,
    pub code: CodeSpec,
    pub partition_count: u16,
    /// Nodes that gateways should wait for before they place stripes.
    pub node_count: usize,
    /// Milliseconds after its death until an incarnation of a node is retired for good.
    pub retire_after_ms: u64,
}
