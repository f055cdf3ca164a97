//! CLUSTER and its companions: who serves which slots, in the shapes of Redis Cluster.
//!
//! Each gateway is told as a master without replicas. Slots whose gateway is dead, or has no port for Redis clients,
//! are told as those of another one, the same whoever tells, that passes requests on or lets them wait. So does any
//! gateway with a request for a slot that it does not own and whose owner it cannot send clients to, or that its owner
//! does not serve yet: two that differ in who owns a slot would send a client to and fro. Nothing here changes the
//! cluster: slots follow gateways by themselves, so the subcommands that move them do not exist.
//!
//! Must not know: how owners are chosen.

use std::fmt::Write;
use std::net::SocketAddr;

use shorttail_units::{ClusterId, SLOT_COUNT, Slot};
use shorttail_wire::resp::{Args, Protocol, encode};

use super::answer_help;
use crate::engine::cursor_of;
use crate::redis::connection::Connection;
use crate::redis::error::CommandError;
use crate::redis::keyspace::{Filter, Found, KeyspaceWork};
use crate::redis::plan::{Call, Handled, Plan};
use crate::redis::table::{CommandSpec, KeyRange};
use crate::session::Shared;
use crate::topology::{ClientAddress, GatewayPlace, SlotRange, Topology};

const CROSS_SLOT: CommandError = CommandError::CROSS_SLOT;
/// With `--redis-cluster none`, as by a Redis that is no part of a cluster.
pub const DISABLED: CommandError = CommandError::fixed("ERR This instance has cluster support disabled");
const NOT_SERVED: CommandError = CommandError::fixed("CLUSTERDOWN Hash slot not served");

/// The name of a gateway, as long as Redis' are: 40 hexadecimal digits.
fn name(cluster: ClusterId, gateway: u16) -> String {
    format!("{:016x}{:020x}{gateway:04x}", cluster.0, 0)
}

/// The name of a gateway's shard, which is the gateway alone: no other gateway and no shard has it.
fn shard_name(cluster: ClusterId, gateway: u16) -> String {
    format!("{:016x}{:020x}{gateway:04x}", cluster.0, 1)
}

/// Where clients are told that a range is.
fn holder(topology: &Topology, range: SlotRange) -> Option<&GatewayPlace> {
    topology.gateway(topology.told_of(range.gateway))
}

/// The host of a place: on this machine, where nobody said, the one under which this client reached us.
fn host(place: &ClientAddress, connection: &Connection) -> String {
    let reached = connection.seat.local.parse::<SocketAddr>().ok();
    match reached.filter(|_| place.host.is_empty()) {
        // One that listens on [::] sees addresses of IPv4 in a form that clients without IPv6 do not take.
        Some(reached) => reached.ip().to_canonical().to_string(),
        None => place.host.clone(),
    }
}

/// Host and port of a gateway; nothing and 0, as Redis tells of an address that it does not know, where clients cannot
/// reach it.
fn address(gateway: &GatewayPlace, connection: &Connection) -> (String, u16) {
    gateway.redis.as_ref().map_or_else(Default::default, |place| (host(place, connection), place.port))
}

/// Is it one that a Redis without cluster refuses?
pub fn is_of_cluster(spec: &CommandSpec) -> bool {
    spec.name.starts_with("cluster|") || ["cluster", "readonly", "readwrite", "asking"].contains(&spec.name)
}

/// As Redis does with `cluster-enabled`: refuses keys of several slots, and sends those that other gateways serve
/// there.
pub fn redirect(
    spec: &CommandSpec,
    args: Args<'_>,
    connection: &Connection,
    shared: &Shared,
) -> Result<(), CommandError> {
    let Some(range) = spec.keys else { return Ok(()) };
    let mut slots = keys(range, args).map(Slot::of_key);
    let Some(slot) = slots.next() else { return Ok(()) };
    let topology = &shared.topology;
    let owner = topology.owner_of(slot).ok_or(NOT_SERVED)?;
    if slots.any(|other| other != slot) {
        return Err(CROSS_SLOT);
    }
    let answers = owner.id != topology.me() && owner.is_alive && topology.is_served(slot);
    let place = owner.redis.as_ref().filter(|_| answers);
    place.map_or(Ok(()), |place| {
        let host = host(place, connection);
        Err(CommandError::owned(format!("MOVED {} {host}:{}", slot.number(), place.port).into_bytes()))
    })
}

/// The keys among the arguments of a command whose arity is right.
pub fn keys<'a>(range: KeyRange, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let last = usize::try_from(range.last).unwrap_or(args.len() - 1);
    (range.first..=last).step_by(range.step).filter_map(move |index| args.get(index))
}

/// READONLY, READWRITE and ASKING: there are no replicas, and slots are never half moved.
pub fn accept(call: &mut Call<'_>) -> Handled {
    call.ok()
}

pub fn myid(call: &mut Call<'_>) -> Handled {
    let topology = &call.shared.topology;
    encode::bulk(call.out, name(topology.cluster(), topology.me()).as_bytes());
    Ok(Plan::Answered)
}

pub fn myshardid(call: &mut Call<'_>) -> Handled {
    let topology = &call.shared.topology;
    encode::bulk(call.out, shard_name(topology.cluster(), topology.me()).as_bytes());
    Ok(Plan::Answered)
}

/// CLUSTER LINKS: those of the bus of Redis Cluster, which gateways do not have.
pub fn links(call: &mut Call<'_>) -> Handled {
    encode::array(call.out, 0);
    Ok(Plan::Answered)
}

pub fn keyslot(call: &mut Call<'_>) -> Handled {
    encode::integer(call.out, i64::from(Slot::of_key(&call.args[2]).number()));
    Ok(Plan::Answered)
}

pub fn countkeysinslot(call: &mut Call<'_>) -> Handled {
    let slot = slot(call.integer(2)?).ok_or(CommandError::fixed("ERR Invalid slot"))?;
    if is_elsewhere(call, slot) {
        encode::integer(call.out, 0);
        return Ok(Plan::Answered);
    }
    Ok(Plan::Keyspace(KeyspaceWork::CountSlot { slot }))
}

pub fn getkeysinslot(call: &mut Call<'_>) -> Handled {
    let (slot_wanted, count) = (call.integer(2)?, call.integer(3)?);
    let both = slot(slot_wanted).and_then(Slot::new).zip(usize::try_from(count).ok());
    let (slot, count) = both.ok_or(CommandError::fixed("ERR Invalid slot or number of keys"))?;
    if count == 0 || is_elsewhere(call, slot.number()) {
        encode::array(call.out, 0);
        return Ok(Plan::Answered);
    }
    let (cursor, of_slot) = (cursor_of(slot), Some(count));
    let (filter, found) = (Filter::default(), Found::default());
    Ok(Plan::Keyspace(KeyspaceWork::Keys { cursor, filter, found, of_slot }))
}

/// A master knows of no keys of the slots of others.
fn is_elsewhere(call: &Call<'_>, slot: u16) -> bool {
    let topology = &call.shared.topology;
    let is_told = |slot: Slot| topology.owner_of(slot).is_some() && !topology.is_mine(slot);
    call.shared.settings.redis_cluster.sends_clients() && Slot::new(slot).is_some_and(is_told)
}

fn slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().and_then(Slot::new).map(Slot::number)
}

/// CLUSTER REPLICAS, and SLAVES as it was called before: nobody has any.
pub fn replicas(call: &mut Call<'_>) -> Handled {
    let topology = &call.shared.topology;
    let is_known = |id: &[u8]| topology.gateways().iter().any(|it| name(topology.cluster(), it.id).as_bytes() == id);
    let id = &call.args[2];
    if !is_known(id) {
        return Err(CommandError::owned([b"ERR Unknown node ", super::echoed(id, usize::MAX)].concat()));
    }
    encode::array(call.out, 0);
    Ok(Plan::Answered)
}

/// CLUSTER SLOTS: each range with its gateway.
pub fn slots(call: &mut Call<'_>) -> Handled {
    let topology = &call.shared.topology;
    encode::array(call.out, topology.ranges().len());
    for &range in topology.ranges() {
        encode::array(call.out, 3);
        encode::integer(call.out, i64::from(range.first));
        encode::integer(call.out, i64::from(range.last));
        let holder = holder(topology, range);
        let (host, port) = holder.map(|gateway| address(gateway, call.connection)).unwrap_or_default();
        let id = holder.map_or(range.gateway, |gateway| gateway.id);
        encode::array(call.out, 4);
        encode::bulk(call.out, host.as_bytes());
        encode::integer(call.out, i64::from(port));
        encode::bulk(call.out, name(topology.cluster(), id).as_bytes());
        // Nothing more is known of the address.
        encode::map(call.out, call.connection.protocol, 0);
    }
    Ok(Plan::Answered)
}

/// The ranges that clients are told a gateway has.
fn ranges_of(topology: &Topology, id: u16) -> impl Iterator<Item = SlotRange> {
    topology.ranges().iter().copied().filter(move |range| topology.told_of(range.gateway) == id)
}

/// CLUSTER SHARDS: each gateway with its slots.
pub fn shards(call: &mut Call<'_>) -> Handled {
    let (topology, protocol) = (&call.shared.topology, call.connection.protocol);
    encode::array(call.out, topology.gateways().len());
    for gateway in topology.gateways() {
        encode::map(call.out, protocol, 2);
        encode::bulk(call.out, b"slots");
        encode::array(call.out, 2 * ranges_of(topology, gateway.id).count());
        for range in ranges_of(topology, gateway.id) {
            encode::integer(call.out, i64::from(range.first));
            encode::integer(call.out, i64::from(range.last));
        }
        encode::bulk(call.out, b"nodes");
        encode::array(call.out, 1);
        let (host, port) = address(gateway, call.connection);
        shard_node(call.out, protocol, &name(topology.cluster(), gateway.id), &host, port, health(topology, gateway));
    }
    Ok(Plan::Answered)
}

/// One that takes over what another one owned is loading, as a Redis that reads its memory from disk.
fn health(topology: &Topology, gateway: &GatewayPlace) -> &'static str {
    match (gateway.is_alive, topology.serves_its_own(gateway.id)) {
        (true, true) => "online",
        (true, false) => "loading",
        (false, _) => "fail",
    }
}

fn shard_node(out: &mut Vec<u8>, protocol: Protocol, name: &str, host: &str, port: u16, health: &str) {
    encode::map(out, protocol, 7);
    let bulk = |out: &mut Vec<u8>, field: &str, value: &str| {
        encode::bulk(out, field.as_bytes());
        encode::bulk(out, value.as_bytes());
    };
    bulk(out, "id", name);
    encode::bulk(out, b"port");
    encode::integer(out, i64::from(port));
    bulk(out, "ip", host);
    bulk(out, "endpoint", host);
    bulk(out, "role", "master");
    encode::bulk(out, b"replication-offset");
    encode::integer(out, 0);
    bulk(out, "health", health);
}

/// CLUSTER NODES: a line for each gateway.
pub fn nodes(call: &mut Call<'_>) -> Handled {
    let topology = &call.shared.topology;
    let mut text = String::new();
    for gateway in topology.gateways() {
        let (host, port) = address(gateway, call.connection);
        let name = name(topology.cluster(), gateway.id);
        let role = match (gateway.id == topology.me(), gateway.is_alive) {
            (true, _) => "myself,master",
            (false, true) => "master",
            (false, false) => "master,fail",
        };
        // Clients do not try to connect to one that has this flag.
        let reach = if gateway.redis.is_none() { ",noaddr" } else { "" };
        let link = if gateway.is_alive { "connected" } else { "disconnected" };
        // Writing to a string cannot fail. There is no bus between gateways that clients could use: its port is 0.
        let _ = write!(text, "{name} {host}:{port}@0 {role}{reach} - 0 0 {} {link}", gateway.epoch);
        for SlotRange { first, last, .. } in ranges_of(topology, gateway.id) {
            let _ = if first == last { write!(text, " {first}") } else { write!(text, " {first}-{last}") };
        }
        text.push('\n');
    }
    encode::verbatim_text(call.out, call.connection.protocol, text.as_bytes());
    Ok(Plan::Answered)
}

/// CLUSTER INFO, with the fields of Redis that mean something here; the counters of its bus are zero.
pub fn info(call: &mut Call<'_>) -> Handled {
    let topology = &call.shared.topology;
    let assigned = topology.slots_assigned();
    // What its owner is not sure of, or still takes over, waits as what a dead one owned.
    let failed = assigned - topology.slots_served();
    let owns = |gateway: &&GatewayPlace| topology.ranges().iter().any(|range| range.gateway == gateway.id);
    let state = if assigned == SLOT_COUNT && failed == 0 { "ok" } else { "fail" };
    let fields = [
        ("cluster_slots_assigned", assigned as u64),
        ("cluster_slots_ok", (assigned - failed) as u64),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", failed as u64),
        ("cluster_known_nodes", topology.gateways().len() as u64),
        ("cluster_size", topology.gateways().iter().filter(owns).count() as u64),
        ("cluster_current_epoch", u64::from(topology.epoch())),
        ("cluster_my_epoch", topology.gateway(topology.me()).map_or(0, |me| u64::from(me.epoch))),
        ("cluster_stats_messages_sent", 0),
        ("cluster_stats_messages_received", 0),
        ("total_cluster_links_buffer_limit_exceeded", 0),
    ];
    let mut text = format!("cluster_state:{state}\r\n");
    fields.iter().for_each(|(field, value)| text += &format!("{field}:{value}\r\n"));
    encode::verbatim_text(call.out, call.connection.protocol, text.as_bytes());
    Ok(Plan::Answered)
}

pub fn help(call: &mut Call<'_>) -> Handled {
    let lines = [
        "COUNTKEYSINSLOT <slot>",
        "    Return the number of keys in <slot>.",
        "GETKEYSINSLOT <slot> <count>",
        "    Return key names in a slot.",
        "INFO",
        "    Return information about the cluster.",
        "KEYSLOT <key>",
        "    Return the hash slot for <key>.",
        "LINKS",
        "    Return no links: there is no bus between gateways.",
        "MYID",
        "    Return the id of this gateway.",
        "MYSHARDID",
        "    Return the id of this gateway's shard.",
        "NODES",
        "    Return the gateways of the cluster. Output format:",
        "    <id> <ip:port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
        "REPLICAS <node-id>",
        "    Return no replicas: each slot has one gateway, and nodes hold the data.",
        "SHARDS",
        "    Return information about gateways and the slot ranges that they serve.",
        "SLOTS",
        "    Return information about slots range mappings. Each range is made of:",
        "    start, end, and the gateway's IP address, port and id",
    ];
    answer_help(call, "CLUSTER", &lines)
}
