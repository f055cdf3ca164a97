//! What each request does to the chunks and fences of one core.
//!
//! Every request that changes something passes the fence first, and is refused before anything changes. Replies are
//! written into the session's output straight from the chunks' memory.

use shorttail_store::{Append, ChunkMut, ChunkStore, Notes, Room, Wanted, Written};
use shorttail_units::{Epoch, NodeId, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, NodeReply, NodeRequest, Refusal};

use crate::fences::{Barred, Fences};
use crate::session::Session;
use crate::stats::NodeStats;
use crate::taken::TakenOrders;

/// Chunks, fences and counts of one core.
#[derive(Debug)]
pub(crate) struct Holdings {
    pub node: NodeId,
    /// Core 0 keeps the promises to owners.
    pub core: u16,
    pub store: ChunkStore,
    pub fences: Fences,
    /// Where fences are kept that outlive the process.
    pub notes: Option<Notes>,
    pub stats: NodeStats,
    /// Room for a reply whose bytes do not lie in one piece.
    pub scratch: Vec<u8>,
    pub orders: TakenOrders,
}

/// Whom the outcome of a request is for: its session, and the number that the request has there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub session: u64,
    pub tag: u64,
}

/// A refusal and its detail: the epoch that fenced, the microseconds until a promise ends, or 0.
struct No {
    refusal: Refusal,
    detail: u64,
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        No { refusal, detail: 0 }
    }
}

impl From<Barred> for No {
    fn from(barred: Barred) -> Self {
        match barred {
            Barred::Fenced { by } => No { refusal: Refusal::Fenced, detail: u64::from(by.0) },
            Barred::Leased { left_us } => No { refusal: Refusal::Leased, detail: left_us },
        }
    }
}

impl Holdings {
    /// What owners are told: memory that they cannot give to chunks.
    pub fn chunk_taken_bytes(&self) -> u64 {
        (self.store.chunk_limit_bytes() - self.store.chunk_free_bytes().min(self.store.chunk_limit_bytes())) as u64
    }

    fn done(&self) -> NodeReply<'static> {
        NodeReply::Done { used_bytes: self.chunk_taken_bytes(), held_bytes: self.store.used_bytes() as u64 }
    }

    /// Does what a request of a greeted session asks, and answers it there.
    pub fn handle_request(&mut self, now_us: u64, tag: u64, request: &NodeRequest<'_>, session: &mut Session) {
        // `Stable` is never answered: an owner that needs to know asks with a seal or an inspection.
        if let Err(No { refusal, detail }) = self.answer(now_us, tag, request, session)
            && !matches!(request, NodeRequest::Stable { .. })
        {
            session.reply(tag, &NodeReply::Refused { refusal, detail });
        }
    }

    /// As [`Holdings::handle_request`], of an append that its owner does not wait for: only a refusal is told.
    pub fn take_append(&mut self, tag: u64, request: &NodeRequest<'_>, session: &mut Session) {
        let NodeRequest::Append { stripe, op, previous, stable, data_index, offset, bytes } = *request else { return };
        let append = Append { op, previous, stable, data_index, offset, bytes };
        if let Err(No { refusal, detail }) = self.append(stripe, &append) {
            session.reply(tag, &NodeReply::Refused { refusal, detail });
        }
    }

    /// An order to rebuild a chunk passes the fence first; `order` is then asked to take it, and may reserve room. If
    /// an intact chunk is here, it is carried out already; if it was taken before and is not over, that one counts.
    pub fn take_order(
        &mut self,
        asker: Asker,
        description: &ChunkDescription,
        session: &mut Session,
        order: impl FnOnce(&mut ChunkStore) -> Result<(), Refusal>,
    ) {
        let taken = || -> Result<bool, No> {
            self.check_mine(description)?;
            let is_needed = self.store.check_rebuild(description)?;
            match is_needed {
                true if self.orders.has(asker.session, description) => {}
                true => {
                    order(&mut self.store)?;
                    self.orders.take(asker.session, description);
                }
                false => self.store.adopt(description)?,
            }
            Ok(is_needed)
        };
        match taken() {
            Ok(is_needed) => {
                session.reply(asker.tag, &self.done());
                if !is_needed {
                    self.tell_rebuilt(description.stripe, Ok(()), session);
                }
            }
            Err(No { refusal, detail }) => session.reply(asker.tag, &NodeReply::Refused { refusal, detail }),
        }
    }

    /// # Errors
    /// Fenced meanwhile, freed meanwhile, or there is no room.
    pub fn install_rebuilt(
        &mut self,
        description: &ChunkDescription,
        bytes: &[u8],
        last: OpNumber,
    ) -> Result<(), Refusal> {
        self.check_mine(description).map_err(|no| no.refusal)?;
        let is_in_place = self.store.replace_damaged(description, bytes, last)?;
        if !is_in_place {
            // What was read wrong when it was ordered may be right.
            if !self.store.check_rebuild(description)? {
                return self.store.adopt(description);
            }
            self.store.install_at(description, bytes, last)?;
        }
        self.stats.corruptions_repaired += u64::from(is_in_place);
        self.note_rebuilt(bytes.len() as u64);
        Ok(())
    }

    /// As [`Holdings::install_rebuilt`], of what was written into its room, which is gone afterwards.
    ///
    /// # Errors
    /// As there.
    pub fn install_written(
        &mut self,
        description: &ChunkDescription,
        room: Room,
        written: Written,
    ) -> Result<(), Refusal> {
        if let Err(no) = self.check_mine(description) {
            self.store.give_back(room);
            return Err(no.refusal);
        }
        self.store.install_in(room, description, written)?;
        self.note_rebuilt(u64::from(written.length));
        Ok(())
    }

    /// An order is over.
    pub fn tell_rebuilt(&self, stripe: StripeId, outcome: Result<(), (Refusal, Option<u8>)>, session: &mut Session) {
        let position = outcome.ok().and_then(|()| self.store.position(stripe).ok());
        session.reply(0, &NodeReply::Rebuilt { stripe, outcome, position });
    }

    fn note_rebuilt(&mut self, bytes: u64) {
        self.stats.rebuilds += 1;
        self.stats.rebuilt_bytes += bytes;
    }

    fn answer(&mut self, now_us: u64, tag: u64, request: &NodeRequest<'_>, session: &mut Session) -> Result<(), No> {
        match *request {
            NodeRequest::Append { stripe, op, previous, stable, data_index, offset, bytes } => {
                let held = self.append(stripe, &Append { op, previous, stable, data_index, offset, bytes })?;
                session.acknowledge(stripe, held);
            }
            NodeRequest::Stable { stripe, stable } => self.own_chunk(stripe)?.stable(stable)?,
            NodeRequest::ReadRecord { stripe, offset } => {
                let record = self.store.chunk(stripe)?.read_record(offset)?;
                session.reply(tag, &NodeReply::Bytes(record));
            }
            NodeRequest::Locate { stripe } => {
                let position = self.store.position(stripe)?;
                session.reply(tag, &NodeReply::Located { position });
            }
            NodeRequest::ReadRange { stripe, offset, length, op } => {
                self.read_range(tag, stripe, (offset, length), op, session)?;
            }
            NodeRequest::Scan { since, after, count, ref partitions } => {
                if count == 0 {
                    return Err(Refusal::Invalid.into());
                }
                let wanted = Wanted { partitions, since, after, count: usize::from(count) };
                session.reply(tag, &NodeReply::Chunks(self.store.scan(wanted)));
            }
            NodeRequest::Inspect { stripe } => {
                let is_damaged = self.store.look_at(stripe).is_some_and(|looked| looked.is_damaged);
                let mut inspected = self.store.chunk(stripe)?.inspect()?;
                inspected.report.damaged |= is_damaged;
                session.reply(tag, &NodeReply::Inspected(inspected));
            }
            NodeRequest::Fence { partition, epoch, next } => {
                let joined = self.fence(partition, epoch, next, now_us)?;
                session.reply(tag, &NodeReply::Fenced { joined });
            }
            _ => {
                self.change(now_us, request)?;
                session.reply(tag, &self.done());
            }
        }
        Ok(())
    }

    /// Does what is answered with a mere "done".
    fn change(&mut self, now_us: u64, request: &NodeRequest<'_>) -> Result<(), No> {
        match *request {
            NodeRequest::Open(ref description) => self.open(description),
            NodeRequest::Install { ref description, bytes } => self.install(description, bytes),
            NodeRequest::Seal { stripe, last, chunk_last, sum } => {
                Ok(self.own_chunk(stripe)?.seal(last, chunk_last, sum)?)
            }
            NodeRequest::Free { first, count, epoch, partition, up_to } => {
                self.fences.check(partition, epoch)?;
                self.store.free_up_to(first, count, partition, up_to)?;
                self.orders.free(first, count, up_to);
                Ok(())
            }
            NodeRequest::Close { stripe, epoch, last } => Ok(self.chunk_for(stripe, epoch)?.close(epoch, last)?),
            NodeRequest::Reconfigure { stripe, epoch, configuration, ref members } => {
                let node = self.node;
                let mut chunk = self.chunk_for(stripe, epoch)?;
                if members.0.get(chunk.index()) != Some(&node) {
                    return Err(Refusal::Invalid.into());
                }
                Ok(chunk.reconfigure(configuration, members)?)
            }
            NodeRequest::Ping | NodeRequest::ProbeWrite => Ok(()),
            // One core decides for the node.
            NodeRequest::Renew { epoch, lease_us, ref partitions } if self.core == 0 => {
                if self.fences.renew(epoch, lease_us, partitions, now_us)? {
                    self.keep_fences()?;
                }
                Ok(())
            }
            NodeRequest::Release { partition, epoch } if self.core == 0 => {
                self.fences.release(partition, epoch)?;
                self.keep_fences()
            }
            // The node handles greetings and orders before it asks here.
            _ => Err(Refusal::Invalid.into()),
        }
    }

    fn append(&mut self, stripe: StripeId, append: &Append<'_>) -> Result<OpNumber, No> {
        Ok(self.own_chunk(stripe)?.append(append)?)
    }

    /// A chunk that is changed by the owner which made it.
    fn own_chunk(&mut self, stripe: StripeId) -> Result<ChunkMut<'_>, No> {
        let chunk = self.store.chunk_mut(stripe)?;
        let (partition, epoch) = chunk.ownership()?;
        self.fences.check(partition, epoch)?;
        Ok(chunk)
    }

    /// A chunk that is changed by an owner of this epoch, whoever made it.
    fn chunk_for(&mut self, stripe: StripeId, epoch: Epoch) -> Result<ChunkMut<'_>, No> {
        let chunk = self.store.chunk_mut(stripe)?;
        let (partition, _) = chunk.ownership()?;
        self.fences.check(partition, epoch)?;
        Ok(chunk)
    }

    fn fence(&mut self, partition: u16, epoch: Epoch, next: StripeId, now_us: u64) -> Result<StripeId, No> {
        // Epoch 0 says "never fenced" in a refusal.
        if epoch == Epoch(0) {
            return Err(Refusal::Invalid.into());
        }
        let joined = self.fences.raise(PartitionId(partition), epoch, next, now_us)?;
        self.keep_fences()?;
        Ok(joined)
    }

    /// Before it is answered: a fence that was forgotten would let an older owner in.
    fn keep_fences(&mut self) -> Result<(), No> {
        let Some(notes) = &mut self.notes else { return Ok(()) };
        if notes.write(&self.fences.to_bytes()) { Ok(()) } else { Err(Refusal::OutOfMemory.into()) }
    }

    fn open(&mut self, description: &ChunkDescription) -> Result<(), No> {
        self.check_mine(description)?;
        Ok(self.store.open(description)?)
    }

    fn install(&mut self, description: &ChunkDescription, bytes: &[u8]) -> Result<(), No> {
        self.check_mine(description)?;
        Ok(self.store.install(description, bytes)?)
    }

    /// Is the chunk for this node, from an owner that may make it?
    fn check_mine(&self, description: &ChunkDescription) -> Result<(), No> {
        self.fences.check(description.partition, description.epoch)?;
        let member = description.members.0.get(usize::from(description.index));
        if member == Some(&self.node) { Ok(()) } else { Err(Refusal::Invalid.into()) }
    }

    fn read_range(
        &mut self,
        tag: u64,
        stripe: StripeId,
        (offset, length): (u32, u32),
        op: OpNumber,
        session: &mut Session,
    ) -> Result<(), No> {
        let range = self.store.chunk(stripe)?.read_range(offset, length, op)?;
        if range.zero_count == 0 {
            session.reply(tag, &NodeReply::Bytes(range.held));
        } else {
            self.scratch.clear();
            self.scratch.extend_from_slice(range.held);
            self.scratch.resize(range.held.len() + range.zero_count, 0);
            session.reply(tag, &NodeReply::Bytes(&self.scratch));
        }
        Ok(())
    }
}
