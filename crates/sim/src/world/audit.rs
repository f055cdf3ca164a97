//! What nodes and owner hold together, looked at from outside between two events.
//!
//! The audit asks each node's machine over a session of its own, with requests that change nothing. It knows the rules:
//! - R1, R5: at any moment, the data chunks of a stripe as of the operation that a parity chunk folded last encode to
//!   what that parity chunk holds. A parity that folded what a data node lacks shows here.
//! - Promise 1: a write is acknowledged when one node more holds it than may be lost.
//!
//! Chunks that were lost with a node's memory, or freed, are not looked for, nor are those on a node
//! whose memory decayed.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_codes::Code;
use shorttail_gateway::engine::WhenFull;
use shorttail_node::Node;
use shorttail_units::{Epoch, Now, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkKind, ChunkReport, Hello, NodeReply, NodeRequest, PROTOCOL_VERSION, next_frame};

use super::clients::Received;
use super::nodes::NodeHost;
use super::{CLUSTER, Violation, World};
use crate::command_of_model::Heard;
use crate::config::Profile;

/// The audit's session with every machine, and the owner that it is.
const SESSION: u64 = u64::MAX;
const OWNER: u32 = u32::MAX;
/// One acknowledgement in so many is looked at: each look asks every node.
const ACKNOWLEDGEMENTS_PER_AUDIT: u64 = 8;
/// Chunk reports asked for at once.
const SCAN_COUNT: u16 = 4_096;

/// Opens the audit's session with a new machine.
pub(super) fn greet(machine: &mut Node, core: u16) {
    machine.handle_session_opened(SESSION);
    let hello = Hello { version: PROTOCOL_VERSION, cluster: CLUSTER, core, owner: OWNER, epoch: Epoch(0) };
    ask(machine, &NodeRequest::Hello(hello), |reply| assert!(matches!(reply, NodeReply::Hello(_)), "{reply:?}"));
}

fn ask<T>(machine: &mut Node, request: &NodeRequest<'_>, read: impl FnOnce(NodeReply<'_>) -> T) -> T {
    // What the node tells every owner unasked is not for the audit.
    machine.poll_output(SESSION).into_iter().for_each(Vec::clear);
    let mut bytes = Vec::new();
    request.encode(1, &mut bytes);
    machine.handle_input(Now::default(), SESSION, &bytes).expect("the audit's session stands");
    let output = std::mem::take(machine.poll_output(SESSION).expect("a reply"));
    let (frame, _) = next_frame(&output).expect("a frame").expect("a whole reply");
    read(NodeReply::parse(&frame).expect("a reply"))
}

/// What a machine holds: what it can describe, and the rest.
fn scan(machine: &mut Node) -> (Vec<ChunkReport>, Vec<(StripeId, PartitionId)>) {
    let scan = NodeRequest::Scan { since: 0, after: StripeId::default(), count: SCAN_COUNT, partitions: Vec::new() };
    ask(machine, &scan, |reply| match reply {
        NodeReply::Chunks(scanned) => (scanned.reports, scanned.undescribed),
        other => panic!("{other:?} answers a scan"),
    })
}

/// Where a chunk is and what it says of itself.
pub(super) struct Found {
    pub node: usize,
    core: usize,
    pub report: ChunkReport,
}

impl Found {
    fn index(&self) -> usize {
        usize::from(self.report.description.index)
    }
}

pub(super) type Stripes = BTreeMap<StripeId, Vec<Found>>;

impl World {
    /// Looks at all that nodes and owners hold together; the number of stripes.
    pub(super) fn audit(&mut self) -> usize {
        (0..self.gateways.len()).for_each(|gateway| self.check_engines(gateway));
        self.nodes.iter_mut().for_each(NodeHost::check_invariants);
        self.check_sole_owner();
        let stripes = self.scan_all();
        let stripe_count = stripes.len();
        for (id, found) in stripes {
            let code = self.codes.get(found[0].report.description.shape);
            if let Err(text) = self.audit_stripe(&code, id, &found) {
                self.fail(Violation::Audit(text));
                break;
            }
        }
        stripe_count
    }

    /// A node that holds a chunk of a stripe that takes appends: a parity, or data.
    pub fn holder_of_open(&mut self, is_parity: bool) -> Option<usize> {
        let data_count = self.config.code.data_count();
        let stripes = self.scan_all();
        let open = stripes.values().rev().flatten().filter(|found| !found.report.sealed);
        open.filter(|found| (found.index() >= data_count) == is_parity).map(|found| found.node).next()
    }

    /// The nodes that hold chunks of the youngest stripe that takes appends, by their place in it.
    pub fn holders_of_open(&mut self) -> Vec<usize> {
        let stripes = self.scan_all();
        let open = stripes.values().rev().find(|found| found.iter().all(|chunk| !chunk.report.sealed));
        let mut holders: Vec<_> = open.into_iter().flatten().map(|chunk| (chunk.index(), chunk.node)).collect();
        holders.sort_unstable();
        holders.into_iter().map(|(_, node)| node).collect()
    }

    /// What is held, stripe by stripe, for people.
    pub(super) fn held_text(&mut self) -> String {
        let stripe = |(id, found): (StripeId, Vec<Found>)| {
            let nodes: Vec<_> = found.iter().map(|chunk| chunk.node).collect();
            let report = &found[0].report;
            format!("{id:?} {:?} sealed {} on {nodes:?}", report.description.kind, report.sealed)
        };
        self.scan_all().into_iter().map(stripe).collect::<Vec<_>>().join("; ")
    }

    /// What nodes say to be damaged, for people.
    pub fn damaged_text(&mut self) -> String {
        let mut text = Vec::new();
        for (node, host) in self.nodes.iter_mut().enumerate() {
            for machine in &mut host.cores {
                let (reports, undescribed) = scan(machine);
                let damaged = reports.into_iter().filter(|report| report.damaged);
                text.extend(damaged.map(|report| {
                    let id = report.description.stripe;
                    format!("{id:?} {:?} sealed {} on {node}", report.description.kind, report.sealed)
                }));
                text.extend(undescribed.into_iter().map(|(id, _)| format!("{id:?}, undescribed, on {node}")));
            }
        }
        text.join("; ")
    }

    pub(super) fn scan_all(&mut self) -> Stripes {
        let mut stripes = Stripes::new();
        for (node, host) in self.nodes.iter_mut().enumerate().filter(|(_, host)| !host.is_rotten) {
            for (core, machine) in host.cores.iter_mut().enumerate() {
                for report in scan(machine).0 {
                    stripes.entry(report.description.stripe).or_default().push(Found { node, core, report });
                }
            }
        }
        stripes
    }

    fn audit_stripe(&mut self, code: &Code, id: StripeId, found: &[Found]) -> Result<(), String> {
        let data_count = code.data_count();
        let (data, parities): (Vec<&Found>, Vec<&Found>) = found.iter().partition(|chunk| chunk.index() < data_count);
        // One that moves may be in two places.
        let data: BTreeMap<usize, &Found> = data.into_iter().map(|chunk| (chunk.index(), chunk)).collect();
        let data: Vec<&Found> = data.into_values().collect();
        if data.len() < data_count {
            return Ok(());
        }
        for parity in parities {
            if let Some(reason) = self.parity_contradicts(code, id, &data, parity) {
                return Err(format!("{id:?}, parity on node {}: {reason}", parity.node));
            }
        }
        Ok(())
    }

    /// Why a parity chunk is not what the data chunks encode to at the operation that it folded last.
    fn parity_contradicts(&mut self, code: &Code, id: StripeId, data: &[&Found], parity: &Found) -> Option<String> {
        let report = &parity.report;
        let op = match report.description.kind {
            ChunkKind::Striped => OpNumber(0),
            ChunkKind::Packed if report.folded == OpNumber(0) => return None,
            ChunkKind::Packed => report.folded,
        };
        let parity_index = parity.index() - data.len();
        let held = self.range_of(parity, id, op)?;
        // What a local parity does not cover may be anything.
        let mut pieces = vec![vec![0; held.len()]; data.len()];
        for chunk in data {
            let data_index = chunk.index();
            if report.description.shape.covers(parity_index, data_index) {
                // It answers exactly as of the operation, or not at all.
                pieces[data_index] = self.range_of(chunk, id, op)?;
            }
        }
        let sources: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let mut encoded = vec![vec![0; held.len()]; code.parity_count()];
        let mut targets: Vec<&mut [u8]> = encoded.iter_mut().map(Vec::as_mut_slice).collect();
        code.encode(&sources, &mut targets);
        self.counts.stripes_audited += 1;
        let expected = &encoded[parity_index];
        (*expected != held).then(|| format!("not what the data chunks encode to at operation {}", op.0))
    }

    fn range_of(&mut self, chunk: &Found, stripe: StripeId, op: OpNumber) -> Option<Vec<u8>> {
        let length = chunk.report.description.chunk_bytes;
        let machine = &mut self.nodes[chunk.node].cores[chunk.core];
        ask(machine, &NodeRequest::ReadRange { stripe, offset: 0, length, op }, |reply| match reply {
            NodeReply::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
    }

    /// A plain store is acknowledged: enough nodes hold it, those counted that held it and lost their memory since.
    pub(super) fn audit_acknowledgement(&mut self, op: u64, received: &Received) {
        if !self.config.audits_acknowledgements || !op.is_multiple_of(ACKNOWLEDGEMENTS_PER_AUDIT) {
            return;
        }
        if !matches!(received, Received::Key(Heard::Answer { .. })) {
            return;
        }
        // With so little memory what was stored may be evicted before the client hears of it.
        if self.config.kind == Profile::Cramped && self.config.when_full == WhenFull::Evict {
            return;
        }
        let Some((_, value)) = self.sole_value_of(op) else { return };
        // Longer ones may be cut: their pieces hold none of it whole.
        if value.as_bytes().len() > self.config.block_bytes {
            return;
        }
        let needed = self.config.code.tolerance() + 1;
        let holders = self.holders_of(value.as_bytes(), needed);
        self.counts.acknowledgements_audited += 1;
        if holders < needed {
            let text = format!("{value} is acknowledged and {holders} nodes hold it, not {needed}");
            self.fail(Violation::Audit(text));
        }
    }

    /// Members of the stripe that holds a value best which hold it, lost members included; or of the first one found
    /// with as many as suffice.
    fn holders_of(&mut self, value: &[u8], needed: usize) -> usize {
        // Of a stripe whose members are all down, with what they hold, nobody tells.
        let down_count = self.nodes.iter().filter(|host| !host.is_up() && host.is_kept()).count();
        if down_count >= self.config.code.chunk_count() {
            return down_count;
        }
        let mut most = 0;
        // It was stored a moment ago.
        for (id, found) in self.scan_all().into_iter().rev() {
            most = most.max(self.holders(id, &found, value));
            if most >= needed {
                break;
            }
        }
        most
    }

    fn holders(&mut self, id: StripeId, found: &[Found], value: &[u8]) -> usize {
        let held: Vec<Vec<usize>> = found.iter().map(|chunk| self.data_indexes_of(chunk, id, value)).collect();
        let description = &found[0].report.description;
        // A value that was moved twice may lie in two chunks of a stripe.
        let mut data_indexes: BTreeSet<usize> = held.iter().flatten().copied().collect();
        // One that is not found may have been the one, as what the others are coded of is not looked into: a lost
        // piece, or a chunk whose header decayed.
        let is_rotten = |index: usize| self.nodes[usize::from(description.members.0[index].0)].is_rotten;
        let is_missing = |&index: &usize| {
            let may_miss = description.kind == ChunkKind::Striped || is_rotten(index);
            may_miss && found.iter().all(|chunk| chunk.index() != index)
        };
        data_indexes.extend((0..description.shape.data_count()).filter(is_missing));
        let holders = |data_index: usize| {
            let participants: Vec<usize> = match description.kind {
                ChunkKind::Packed => description.shape.participants(data_index).collect(),
                ChunkKind::Striped => (0..description.shape.chunk_count()).collect(),
            };
            let of = |index: usize| found.iter().zip(&held).find(|(it, _)| it.index() == index);
            let holds = |&&index: &&usize| match of(index) {
                // A parity that folded it no longer has it as it was; that it folded rightly is the
                // other audit's matter.
                Some((chunk, held)) => {
                    let is_coded = description.shape.is_parity(index) && chunk.report.folded > OpNumber(0);
                    held.contains(&data_index) || is_coded || description.kind == ChunkKind::Striped
                }
                None => self.nodes[usize::from(description.members.0[index].0)].may_have_held(),
            };
            participants.iter().filter(holds).count()
        };
        data_indexes.into_iter().map(holders).max().unwrap_or(0)
    }

    /// The data chunks to which a chunk's copies of a value belong: itself, or those that a parity holds raw.
    fn data_indexes_of(&mut self, chunk: &Found, stripe: StripeId, value: &[u8]) -> Vec<usize> {
        let (description, index) = (&chunk.report.description, chunk.index());
        let machine = &mut self.nodes[chunk.node].cores[chunk.core];
        if description.is_parity() {
            return ask(machine, &NodeRequest::Inspect { stripe }, |reply| match reply {
                NodeReply::Inspected(report) => {
                    let raw = report.raw.iter().filter(|raw| contains(raw.bytes, value));
                    raw.map(|raw| usize::from(raw.data_index)).collect()
                }
                _ => Vec::new(),
            });
        }
        let length = chunk.report.length;
        let op = if chunk.report.sealed { OpNumber(0) } else { chunk.report.last };
        ask(machine, &NodeRequest::ReadRange { stripe, offset: 0, length, op }, |reply| match reply {
            NodeReply::Bytes(bytes) if contains(bytes, value) => vec![index],
            _ => Vec::new(),
        })
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(bytes, wanted).is_some()
}
