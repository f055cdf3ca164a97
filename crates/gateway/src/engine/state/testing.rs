//! What unit tests of the engine's parts begin with.

use shorttail_units::{ClusterId, CodeShape, Epoch, Incarnation, NodeId, Now, PartitionId, StripeId, Version};
use shorttail_wire::node::{HelloReply, PROTOCOL_VERSION};

use super::index::{Location, StripeSlot};
use super::pool::PoolKey;
use super::stripes::{Stripe, StripePhase};
use crate::command::BoxCommand;
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::sessions::nodes::NodePhase;
use crate::engine::write::lock::Old;
use crate::engine::write::manifest::Manifest;
use crate::engine::write::object::{Object, ObjectData, OldRecord};
use crate::engine::write::open_stripe::OpenStripe;
use crate::engine::write::round::{End, Round};
use crate::engine::{Engine, EngineConfig, Phase, Token};
use crate::memcached::{MemcachedCommand, MemcachedSession};
use crate::request::{Reply, Request, RequestId};
use crate::session::{Session, Settings, Shared};

/// An engine of the code (1, 1) that knows one node and has reached none.
pub fn engine_of_one_node() -> Engine {
    let shape = CodeShape::reed_solomon(1, 1).expect("a code");
    let mut engine = Engine::new(EngineConfig::new(shape, Epoch(1), ClusterId(7), 2), Now::default());
    engine.handle_nodes(&[NodeId(0)]);
    engine
}

/// That node, with an empty memory.
pub fn hello_of_life(incarnation: u64) -> HelloReply {
    HelloReply {
        version: PROTOCOL_VERSION,
        cluster: ClusterId(7),
        node: NodeId(0),
        incarnation: Incarnation(incarnation),
        core_count: 1,
        memory_bytes: 1 << 20,
        used_bytes: 0,
        held_bytes: 0,
        near: None,
        ring: None,
    }
}

/// An engine that serves nothing yet, with so many nodes that are ready and empty.
pub fn engine_of_ready_nodes(shape: CodeShape, node_count: u16) -> Engine {
    let config = EngineConfig::new(shape, Epoch(2), ClusterId(7), node_count);
    let mut engine = Engine::new(config, Now::default());
    engine.handle_nodes(&(0..node_count).map(NodeId).collect::<Vec<_>>());
    for node in engine.nodes.iter_mut() {
        node.phase = NodePhase::Ready;
        (node.sessions[0].connected, node.sessions[0].memory_bytes) = (true, 1 << 30);
    }
    engine.phase = Phase::Serving;
    engine
}

/// A turn ends, so many microseconds after the last one.
pub fn turn_after(engine: &mut Engine, us: u64) {
    engine.end_turn(Now { mono_us: engine.now.mono_us + us, ..engine.now });
}

/// Memory for so many more stripes, which is little.
pub fn leave_room(engine: &mut Engine, stripe_count: u64) {
    let bytes = stripe_count * engine.chunk_room_bytes(engine.config.chunk_bytes);
    engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = node.sessions[0].used_bytes + bytes);
    engine.look_at_room();
    assert!(engine.spare_stripes() <= stripe_count && engine.is_short_of_memory());
}

/// A stripe of a key's partition was left before it was sealed.
pub fn leave_stripe(engine: &mut Engine, key: &[u8]) -> StripeId {
    let id = engine.take_stripe_ids(1);
    let open = OpenStripe::new(engine.config.shape, engine.config.chunk_bytes);
    let members = (0..engine.config.member_count() as u16).map(NodeId).collect();
    let partition = engine.config.partition_of(engine.key_ref(key).slot);
    let slot = engine.stripes.insert(Stripe::new(id, partition, members, open));
    engine.stripes.at_mut(slot).become_phase(StripePhase::Leaving);
    engine.stripes.no_longer_unsealed(slot);
    id
}

/// No record finds a place in this partition, until one of its stripes that take no appends is sealed or left.
pub fn leave_no_room(engine: &mut Engine, full: PartitionId) {
    while !engine.waits_for_seals(full) {
        engine.open_stripe(full, Urgency::Client).expect("there is room");
    }
    engine.logs.get_mut(&full).expect("its partition").open.clear();
}

/// All that was sent of an unsealed stripe is confirmed.
pub fn confirm_all(engine: &mut Engine, slot: StripeSlot) {
    let stripe = engine.stripes.at(slot);
    let (id, members) = (stripe.id, stripe.members.clone());
    let last = stripe.bytes().last_op();
    for &node in members.iter() {
        engine.stripe_opened(node, id);
        engine.acknowledged(node, id, last);
    }
    engine.run_work();
}

/// The same of every stripe, and those that are full are sealed.
pub fn confirm_seals(engine: &mut Engine) {
    engine.flush_logs();
    for slot in engine.stripes.unsealed().to_vec() {
        confirm_all(engine, slot);
        let stripe = engine.stripes.at(slot);
        let (id, members) = (stripe.id, stripe.members.clone());
        members.iter().for_each(|&node| engine.seal_confirmed(node, id));
        engine.run_work();
    }
}

/// What a round wrote is there, and what it replaced cannot be read; where it is.
pub fn confirm_in_doubt(engine: &mut Engine, lock: PoolKey) -> StripeSlot {
    let slot = engine.stripes.unsealed()[0];
    confirm_all(engine, slot);
    let version = engine.round_mut(lock).expect("it is being compared").version;
    engine.round_verified(lock, version, Old::Unreadable);
    slot
}

/// A client asks this, in memcached's words, and it is sent to the nodes.
pub fn ask(engine: &mut Engine, input: &[u8]) {
    ask_as(engine, 1, input);
}

/// The same, over this connection.
pub fn ask_as(engine: &mut Engine, connection: u64, input: &[u8]) {
    say_as(engine, connection, input);
    engine.flush_logs();
}

/// The same, without anything being sent to the nodes.
pub fn say_as(engine: &mut Engine, connection: u64, input: &[u8]) {
    for (id, command) in commands_of(engine.now, input) {
        engine.take_request(engine.now, Token { connection, id }, Request::Key(command));
    }
}

/// The commands that a client asks for with this.
pub fn commands_of(now: Now, input: &[u8]) -> Vec<(RequestId, BoxCommand)> {
    let mut asked = Vec::new();
    let mut sink = |id, request: Request<MemcachedCommand>| match request {
        Request::Key(command) => asked.push((id, Box::new(command) as BoxCommand)),
        other => panic!("{other:?}"),
    };
    MemcachedSession::default().handle_input(now, &mut Shared::new(Settings::default()), input, &mut sink);
    asked
}

/// What clients hear that have not heard it yet.
pub fn replies_of(engine: &mut Engine) -> Vec<Reply> {
    let now = engine.now;
    std::iter::from_fn(|| engine.poll_reply(now)).map(|(_, reply)| reply).collect()
}

/// Keys of this partition, however many.
pub fn keys_in(engine: &Engine, partition: PartitionId) -> impl Iterator<Item = String> {
    let is_in = move |key: &String| engine.config.partition_of(engine.key_ref(key.as_bytes()).slot) == partition;
    (100..).map(|number| format!("key{number}")).filter(is_in)
}

/// A round that touches the object with this manifest: it keeps the value.
pub fn touch_of(manifest: Manifest) -> Round {
    let data = ObjectData::Striped { manifest: manifest.clone(), value: None };
    let object =
        Object { data, flags: 0, expiry: None, cas: 1, attributes: Default::default(), fetched: false, idle_s: 0 };
    let old = OldRecord {
        location: Location { chunk_number: 0, offset: 0 },
        version: Default::default(),
        record_bytes: 9,
        object_bytes: 9,
        manifest: Some(manifest),
    };
    Round { end: End::Store(object), ..Round::ending(old, Default::default(), None) }
}

impl Engine {
    /// A floor is durable in every partition.
    pub fn apply_floor(&mut self, floor: Version) {
        let partitions = self.config.partitions.iter().copied().collect();
        self.apply_floor_in(floor, &partitions);
    }
}
