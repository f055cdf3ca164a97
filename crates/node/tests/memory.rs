//! A core whose process dies and another one goes on: fences hold, and nobody new is let in before promises end.

use shorttail_node::{Node, NodeConfig};
use shorttail_store::MemoryFile;
use shorttail_units::{Epoch, Incarnation, Now, PartitionId, StripeId};
use shorttail_wire::node::{Hello, NodeReply, NodeRequest, PROTOCOL_VERSION, Refusal, next_frame};

use crate::setup::{CLUSTER, config};

const BYTES: usize = 1 << 20;

fn start(memory: &MemoryFile, epoch: u32, now_us: u64) -> Node {
    let config = NodeConfig { incarnation: Incarnation(5), memory_bytes: BYTES, ..config(2) };
    let now = Now { mono_us: now_us, ..Now::default() };
    let mut node = Node::in_memory(config, memory.core(0).expect("mapped"), now).expect("a node");
    node.handle_session_opened(1);
    let epoch = Epoch(epoch);
    let hello = Hello { version: PROTOCOL_VERSION, cluster: CLUSTER, core: 0, owner: 6, epoch };
    assert_eq!(ask(&mut node, &NodeRequest::Hello(hello), now_us), None);
    node
}

/// The refusal, if it is one.
fn ask(node: &mut Node, request: &NodeRequest<'_>, now_us: u64) -> Option<Refusal> {
    let mut bytes = Vec::new();
    request.encode(1, &mut bytes);
    node.handle_input(Now { mono_us: now_us, ..Now::default() }, 1, &bytes).expect("the session stands");
    let output = std::mem::take(node.poll_output(1).expect("a reply"));
    let (frame, _) = next_frame(&output).expect("a frame").expect("whole");
    match NodeReply::parse(&frame).expect("a reply") {
        NodeReply::Refused { refusal, .. } => Some(refusal),
        _ => None,
    }
}

fn fence(epoch: u32) -> NodeRequest<'static> {
    NodeRequest::Fence { partition: 3, epoch: Epoch(epoch), next: StripeId::default() }
}

#[test]
fn r2_a_restarted_node_knows_its_fences_and_waits_for_a_lease() {
    let memory = MemoryFile::without_name(1, BYTES).expect("memory");
    let mut node = start(&memory, 7, 0);
    assert_eq!(ask(&mut node, &fence(7), 0), None);
    assert_eq!(
        ask(&mut node, &NodeRequest::Renew { epoch: Epoch(7), lease_us: 900, partitions: vec![PartitionId(3)] }, 0),
        None
    );
    drop(node);
    let mut node = start(&memory, 6, 50);
    assert_eq!(ask(&mut node, &fence(6), 60), Some(Refusal::Fenced), "an older owner stays out");
    assert_eq!(
        ask(&mut node, &fence(8), 60),
        Some(Refusal::Leased),
        "the present one may have been promised something"
    );
    assert_eq!(ask(&mut node, &fence(7), 60), None);
    assert_eq!(ask(&mut node, &fence(8), 949), Some(Refusal::Leased));
    assert_eq!(ask(&mut node, &fence(8), 950), None);
    drop(node);
    let mut node = start(&memory, 8, 0);
    assert_eq!(ask(&mut node, &fence(7), 0), Some(Refusal::Fenced));
}
