//! Chunks that are rebuilt beside a core, and written where the core left room for them.

use shorttail_node::fuzz::Unwritable;
use shorttail_store::NearWriter;
use shorttail_units::{Configuration, Epoch, PartitionId};
use shorttail_wire::node::{NodeRequest, Refusal};

use crate::setup::Memory;
use crate::setup::cluster::{CHUNK_BYTES, Cluster, SESSION, TARGET, as_it_is, id};

fn cluster(own_memory: impl FnOnce(Memory) -> Box<dyn NearWriter>) -> Cluster {
    let mut cluster = Cluster::new();
    let memory = own_memory(Memory::of(&cluster.nodes[TARGET]));
    cluster.backgrounds[TARGET] = cluster.nodes[TARGET].background(None, Some(memory));
    cluster
}

fn writing() -> Cluster {
    cluster(|memory| Box::new(memory))
}

impl Cluster {
    fn used_bytes(&self) -> u64 {
        self.nodes[TARGET].check_invariants();
        self.nodes[TARGET].used_bytes()
    }
}

#[test]
fn without_room_what_is_rebuilt_is_handed_to_the_core() {
    let mut cluster = Cluster::new();
    let before = cluster.used_bytes();
    cluster.order(1);
    assert_eq!(cluster.used_bytes(), before, "no memory is taken before there is something");
    cluster.carry_out(&as_it_is);
    assert_eq!(cluster.outcomes, [Ok(())]);
    cluster.holds(1);
}

#[test]
fn what_is_written_in_its_room_is_a_chunk() {
    let mut cluster = writing();
    for stripe in 1..=4 {
        cluster.rebuild(stripe, &as_it_is);
        cluster.holds(stripe);
    }
    assert_eq!(cluster.outcomes, [Ok(()); 4]);
    assert_eq!(cluster.used_bytes(), 4 * (CHUNK_BYTES as u64 + 256).next_multiple_of(1024));
    assert_eq!(cluster.nodes[TARGET].stats().rebuilt_bytes, 4 * CHUNK_BYTES as u64);
}

#[test]
fn what_cannot_be_written_beside_the_core_is_installed_by_it() {
    let mut cluster = cluster(|_| Box::new(Unwritable));
    cluster.rebuild(1, &as_it_is);
    assert_eq!(cluster.outcomes, [Ok(())]);
    cluster.holds(1);
    assert_eq!(cluster.used_bytes(), (CHUNK_BYTES as u64 + 256).next_multiple_of(1024));
}

#[test]
fn room_comes_back_when_nothing_comes_of_an_order() {
    // A source is damaged.
    let mut cluster = writing();
    assert_eq!(cluster.nodes[1].flip_bits(4, 5), 4);
    cluster.rebuild(2, &as_it_is);
    assert_eq!((cluster.used_bytes(), cluster.outcomes.len()), (0, 1));
    assert!(cluster.outcomes[0].is_err());
    // The stripe is freed.
    let mut cluster = writing();
    cluster.order(1);
    assert!(cluster.used_bytes() > 0, "there is room for it");
    let free = NodeRequest::Free {
        first: id(1),
        count: 1,
        partition: PartitionId(2),
        epoch: Epoch(3),
        up_to: Configuration::END,
    };
    cluster.tell(TARGET, &free);
    cluster.carry_out(&as_it_is);
    assert_eq!((cluster.used_bytes(), cluster.outcomes.len()), (0, 0), "who freed it waits for no answer");
    // A later owner is told of, which orders for itself.
    let mut cluster = writing();
    cluster.order(1);
    let fence = NodeRequest::Fence { partition: 2, epoch: Epoch(4), next: Default::default() };
    cluster.tell(TARGET, &fence);
    cluster.carry_out(&as_it_is);
    assert_eq!((cluster.used_bytes(), &cluster.outcomes[..]), (0, &[Err((Refusal::Fenced, None))][..]));
}

#[test]
fn room_comes_back_when_who_ordered_is_gone() {
    // Before the order was passed on, and after that.
    for is_passed_on in [false, true] {
        let mut cluster = writing();
        cluster.order(1);
        if is_passed_on {
            cluster.pass_on_orders();
        }
        cluster.nodes[TARGET].handle_session_closed(SESSION);
        cluster.carry_out(&as_it_is);
        assert_eq!(cluster.used_bytes(), 0, "passed on: {is_passed_on}");
        assert!(cluster.rebuilds().is_idle());
    }
    // When the chunk is written already.
    let mut cluster = writing();
    cluster.order(1);
    let said = cluster.carry_out_beside(&as_it_is);
    cluster.nodes[TARGET].handle_session_closed(SESSION);
    assert_eq!(said.len(), 1);
    said.into_iter().for_each(|said| cluster.nodes[TARGET].handle_background(said));
    assert_eq!(cluster.used_bytes(), 0);
}
