//! One core of a node: sessions in, replies out.
//!
//! The caller feeds each session's bytes to [`Node::handle_input`], ends the turn with [`Node::end_turn`], and sends
//! what [`Node::poll_output`] holds. Acknowledgements of appends are gathered over a turn: one per stripe and session.
//!
//! Invariants: an owner has one session at a time (rule R7); a session that ended changes nothing any more.
//!
//! Must not know: sockets, threads, clocks, what lies in a chunk.

mod beside;
mod spoil;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;

use shorttail_store::{ChunkStore, CoreMemory, Notes, NotesDamaged};
use shorttail_units::{Epoch, Now, PartitionId};
use shorttail_wire::node::{Frame, Hello, HelloReply, NearMemory, NodeReply, NodeRequest, Refusal, next_frame};

use crate::config::{NodeConfig, NodeError};
use crate::fences::Fences;
use crate::limits::{GIVEN_BACK_TURN_MAX, PAGES_ASK_US, SESSIONS_MAX};
use crate::rebuilding::Rebuilding;
use crate::requests::{Asker, Holdings};
use crate::rings::{MakeRing, Ring};
use crate::scrub::Scrubber;
use crate::session::{Phase, Session, SessionError};
use crate::stats::NodeStats;
use crate::taken::TakenOrders;
use crate::wanted::WantedChunks;

/// One core of a node.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    holdings: Holdings,
    sessions: BTreeMap<u64, Session>,
    /// The session of each owner.
    owners: BTreeMap<u32, u64>,
    /// Sessions with appends to acknowledge at the end of the turn.
    unacknowledged: Vec<u64>,
    /// Sessions that ended for a reason other than their own input.
    superseded: VecDeque<u64>,
    rebuilding: Rebuilding,
    /// Chunks that are to be found for other nodes.
    wanted: WantedChunks,
    scrubber: Scrubber,
    /// When a file system that was full is asked again, in microseconds.
    pages_due_us: Option<u64>,
    /// More memory is to be given back: in the next turn.
    surplus_due_us: Option<u64>,
    /// Sessions that have output although nothing came from them in this turn.
    written: Vec<u64>,
    /// Where owners on this machine find its memory.
    near: Option<NearMemory>,
    /// Rings for owners on this machine; nobody: they send messages.
    rings: Option<Box<dyn MakeRing>>,
    /// Sessions with rings.
    ringed: Vec<u64>,
}

impl Node {
    /// # Errors
    /// When the configuration makes no sense, or its memory is not to be had.
    pub fn new(config: NodeConfig) -> Result<Self, NodeError> {
        config.check()?;
        let store = ChunkStore::new(config.memory_bytes)?;
        Ok(Self::over(config, store, Fences::default(), None))
    }

    /// As [`Node::new`], in memory that other processes can be let read: [`Node::memory`].
    ///
    /// # Errors
    /// As [`Node::new`].
    pub fn sharing(config: NodeConfig) -> Result<Self, NodeError> {
        config.check()?;
        let store = ChunkStore::shared(config.memory_bytes)?;
        Ok(Self::over(config, store, Fences::default(), None))
    }

    /// A core in memory that an earlier process of the node may have left: its chunks and fences are there again.
    ///
    /// # Errors
    /// As [`Node::new`]; when the fences cannot be read, the memory must not be used.
    pub fn in_memory(config: NodeConfig, memory: CoreMemory, now: Now) -> Result<Self, NodeError> {
        config.check()?;
        let (mut store, mut notes) = memory.open(config.memory_bytes)?;
        let mut fences = Fences::from_bytes(&notes.read()?, now.mono_us).ok_or(NotesDamaged)?;
        if store.has_unidentified() {
            // Noted before it is freed: a later process must know, too, that something is missing.
            fences.forget_joined();
            if !notes.write(&fences.to_bytes()) {
                return Err(NotesDamaged.into());
            }
            store.free_unidentified();
        }
        Ok(Self::over(config, store, fences, Some(notes)))
    }

    fn over(config: NodeConfig, store: ChunkStore, fences: Fences, notes: Option<Notes>) -> Self {
        let holdings = Holdings {
            node: config.node,
            core: config.core,
            store,
            fences,
            notes,
            stats: NodeStats::default(),
            scratch: Vec::new(),
            orders: TakenOrders::default(),
        };
        Node {
            rebuilding: Rebuilding::default(),
            wanted: WantedChunks::default(),
            scrubber: Scrubber::new(config.pace.scrub_bytes_per_s),
            pages_due_us: None,
            surplus_due_us: None,
            written: Vec::new(),
            near: None,
            rings: None,
            ringed: Vec::new(),
            config,
            holdings,
            sessions: BTreeMap::new(),
            owners: BTreeMap::new(),
            unacknowledged: Vec::new(),
            superseded: VecDeque::new(),
        }
    }

    /// The file that its memory is, unless that is this process's alone.
    pub fn memory(&self) -> Option<&Arc<File>> {
        self.holdings.store.file()
    }

    /// From now on owners are told where they find [`Node::memory`].
    pub fn offer_memory(&mut self, near: NearMemory) {
        self.near = Some(near);
    }

    /// Is its memory kept for a later process of the node?
    pub fn outlives_process(&self) -> bool {
        self.holdings.notes.is_some()
    }

    /// From now on owners on this machine may append without a message. Not in memory that outlives the process: rings
    /// do not.
    ///
    /// # Panics
    /// If its memory does.
    pub fn offer_rings(&mut self, rings: Box<dyn MakeRing>) {
        assert!(!self.outlives_process(), "what lies in rings goes with the process");
        self.rings = Some(rings);
    }

    /// Makes room for a session, which begins with a greeting. `session` is a number of the caller's that no living
    /// session has. Beyond [`SESSIONS_MAX`] the session is not taken: its first input is an error.
    pub fn handle_session_opened(&mut self, session: u64) {
        if self.sessions.len() < SESSIONS_MAX {
            self.sessions.insert(session, Session::new());
        }
    }

    /// Forgets a session, whatever its state.
    pub fn handle_session_closed(&mut self, session: u64) {
        self.end_ring(session);
        self.sessions.remove(&session);
        self.owners.retain(|_, other| *other != session);
        self.unacknowledged.retain(|&other| other != session);
        self.superseded.retain(|&other| other != session);
        self.forget_orders(session);
    }

    /// Takes whole frames from the front of `input`; returns how many bytes they were. Input of a session that a
    /// newer one ended is swallowed. `now` was read after the input came: a promise counts from when it was asked for.
    ///
    /// # Errors
    /// The session ended: the caller sends the output that there is, closes the connection and says so.
    pub fn handle_input(&mut self, now: Now, session: u64, input: &[u8]) -> Result<usize, SessionError> {
        self.take_rings();
        if self.superseded.contains(&session) {
            return Ok(input.len());
        }
        let outcome = self.handle_frames(now.mono_us, session, input);
        self.holdings.stats.messages_damaged += u64::from(matches!(outcome, Err(SessionError::Frame(_))));
        if outcome.is_err() {
            self.end_ring(session);
        }
        if outcome.is_err()
            && let Some(ended) = self.sessions.get_mut(&session)
        {
            ended.end();
            self.owners.retain(|_, other| *other != session);
            self.forget_orders(session);
        }
        outcome
    }

    /// Ends a turn: acknowledges what was appended in it.
    pub fn end_turn(&mut self, now: Now) {
        self.scrub(now);
        self.ask_for_pages(now);
        self.holdings.store.give_back_surplus(GIVEN_BACK_TURN_MAX);
        self.surplus_due_us = self.holdings.store.has_surplus().then_some(now.mono_us);
        for id in self.unacknowledged.drain(..) {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.write_acks();
            }
        }
    }

    /// Bytes to send to a session, if there are any; the caller takes them from the front.
    pub fn poll_output(&mut self, session: u64) -> Option<&mut Vec<u8>> {
        let session = self.sessions.get_mut(&session)?;
        session.trim();
        (!session.output.is_empty()).then_some(&mut session.output)
    }

    /// A session that a newer one of its owner ended: the caller closes its connection and says so.
    pub fn poll_closed_session(&mut self) -> Option<u64> {
        let session = self.superseded.pop_front()?;
        self.sessions.remove(&session);
        Some(session)
    }

    /// When [`Node::end_turn`] is to be called even if nothing arrived, in monotonic microseconds.
    pub fn poll_deadline(&self) -> Option<u64> {
        let scrub_us = self.scrubber.deadline_us(&self.holdings.store);
        [scrub_us, self.pages_due_us, self.surplus_due_us].into_iter().flatten().min()
    }

    /// A session to which a turn wrote although nothing came from it.
    pub fn poll_written_session(&mut self) -> Option<u64> {
        self.written.pop()
    }

    /// Nobody wants what the session ordered.
    fn forget_orders(&mut self, session: u64) {
        self.holdings.orders.forget_session(session);
        self.rebuilding.forget_session(session);
    }

    /// Looks at a few chunks, and tells every owner what is damaged: the one that it concerns knows. One that does not
    /// read what it was told is told again by the next pass.
    fn scrub(&mut self, now: Now) {
        for stripe in self.scrubber.advance(now.mono_us, &mut self.holdings.store) {
            for id in self.owners.values() {
                if let Some(session) = self.sessions.get_mut(id).filter(|session| !session.is_behind()) {
                    session.reply(0, &NodeReply::Damaged { stripe });
                    self.written.push(*id);
                }
            }
        }
    }

    /// A file system that was full may have room again.
    fn ask_for_pages(&mut self, now: Now) {
        let store = &mut self.holdings.store;
        let is_due = self.pages_due_us.is_some_and(|due_us| due_us <= now.mono_us);
        if is_due {
            store.ask_for_pages();
        }
        self.pages_due_us = match self.pages_due_us.filter(|_| !is_due) {
            _ if !store.is_short_of_pages() => None,
            None => Some(now.mono_us + PAGES_ASK_US),
            waits => waits,
        };
    }

    /// Is the file system of its memory full, so that it takes fewer chunks than its budget allows?
    pub fn is_short_of_pages(&self) -> bool {
        self.holdings.store.is_short_of_pages()
    }

    /// Chunks and raw operations, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.holdings.store.used_bytes() as u64
    }

    /// What owners are told: memory that they cannot give to chunks, in bytes.
    pub fn chunk_taken_bytes(&self) -> u64 {
        self.holdings.chunk_taken_bytes()
    }

    /// What is left for chunks, in bytes.
    pub fn chunk_room_bytes(&self) -> u64 {
        self.holdings.store.chunk_free_bytes() as u64
    }

    /// The budget, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.holdings.store.memory_bytes() as u64
    }

    pub fn stats(&self) -> NodeStats {
        let stats = self.holdings.stats.with_store(self.holdings.store.chunk_count(), self.holdings.store.counters());
        NodeStats { scrubbed_bytes: self.scrubber.scrubbed_bytes, ..stats }
    }

    /// Asserts everything that must hold between inputs.
    pub fn check_invariants(&self) {
        self.holdings.store.check_invariants();
        self.holdings.fences.check_invariants();
        let (rooms, orders) = (self.holdings.store.room_count(), self.rebuilding.order_count);
        assert!(rooms <= orders, "{rooms} rooms for {orders} orders: some never come back");
        for (&owner, id) in &self.owners {
            let phase = self.sessions.get(id).map(|session| session.phase);
            assert!(
                matches!(phase, Some(Phase::Serving { owner: speaker, .. }) if speaker == owner),
                "owner {owner} speaks in session {id}, which is {phase:?}"
            );
        }
        for (id, session) in &self.sessions {
            assert_eq!(session.ring.is_some(), self.ringed.contains(id), "session {id} has a ring");
        }
        let serving = self.sessions.values().filter(|one| matches!(one.phase, Phase::Serving { .. })).count();
        assert_eq!(serving, self.owners.len(), "an owner has one session");
        for (id, session) in &self.sessions {
            assert!(!session.has_acks() || self.unacknowledged.contains(id), "session {id} is not acknowledged");
        }
    }

    fn handle_frames(&mut self, now_us: u64, id: u64, input: &[u8]) -> Result<usize, SessionError> {
        let mut consumed = 0;
        while let Some((frame, frame_bytes)) = next_frame(&input[consumed..])? {
            let session = self.sessions.get_mut(&id).ok_or(SessionError::Ended)?;
            match session.phase {
                Phase::Greeting => self.handle_greeting(id, &frame)?,
                Phase::Serving { .. } => {
                    let request = NodeRequest::parse(&frame)?;
                    if let NodeRequest::Fence { partition, epoch, .. } = request {
                        self.close_rings_to(PartitionId(partition), epoch, now_us);
                        // By what lay in its own ring, say.
                        if self.superseded.contains(&id) {
                            return Err(SessionError::Ended);
                        }
                    }
                    let session = self.sessions.get_mut(&id).ok_or(SessionError::Ended)?;
                    Self::handle_serving(
                        &mut self.holdings,
                        &mut self.rebuilding,
                        now_us,
                        Asker { session: id, tag: frame.tag },
                        request,
                        session,
                    )?;
                }
                Phase::Reading => Self::handle_read(&mut self.holdings, now_us, &frame, session)?,
                Phase::Ended => return Err(SessionError::Ended),
            }
            consumed += frame_bytes;
        }
        let session = self.sessions.get(&id).ok_or(SessionError::Ended)?;
        if session.has_acks() && !self.unacknowledged.contains(&id) {
            self.unacknowledged.push(id);
        }
        Ok(consumed)
    }

    fn handle_serving(
        holdings: &mut Holdings,
        rebuilding: &mut Rebuilding,
        now_us: u64,
        asker: Asker,
        request: NodeRequest<'_>,
        session: &mut Session,
    ) -> Result<(), SessionError> {
        match request {
            NodeRequest::Hello(_) | NodeRequest::Peer(_) => return Err(SessionError::Greeting),
            NodeRequest::Rebuild { description, sources } => {
                let ordered = description.clone();
                holdings.take_order(asker, &description, session, |store| {
                    rebuilding.order(asker.session, ordered, sources, |description| store.reserve(description))
                });
            }
            request => holdings.handle_request(now_us, asker.tag, &request, session),
        }
        session.check_output()
    }

    /// What another node asks: it may read, and change nothing.
    fn handle_read(
        holdings: &mut Holdings,
        now_us: u64,
        frame: &Frame<'_>,
        session: &mut Session,
    ) -> Result<(), SessionError> {
        let request = NodeRequest::parse(frame)?;
        match request {
            NodeRequest::ReadRange { .. }
            | NodeRequest::Inspect { .. }
            | NodeRequest::Locate { .. }
            | NodeRequest::Ping => {
                holdings.handle_request(now_us, frame.tag, &request, session);
            }
            NodeRequest::Hello(_) | NodeRequest::Peer(_) => return Err(SessionError::Greeting),
            _ => session.reply(frame.tag, &NodeReply::Refused { refusal: Refusal::Invalid, detail: 0 }),
        }
        session.check_output()
    }

    fn handle_greeting(&mut self, id: u64, frame: &Frame<'_>) -> Result<(), SessionError> {
        let (hello, is_owner) = match NodeRequest::parse(frame)? {
            NodeRequest::Hello(hello) => (hello, true),
            NodeRequest::Peer(hello) => (hello, false),
            _ => return Err(SessionError::Greeting),
        };
        let accepted = self.check_greeting(&hello, is_owner);
        // First, so that what was promised to its older session is there for this one.
        if is_owner
            && accepted.is_ok()
            && let Some(older) = self.owners.remove(&hello.owner)
        {
            self.cut_off(older);
        }
        let ring = self.rings.as_mut().filter(|_| is_owner && accepted.is_ok()).and_then(|rings| rings.make());
        let (ring, ring_at) = match ring {
            Some((reader, at)) => (Ring::new(reader, &mut self.holdings.store), Some(at)),
            None => (None, None),
        };
        let reply = match accepted {
            Ok(()) => NodeReply::Hello(HelloReply {
                memory_bytes: self.holdings.store.chunk_limit_bytes() as u64,
                used_bytes: self.holdings.chunk_taken_bytes(),
                held_bytes: self.used_bytes(),
                near: self.near.clone().filter(|_| is_owner),
                ring: ring_at.filter(|_| ring.is_some()),
                ..self.config.hello_reply()
            }),
            Err((refusal, detail)) => NodeReply::Refused { refusal, detail },
        };
        let session = self.sessions.get_mut(&id).ok_or(SessionError::Ended)?;
        session.reply(frame.tag, &reply);
        accepted.map_err(|(refusal, _)| SessionError::Refused(refusal))?;
        if !is_owner {
            session.phase = Phase::Reading;
            return Ok(());
        }
        session.phase = Phase::Serving { owner: hello.owner, epoch: hello.epoch };
        self.ringed.extend(ring.is_some().then_some(id));
        session.ring = ring;
        self.owners.insert(hello.owner, id);
        Ok(())
    }

    fn check_greeting(&self, hello: &Hello, is_owner: bool) -> Result<(), (Refusal, u64)> {
        self.config.check_hello(hello)?;
        // A greeting that was under way while its owner took a higher epoch.
        let current = self.owners.get(&hello.owner).and_then(|id| self.sessions.get(id));
        match current.map(|session| session.phase) {
            Some(Phase::Serving { epoch, .. }) if is_owner && hello.epoch < epoch => {
                Err((Refusal::Fenced, u64::from(epoch.0)))
            }
            _ => Ok(()),
        }
    }

    /// All that lies in rings, before anything else is done.
    fn take_rings(&mut self) {
        for place in (0..self.ringed.len()).rev() {
            self.take_ring(self.ringed[place]);
        }
    }

    fn take_ring(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(mut ring) = session.ring.take_if(|ring| ring.wants_care()) else { return };
        let taken = ring.take_all(&mut self.holdings, session);
        session.ring = Some(ring);
        if !session.output.is_empty() {
            self.written.push(id);
        }
        if taken.is_err() {
            self.cut_off(id);
        }
    }

    /// A later owner is about to fence a partition: what older ones put so far counts, and nothing after that.
    fn close_rings_to(&mut self, partition: PartitionId, epoch: Epoch, now_us: u64) {
        if !self.holdings.fences.fences_out(partition, epoch, now_us) {
            return;
        }
        for session in self.ringed.iter().filter_map(|id| self.sessions.get(id)) {
            let is_older = matches!(session.phase, Phase::Serving { epoch: older, .. } if older < epoch);
            if let Some(ring) = session.ring.as_ref().filter(|_| is_older) {
                ring.reader().close_to(partition);
            }
        }
        self.take_rings();
    }

    /// A session is about to end: what its owner put so far counts.
    fn end_ring(&mut self, id: u64) {
        self.ringed.retain(|&other| other != id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(ring) = session.ring.take() {
            ring.end(&mut self.holdings, session);
        }
    }

    /// Ends a session, and has its connection closed.
    fn cut_off(&mut self, id: u64) {
        self.end_ring(id);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.supersede();
            self.owners.retain(|_, other| *other != id);
            self.unacknowledged.retain(|&other| other != id);
            self.superseded.push_back(id);
            self.forget_orders(id);
        }
    }
}
