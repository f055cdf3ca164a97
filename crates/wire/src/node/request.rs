//! What an owner asks of a node.

use shorttail_units::{
    ClusterId, CodeShape, Configuration, DATA_COUNT_MAX, Epoch, LOCAL_COUNT_MAX, NodeId, OpNumber, PARITY_COUNT_MAX,
    PartitionId, StripeId,
};

use super::PROTOCOL_VERSION;
use super::bytes::{Put, Reader};
use super::frame::{Frame, FrameError, put_frame};

/// Most members a stripe may have.
pub const MEMBERS_MAX: usize = DATA_COUNT_MAX + PARITY_COUNT_MAX;

/// Where the local parities begin in the byte that they share with the chunk's kind.
const LOCAL_COUNT_SHIFT: u32 = 4;

const _: () = assert!(LOCAL_COUNT_MAX < 1 << (u8::BITS - LOCAL_COUNT_SHIFT), "the byte has room for them");

/// The nodes of a stripe, data chunks first, then parities: chunk `i` is on `members[i]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members(pub Vec<NodeId>);

/// What a chunk's stripe is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// Packed objects: opened empty, appended to, sealed.
    Packed,
    /// A piece of a striped object: installed whole.
    Striped,
}

/// Everything a chunk's header says about its stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkDescription {
    pub stripe: StripeId,
    /// Epoch of the owner that opens or installs it.
    pub epoch: Epoch,
    pub partition: PartitionId,
    pub kind: ChunkKind,
    /// This chunk's place among the members.
    pub index: u8,
    pub shape: CodeShape,
    /// Payload bytes of every chunk of the stripe.
    pub chunk_bytes: u32,
    /// Of the members.
    pub configuration: Configuration,
    pub members: Members,
}

/// A chunk from which another is rebuilt, or that is copied, and who holds it: a core of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    pub index: u8,
    pub core: u16,
    pub node: NodeId,
    /// Where its payload lies in the node's memory, as the owner knows: a hint for who can read there.
    pub position: Option<u64>,
}

/// Greeting: the first message of a session, and the only one before the node's answer. Its kind and its version stay
/// where they are in all versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    pub version: u32,
    pub cluster: ClusterId,
    /// Which of the node's cores this session is for.
    pub core: u16,
    /// Which owner speaks: a new session of an owner ends its older one (rule R7), sessions of
    /// different owners live side by side.
    pub owner: u32,
    /// Epoch of the owner. Of one owner's greetings a lower one is refused; a fence of a higher one closes its
    /// partition in this session's ring. Fencing is its own message.
    pub epoch: Epoch,
}

/// A request, borrowed from the frame that brought it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeRequest<'a> {
    Hello(Hello),
    /// From now on refuse, for this partition, owners of a lower epoch. `next`: no stripe of the partition from this id
    /// on was opened yet; the node remembers that of its first fence. The same owner again with a lower one: this
    /// memory lacks nothing of stripes from there on. Replies `Fenced`; refused as `Leased` while the node promised not
    /// to.
    Fence {
        partition: u16,
        epoch: Epoch,
        next: StripeId,
    },
    /// Make an empty chunk. Replies `Done`.
    Open(ChunkDescription),
    /// Add `bytes` at `offset` of data chunk `data_index`: to the chunk itself on its own node, to the raw buffer on
    /// a parity node. `previous` is the participant's operation before this one (rule R7). `stable` lets parities
    /// fold (rule R1). Acknowledged by `Acked`, or refused with the tag of the request.
    Append {
        stripe: StripeId,
        op: OpNumber,
        previous: OpNumber,
        stable: OpNumber,
        data_index: u8,
        offset: u32,
        bytes: &'a [u8],
    },
    /// Fold up to `stable`; no reply.
    Stable {
        stripe: StripeId,
        stable: OpNumber,
    },
    /// Make the chunk immutable; `last` is the final operation of the stripe, `chunk_last` the last one that this
    /// participant was sent (rule R5). `sum`: CRC32C of the bytes that are in use then; 0: not told. Replies `Done`,
    /// refused as `Damaged` when the chunk is another one.
    Seal {
        stripe: StripeId,
        last: OpNumber,
        chunk_last: OpNumber,
        sum: u32,
    },
    /// Drop the chunks of `count` stripes from `first` on, as far as their configuration is not above this one; unknown
    /// ones count as dropped. Replies `Done`.
    Free {
        first: StripeId,
        count: u32,
        epoch: Epoch,
        partition: PartitionId,
        /// Chunks of higher ones may still come: the stripe is not gone, its chunk lies elsewhere.
        up_to: Configuration,
    },
    /// The record that begins at `offset` of a sealed data chunk. Replies `Bytes`.
    ReadRecord {
        stripe: StripeId,
        offset: u32,
    },
    /// Where the payload of a sealed chunk begins in the memory that the node let its owner read. Replies `Located`.
    Locate {
        stripe: StripeId,
    },
    /// A byte range of the chunk: of a sealed one if `op` is 0, else exactly as of `op` (rule R5). Replies `Bytes`.
    ReadRange {
        stripe: StripeId,
        offset: u32,
        length: u32,
        op: OpNumber,
    },
    /// Make a sealed chunk with this payload (shorter than `chunk_bytes`: zeros follow). Replies `Done`.
    Install {
        description: ChunkDescription,
        bytes: &'a [u8],
    },
    /// Reports of the chunks of these partitions (none: of all) with stripe ids above `after`, of which those are left
    /// out that did not change after the core's change `since` (0: none are). Replies `Chunks`.
    Scan {
        since: u64,
        after: StripeId,
        count: u16,
        partitions: Vec<PartitionId>,
    },
    /// Everything about one chunk that is not its payload, raw operations included. Replies `Inspected`.
    Inspect {
        stripe: StripeId,
    },
    /// Record that the owner of `epoch` ended the stripe at `last`: later operations are void (rule
    /// R4). Replies `Done`.
    Close {
        stripe: StripeId,
        epoch: Epoch,
        last: OpNumber,
    },
    /// Replies `Done`.
    Ping,
    /// A write that changes nothing: how long do writes take now? Replies `Done`.
    ProbeWrite,
    /// The members of a sealed stripe from this configuration on; a lower one than the chunk's is refused as `Fenced`.
    /// Replies `Done`.
    Reconfigure {
        stripe: StripeId,
        epoch: Epoch,
        configuration: Configuration,
        members: Members,
    },
    /// Rebuild the described chunk, which is the node's own place among the members, from chunks that it fetches from
    /// their nodes itself; or copy it, when it is itself the only source. Replies `Done` when the order is taken, and
    /// `Rebuilt` when it is over.
    Rebuild {
        description: ChunkDescription,
        sources: Vec<Source>,
    },
    /// For so many microseconds let no higher epoch fence a partition that this one fenced (rule R2), which these all
    /// are. Replies `Done`.
    Renew {
        epoch: Epoch,
        lease_us: u32,
        partitions: Vec<PartitionId>,
    },
    /// The promise to this epoch no longer holds for this partition: its owner handed it over. Replies `Done`.
    Release {
        partition: PartitionId,
        epoch: Epoch,
    },
    /// Greeting of another node, in place of `Hello`: its session only reads. `owner`: its number times 65 536 and its
    /// core's.
    Peer(Hello),
}

impl NodeRequest<'_> {
    const HELLO: u8 = 1;
    const FENCE: u8 = 2;
    const OPEN: u8 = 3;
    const APPEND: u8 = 4;
    const STABLE: u8 = 5;
    const SEAL: u8 = 6;
    const FREE: u8 = 7;
    const READ_RECORD: u8 = 8;
    const READ_RANGE: u8 = 9;
    const INSTALL: u8 = 10;
    const SCAN: u8 = 11;
    const INSPECT: u8 = 12;
    const CLOSE: u8 = 13;
    const PING: u8 = 14;
    const RECONFIGURE: u8 = 15;
    const REBUILD: u8 = 16;
    const PEER: u8 = 17;
    const RENEW: u8 = 18;
    const RELEASE: u8 = 19;
    const PROBE_WRITE: u8 = 20;
    const LOCATE: u8 = 21;

    fn kind(&self) -> u8 {
        match self {
            NodeRequest::Hello(_) => Self::HELLO,
            NodeRequest::Fence { .. } => Self::FENCE,
            NodeRequest::Open(_) => Self::OPEN,
            NodeRequest::Append { .. } => Self::APPEND,
            NodeRequest::Stable { .. } => Self::STABLE,
            NodeRequest::Seal { .. } => Self::SEAL,
            NodeRequest::Free { .. } => Self::FREE,
            NodeRequest::ReadRecord { .. } => Self::READ_RECORD,
            NodeRequest::Locate { .. } => Self::LOCATE,
            NodeRequest::ReadRange { .. } => Self::READ_RANGE,
            NodeRequest::Install { .. } => Self::INSTALL,
            NodeRequest::Scan { .. } => Self::SCAN,
            NodeRequest::Inspect { .. } => Self::INSPECT,
            NodeRequest::Close { .. } => Self::CLOSE,
            NodeRequest::Ping => Self::PING,
            NodeRequest::ProbeWrite => Self::PROBE_WRITE,
            NodeRequest::Reconfigure { .. } => Self::RECONFIGURE,
            NodeRequest::Rebuild { .. } => Self::REBUILD,
            NodeRequest::Peer(_) => Self::PEER,
            NodeRequest::Renew { .. } => Self::RENEW,
            NodeRequest::Release { .. } => Self::RELEASE,
        }
    }

    /// Appends the request as a frame.
    pub fn encode(&self, tag: u64, out: &mut Vec<u8>) {
        put_frame(out, self.kind(), 0, tag, |out| self.put_body(out));
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        match self {
            NodeRequest::Hello(hello) | NodeRequest::Peer(hello) => hello.put(out),
            NodeRequest::Fence { partition, epoch, next } => {
                out.put_u16(*partition);
                out.put_u32(epoch.0);
                out.put_u64(next.raw());
            }
            NodeRequest::Open(description) => description.put(out),
            NodeRequest::Append { stripe, op, previous, stable, data_index, offset, bytes } => {
                out.put_u64(stripe.raw());
                out.put_u32(op.0);
                out.put_u32(previous.0);
                out.put_u32(stable.0);
                out.put_u32(*offset);
                out.put_u8(*data_index);
                out.extend_from_slice(bytes);
            }
            NodeRequest::Stable { stripe, stable } => {
                out.put_u64(stripe.raw());
                out.put_u32(stable.0);
            }
            NodeRequest::Seal { stripe, last, chunk_last, sum } => {
                out.put_u64(stripe.raw());
                out.put_u32(last.0);
                out.put_u32(chunk_last.0);
                out.put_u32(*sum);
            }
            NodeRequest::Free { first, count, epoch, partition, up_to } => {
                out.put_u64(first.raw());
                out.put_u32(*count);
                out.put_u32(epoch.0);
                out.put_u16(partition.0);
                out.put_u64(up_to.raw());
            }
            NodeRequest::ReadRecord { stripe, offset } => {
                out.put_u64(stripe.raw());
                out.put_u32(*offset);
            }
            NodeRequest::ReadRange { stripe, offset, length, op } => {
                out.put_u64(stripe.raw());
                out.put_u32(*offset);
                out.put_u32(*length);
                out.put_u32(op.0);
            }
            NodeRequest::Install { description, bytes } => {
                description.put(out);
                out.extend_from_slice(bytes);
            }
            NodeRequest::Scan { since, after, count, partitions } => {
                out.put_u64(*since);
                out.put_u64(after.raw());
                out.put_u16(*count);
                partitions.iter().for_each(|partition| out.put_u16(partition.0));
            }
            NodeRequest::Inspect { stripe } | NodeRequest::Locate { stripe } => out.put_u64(stripe.raw()),
            NodeRequest::Close { stripe, epoch, last } => {
                out.put_u64(stripe.raw());
                out.put_u32(epoch.0);
                out.put_u32(last.0);
            }
            NodeRequest::Ping | NodeRequest::ProbeWrite => {}
            NodeRequest::Renew { epoch, lease_us, partitions } => {
                out.put_u32(epoch.0);
                out.put_u32(*lease_us);
                partitions.iter().for_each(|partition| out.put_u16(partition.0));
            }
            NodeRequest::Release { partition, epoch } => {
                out.put_u32(epoch.0);
                out.put_u16(partition.0);
            }
            NodeRequest::Reconfigure { stripe, epoch, configuration, members } => {
                out.put_u64(stripe.raw());
                out.put_u32(epoch.0);
                out.put_u64(configuration.raw());
                members.put(out);
            }
            NodeRequest::Rebuild { description, sources } => {
                description.put(out);
                for source in sources {
                    out.put_u8(source.index);
                    out.put_u16(source.core);
                    out.put_u16(source.node.0);
                    out.put_position(source.position);
                }
            }
        }
    }
}

impl<'a> NodeRequest<'a> {
    /// # Errors
    /// When the frame is not exactly one request.
    pub fn parse(frame: &Frame<'a>) -> Result<Self, FrameError> {
        let mut body = Reader::new(frame.body);
        let request = Self::parse_body(frame.kind, &mut body)?;
        body.finish()?;
        Ok(request)
    }

    fn parse_body(kind: u8, body: &mut Reader<'a>) -> Result<Self, FrameError> {
        Ok(match kind {
            Self::HELLO => NodeRequest::Hello(Hello::parse(body)?),
            Self::FENCE => NodeRequest::Fence { partition: body.u16()?, epoch: body.epoch()?, next: body.stripe()? },
            Self::OPEN => NodeRequest::Open(ChunkDescription::parse(body)?),
            Self::APPEND => NodeRequest::Append {
                stripe: body.stripe()?,
                op: body.op()?,
                previous: body.op()?,
                stable: body.op()?,
                offset: body.u32()?,
                data_index: body.u8()?,
                bytes: body.rest(),
            },
            Self::STABLE => NodeRequest::Stable { stripe: body.stripe()?, stable: body.op()? },
            Self::SEAL => {
                NodeRequest::Seal { stripe: body.stripe()?, last: body.op()?, chunk_last: body.op()?, sum: body.u32()? }
            }
            Self::FREE => NodeRequest::Free {
                first: body.stripe()?,
                count: body.u32()?,
                epoch: body.epoch()?,
                partition: parse_partition(body)?,
                up_to: Configuration::from_raw(body.u64()?),
            },
            Self::LOCATE => NodeRequest::Locate { stripe: body.stripe()? },
            Self::READ_RECORD => NodeRequest::ReadRecord { stripe: body.stripe()?, offset: body.u32()? },
            Self::READ_RANGE => NodeRequest::ReadRange {
                stripe: body.stripe()?,
                offset: body.u32()?,
                length: body.u32()?,
                op: body.op()?,
            },
            Self::INSTALL => NodeRequest::Install { description: ChunkDescription::parse(body)?, bytes: body.rest() },
            Self::SCAN => NodeRequest::Scan {
                since: body.u64()?,
                after: body.stripe()?,
                count: body.u16()?,
                partitions: body.rest_of(parse_partition)?,
            },
            Self::INSPECT => NodeRequest::Inspect { stripe: body.stripe()? },
            Self::CLOSE => NodeRequest::Close { stripe: body.stripe()?, epoch: body.epoch()?, last: body.op()? },
            Self::PING => NodeRequest::Ping,
            Self::PROBE_WRITE => NodeRequest::ProbeWrite,
            Self::RECONFIGURE => NodeRequest::Reconfigure {
                stripe: body.stripe()?,
                epoch: body.epoch()?,
                configuration: Configuration::from_raw(body.u64()?),
                members: Members::parse_rest(body)?,
            },
            Self::REBUILD => {
                let description = ChunkDescription::parse(body)?;
                let sources = body.rest_of(|body| Source::parse(body, &description))?;
                NodeRequest::Rebuild { description, sources }
            }
            Self::PEER => NodeRequest::Peer(Hello::parse(body)?),
            Self::RENEW => {
                let (epoch, lease_us) = (body.epoch()?, body.u32()?);
                NodeRequest::Renew { epoch, lease_us, partitions: body.rest_of(parse_partition)? }
            }
            Self::RELEASE => NodeRequest::Release { epoch: body.epoch()?, partition: parse_partition(body)? },
            other => return Err(FrameError::Kind(other)),
        })
    }
}

/// A shape from its counts: data chunks, local parities, all parities.
fn parse_shape([data_count, local_count, parity_count]: [usize; 3]) -> Option<CodeShape> {
    CodeShape::from_counts(data_count, local_count, parity_count.checked_sub(local_count)?).ok()
}

fn parse_partition(body: &mut Reader<'_>) -> Result<PartitionId, FrameError> {
    body.u16().map(PartitionId)
}

impl Hello {
    /// All that is understood of a greeting of another version.
    fn of_version(version: u32) -> Self {
        Hello { version, cluster: ClusterId(0), core: 0, owner: 0, epoch: Epoch(0) }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.version);
        out.put_u64(self.cluster.0);
        out.put_u16(self.core);
        out.put_u32(self.owner);
        out.put_u32(self.epoch.0);
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, FrameError> {
        let version = body.u32()?;
        if version != PROTOCOL_VERSION {
            body.rest();
            return Ok(Hello::of_version(version));
        }
        Ok(Hello {
            version,
            cluster: ClusterId(body.u64()?),
            core: body.u16()?,
            owner: body.u32()?,
            epoch: body.epoch()?,
        })
    }
}

impl Members {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|node| out.put_u16(node.0));
    }

    fn parse(body: &mut Reader<'_>, count: usize) -> Result<Self, FrameError> {
        (0..count).map(|_| body.u16().map(NodeId)).collect::<Result<_, _>>().map(Members)
    }

    fn parse_rest(body: &mut Reader<'_>) -> Result<Self, FrameError> {
        let members = body.rest_of(|body| body.u16().map(NodeId))?;
        if members.len() > MEMBERS_MAX { Err(FrameError::Value("members")) } else { Ok(Members(members)) }
    }
}

impl Source {
    /// A chunk of the stripe.
    fn parse(body: &mut Reader<'_>, description: &ChunkDescription) -> Result<Self, FrameError> {
        let (index, core, node) = (body.u8()?, body.u16()?, NodeId(body.u16()?));
        let source = Source { index, core, node, position: body.position()? };
        let is_of_stripe = usize::from(source.index) < description.shape.chunk_count();
        if is_of_stripe { Ok(source) } else { Err(FrameError::Value("source")) }
    }
}

impl ChunkDescription {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.stripe.raw());
        out.put_u32(self.epoch.0);
        out.put_u32(self.chunk_bytes);
        out.put_u16(self.partition.0);
        let kind = match self.kind {
            ChunkKind::Packed => 0,
            ChunkKind::Striped => 1,
        };
        out.put_u8(kind | (self.shape.local_count() as u8) << LOCAL_COUNT_SHIFT);
        out.put_u8(self.index);
        out.put_u8(self.shape.data_count() as u8);
        out.put_u8(self.shape.parity_count() as u8);
        out.put_u64(self.configuration.raw());
        self.members.put(out);
    }

    pub(super) fn parse(body: &mut Reader<'_>) -> Result<Self, FrameError> {
        let stripe = body.stripe()?;
        let epoch = body.epoch()?;
        let chunk_bytes = body.u32()?;
        let partition = PartitionId(body.u16()?);
        let kind_and_local = body.u8()?;
        let kind = match kind_and_local & ((1 << LOCAL_COUNT_SHIFT) - 1) {
            0 => ChunkKind::Packed,
            1 => ChunkKind::Striped,
            _ => return Err(FrameError::Value("chunk kind")),
        };
        let index = body.u8()?;
        let counts = [body.u8()?, kind_and_local >> LOCAL_COUNT_SHIFT, body.u8()?].map(usize::from);
        let shape = parse_shape(counts).filter(|shape| usize::from(index) < shape.chunk_count());
        let shape = shape.ok_or(FrameError::Value("stripe shape"))?;
        let configuration = Configuration::from_raw(body.u64()?);
        let members = Members::parse(body, shape.chunk_count())?;
        Ok(ChunkDescription { stripe, epoch, partition, kind, index, shape, chunk_bytes, configuration, members })
    }

    /// Is this a parity chunk?
    pub fn is_parity(&self) -> bool {
        self.shape.is_parity(usize::from(self.index))
    }
}
