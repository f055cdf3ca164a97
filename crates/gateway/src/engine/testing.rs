//! What unit tests of the engine's parts begin with.

use shorttail_units::{ClusterId, CodeShape, Epoch, NodeId, Now};

use super::{Engine, EngineConfig};
use crate::any::AnyCommand;

/// An engine of the code (1, 1) that knows one node and has reached none.
pub fn engine_of_one_node() -> Engine<AnyCommand> {
    let shape = CodeShape::reed_solomon(1, 1).expect("a code");
    let mut engine = Engine::new(EngineConfig::new(shape, Epoch(1), ClusterId(7), 2), Now::default());
    engine.handle_nodes(&[NodeId(0)]);
    engine
}
