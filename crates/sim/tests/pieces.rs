//! The pieces of a stripe are read together: how many requests that takes, and what is read when something is wrong.

use shorttail_chaos::{Corrupt, Fault, FaultKind};
use shorttail_policy::{Hedge, Policy, SmallWrite};
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, StripeSeen, World};
use shorttail_units::CodeShape;

/// One object, stored as the policy has it, on nodes that answer quickly.
struct Scene {
    world: World,
    value: Value,
    stripe: StripeSeen,
}

impl Scene {
    fn new(code: &str, hedge: Hedge, small_write: SmallWrite, value_bytes: usize) -> Self {
        let policy = Policy { hedge, small_write, ..Policy::default() };
        let code: CodeShape = code.parse().expect("a code");
        // No node to spare: nothing that is lost is rebuilt meanwhile.
        let node_count = code.chunk_count() as u16;
        let config = SimConfig { code, node_count, policy, ..SimConfig::scripted() };
        let mut world = cluster_of(config, 1);
        let value = Value::bytes(&(0..value_bytes).map(|at| (at * 31 % 251) as u8).collect::<Vec<_>>());
        set(&mut world, "key", &value);
        pass(&mut world, 20_000);
        let mut seen = world.striped_seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        let stripe = seen.pop_first().expect("one").1;
        Scene { world, value, stripe }
    }

    fn kill(&mut self, member: usize) {
        self.world.crash_node(usize::from(self.stripe.members[member].0), 5_000_000);
        pass(&mut self.world, 5_000);
    }

    /// Reads the object; requests to nodes that were answered for it.
    fn read(&mut self) -> u64 {
        let before = self.world.reads_answered();
        assert_eq!(get(&mut self.world, "key").as_ref(), Some(&self.value));
        pass(&mut self.world, 20_000);
        self.world.reads_answered() - before
    }

    fn concludes(self) {
        concludes(self.world);
    }
}

const STRIPED: usize = 2_000;

#[test]
fn a_lost_piece_costs_one_request_more_or_less() {
    for lost in [None, Some(0), Some(3), Some(4)] {
        let mut scene = Scene::new("rs:4+2", Hedge::Off, SmallWrite::Packed, STRIPED);
        lost.into_iter().for_each(|member| scene.kill(member));
        assert_eq!(scene.read(), 4, "{lost:?} lost: the other pieces help to decode it");
        scene.concludes();
    }
}

#[test]
fn two_lost_pieces_are_decoded_from_the_same_answers() {
    let mut scene = Scene::new("rs:4+2", Hedge::Off, SmallWrite::Packed, STRIPED);
    scene.kill(1);
    scene.kill(2);
    assert_eq!(scene.read(), 4);
    scene.concludes();
}

#[test]
fn late_binding_asks_as_many_more_as_it_says() {
    for (count, requests) in [(1, 5), (2, 6), (8, 6)] {
        let mut scene = Scene::new("rs:4+2", Hedge::late_binding(count), SmallWrite::Packed, STRIPED);
        assert_eq!(scene.read(), requests, "{count} more, of six chunks");
        scene.concludes();
    }
    // One piece alone: any four of the others would do too.
    let mut scene = Scene::new("rs:4+2", Hedge::late_binding(1), SmallWrite::Pad, 100);
    assert_eq!(scene.read(), 5);
    scene.concludes();
    let mut scene = Scene::new("rs:4+2", Hedge::late_binding(1), SmallWrite::Replicate, 100);
    assert_eq!(scene.read(), 2, "one copy more");
    scene.concludes();
}

#[test]
fn late_binding_does_not_wait_for_the_slowest() {
    const STALL_US: u64 = 300_000;
    let mut scene = Scene::new("rs:4+2", Hedge::late_binding(1), SmallWrite::Packed, STRIPED);
    let before_us = scene.world.now_us();
    scene.world.stall_node(usize::from(scene.stripe.members[2].0), STALL_US);
    scene.read();
    assert!(scene.world.now_us() < before_us + STALL_US / 2);
    assert_eq!(scene.world.engine_stats().totals.late_bound_total, 1);
    scene.concludes();
}

/// Of records whose node is gone one source is late: what is asked instead decodes them, whichever of the others it is.
#[test]
fn a_late_source_within_a_local_group_is_gone_round() {
    const STALL_US: u64 = 300_000;
    const BOUND_US: u64 = 50_000;
    let code: CodeShape = "lrc:4+2+1".parse().expect("a code");
    // Some stripes' worth of records that are not striped; those of the first are read.
    let names = || (1..80_u64).filter(|name| !name.is_multiple_of(5));
    for (dead, late) in (0..7).flat_map(|dead| (0..7).map(move |late| (dead, late))).filter(|(dead, late)| dead != late)
    {
        let mut world = cluster_of(SimConfig { code, node_count: 7, ..SimConfig::scripted() }, 1);
        fill(&mut world, names());
        for _ in 0..4 {
            holds(&mut world, names());
        }
        kill(&mut world, &[dead]);
        holds(&mut world, names());
        let begun_us = world.now_us();
        world.stall_node(late, STALL_US);
        let reads: Vec<_> =
            names().take(16).map(|name| (name, world.request(0, &format!("key{name}"), Action::Get))).collect();
        for (name, read) in reads {
            assert_eq!(world.await_op(read), Outcome::Answered(Answer::Found(Some(value_of(name, 0)))));
        }
        let took_us = world.now_us() - begun_us;
        assert!(took_us < BOUND_US, "{took_us} us with {dead} dead and {late} late");
    }
}

#[test]
fn local_groups_are_read_where_they_suffice() {
    for (value_bytes, small_write, requests) in [(STRIPED, SmallWrite::Packed, 4), (100, SmallWrite::Pad, 2)] {
        let mut scene = Scene::new("lrc:4+2+1", Hedge::Off, small_write, value_bytes);
        scene.kill(0);
        assert_eq!(
            scene.read(),
            requests,
            "the other chunk of its group and their parity, beside what is wanted anyway"
        );
        scene.concludes();
    }
    let mut scene = Scene::new("lrc:4+2+1", Hedge::late_binding(1), SmallWrite::Packed, STRIPED);
    assert_eq!(scene.read(), 5, "the parity that is of use for all pieces");
    scene.concludes();
}

#[test]
fn damaged_pieces_and_parities_are_gone_round() {
    for damaged in [0, 4] {
        let mut scene = Scene::new("rs:4+2", Hedge::Off, SmallWrite::Packed, STRIPED);
        let flipped = scene.world.flip_bits(usize::from(scene.stripe.members[damaged].0), 9);
        assert_eq!(flipped, 9);
        scene.kill(1);
        let requests = scene.read();
        assert!((4..=5).contains(&requests), "{requests} requests");
        scene.concludes();
    }
}

/// Two pieces are gone, and the node of one parity of three reads its memory wrong: the other two do, once
/// it is clear which.
#[test]
fn the_parities_that_are_right_are_found() {
    for wrong in 4..7 {
        let mut scene = Scene::new("rs:4+3", Hedge::Off, SmallWrite::Packed, STRIPED);
        let node = usize::from(scene.stripe.members[wrong].0);
        scene
            .world
            .apply_fault(node, Fault { kind: FaultKind::Corrupt(Corrupt { share_ppm: 1_000_000 }), for_us: None });
        scene.kill(0);
        scene.kill(2);
        let requests = scene.read();
        assert!((4..=5).contains(&requests), "{requests} requests");
        scene.concludes();
    }
}

/// As many nodes are gone as may be, and one of the others damages some of what it sends: it is asked again, as nobody
/// else is there.
#[test]
fn what_is_damaged_on_its_way_is_asked_for_again_where_nothing_else_helps() {
    let hurt = Fault { kind: FaultKind::Corrupt(Corrupt { share_ppm: 150_000 }), for_us: None };
    for member in [1, 3, 4, 5] {
        let mut scene = Scene::new("rs:4+2", Hedge::Off, SmallWrite::Packed, STRIPED);
        scene.world.apply_fault(usize::from(scene.stripe.members[member].0), hurt);
        scene.kill(0);
        scene.kill(2);
        for _ in 0..40 {
            assert_eq!(get(&mut scene.world, "key").as_ref(), Some(&scene.value));
        }
    }
    for node in 2..6 {
        let mut world = cluster_of(nodes_of("rs:4+2", 6), 1);
        let names: Vec<u64> = (0..200).filter(|name| name % 5 > 0).collect();
        fill(&mut world, names.clone());
        world.apply_fault(node, hurt);
        kill(&mut world, &[0, 1]);
        holds(&mut world, names);
    }
}

#[test]
fn more_losses_than_may_be_are_an_error_and_nothing_else() {
    let mut scene = Scene::new("rs:4+2", Hedge::Off, SmallWrite::Packed, STRIPED);
    (0..3).for_each(|member| scene.kill(member));
    assert_eq!(scene.world.ask("key", Action::Get), Outcome::Refused);
}

#[test]
fn values_that_there_is_no_room_for_wait_and_are_all_read() {
    let mut config = nodes_of("rs:4+2", 7);
    config.read_bytes_max = 2 * STRIPED;
    let mut world = cluster_of(config, 1);
    let names: Vec<String> = (0..12).map(|name| format!("key{name}")).collect();
    let length_of = |name: usize| if name == 5 { 3 * STRIPED } else { STRIPED };
    for (number, name) in names.iter().enumerate() {
        set(&mut world, name, &value(number as u64, length_of(number)));
    }
    world.crash_node(0, FOR_GOOD_US);
    let asked: Vec<_> = names.iter().map(|name| world.request(0, name, Action::Get)).collect();
    for (number, op) in asked.into_iter().enumerate() {
        let expected = Some(value(number as u64, length_of(number)));
        assert_eq!(world.await_op(op), Outcome::Answered(Answer::Found(expected)), "key{number}");
    }
    concludes(world);
}
