//! Chunks that are rebuilt beside a core from memory that can be read.

use shorttail_store::NearReader;
use shorttail_wire::node::Refusal;

use crate::setup::Memory;
use crate::setup::cluster::{CHUNK_BYTES, Cluster, SESSION, TARGET, as_it_is, data};

/// The chunk that lies there is another one by the time it is read.
#[derive(Debug)]
struct Elsewhere(Memory, u64);

impl NearReader for Elsewhere {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read(position + self.1, into)
    }
}

/// Another chunk is written there when the header is read.
#[derive(Debug)]
struct Torn(Memory);

impl NearReader for Torn {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read(position, into)
    }

    fn read_both(&self, position: u64, first: &mut [u8], second: &mut [u8]) -> usize {
        let count = self.0.read_both(position, first, second);
        second[100] ^= 1;
        count
    }
}

/// Behind the header lies the piece of another stripe, whole.
#[derive(Debug)]
struct Replaced(Memory, Vec<u8>);

impl NearReader for Replaced {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read(position, into)
    }

    fn read_both(&self, position: u64, first: &mut [u8], second: &mut [u8]) -> usize {
        second[..self.1.len()].copy_from_slice(&self.1);
        self.0.read(position, first) + second.len()
    }
}

#[test]
fn chunks_of_nodes_whose_memory_can_be_read_are_not_sent() {
    let mut cluster = Cluster::new();
    cluster.rebuild(1, &as_it_is);
    assert!(cluster.fetched_bytes > 2 * CHUNK_BYTES, "nothing is known before the greeting");
    for stripe in 2..=4 {
        cluster.fetched_bytes = 0;
        cluster.rebuild(stripe, &as_it_is);
        assert!(cluster.fetched_bytes < 200, "{} bytes", cluster.fetched_bytes);
    }
    assert_eq!(cluster.outcomes, [Ok(()); 4]);
    (1..=4).for_each(|stripe| cluster.holds(stripe));
}

#[test]
fn nobody_is_asked_where_the_owner_knows_chunks_to_lie() {
    let mut cluster = Cluster::new();
    cluster.rebuild(1, &as_it_is);
    cluster.fetched_bytes = 0;
    // More than are begun in one turn.
    for stripe in 2..=4 {
        let positions = [0, 1].map(|node| cluster.position_of(node, stripe));
        cluster.order_from(stripe, |node| Some(positions[node]));
    }
    (0..4).for_each(|_| cluster.carry_out(&as_it_is));
    assert_eq!((cluster.fetched_bytes, &cluster.outcomes[..]), (0, &[Ok(()); 4][..]));
    (1..=4).for_each(|stripe| cluster.holds(stripe));
}

#[test]
fn the_owner_is_told_where_a_rebuilt_chunk_lies() {
    let mut cluster = Cluster::new();
    for stripe in [1, 2, 2] {
        // The last one is there already.
        cluster.rebuild(stripe, &as_it_is);
        let position = cluster.position_of(TARGET, stripe);
        assert_eq!(cluster.positions.pop(), Some(Some(position)));
    }
    assert_eq!(cluster.nodes[1].flip_bits(4, 5), 4);
    cluster.rebuild(3, &as_it_is);
    assert_eq!((cluster.outcomes[3].is_err(), cluster.positions.pop()), (true, Some(None)));
}

#[test]
fn where_the_owner_is_mistaken_nodes_are_asked() {
    let mut cluster = Cluster::new();
    cluster.rebuild(1, &as_it_is);
    let positions = [0, 1].map(|node| cluster.position_of(node, 2));
    let other = cluster.position_of(0, 3);
    for (stripe, wrong) in [(2, other), (3, 0), (4, u64::MAX - 1)] {
        cluster.fetched_bytes = 0;
        cluster.order_from(stripe, |node| Some(if node == 0 { wrong } else { positions[1] }));
        cluster.carry_out(&as_it_is);
        assert!((1..200).contains(&cluster.fetched_bytes), "{} bytes", cluster.fetched_bytes);
        cluster.holds(stripe);
    }
    assert_eq!(cluster.outcomes, [Ok(()); 4]);
}

#[test]
fn what_is_not_the_chunk_that_is_wanted_is_fetched() {
    // A byte further; where another chunk lies; where nothing is.
    for shift in [1, 64 << 10, 1 << 40] {
        let mut cluster = Cluster::new();
        (1..=2).for_each(|stripe| cluster.rebuild(stripe, &|memory| Box::new(Elsewhere(memory, shift))));
        assert_eq!(cluster.outcomes, [Ok(()); 2]);
        (1..=2).for_each(|stripe| cluster.holds(stripe));
        assert!(cluster.fetched_bytes > 4 * CHUNK_BYTES);
    }
}

#[test]
fn what_changes_behind_its_header_is_fetched() {
    let mut cluster = Cluster::new();
    cluster.rebuild(1, &|memory| Box::new(Torn(memory)));
    cluster.fetched_bytes = 0;
    let positions = [0, 1].map(|node| cluster.position_of(node, 2));
    cluster.order_from(2, |node| Some(positions[node]));
    cluster.carry_out(&as_it_is);
    assert_eq!(cluster.outcomes, [Ok(()); 2]);
    (1..=2).for_each(|stripe| cluster.holds(stripe));
    assert!(cluster.fetched_bytes > 2 * CHUNK_BYTES, "both sources, by those that hold them");
}

#[test]
fn a_piece_of_another_stripe_behind_the_header_is_fetched() {
    let mut cluster = Cluster::new();
    cluster.rebuild(1, &|memory| Box::new(Replaced(memory, data(3, 0))));
    cluster.fetched_bytes = 0;
    let positions = [0, 1].map(|node| cluster.position_of(node, 2));
    cluster.order_from(2, |node| Some(positions[node]));
    cluster.carry_out(&as_it_is);
    assert_eq!(cluster.outcomes, [Ok(()); 2]);
    cluster.holds(2);
    assert!(cluster.fetched_bytes > 2 * CHUNK_BYTES, "both sources, by those that hold them");
}

#[test]
fn damaged_sources_are_to_blame_wherever_they_are_read() {
    let mut cluster = Cluster::new();
    cluster.rebuild(1, &as_it_is);
    assert_eq!(cluster.nodes[1].flip_bits(4, 5), 4);
    cluster.rebuild(2, &as_it_is);
    assert_eq!(cluster.outcomes, [Ok(()), Err((Refusal::Damaged, Some(1)))]);
}

#[test]
fn memory_is_read_for_as_long_as_the_session_lasts() {
    let mut cluster = Cluster::new();
    cluster.rebuild(1, &as_it_is);
    for peer in cluster.rebuilds().peers().collect::<Vec<_>>() {
        cluster.rebuilds().handle_closed(peer);
        let giver = &mut cluster.backgrounds[usize::from(peer.node.0)].giver;
        giver.handle_session_closed(SESSION);
        giver.handle_session_opened(SESSION);
    }
    cluster.fetched_bytes = 0;
    cluster.rebuild(2, &as_it_is);
    assert!(cluster.fetched_bytes > 2 * CHUNK_BYTES);
    assert_eq!(cluster.outcomes, [Ok(()); 2]);
    cluster.holds(2);
}
