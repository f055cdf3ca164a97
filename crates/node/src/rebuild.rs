//! Rebuilding lost chunks: an owner orders it, this node fetches what it takes from other nodes and decodes.
//!
//! ```text
//! owner --Rebuild--> waiting --turn, pace--> fetching: Inspect, ReadRange of every source --all there--> checked,
//!    <---Rebuilt----------------------------------- or why not <-----------------------  decoded, checked, installed
//! ```
//! A source whose memory can be read from here is read there: where the owner says, or where its node does, which is
//! asked for the place alone (`Locate`). What is read counts if its header holds, and if what comes of it does; else
//! what does not hold is fetched as any other.
//!
//! The pace bounds the bytes that are fetched in a second: an order begins when those before it have been paid for.
//!
//! Guarantees: what is installed rests on checksums from end to end. A data chunk is decoded from any chunks and must
//! then be records (or a piece) that hold; a parity chunk is encoded from data chunks only, each of which must hold. A
//! chunk that moves is copied, and a parity must then hold at the checksum in its header: its node may read its memory
//! wrong. What a data chunk is decoded from is only looked at one by one if the result does not hold. Sources are
//! sealed, and at the same final operation (rule R5). The fence is passed when the order comes and again before the
//! chunk is installed, so that no order of an earlier owner has a late effect (rule R11).
//!
//! All this is beside the core, on a thread that may wait (see `rebuilding`). The core leaves room for the chunk where
//! it can be written from there, and only has to say that it is one.
//!
//! Must not know: sockets, where nodes are to be found, why a chunk was lost.

use std::collections::{BTreeMap, VecDeque};

use shorttail_codes::CodeCache;
use shorttail_store::{ChunkView, NearReader, NearWriter, Room, Written, read_unproven, used_bytes};
use shorttail_units::{DATA_COUNT_MAX, NodeId, OpNumber, PARITY_COUNT_MAX};
use shorttail_wire::crc32c;
use shorttail_wire::node::{
    ChunkDescription, ChunkKind, ChunkReport, FrameError, NearMemory, NodeReply, NodeRequest, Refusal, Source,
    next_frame,
};

use crate::background::FromBackground;
use crate::config::NodeConfig;
use crate::limits::{REBUILD_AHEAD_US, REBUILD_BUFFERS_MAX, REBUILD_US_MAX, REBUILDS_ACTIVE_MAX, REBUILDS_TURN_MAX};

/// A core of another node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PeerId {
    pub node: NodeId,
    pub core: u16,
}

/// Why a chunk was not rebuilt, and the index of the source that is to blame, if one is.
pub type Failure = (Refusal, Option<u8>);

/// An order that is over: a chunk that was decoded and holds, if all went well.
#[derive(Debug)]
pub struct Rebuilt {
    /// Who is to be told: a session number.
    pub(crate) session: u64,
    pub(crate) description: ChunkDescription,
    pub(crate) outcome: Result<Content, Failure>,
    /// In which nothing was written that counts.
    pub(crate) unused: Option<Room>,
}

/// What a rebuilt chunk holds.
#[derive(Debug)]
pub(crate) enum Content {
    /// Bytes in use.
    Held {
        bytes: Vec<u8>,
        last: OpNumber,
    },
    Written(Room, Written),
}

/// What is fetched of one source.
#[derive(Debug)]
struct Part {
    source: Source,
    peer: PeerId,
    facts: Option<Facts>,
    bytes: Option<Vec<u8>>,
    /// Replies that its node had sent when it was asked.
    replies_before: u64,
    /// It was read in its node's memory, where it may have changed meanwhile, and nobody looked at the payload.
    is_unproven: bool,
}

/// What the header of a source tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts {
    /// Final operation of its stripe.
    last: OpNumber,
    /// Bytes in use, and their CRC32C.
    length: u32,
    payload_crc: u32,
}

#[derive(Debug)]
struct PeerSession {
    /// What is to be sent there.
    output: Vec<u8>,
    /// Replies so far.
    reply_count: u64,
}

impl PeerSession {
    fn begin(config: &NodeConfig, peer: PeerId) -> Self {
        PeerSession { output: config.greeting(peer), reply_count: 0 }
    }
}

#[derive(Debug)]
struct Order {
    session: u64,
    description: ChunkDescription,
    parts: Vec<Part>,
    room: Option<Room>,
    started_us: Option<u64>,
}

/// Orders of one core, and what is sent to other nodes for them.
#[derive(Debug)]
pub struct Rebuilds {
    config: NodeConfig,
    /// By number: in the order in which they came.
    orders: BTreeMap<u64, Order>,
    order_next: u64,
    /// Sessions with other nodes that are wanted.
    peers: BTreeMap<PeerId, PeerSession>,
    /// Memory of peers that can be read from here, and such that was offered.
    memories: BTreeMap<PeerId, Box<dyn NearReader>>,
    offered: Vec<(PeerId, NearMemory)>,
    /// Peers that were silent while an order waited for them, and when one waits for them again.
    silent: BTreeMap<PeerId, u64>,
    /// The core's own, in which it leaves room.
    own_memory: Option<Box<dyn NearWriter>>,
    /// All that was fetched is paid for at this time.
    paid_us: u64,
    codes: CodeCache,
    /// Buffers of sources, for those to come. What is in them is left there: making it zeros costs as much as reading.
    spare: Vec<Vec<u8>>,
    /// What the core is to be told.
    pub(crate) said: VecDeque<FromBackground>,
    /// Messages of other nodes that were hurt on their way, and not told of yet.
    pub(crate) messages_damaged: u64,
}

/// Tags of the two requests for a part: the order's number, the part's place, and which of the two.
const PLACE_BITS: u32 = 7;
const _: () = assert!(DATA_COUNT_MAX + PARITY_COUNT_MAX <= 1 << PLACE_BITS, "each chunk of a stripe may be a source");

fn tag_of(order: u64, place: usize, is_bytes: bool) -> u64 {
    (order << PLACE_BITS | place as u64) << 1 | u64::from(is_bytes)
}

fn part_of(tag: u64) -> (u64, usize) {
    (tag >> (PLACE_BITS + 1), (tag >> 1 & ((1 << PLACE_BITS) - 1)) as usize)
}

impl Rebuilds {
    pub(crate) fn new(config: NodeConfig, own_memory: Option<Box<dyn NearWriter>>) -> Self {
        Rebuilds {
            config,
            orders: BTreeMap::new(),
            order_next: 1,
            peers: BTreeMap::new(),
            memories: BTreeMap::new(),
            offered: Vec::new(),
            silent: BTreeMap::new(),
            own_memory,
            paid_us: 0,
            codes: CodeCache::default(),
            spare: Vec::new(),
            said: VecDeque::new(),
            messages_damaged: 0,
        }
    }

    /// Takes an order that was checked; it begins in a later turn.
    pub(crate) fn order(
        &mut self,
        session: u64,
        description: ChunkDescription,
        sources: &[Source],
        room: Option<Room>,
    ) {
        let part = |source: &Source| {
            let peer = PeerId { node: source.node, core: source.core };
            Part { source: *source, peer, facts: None, bytes: None, replies_before: 0, is_unproven: false }
        };
        let parts = sources.iter().map(part).collect();
        self.orders.insert(self.order_next, Order { session, description, parts, room, started_us: None });
        self.order_next += 1;
    }

    /// Has it nothing to do?
    pub fn is_idle(&self) -> bool {
        self.orders.is_empty()
    }

    /// A session ended: nobody wants what it ordered.
    pub(crate) fn forget_session(&mut self, session: u64) {
        let forgotten = self.orders.extract_if(.., |_, order| order.session == session);
        let rooms = forgotten.map(|(_, order)| order.room).collect();
        self.said.push_back(FromBackground::Forgotten(rooms));
    }

    /// Begins what is due and ends what takes too long; did an order end?
    pub fn advance(&mut self, now_us: u64) -> bool {
        let said_before = self.said.len();
        self.end_late(now_us);
        let said_late = self.said.len();
        while self.said.len() - said_late < REBUILDS_TURN_MAX
            && let Some(number) = self.due(now_us)
        {
            match self.silent_source(number, now_us) {
                Some(index) => self.end(number, Err((Refusal::Unreachable, Some(index)))),
                None => self.begin(number, now_us),
            }
        }
        self.said.len() > said_before
    }

    /// Ends what takes too long, and whatever else waits for a node that was silent all that time: each order would
    /// hold up others for as long.
    fn end_late(&mut self, now_us: u64) {
        let is_late = |order: &Order| order.started_us.is_some_and(|started_us| started_us + REBUILD_US_MAX <= now_us);
        let late: Vec<u64> =
            self.orders.iter().filter(|(_, order)| is_late(order)).map(|(&number, _)| number).collect();
        let mut silent = Vec::new();
        for number in late {
            let Some(order) = self.orders.remove(&number) else { continue };
            let missing = order.parts.iter().find(|part| part.is_owed());
            let index = missing.map(|part| part.source.index);
            silent.extend(order.parts.iter().filter(|part| self.is_silent_since(part)).map(|part| part.peer));
            self.tell(order, Err((Refusal::Unreachable, index)));
        }
        for peer in silent {
            self.silent.insert(peer, now_us + REBUILD_US_MAX);
            self.handle_closed(peer);
        }
    }

    /// Did its node say nothing at all since it was asked for the part?
    fn is_silent_since(&self, part: &Part) -> bool {
        let replies = self.peers.get(&part.peer).map(|session| session.reply_count);
        part.is_owed() && replies.is_some_and(|count| count == part.replies_before)
    }

    fn note_reply(&mut self, peer: PeerId) {
        self.silent.remove(&peer);
        if let Some(session) = self.peers.get_mut(&peer) {
            session.reply_count += 1;
        }
    }

    /// A source of the order whose node was silent, if that is not to be asked again yet. This order asks it if it is
    /// time.
    fn silent_source(&mut self, number: u64, now_us: u64) -> Option<u8> {
        let parts = &self.orders.get(&number)?.parts;
        let is_silent = |part: &&Part| self.silent.get(&part.peer).is_some_and(|&until_us| now_us < until_us);
        if let Some(part) = parts.iter().find(is_silent) {
            return Some(part.source.index);
        }
        for part in parts {
            self.silent.entry(part.peer).and_modify(|until_us| *until_us = now_us + REBUILD_US_MAX);
        }
        None
    }

    /// When [`Rebuilds::advance`] has something to do, in microseconds.
    pub fn deadline_us(&self) -> Option<u64> {
        let expiry = self.orders.values().filter_map(|order| order.started_us).min();
        let start = self.next_waiting().map(|_| self.paid_us.saturating_sub(REBUILD_AHEAD_US));
        [expiry.map(|started_us| started_us + REBUILD_US_MAX), start].into_iter().flatten().min()
    }

    fn next_waiting(&self) -> Option<u64> {
        let active = self.orders.values().filter(|order| order.started_us.is_some()).count();
        let mut waiting = self.orders.iter().filter(|(_, order)| order.started_us.is_none());
        waiting.next().map(|(&number, _)| number).filter(|_| active < REBUILDS_ACTIVE_MAX)
    }

    /// What is paid for stays so: the first order after this waits for those before it as long as it would have.
    pub(crate) fn set_pace(&mut self, bytes_per_s: u64) {
        self.config.pace.repair_bytes_per_s = bytes_per_s;
    }

    fn due(&self, now_us: u64) -> Option<u64> {
        self.next_waiting().filter(|_| self.paid_us <= now_us + REBUILD_AHEAD_US)
    }

    /// Reads what is near, and asks for the rest; the order ends if nothing is missing any more.
    fn begin(&mut self, number: u64, now_us: u64) {
        let config = &self.config;
        let Some(order) = self.orders.get_mut(&number) else { return };
        order.started_us = Some(now_us);
        let description = &order.description;
        for (place, part) in order.parts.iter_mut().enumerate() {
            let session = self.peers.entry(part.peer).or_insert_with(|| PeerSession::begin(config, part.peer));
            part.replies_before = session.reply_count;
            let output = &mut session.output;
            let memory = self.memories.get(&part.peer).map(|memory| &**memory);
            match (memory, part.source.position) {
                (Some(memory), Some(position)) if part.read(memory, position, description, &mut self.spare) => {}
                (Some(_), _) => {
                    let locate = NodeRequest::Locate { stripe: description.stripe };
                    locate.encode(tag_of(number, place, false), output);
                }
                (None, _) => fetch(description, number, place, output),
            }
        }
        let bytes = order.parts.len() as u64 * u64::from(description.chunk_bytes);
        let is_complete = order.is_complete();
        let cost_us = bytes * 1_000_000 / self.config.pace.repair_bytes_per_s.max(1);
        self.paid_us = self.paid_us.max(now_us) + cost_us;
        if is_complete {
            self.finish(number);
        }
    }

    /// All of an order is there, as far as it holds.
    fn finish(&mut self, number: u64) {
        let Some(order) = self.orders.get_mut(&number) else { return };
        let outcome = order.decode(&mut self.codes, &mut self.spare);
        if matches!(outcome, Err((Refusal::Damaged, _))) {
            let changed = order.take_changed();
            for &place in &changed {
                let part = &mut order.parts[place];
                let new_session = || PeerSession::begin(&self.config, part.peer);
                let session = self.peers.entry(part.peer).or_insert_with(new_session);
                part.replies_before = session.reply_count;
                fetch(&order.description, number, place, &mut session.output);
            }
            if !changed.is_empty() {
                return;
            }
        }
        self.end(number, outcome);
    }

    fn end(&mut self, number: u64, outcome: Result<Content, Failure>) {
        let Some(mut order) = self.orders.remove(&number) else { return };
        order.parts.iter_mut().filter_map(|part| part.bytes.take()).for_each(|bytes| self.keep_buffer(bytes));
        let outcome = outcome.map(|content| self.put(&mut order.room, content));
        self.tell(order, outcome);
    }

    fn tell(&mut self, order: Order, outcome: Result<Content, Failure>) {
        let Order { session, description, room: unused, .. } = order;
        self.said.push_back(FromBackground::Rebuilt(Rebuilt { session, description, outcome, unused }));
    }

    /// Memory that a node says can be read on its machine. Whoever can, opens it.
    pub fn poll_offered(&mut self) -> Option<(PeerId, NearMemory)> {
        self.offered.pop()
    }

    /// What was offered can be read, as long as the session lasts.
    pub fn handle_memory(&mut self, peer: PeerId, memory: Box<dyn NearReader>) {
        if self.peers.contains_key(&peer) {
            self.memories.insert(peer, memory);
        }
    }

    /// Cores of other nodes that sessions are wanted with; one that is not wanted any more is to be closed.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.peers.keys().copied()
    }

    pub fn output(&mut self, peer: PeerId) -> Option<&mut Vec<u8>> {
        self.peers.get_mut(&peer).map(|session| &mut session.output).filter(|output| !output.is_empty())
    }

    /// A session with another node ended, or could not be had: what is fetched there does not come.
    pub fn handle_closed(&mut self, peer: PeerId) {
        self.peers.remove(&peer);
        self.memories.remove(&peer);
        let waits = |order: &Order| {
            let owed = |part: &&Part| part.peer == peer && part.is_owed();
            order.started_us.and_then(|_| order.parts.iter().find(owed)).map(|part| part.source.index)
        };
        let failed: Vec<(u64, u8)> =
            self.orders.iter().filter_map(|(&number, order)| Some((number, waits(order)?))).collect();
        for (number, index) in failed {
            if let Some(order) = self.orders.remove(&number) {
                self.tell(order, Err((Refusal::Unreachable, Some(index))));
            }
        }
    }

    /// Takes whole frames from the front of what another node sent; returns how many bytes they were.
    ///
    /// # Errors
    /// When the bytes are no replies: the caller closes the session. What came before them counts.
    pub fn handle_input(&mut self, peer: PeerId, input: &[u8]) -> Result<usize, FrameError> {
        let outcome = self.handle_frames(peer, input);
        self.messages_damaged += u64::from(outcome.is_err());
        outcome
    }

    fn handle_frames(&mut self, peer: PeerId, input: &[u8]) -> Result<usize, FrameError> {
        let mut consumed = 0;
        while let Some((frame, length)) = next_frame(&input[consumed..])? {
            let reply = NodeReply::parse(&frame)?;
            self.note_reply(peer);
            if let NodeReply::Hello(hello) = &reply {
                if hello.node != peer.node {
                    return Err(FrameError::Value("another node answers"));
                }
                self.offered.extend(hello.near.clone().map(|near| (peer, near)));
            }
            self.reply(frame.tag, peer, &reply);
            consumed += length;
        }
        Ok(consumed)
    }

    fn reply(&mut self, tag: u64, peer: PeerId, reply: &NodeReply<'_>) {
        let (number, place) = part_of(tag);
        let Some(order) = self.orders.get_mut(&number) else { return };
        let Some(part) = order.parts.get_mut(place).filter(|part| part.peer == peer) else { return };
        let index = part.source.index;
        let taken = match reply {
            NodeReply::Inspected(inspected) => {
                check_source(&order.description, index, &inspected.report).map(|facts| part.facts = Some(facts))
            }
            NodeReply::Located { position } => {
                let memory = self.memories.get(&peer).map(|memory| &**memory);
                let description = &order.description;
                if !memory.is_some_and(|memory| part.read(memory, *position, description, &mut self.spare))
                    && let Some(session) = self.peers.get_mut(&peer)
                {
                    fetch(description, number, place, &mut session.output);
                }
                Ok(())
            }
            NodeReply::Bytes(bytes) if bytes.len() == order.description.chunk_bytes as usize => {
                let mut held = self.spare.pop().unwrap_or_default();
                held.clear();
                held.extend_from_slice(bytes);
                part.bytes = Some(held);
                Ok(())
            }
            NodeReply::Refused { refusal, .. } => Err(*refusal),
            _ => Err(Refusal::Invalid),
        };
        match taken {
            Err(refusal) => self.end(number, Err((refusal, Some(index)))),
            Ok(()) if order.is_complete() => self.finish(number),
            Ok(()) => {}
        }
    }

    /// Writes what was rebuilt into its room, if it has one.
    fn put(&mut self, room: &mut Option<Room>, content: Content) -> Content {
        let Some(memory) = &self.own_memory else { return content };
        let fits = |room: &mut Room, bytes: &[u8]| {
            bytes.len() <= room.payload_bytes() && memory.write(room.position(), room.payload_bytes(), bytes)
        };
        match content {
            Content::Held { bytes, last } => match room.take_if(|room| fits(room, &bytes)) {
                Some(room) => {
                    let written = Written::of(&bytes, last);
                    self.keep_buffer(bytes);
                    Content::Written(room, written)
                }
                None => Content::Held { bytes, last },
            },
            written => written,
        }
    }

    /// Room for what comes next, if something does.
    pub(crate) fn keep_buffer(&mut self, buffer: Vec<u8>) {
        if self.orders.is_empty() {
            self.spare = Vec::new();
        } else if self.spare.len() < REBUILD_BUFFERS_MAX {
            self.spare.push(buffer);
        }
    }
}

/// Can an order be carried out, so that what comes of it is proven?
///
/// # Errors
/// `Invalid`: no sources, or one named twice; or a parity chunk is to come from other parities, or a chunk partly from
/// itself.
pub(crate) fn check_order(description: &ChunkDescription, sources: &[Source]) -> Result<(), Refusal> {
    let is_proven = |source: &Source| {
        let is_parity_of_parity = description.is_parity() && description.shape.is_parity(source.index.into());
        source.index != description.index && !is_parity_of_parity
    };
    let is_copy = matches!(sources, [source] if source.index == description.index);
    let mut named = [false; 1 << u8::BITS];
    let is_first = |source: &Source| !std::mem::replace(&mut named[usize::from(source.index)], true);
    let is_well = !sources.is_empty() && sources.iter().all(is_first) && (is_copy || sources.iter().all(is_proven));
    if is_well { Ok(()) } else { Err(Refusal::Invalid) }
}

/// Asks a node for its chunk.
fn fetch(wanted: &ChunkDescription, number: u64, place: usize, output: &mut Vec<u8>) {
    let (stripe, length) = (wanted.stripe, wanted.chunk_bytes);
    NodeRequest::Inspect { stripe }.encode(tag_of(number, place, false), output);
    let read = NodeRequest::ReadRange { stripe, offset: 0, length, op: OpNumber(0) };
    read.encode(tag_of(number, place, true), output);
}

/// Reads a node's chunk from its memory, all of it, with its header. `None`: it is not there. Nobody looked at the
/// payload.
fn read_source(
    memory: &dyn NearReader,
    position: u64,
    wanted: &ChunkDescription,
    index: u8,
    bytes: &mut [u8],
) -> Option<Facts> {
    let header = read_unproven(memory, position, wanted.stripe, bytes)?;
    let facts = check_source(wanted, index, &ChunkView::of_copy(&header)?.report()?).ok()?;
    bytes[facts.length as usize..].fill(0);
    Some(facts)
}

/// Is the chunk that a node told of the source that is wanted?
fn check_source(wanted: &ChunkDescription, index: u8, report: &ChunkReport) -> Result<Facts, Refusal> {
    let told = &report.description;
    let is_it = told.stripe == wanted.stripe
        && told.index == index
        && (told.shape, told.chunk_bytes, told.kind) == (wanted.shape, wanted.chunk_bytes, wanted.kind);
    if !is_it {
        Err(Refusal::Invalid)
    } else if report.damaged {
        Err(Refusal::Damaged)
    } else if !report.sealed {
        Err(Refusal::NotAtOp)
    } else {
        Ok(Facts { last: report.last, length: report.length, payload_crc: report.payload_crc })
    }
}

impl Part {
    /// Is something of it still to come?
    fn is_owed(&self) -> bool {
        self.facts.is_none() || self.bytes.is_none()
    }

    /// Reads the chunk from its node's memory; false: it is not there.
    fn read(
        &mut self,
        memory: &dyn NearReader,
        position: u64,
        wanted: &ChunkDescription,
        spare: &mut Vec<Vec<u8>>,
    ) -> bool {
        let mut bytes = spare.pop().unwrap_or_default();
        bytes.resize(wanted.chunk_bytes as usize, 0);
        self.facts = read_source(memory, position, wanted, self.source.index, &mut bytes);
        self.is_unproven = self.facts.is_some();
        if self.is_unproven {
            self.bytes = Some(bytes);
        } else {
            spare.push(bytes);
        }
        self.is_unproven
    }

    /// Did what was read in its node's memory change meanwhile, or is it damaged? It is looked at once.
    fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_unproven) && !self.holds()
    }

    /// Are the bytes those that the header's checksum is of?
    fn holds(&self) -> bool {
        let (Some(facts), Some(bytes)) = (self.facts, &self.bytes) else { return false };
        bytes.get(..facts.length as usize).is_some_and(|used| crc32c(used) == facts.payload_crc)
    }
}

impl Order {
    fn is_complete(&self) -> bool {
        !self.parts.iter().any(Part::is_owed)
    }

    /// Forgets what was read and does not hold; the places of these parts.
    fn take_changed(&mut self) -> Vec<usize> {
        let mut changed = Vec::new();
        for (place, part) in self.parts.iter_mut().enumerate() {
            if part.has_changed() {
                (part.facts, part.bytes) = (None, None);
                changed.push(place);
            }
        }
        changed
    }

    /// Everything is there: checks it, decodes, and checks what came out.
    fn decode(&self, codes: &mut CodeCache, spare: &mut Vec<Vec<u8>>) -> Result<Content, Failure> {
        let ChunkDescription { stripe, kind, index, shape, chunk_bytes, .. } = self.description;
        let last = self.parts.iter().filter_map(|part| part.facts).map(|facts| facts.last).max().unwrap_or_default();
        let mut length_max = 0;
        for part in &self.parts {
            let Some(facts) = part.facts else { continue };
            // An installed chunk does not know its stripe's last operation.
            if facts.last != OpNumber(0) && facts.last != last {
                return Err((Refusal::NotAtOp, Some(part.source.index)));
            }
            length_max = length_max.max(facts.length);
        }
        let part_of = |chunk: usize| self.parts.iter().find(|part| usize::from(part.source.index) == chunk);
        if let Some(bytes) = part_of(usize::from(index)).and_then(|part| part.bytes.as_deref()) {
            self.check_sources()?;
            let used = bytes.get(..length_max as usize).ok_or((Refusal::Damaged, Some(index)))?;
            return Ok(Content::Held { bytes: used.to_vec(), last });
        }
        if self.description.is_parity() {
            self.check_sources()?;
        }
        let code = codes.get(shape);
        let plan = code.read_plan(usize::from(index), &|chunk| part_of(chunk).is_some());
        let plan = plan.map_err(|_| (Refusal::Invalid, None))?;
        let bytes_of = |&chunk: &usize| part_of(chunk).and_then(|part| part.bytes.as_deref());
        let sources: Vec<&[u8]> = plan.sources.iter().filter_map(bytes_of).collect();
        // All of it is written.
        let mut bytes = spare.pop().unwrap_or_default();
        bytes.resize(chunk_bytes as usize, 0);
        plan.decode(&sources, &mut bytes);
        let length = if !self.description.is_parity() {
            // If it does not hold, one of the sources is to blame.
            let blame = || self.check_sources().err().unwrap_or((Refusal::Damaged, None));
            used_bytes(kind, stripe, &bytes).ok_or_else(blame)?
        } else if kind == ChunkKind::Striped {
            bytes.len()
        } else {
            length_max as usize
        };
        bytes.truncate(length);
        Ok(Content::Held { bytes, last })
    }

    /// Does every chunk that was fetched hold: a data chunk at its own checksums, a parity at that in its header?
    fn check_sources(&self) -> Result<(), Failure> {
        let ChunkDescription { stripe, kind, shape, .. } = self.description;
        for part in &self.parts {
            let (Some(facts), Some(bytes)) = (part.facts, &part.bytes) else { continue };
            let holds = match shape.is_parity(usize::from(part.source.index)) {
                true => part.holds(),
                false => used_bytes(kind, stripe, bytes) == Some(facts.length as usize),
            };
            if !holds {
                return Err((Refusal::Damaged, Some(part.source.index)));
            }
        }
        Ok(())
    }
}
