//! Reading bytes of a chunk: from its node, or by decoding exactly the range wanted from other chunks of the stripe.
//!
//! A fetch goes to the chunk's own node if that is ready. When it fails there (gone, late, damaged, wrong checksum), the
//! chunk is excluded and the range is read from the sources that the code's plan names; each failure excludes one more
//! chunk, until the plan has no answer. The length of a record is not known to the owner: a degraded read of one asks
//! for a guess first, and again when the record turns out longer.

use std::sync::Arc;

use shorttail_codes::Plan;
use shorttail_store::record::{RecordError, record_bytes};
use shorttail_units::{CodeShape, NodeId, OpNumber, StripeId};
use shorttail_wire::node::{NodeRequest, Refusal};

use super::limits::DEGRADED_GUESS_BYTES;
use super::pool::PoolKey;
use super::{Engine, What};
use crate::command::Command;

/// Who wants the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchPurpose {
    Lookup(PoolKey),
    /// A chunk of a stripe that a job empties.
    Job {
        job: PoolKey,
        data_index: u8,
    },
    /// A piece of a striped object.
    Piece {
        read: PoolKey,
        number: u32,
        data_index: u8,
    },
    /// A key listed by a scan.
    Scan {
        scan: PoolKey,
    },
    /// A chunk of an inherited stripe.
    Gather {
        stripe: StripeId,
        data_index: u8,
    },
}

/// How much is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The record that begins at the offset.
    Record,
    Bytes(u32),
}

/// What is wanted from where.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub stripe: StripeId,
    pub shape: CodeShape,
    pub members: Arc<[NodeId]>,
    pub data_index: usize,
    /// Payload bytes of the stripe's chunks.
    pub chunk_bytes: u32,
    pub offset: u32,
    pub extent: Extent,
    /// 0: the stripe is sealed; else decode exactly at this operation (rule R5).
    pub op: OpNumber,
    pub purpose: FetchPurpose,
}

#[derive(Debug)]
enum Stage {
    Direct,
    Degraded { plan: Arc<Plan>, parts: Vec<Option<Vec<u8>>>, length: u32 },
}

#[derive(Debug)]
pub struct Fetch {
    wanted: Wanted,
    /// Bit per chunk that failed for this fetch.
    excluded: u128,
    stage: Stage,
}

/// Why no bytes came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchError {
    /// The stripe's node no longer has the chunk: the object may have moved. Only told for direct reads of records.
    Gone,
    /// Too many chunks of the stripe cannot be read.
    Unreadable,
}

impl<C: Command> Engine<C> {
    pub(super) fn start_fetch(&mut self, wanted: Wanted) {
        self.start_fetch_without(wanted, 0);
    }

    /// As [`Engine::start_fetch`], without the chunks in `excluded`.
    pub(super) fn start_fetch_without(&mut self, wanted: Wanted, excluded: u128) {
        let node = wanted.members[wanted.data_index];
        let direct = excluded & 1 << wanted.data_index == 0 && self.nodes.is_ready(node);
        let fetch = self.fetches.insert(Fetch { wanted, excluded, stage: Stage::Direct });
        if direct { self.fetch_direct(fetch) } else { self.fetch_degraded(fetch, None) }
    }

    fn fetch_direct(&mut self, key: PoolKey) {
        let wanted = &self.fetches.get(key).expect("just inserted").wanted;
        let (stripe, offset, part) = (wanted.stripe, wanted.offset, wanted.data_index as u8);
        let node = wanted.members[wanted.data_index];
        let request = match wanted.extent {
            Extent::Record => NodeRequest::ReadRecord { stripe, offset },
            Extent::Bytes(length) => NodeRequest::ReadRange { stripe, offset, length, op: wanted.op },
        };
        self.ask(node, stripe, &request, What::Fetch { fetch: key, part });
    }

    /// Asks the sources of a plan that avoids the excluded chunks; `length`: of the record, once known.
    fn fetch_degraded(&mut self, key: PoolKey, length: Option<u32>) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        let wanted = fetch.wanted.clone();
        fetch.excluded |= 1 << wanted.data_index;
        let excluded = fetch.excluded;
        let code = self.codes.get(wanted.shape);
        let nodes = &self.nodes;
        let ready = |chunk: usize| excluded & 1 << chunk == 0 && nodes.is_ready(wanted.members[chunk]);
        let reachable = |chunk: usize| excluded & 1 << chunk == 0 && nodes.is_reachable(wanted.members[chunk]);
        let plan = code.read_plan(wanted.data_index, &ready).or_else(|_| code.read_plan(wanted.data_index, &reachable));
        let Ok(plan) = plan else { return self.fetch_failed(key, FetchError::Unreadable) };
        let room = wanted.chunk_bytes - wanted.offset;
        let length = match wanted.extent {
            Extent::Bytes(length) => length,
            Extent::Record => length.unwrap_or(DEGRADED_GUESS_BYTES).min(room),
        };
        let parts = vec![None; plan.sources.len()];
        fetch.stage = Stage::Degraded { plan: plan.clone(), parts, length };
        self.stats.degraded_reads_total += 1;
        for &chunk in &plan.sources {
            let request =
                NodeRequest::ReadRange { stripe: wanted.stripe, offset: wanted.offset, length, op: wanted.op };
            let what = What::Fetch { fetch: key, part: chunk as u8 };
            self.ask(wanted.members[chunk], wanted.stripe, &request, what);
        }
    }

    /// Bytes arrived from chunk `part`.
    pub(super) fn fetched(&mut self, key: PoolKey, part: u8, bytes: &[u8]) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        match &mut fetch.stage {
            Stage::Direct => self.fetch_done(key, bytes),
            Stage::Degraded { plan, parts, length } => {
                let Some(place) = plan.sources.iter().position(|&source| source == usize::from(part)) else { return };
                if bytes.len() != *length as usize {
                    return self.fetch_refused(key, part, None);
                }
                parts[place] = Some(bytes.to_vec());
                if parts.iter().all(Option::is_some) {
                    self.decode(key);
                }
            }
        }
    }

    fn decode(&mut self, key: PoolKey) {
        let fetch = self.fetches.get(key).expect("it has all its parts");
        let Stage::Degraded { plan, parts, length } = &fetch.stage else { return };
        let sources: Vec<&[u8]> = parts.iter().flatten().map(Vec::as_slice).collect();
        let mut decoded = vec![0; *length as usize];
        plan.decode(&sources, &mut decoded);
        if fetch.wanted.extent == Extent::Record {
            let room = fetch.wanted.chunk_bytes - fetch.wanted.offset;
            match record_bytes(&decoded) {
                Ok(needed) if needed > decoded.len() && needed <= room as usize => {
                    return self.fetch_degraded(key, Some(needed as u32));
                }
                Ok(needed) if needed <= decoded.len() => decoded.truncate(needed),
                Ok(_) | Err(RecordError::NoRecord | RecordError::Short | RecordError::Checksum) => {}
            }
        }
        self.fetch_done(key, &decoded);
    }

    /// Chunk `part` gave no bytes: refused, late, or its session ended.
    pub(super) fn fetch_refused(&mut self, key: PoolKey, part: u8, refusal: Option<Refusal>) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        let is_current = match &fetch.stage {
            Stage::Direct => usize::from(part) == fetch.wanted.data_index,
            Stage::Degraded { plan, .. } => plan.sources.contains(&usize::from(part)),
        };
        if !is_current || fetch.excluded & 1 << part != 0 {
            return;
        }
        fetch.excluded |= 1 << part;
        let was_direct = matches!(fetch.stage, Stage::Direct);
        if was_direct && fetch.wanted.extent == Extent::Record && refusal == Some(Refusal::NoChunk) {
            return self.fetch_failed(key, FetchError::Gone);
        }
        let length = match &fetch.stage {
            Stage::Degraded { length, .. } => Some(*length),
            Stage::Direct => None,
        };
        self.fetch_degraded(key, length);
    }

    fn fetch_done(&mut self, key: PoolKey, bytes: &[u8]) {
        let Some(fetch) = self.fetches.remove(key) else { return };
        let Fetch { wanted, excluded, .. } = fetch;
        match wanted.purpose {
            FetchPurpose::Lookup(lookup) => self.lookup_fetched(lookup, wanted, excluded, Ok(bytes)),
            FetchPurpose::Job { .. } => self.job_fetched(wanted, excluded, Ok(bytes)),
            FetchPurpose::Piece { .. } => self.piece_fetched(wanted, excluded, Ok(bytes)),
            FetchPurpose::Scan { scan } => self.scan_fetched(scan, wanted, excluded, Ok(bytes)),
            FetchPurpose::Gather { stripe, data_index } => self.gather_fetched(stripe, data_index, Ok(bytes)),
        }
    }

    fn fetch_failed(&mut self, key: PoolKey, error: FetchError) {
        let Some(fetch) = self.fetches.remove(key) else { return };
        let Fetch { wanted, excluded, .. } = fetch;
        match wanted.purpose {
            FetchPurpose::Lookup(lookup) => self.lookup_fetched(lookup, wanted, excluded, Err(error)),
            FetchPurpose::Job { .. } => self.job_fetched(wanted, excluded, Err(error)),
            FetchPurpose::Piece { .. } => self.piece_fetched(wanted, excluded, Err(error)),
            FetchPurpose::Scan { scan } => self.scan_fetched(scan, wanted, excluded, Err(error)),
            FetchPurpose::Gather { stripe, data_index } => self.gather_fetched(stripe, data_index, Err(error)),
        }
    }
}
