//! Memory of nodes that is read past them or beside their cores, and written there, and rings that gateways put appends
//! into: the very files, used as the server uses them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use shorttail_gateway::engine::NearOffer;
use shorttail_node::MakeRing;
use shorttail_store::{NearReader, NearView, NearWriter, RingReader, RingWriter};
use shorttail_units::{Incarnation, NodeId};
use shorttail_wire::node::NearMemory;

use super::World;
use super::nodes::NodeHost;

/// Rings that nodes made.
#[derive(Clone, Debug, Default)]
pub(super) struct Rings(Arc<Mutex<Made>>);

#[derive(Debug, Default)]
struct Made {
    count: u64,
    /// That nobody opened yet, by their number: what the system calls them is another in each run.
    files: BTreeMap<u64, Arc<File>>,
}

impl Rings {
    fn take(&self, number: u64) -> Option<Arc<File>> {
        self.0.lock().expect("nobody panicked").files.remove(&number)
    }
}

impl MakeRing for Rings {
    fn make(&mut self) -> Option<(RingReader, NearMemory)> {
        let mut made = self.0.lock().expect("nobody panicked");
        let ring = RingReader::new().expect("memory");
        made.count += 1;
        let number = made.count;
        made.files.insert(number, Arc::clone(ring.file()));
        Some((ring, NearMemory { device: 0, inode: number, path: "ring".to_owned() }))
    }
}

/// What a node tells of its memory; a life of its memory has one inode.
pub(super) fn offer_of(incarnation: Incarnation) -> NearMemory {
    NearMemory { device: 0, inode: incarnation.0, path: "near".to_owned() }
}

/// It stays readable when its node crashed, until the session with it is known to have ended.
#[derive(Debug)]
struct NearFile {
    memory: Memory,
    shift_bytes: u64,
}

#[derive(Debug)]
enum Memory {
    Mapped(NearView),
    /// Of a file with a name.
    Read(Arc<File>),
}

impl NearReader for NearFile {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        let position = position + self.shift_bytes;
        match &self.memory {
            Memory::Mapped(view) => view.read(position, into),
            Memory::Read(file) => file.read_at(into, position).expect("memory can be read"),
        }
    }
}

/// Of a core of a node, if it is the one that was offered.
pub(super) fn file_of<'a>(nodes: &'a [NodeHost], node: NodeId, core: u16, offer: &NearMemory) -> Option<&'a Arc<File>> {
    let host = nodes.get(usize::from(node.0)).filter(|host| host.incarnation.0 == offer.inode)?;
    host.cores.get(usize::from(core))?.memory()
}

/// As nodes read what others offer: whole chunks.
pub(super) fn by_calls(file: Arc<File>, shift_bytes: u64) -> Box<dyn NearReader> {
    Box::new(NearFile { memory: Memory::Read(file), shift_bytes })
}

/// A node's own, beside its core.
#[derive(Clone, Debug)]
pub(super) struct OwnMemory(Arc<File>);

impl OwnMemory {
    pub fn of(file: &Arc<File>) -> Self {
        OwnMemory(Arc::clone(file))
    }
}

impl NearReader for OwnMemory {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, position).expect("memory can be read")
    }
}

impl NearWriter for OwnMemory {
    fn write(&self, position: u64, _room_bytes: usize, bytes: &[u8]) -> bool {
        self.0.write_all_at(bytes, position).is_ok()
    }
}

impl World {
    /// Opens what nodes offered to the engines of a gateway.
    pub(super) fn open_near(&mut self, gateway: usize) {
        for engine in self.gateways[gateway].engines_mut() {
            while let Some((session, offer)) = engine.poll_near_offer() {
                let offer = match offer {
                    NearOffer::Memory(memory) => memory,
                    NearOffer::Ring(ring) => {
                        if let Some(file) = self.rings.take(ring.inode) {
                            engine.handle_ring(session, RingWriter::open(&file).expect("a ring"));
                        }
                        continue;
                    }
                };
                if let Some(file) = file_of(&self.nodes, session.node, session.core, &offer) {
                    let memory = NearView::open(file).map_or_else(|_| Memory::Read(Arc::clone(file)), Memory::Mapped);
                    let shift_bytes = self.config.near_shift_bytes;
                    engine.handle_near(session, Box::new(NearFile { memory, shift_bytes }));
                }
            }
        }
    }
}
