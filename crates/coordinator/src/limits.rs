//! Maxima of the coordinator, each with its unit and reason.

/// Nodes of a cluster: their numbers have 16 bits, and a view of all of them must fit in one control message.
pub const NODE_COUNT_MAX: usize = 4096;
/// Gateways of a cluster: so many may live. Dead ones are remembered while there is room beside them.
pub const GATEWAY_COUNT_MAX: usize = 256;
/// Bytes of an address that a member announces: the longest socket path and `unix:`.
pub const ADDRESS_BYTES_MAX: usize = 120;
/// Tenures that one gateway may report on: one for each partition at most, and those that ended lately.
pub const STANDINGS_MAX: usize = 2 * 16_384;
/// Nodes that one gateway may report on.
pub const NODES_SEEN_MAX: usize = NODE_COUNT_MAX;
/// Milliseconds for which members may not be told of what changed while more and more is to be saved: what many tell
/// who come at once is told once.
pub const TELL_WITHIN_MS: u64 = 100;
/// Nodes of a cluster that is looked at as a whole after each message: with so few a look costs a few microseconds, and
/// there are 128 heartbeats a second.
pub const LOOKED_AT_ONCE_MAX: usize = 64;
/// Microseconds for each node of a larger one, which the next look may wait for after a node's heartbeat, or its
/// registration: a look costs a tenth of a microsecond for each, and there are the more of both the more nodes there
/// are.
pub const LOOK_LATER_US: u64 = 5;
/// Milliseconds between two times that the nodes of a larger one are gone through that are due to be given up: that
/// takes longer than the rest of a look when many are, and they are due after half a minute or more.
pub const DUE_EVERY_MS: u64 = 100;
/// Milliseconds without a heartbeat until a member is suspect: four heartbeats.
pub const SUSPECT_AFTER_MS: u64 = 2_000;
/// Milliseconds without a heartbeat until a member is dead: ten heartbeats.
pub const DEAD_AFTER_MS: u64 = 5_000;
/// Milliseconds without a heartbeat until a gateway is suspect, and dead: two and three heartbeats. Others take over
/// what a silent gateway owns; should it live, that costs a take-over and nothing else.
pub const GATEWAY_SUSPECT_AFTER_MS: u64 = 1_000;
pub const GATEWAY_DEAD_AFTER_MS: u64 = 1_500;
/// Milliseconds that a tenure may be unproven while its gateway is heard and another one reaches enough nodes: twice
/// the lease. What nodes promised is over by then, and a pause of the nodes or of a gateway has mostly ended.
pub const UNPROVEN_MS_MAX: u64 = 2_000;
/// Milliseconds for which a gateway may reach too few nodes to read or to store everything, while its tenures are
/// proven and another one reaches enough: as long as a node may be silent until the coordinator takes it for dead.
pub const SHORT_MS_MAX: u64 = 5_000;
/// Milliseconds that a deadline may be handled too late: beyond, the coordinator itself stood still, and the silence of
/// others says nothing.
pub const STOOD_STILL_MS: u64 = 250;
/// Milliseconds after the first gateway came until partitions that were never owned are dealt to those that are there.
pub const GATHER_MS: u64 = 2_000;
/// Milliseconds that gateways have to come back before others get what they own: after the coordinator's start, and
/// after the first of them came, also when none was heard. They wait up to half a second between two attempts, all of
/// them since the same moment if it is the coordinator that was gone. Whoever comes later is taken for dead, and that
/// costs a take-over and nothing else.
pub const GATEWAY_RETURN_MS: u64 = 1_000;
pub const GATEWAY_RETURN_SPREAD_MS: u64 = 750;
/// Milliseconds after the end of a gateway's connection within which those of the others end, too, if it is not the
/// gateway that died but what lies between: a proxy, or this process that stood still.
pub const ENDED_TOGETHER_MS: u64 = 100;
/// Milliseconds after which no promise of a life of a node holds that was followed by another: twice the lease.
pub const PROMISE_OVER_MS: u64 = 2_000;
/// Milliseconds that a gateway must have been there before partitions are handed over for the sake of balance: several
/// may come together.
pub const SETTLED_MS: u64 = 1_000;
/// Milliseconds since the last tenure began until the several ones of a gateway become one, if nobody says otherwise:
/// while gateways are restarted one by one they would only be split again.
pub const UNITE_AFTER_MS: u64 = 60_000;
/// Objects of a gateway whose several tenures become one: while it prepares it needs some 90 B for each, and was sized
/// for less, if for anything.
pub const UNITE_OBJECTS_MAX: u64 = 5_000_000;
/// Milliseconds that an heir has to read what it will inherit before the owner lets go all the same: some GiB.
pub const PREPARE_MS_MAX: u64 = 60_000;
/// Milliseconds that gateways have to tell what was lost with a node that was given up: their status
/// comes twice a second.
pub const LOSS_TOLD_MS: u64 = 5_000;
/// Milliseconds for which gateways tell that they reach a node whose connection ended until that is believed: two of
/// their reports, as the first may be older than its end.
pub const REACH_TOLD_MS: u64 = 1_000;
/// Milliseconds after its death until a gateway is forgotten, unless another one takes its place before: long enough
/// for whoever collects metrics to see it dead.
pub const FORGET_GATEWAY_AFTER_MS: u64 = 60_000;
/// Gateways that are forgotten and may come back as the same process: as many as there may be.
pub const GONE_GATEWAYS_MAX: usize = GATEWAY_COUNT_MAX;
/// Gateways that are to own nothing: as many as there may be, and as many that are forgotten and may come back as the
/// same process.
pub const DRAINS_MAX: usize = 2 * GATEWAY_COUNT_MAX;
/// Epochs that are left out where one is told that was never handed out: more than change owners between a backup and
/// the day it is put back, and a small part of all.
pub const EPOCHS_SKIPPED: u32 = 100_000;
/// Orders that members have not answered.
pub const ORDERS_MAX: usize = 4096;
/// Milliseconds until an order that its member does not answer has failed: less than whoever ordered waits.
pub const ORDER_WITHIN_MS: u64 = 2_000;

/// Longest label of a failure domain: for people, in every view.
pub const DOMAIN_BYTES_MAX: usize = 64;
