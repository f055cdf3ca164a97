//! The largest and smallest values that configuration may ask for, each with its reason.

pub use shorttail_coordinator::limits::{GATEWAY_COUNT_MAX, NODE_COUNT_MAX};

use super::size::Size;

/// Gateways that `up` starts as processes of one machine.
pub const UP_GATEWAY_COUNT_MAX: usize = 16;
/// Nodes that `up` starts as processes of one machine.
pub const UP_NODE_COUNT_MAX: usize = 256;
/// Memory of a node: below this, a few open stripes of each partition would already be all of it.
pub const NODE_MEMORY_MIN: Size = Size::mib(16);
/// Most memory of a node's thread: what a core's arena can address.
pub const NODE_MEMORY_MAX: Size = Size(shorttail_store::limits::MEMORY_BYTES_MAX as u64);
/// Partitions of a cluster: each keeps open stripes, so that many more only cost memory.
pub const PARTITION_COUNT_MAX: u16 = 1024;
/// Threads of a node.
pub const NODE_THREAD_COUNT_MAX: usize = 256;
/// Threads of a gateway.
pub const GATEWAY_THREAD_COUNT_MAX: usize = shorttail_gateway::engine::limits::CORE_COUNT_MAX;
/// Largest value, as memcached's `-I` allows.
pub const VALUE_BYTES_MAX: Size = Size::mib(1024);
/// Smallest value limit, as memcached's `-I` allows.
pub const VALUE_BYTES_MIN: Size = Size(1024);
/// Smallest block: below it a padded piece is mostly its header of 256 bytes.
pub const BLOCK_BYTES_MIN: Size = Size(256);
/// Largest block: what a chunk of 64 KiB with its header and a checksum surely holds.
pub const BLOCK_BYTES_MAX: Size = Size(32 << 10);
/// Largest key a Redis client may use: a chunk holds it with the manifest of a large value.
pub const KEY_BYTES_MAX: Size = Size(15 << 10);
/// Client connections of one gateway: a million, more than file descriptors allow in practice.
pub const CONNECTION_COUNT_MAX: usize = 1 << 20;
/// Seconds until an idle connection is closed: as many as memcached takes.
pub const IDLE_TIMEOUT_S_MAX: u64 = u32::MAX as u64;
/// Addresses that a process listens on for clients.
pub const LISTENER_COUNT_MAX: usize = 63;
/// Milliseconds that a request to a node may take before the node is given up for that request.
pub const REQUEST_DEADLINE_MS_MAX: u64 = 60_000;
/// Lines of a credentials file.
pub const CREDENTIAL_COUNT_MAX: usize = 1024;
/// Bytes of a configuration or credentials file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Coordinators that a member tries in turn.
pub const COORDINATOR_COUNT_MAX: usize = 16;
/// Members of etcd that the coordinator tries in turn.
pub const ETCD_URL_COUNT_MAX: usize = 16;
/// Seconds between two looks of a coordinator at etcd: an hour, when etcd's own word is to be enough.
pub const ETCD_POLL_S_MAX: u64 = 3600;
