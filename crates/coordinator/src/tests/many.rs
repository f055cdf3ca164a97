//! Scenarios: clusters as large as they may be.

use std::sync::Arc;

use super::*;

const TENURE_COUNT: u16 = 1024;
const LIFE: u64 = 9;

/// Nodes as many as there may be, and one gateway whose tenures have a partition each and wait for other voters.
fn large() -> Durable {
    let mut durable = Durable::new(77);
    let incarnation = |id: u16| (1 << 60) + u64::from(id);
    let set = |skipped: u16| -> Vec<DurableVoter> {
        (0..NODE_COUNT_MAX as u16).filter(|&id| id != skipped).map(|id| (id, incarnation(id))).collect()
    };
    let node = |id| DurableNode { incarnation: incarnation(id), address: format!("n{id}:1"), ..DurableNode::default() };
    durable.nodes = (0..NODE_COUNT_MAX as u16).map(|id| (id, node(id))).collect();
    durable.epoch = u32::from(TENURE_COUNT);
    let tenure = |partition| DurableTenure {
        gateway_life: LIFE,
        partitions: vec![partition],
        terms: 1,
        voters: vec![set(u16::MAX)],
        before: vec![set(partition % 3)],
        ..DurableTenure::default()
    };
    durable.tenures = (0..TENURE_COUNT).map(|partition| (1 + u32::from(partition), tenure(partition))).collect();
    durable
}

#[test]
fn terms_of_very_many_tenures_and_nodes_are_told() {
    let settings = Settings { partition_count: TENURE_COUNT, ..settings() };
    let mut coordinator = Coordinator::new(Now::default(), settings, large());
    let session = GatewaySession { cluster_id: ClusterId(77), gateway_id: 0 };
    let message = ToCoordinator::RegisterGateway(gateway_registration(Some(session), LIFE));
    coordinator.handle(Now::default(), Input::Message { connection: ConnectionId(1), message });
    let sent = std::iter::from_fn(|| coordinator.poll_output()).filter_map(|output| match output {
        Output::Send { message, .. } => Some(message),
        _ => None,
    });
    let mut told = None;
    for message in sent {
        let mut stream = Vec::new();
        put_message(&mut stream, &message).expect("no message is longer than any");
        assert_eq!(next_message(&stream), Ok(Some((message, stream.len()))));
        if let Ok(Some((FromCoordinator::Terms(terms), _))) = next_message(&stream) {
            told = Some(terms);
        }
    }
    let told = told.expect("it has tenures");
    assert_eq!(told.len(), usize::from(TENURE_COUNT));
    for (one, other) in told.iter().zip(&told[3..]) {
        assert_eq!((one.voters.len(), one.before[0].len()), (NODE_COUNT_MAX, NODE_COUNT_MAX - 1));
        assert!(Arc::ptr_eq(&one.voters, &other.voters) && Arc::ptr_eq(&one.before[0], &other.before[0]));
    }
}
