//! Maxima of the coordinator, each with its unit and reason.

/// Nodes of a cluster: a view of all of them must fit in one control message.
pub const NODE_COUNT_MAX: usize = 4096;
/// Gateways of a cluster.
pub const GATEWAY_COUNT_MAX: usize = 256;
/// Bytes of an address that a member announces: the longest socket path and `unix:`.
pub const ADDRESS_BYTES_MAX: usize = 120;
/// Nodes that one gateway may report on.
pub const NODES_SEEN_MAX: usize = NODE_COUNT_MAX;
/// Milliseconds without a heartbeat until a member is suspect: four heartbeats.
pub const SUSPECT_AFTER_MS: u64 = 2_000;
/// Milliseconds without a heartbeat until a member is dead: ten heartbeats.
pub const DEAD_AFTER_MS: u64 = 5_000;
/// Milliseconds after its death until a node's incarnation is given up, unless the operator says otherwise.
pub const RETIRE_AFTER_MS: u64 = 30_000;
/// Milliseconds after its death until a gateway is forgotten: long enough to be seen in the status.
pub const FORGET_GATEWAY_AFTER_MS: u64 = 10_000;
/// Orders that members have not answered.
pub const ORDERS_MAX: usize = 4096;
/// Milliseconds until an order that its member does not answer has failed: less than whoever ordered waits.
pub const ORDER_WITHIN_MS: u64 = 2_000;

/// Longest label of a failure domain: for people, in every view.
pub const DOMAIN_BYTES_MAX: usize = 64;
