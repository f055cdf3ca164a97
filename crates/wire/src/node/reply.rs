//! What a node answers.

use shorttail_units::{ClusterId, Epoch, Incarnation, NodeId, OpNumber, PartitionId, StripeId};

use super::bytes::{Put, Reader};
use super::frame::{Frame, FrameError, put_frame, put_header};
use super::request::ChunkDescription;

/// Longest path of a node's memory.
const PATH_BYTES_MAX: usize = 4096;

/// Why a node refused a request. Nothing was added. What the request told to be stable counts nevertheless, and a fence
/// that a promise kept out is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the node's memory budget is used up")]
    OutOfMemory,
    #[error("the node holds no such chunk")]
    NoChunk,
    #[error("a newer owner fenced this one")]
    Fenced,
    #[error("an operation is missing before this one")]
    Gap,
    #[error("the chunk is sealed or closed")]
    Immutable,
    #[error("the chunk is not at the operation asked for")]
    NotAtOp,
    #[error("the range or record lies outside the chunk")]
    OutOfRange,
    #[error("the chunk is damaged")]
    Damaged,
    #[error("the stripe id was used before")]
    Exists,
    #[error("another cluster's node or owner")]
    WrongCluster,
    #[error("another protocol version")]
    WrongVersion,
    #[error("the request makes no sense to the node")]
    Invalid,
    #[error("a node that holds a source is not reached")]
    Unreachable,
    #[error("too many orders wait already")]
    Busy,
    #[error("promised to the owner before, for a while")]
    Leased,
}

const REFUSALS: [Refusal; 15] = [
    Refusal::OutOfMemory,
    Refusal::NoChunk,
    Refusal::Fenced,
    Refusal::Gap,
    Refusal::Immutable,
    Refusal::NotAtOp,
    Refusal::OutOfRange,
    Refusal::Damaged,
    Refusal::Exists,
    Refusal::WrongCluster,
    Refusal::WrongVersion,
    Refusal::Invalid,
    Refusal::Unreachable,
    Refusal::Busy,
    Refusal::Leased,
];

impl Refusal {
    /// 1 and up, in the order of the byte tables; 0 is success.
    fn status(self) -> u8 {
        let place = REFUSALS.iter().position(|&other| other == self).expect("every refusal is listed");
        place as u8 + 1
    }

    fn from_status(status: u8) -> Result<Self, FrameError> {
        let place = usize::from(status).checked_sub(1).ok_or(FrameError::Value("status"))?;
        REFUSALS.get(place).copied().ok_or(FrameError::Value("status"))
    }
}

/// Memory of a core as a file that other processes of its machine may open: of this device and inode, it is that
/// file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearMemory {
    pub device: u64,
    pub inode: u64,
    pub path: String,
}

/// The node's side of the greeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HelloReply {
    pub version: u32,
    pub cluster: ClusterId,
    pub node: NodeId,
    pub incarnation: Incarnation,
    pub core_count: u16,
    /// Memory of this core for chunks, in bytes, how much of it cannot be given to chunks any more, and what chunks
    /// take.
    pub memory_bytes: u64,
    pub used_bytes: u64,
    pub held_bytes: u64,
    /// If it lets an owner on the same machine read its memory.
    pub near: Option<NearMemory>,
    /// Where such an owner may put appends instead of sending them.
    pub ring: Option<NearMemory>,
}

/// One chunk, as its header tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkReport {
    pub description: ChunkDescription,
    pub sealed: bool,
    /// Found half folded after a crash (rule R6), or its checksums do not hold: counts as an erasure.
    pub damaged: bool,
    /// Payload bytes in use (data chunk), 0 for a parity chunk that is not sealed.
    pub length: u32,
    /// Last operation that this participant holds contiguously.
    pub last: OpNumber,
    /// Last operation folded (parity chunk) or known stable (data chunk).
    pub folded: OpNumber,
    /// The highest close: who, and at which operation; epoch 0 if none.
    pub close_epoch: Epoch,
    pub close_op: OpNumber,
    /// CRC32C of the payload in use, once sealed.
    pub payload_crc: u32,
}

/// An operation that is not folded yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawOp<'a> {
    pub op: OpNumber,
    pub data_index: u8,
    pub offset: u32,
    /// Its bytes on a parity node; on a data node empty, with `length` telling how long it is.
    pub length: u32,
    pub bytes: &'a [u8],
}

/// Answer to an inspection: the report, and every operation above `folded`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectReport<'a> {
    pub report: ChunkReport,
    pub raw: Vec<RawOp<'a>>,
}

/// What a core holds, or what changed of it: part of a scan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// In the order of their stripes.
    pub reports: Vec<ChunkReport>,
    /// Chunks whose description does not hold: nothing but this is known of them.
    pub undescribed: Vec<(StripeId, PartitionId)>,
    /// Stripes whose chunks were freed, of some of which there may be one again. Empty if all is told.
    pub freed: Vec<StripeId>,
    /// All is told, whether it changed or not.
    pub is_complete: bool,
    /// How many changes the core has seen: what to ask with the next time.
    pub change: u64,
}

/// A reply, borrowed from the frame that brought it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeReply<'a> {
    Hello(HelloReply),
    /// Success without data; of the core's memory `used_bytes` cannot be given to chunks any more, and chunks take
    /// `held_bytes` (the rest lies between them).
    Done {
        used_bytes: u64,
        held_bytes: u64,
    },
    /// The fence holds. `joined`: what the first fence of the partition in this life of the node's memory said was
    /// next; of older stripes the node may have lost its chunks.
    Fenced {
        joined: StripeId,
    },
    /// The participant holds every operation of the stripe that it was sent, up to `op`.
    Acked {
        stripe: StripeId,
        op: OpNumber,
    },
    Bytes(&'a [u8]),
    /// Position in the node's memory, in bytes.
    Located {
        position: u64,
    },
    /// An order to rebuild a chunk is over. `Err`: why, and the index of the source that was to blame, if one was.
    Rebuilt {
        stripe: StripeId,
        outcome: Result<(), (Refusal, Option<u8>)>,
        /// Where it lies now, as in [`NodeReply::Located`], if the node says so.
        position: Option<u64>,
    },
    /// The chunk of this stripe was found damaged. Unasked, to every owner.
    Damaged {
        stripe: StripeId,
    },
    Chunks(Scanned),
    Inspected(InspectReport<'a>),
    /// `detail`: the epoch that fenced, the microseconds until a promise ends, or 0.
    Refused {
        refusal: Refusal,
        detail: u64,
    },
}

impl Scanned {
    fn put(&self, out: &mut Vec<u8>) {
        let put_count = |out: &mut Vec<u8>, count| out.put_u32(u32::try_from(count).expect("a scan is bounded"));
        out.put_u64(self.change);
        out.put_u8(u8::from(self.is_complete));
        put_count(out, self.freed.len());
        self.freed.iter().for_each(|stripe| out.put_u64(stripe.raw()));
        put_count(out, self.undescribed.len());
        for (stripe, partition) in &self.undescribed {
            out.put_u64(stripe.raw());
            out.put_u16(partition.0);
        }
        self.reports.iter().for_each(|report| report.put(out));
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, FrameError> {
        let mut scanned = Scanned { change: body.u64()?, is_complete: body.u8()? != 0, ..Scanned::default() };
        for _ in 0..body.u32()? {
            scanned.freed.push(body.stripe()?);
        }
        for _ in 0..body.u32()? {
            scanned.undescribed.push((body.stripe()?, PartitionId(body.u16()?)));
        }
        scanned.reports = body.rest_of(ChunkReport::parse)?;
        Ok(scanned)
    }
}

impl NodeReply<'_> {
    const HELLO: u8 = 0x81;
    const DONE: u8 = 0x82;
    const ACKED: u8 = 0x83;
    const BYTES: u8 = 0x84;
    const CHUNKS: u8 = 0x85;
    const INSPECTED: u8 = 0x86;
    const REFUSED: u8 = 0x87;
    const FENCED: u8 = 0x88;
    const REBUILT: u8 = 0x89;
    const LOCATED: u8 = 0x8a;
    const DAMAGED: u8 = 0x8f;
    /// No source is to blame.
    const NO_SOURCE: u8 = u8::MAX;

    /// Makes [`NodeReply::Bytes`] of bytes that lie in their place, behind [`FRAME_HEADER_BYTES`] of room.
    ///
    /// [`FRAME_HEADER_BYTES`]: super::FRAME_HEADER_BYTES
    ///
    /// # Panics
    /// If there is no such room, or there are more bytes than a frame has.
    pub fn bytes_in_place(tag: u64, frame: &mut [u8]) {
        put_header(frame, Self::BYTES, 0, tag);
    }

    /// Appends the reply as a frame.
    pub fn encode(&self, tag: u64, out: &mut Vec<u8>) {
        match self {
            NodeReply::Hello(hello) => put_frame(out, Self::HELLO, 0, tag, |out| hello.put(out)),
            NodeReply::Done { used_bytes, held_bytes } => put_frame(out, Self::DONE, 0, tag, |out| {
                out.put_u64(*used_bytes);
                out.put_u64(*held_bytes);
            }),
            NodeReply::Fenced { joined } => put_frame(out, Self::FENCED, 0, tag, |out| out.put_u64(joined.raw())),
            NodeReply::Acked { stripe, op } => put_frame(out, Self::ACKED, 0, tag, |out| {
                out.put_u64(stripe.raw());
                out.put_u32(op.0);
            }),
            NodeReply::Bytes(bytes) => put_frame(out, Self::BYTES, 0, tag, |out| out.extend_from_slice(bytes)),
            NodeReply::Located { position } => put_frame(out, Self::LOCATED, 0, tag, |out| out.put_u64(*position)),
            NodeReply::Damaged { stripe } => put_frame(out, Self::DAMAGED, 0, tag, |out| out.put_u64(stripe.raw())),
            NodeReply::Chunks(scanned) => put_frame(out, Self::CHUNKS, 0, tag, |out| scanned.put(out)),
            NodeReply::Inspected(inspected) => put_frame(out, Self::INSPECTED, 0, tag, |out| inspected.put(out)),
            NodeReply::Rebuilt { stripe, outcome, position } => {
                let (status, source) = match outcome {
                    Ok(()) => (0, None),
                    Err((refusal, source)) => (refusal.status(), *source),
                };
                put_frame(out, Self::REBUILT, status, tag, |out| {
                    out.put_u64(stripe.raw());
                    out.put_u8(source.unwrap_or(Self::NO_SOURCE));
                    out.put_position(*position);
                });
            }
            NodeReply::Refused { refusal, detail } => {
                put_frame(out, Self::REFUSED, refusal.status(), tag, |out| out.put_u64(*detail));
            }
        }
    }
}

impl<'a> NodeReply<'a> {
    /// # Errors
    /// When the frame is not exactly one reply.
    pub fn parse(frame: &Frame<'a>) -> Result<Self, FrameError> {
        let mut body = Reader::new(frame.body);
        let reply = match frame.kind {
            Self::HELLO => NodeReply::Hello(HelloReply::parse(&mut body)?),
            Self::DONE => NodeReply::Done { used_bytes: body.u64()?, held_bytes: body.u64()? },
            Self::FENCED => NodeReply::Fenced { joined: body.stripe()? },
            Self::ACKED => NodeReply::Acked { stripe: body.stripe()?, op: body.op()? },
            Self::DAMAGED => NodeReply::Damaged { stripe: body.stripe()? },
            Self::BYTES => NodeReply::Bytes(body.rest()),
            Self::LOCATED => NodeReply::Located { position: body.u64()? },
            Self::CHUNKS => NodeReply::Chunks(Scanned::parse(&mut body)?),
            Self::INSPECTED => NodeReply::Inspected(InspectReport::parse(&mut body)?),
            Self::REBUILT => {
                let (stripe, source) = (body.stripe()?, body.u8()?);
                let position = body.position()?;
                let source = (source != Self::NO_SOURCE).then_some(source);
                let outcome = match frame.status {
                    0 => Ok(()),
                    status => Err((Refusal::from_status(status)?, source)),
                };
                NodeReply::Rebuilt { stripe, outcome, position }
            }
            Self::REFUSED => NodeReply::Refused { refusal: Refusal::from_status(frame.status)?, detail: body.u64()? },
            other => return Err(FrameError::Kind(other)),
        };
        body.finish()?;
        Ok(reply)
    }
}

impl HelloReply {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.version);
        out.put_u64(self.cluster.0);
        out.put_u16(self.node.0);
        out.put_u64(self.incarnation.0);
        out.put_u16(self.core_count);
        out.put_u64(self.memory_bytes);
        out.put_u64(self.used_bytes);
        out.put_u64(self.held_bytes);
        NearMemory::put(self.near.as_ref(), out);
        NearMemory::put(self.ring.as_ref(), out);
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, FrameError> {
        Ok(HelloReply {
            version: body.u32()?,
            cluster: ClusterId(body.u64()?),
            node: NodeId(body.u16()?),
            incarnation: Incarnation(body.u64()?),
            core_count: body.u16()?,
            memory_bytes: body.u64()?,
            used_bytes: body.u64()?,
            held_bytes: body.u64()?,
            near: NearMemory::parse(body)?,
            ring: NearMemory::parse(body)?,
        })
    }
}

impl NearMemory {
    fn put(near: Option<&NearMemory>, out: &mut Vec<u8>) {
        out.put_u16(near.map_or(0, |near| near.path.len() as u16));
        if let Some(near) = near {
            out.put_u64(near.device);
            out.put_u64(near.inode);
            out.extend_from_slice(near.path.as_bytes());
        }
    }

    fn parse(body: &mut Reader<'_>) -> Result<Option<Self>, FrameError> {
        let path_bytes = usize::from(body.u16()?);
        if path_bytes == 0 {
            return Ok(None);
        }
        if path_bytes > PATH_BYTES_MAX {
            return Err(FrameError::Value("path"));
        }
        let (device, inode) = (body.u64()?, body.u64()?);
        let path = std::str::from_utf8(body.bytes(path_bytes)?).map_err(|_| FrameError::Value("path"))?;
        Ok(Some(NearMemory { device, inode, path: path.to_owned() }))
    }
}

impl ChunkReport {
    const SEALED: u8 = 1;
    const DAMAGED: u8 = 2;

    fn put(&self, out: &mut Vec<u8>) {
        self.description.put(out);
        out.put_u8((u8::from(self.sealed) * Self::SEALED) | (u8::from(self.damaged) * Self::DAMAGED));
        out.put_u32(self.length);
        out.put_u32(self.last.0);
        out.put_u32(self.folded.0);
        out.put_u32(self.close_epoch.0);
        out.put_u32(self.close_op.0);
        out.put_u32(self.payload_crc);
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, FrameError> {
        let description = ChunkDescription::parse(body)?;
        let state = body.u8()?;
        Ok(ChunkReport {
            description,
            sealed: state & Self::SEALED != 0,
            damaged: state & Self::DAMAGED != 0,
            length: body.u32()?,
            last: body.op()?,
            folded: body.op()?,
            close_epoch: Epoch(body.u32()?),
            close_op: body.op()?,
            payload_crc: body.u32()?,
        })
    }
}

impl<'a> InspectReport<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        self.report.put(out);
        for raw in &self.raw {
            out.put_u32(raw.op.0);
            out.put_u8(raw.data_index);
            out.put_u32(raw.offset);
            out.put_u32(raw.length);
            out.put_u8(u8::from(!raw.bytes.is_empty()));
            out.extend_from_slice(raw.bytes);
        }
    }

    fn parse(body: &mut Reader<'a>) -> Result<Self, FrameError> {
        let report = ChunkReport::parse(body)?;
        let raw = body.rest_of(|body| {
            let (op, data_index) = (body.op()?, body.u8()?);
            let (offset, length) = (body.u32()?, body.u32()?);
            let bytes_length = if body.u8()? == 0 { 0 } else { usize::try_from(length).unwrap_or(usize::MAX) };
            Ok(RawOp { op, data_index, offset, length, bytes: body.bytes(bytes_length)? })
        })?;
        Ok(InspectReport { report, raw })
    }
}
