//! A stripe over as many stores as it has chunks, and verbs for what its owner does.

use shorttail_codes::Code;
use shorttail_units::{CodeShape, Epoch, NodeId, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, ChunkKind, ChunkReport, Members, Refusal};

use crate::{Append, ChunkStore, Wanted};

mod flips;
mod model;
mod scenarios;

pub(crate) const PARTITION: PartitionId = PartitionId(3);
const MEMORY_BYTES: usize = 512 * 1024;

/// A scan of all that a store holds.
pub(crate) fn everything() -> Wanted<'static> {
    Wanted { partitions: &[], since: 0, after: StripeId::default(), count: 9 }
}

pub(crate) fn stripe_id(counter: u64) -> StripeId {
    StripeId::new(Epoch(1), counter)
}

pub(crate) fn description(index: u8, data_count: u8, parity_count: u8, chunk_bytes: u32) -> ChunkDescription {
    let shape = CodeShape::reed_solomon(usize::from(data_count), usize::from(parity_count)).expect("a shape");
    description_of(index, shape, chunk_bytes)
}

pub(crate) fn description_of(index: u8, shape: CodeShape, chunk_bytes: u32) -> ChunkDescription {
    ChunkDescription {
        stripe: stripe_id(1),
        epoch: Epoch(1),
        partition: PARTITION,
        kind: ChunkKind::Packed,
        index,
        shape,
        chunk_bytes,
        configuration: Default::default(),
        members: Members((0..shape.chunk_count() as u16).map(NodeId).collect()),
    }
}

pub(crate) fn op(number: u32) -> OpNumber {
    OpNumber(number)
}

/// An append as the owner made it, remembered so that it can be sent again.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub op: u32,
    pub data_index: u8,
    pub offset: u32,
    pub bytes: Vec<u8>,
    /// Operation before this one, by participant.
    pub previous: Vec<u32>,
}

/// An owner and the stores of one stripe.
pub(crate) struct Stripe {
    pub stores: Vec<ChunkStore>,
    pub shape: CodeShape,
    pub chunk_bytes: u32,
    pub sent: Vec<Sent>,
    /// Last operation sent, by participant.
    pub last_sent: Vec<u32>,
}

impl Stripe {
    pub fn open(data_count: u8, parity_count: u8, chunk_bytes: u32) -> Self {
        let shape = CodeShape::reed_solomon(usize::from(data_count), usize::from(parity_count)).expect("a shape");
        Self::open_as(shape, chunk_bytes)
    }

    pub fn open_as(shape: CodeShape, chunk_bytes: u32) -> Self {
        let mut stores = Vec::new();
        for index in 0..shape.chunk_count() as u8 {
            let mut store = ChunkStore::new(MEMORY_BYTES).expect("memory");
            store.open(&description_of(index, shape, chunk_bytes)).expect("a new stripe");
            stores.push(store);
        }
        Stripe { stores, shape, chunk_bytes, sent: Vec::new(), last_sent: vec![0; shape.chunk_count()] }
    }

    pub fn participants(&self, data_index: u8) -> Vec<usize> {
        self.shape.participants(usize::from(data_index)).collect()
    }

    pub fn length(&self, data_index: u8) -> u32 {
        self.sent.iter().filter(|sent| sent.data_index == data_index).map(|sent| sent.bytes.len() as u32).sum()
    }

    /// Appends to all participants; returns the operation's number.
    pub fn append(&mut self, data_index: u8, bytes: &[u8], stable: u32) -> u32 {
        let number = self.sent.len() as u32 + 1;
        let sent = Sent {
            op: number,
            data_index,
            offset: self.length(data_index),
            bytes: bytes.to_vec(),
            previous: self.last_sent.clone(),
        };
        for participant in self.participants(data_index) {
            let stable = self.own_stable(participant, stable);
            assert_eq!(self.send(participant, &sent, stable), Ok(op(number)), "append {number} to {participant}");
            self.last_sent[participant] = number;
        }
        self.sent.push(sent);
        number
    }

    /// The last of a participant's own operations up to `stable`.
    pub fn own_stable(&self, participant: usize, stable: u32) -> u32 {
        let concerns = |sent: &&Sent| sent.op <= stable && self.participants(sent.data_index).contains(&participant);
        self.sent.iter().rfind(concerns).map_or(0, |sent| sent.op)
    }

    pub fn send(&mut self, participant: usize, sent: &Sent, stable: u32) -> Result<OpNumber, Refusal> {
        let append = Append {
            op: op(sent.op),
            previous: op(sent.previous[participant]),
            stable: op(stable),
            data_index: sent.data_index,
            offset: sent.offset,
            bytes: &sent.bytes,
        };
        self.stores[participant].chunk_mut(stripe_id(1)).expect("open").append(&append)
    }

    pub fn stable(&mut self, participant: usize, stable: u32) -> Result<(), Refusal> {
        self.stores[participant].chunk_mut(stripe_id(1))?.stable(op(stable))
    }

    pub fn seal(&mut self, participant: usize) -> Result<(), Refusal> {
        let (last, chunk_last) = (self.sent.len() as u32, self.last_sent[participant]);
        self.stores[participant].chunk_mut(stripe_id(1))?.seal(op(last), op(chunk_last), 0)
    }

    pub fn read(&self, participant: usize, at: u32) -> Result<Vec<u8>, Refusal> {
        let chunk = self.stores[participant].chunk(stripe_id(1))?;
        Ok(chunk.read_range(0, self.chunk_bytes, op(at))?.to_vec())
    }

    pub fn report(&self, participant: usize) -> ChunkReport {
        self.stores[participant].chunk(stripe_id(1)).expect("here").report().expect("a good description")
    }

    /// What chunk `participant` must hold as of an operation: data as sent, parities encoded anew.
    pub fn expected(&self, participant: usize, at: u32) -> Vec<u8> {
        let mut data = vec![vec![0u8; self.chunk_bytes as usize]; self.shape.data_count()];
        for sent in self.sent.iter().filter(|sent| sent.op <= at) {
            data[usize::from(sent.data_index)][sent.offset as usize..][..sent.bytes.len()].copy_from_slice(&sent.bytes);
        }
        if participant < data.len() {
            return data.swap_remove(participant);
        }
        let code = Code::new(self.shape);
        let mut parities = vec![vec![0u8; self.chunk_bytes as usize]; self.shape.parity_count()];
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
        code.encode(&data, &mut outputs);
        parities.swap_remove(participant - self.shape.data_count())
    }

    pub fn check_invariants(&self) {
        self.stores.iter().for_each(ChunkStore::check_invariants);
    }
}
