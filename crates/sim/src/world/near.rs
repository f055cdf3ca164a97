//! Memory of nodes that gateways read past them: the very file, read as the server reads it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use shorttail_store::NearReader;
use shorttail_units::Incarnation;
use shorttail_wire::node::NearMemory;

use super::World;

/// What a node tells of its memory; a life of its memory has one inode.
pub(super) fn offer_of(incarnation: Incarnation) -> NearMemory {
    NearMemory { device: 0, inode: incarnation.0, path: "near".to_owned() }
}

/// It stays readable when its node crashed, until the session with it is known to have ended.
#[derive(Debug)]
struct NearFile {
    memory: Arc<File>,
    shift_bytes: u64,
}

impl NearReader for NearFile {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.memory.read_at(into, position + self.shift_bytes).expect("memory can be read")
    }
}

impl World {
    /// Opens what nodes offered to the engines of a gateway.
    pub(super) fn open_near(&mut self, gateway: usize) {
        for engine in self.gateways[gateway].engines_mut() {
            while let Some((session, offer)) = engine.poll_near_offer() {
                let host = &self.nodes[usize::from(session.node.0)];
                let core = host.cores.get(usize::from(session.core));
                let memory = core.filter(|_| host.incarnation.0 == offer.inode).and_then(|core| core.memory());
                if let Some(memory) = memory {
                    let (memory, shift_bytes) = (Arc::clone(memory), self.config.near_shift_bytes);
                    engine.handle_near(session, Box::new(NearFile { memory, shift_bytes }));
                }
            }
        }
    }
}
